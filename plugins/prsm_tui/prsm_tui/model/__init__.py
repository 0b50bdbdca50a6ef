"""A session as it is shown: pure values, made of one view and the events after it.

Nothing here knows a screen, a clock or an engine. Every text that somebody else wrote is harmless
already: it can be drawn as it is.

session     the root: takes events, knows the agents, the run and what waits; a long silence
transcript  the blocks of one agent, and what it is saying right now
blocks      the kinds of blocks, and what a call is about
spoken      a text that comes in pieces
agents      one agent in the tree
requests    what waits for a person, and how an answer is typed
review      the changes of files, by file, agent or turn
patches     the lines of one change, and in two columns
comments    to whom comments on lines go, and what they say
shelf       snapshots of files, and what a restore would change
board       a page of lines; boards  models, providers, the budget, rules and settings as such
words       states, amounts and times in a few characters
"""
