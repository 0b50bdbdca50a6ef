"""A session as it is shown: pure values, made of one view and the events after it.

Nothing here knows a screen, a clock or an engine. Every text that somebody else wrote is harmless
already: it can be drawn as it is.

session     the root: takes events, knows the agents, the run and what waits
lives       what events say of an agent as a whole
talk        what events say of what an agent says and does
transcript  the blocks of one agent, and what it is saying right now
blocks      the kinds of blocks
spoken      a text that comes in pieces
agents      one agent in the tree
requests    what waits for a person, and how an answer is typed
words       states, amounts and times in a few characters
"""
