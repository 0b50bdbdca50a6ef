"""The screen: widgets show the model and say, in messages, what a person did. They call nothing.

app         the Textual application: frames, the chosen agent, where messages go
driver      the terminal that Textual draws on
panes       the panes of one session
lines       a list of lines with a cursor, of which only those that are seen are made
tree        the agents
head        the chosen agent in two lines
transcript  the blocks of the chosen agent
drawing     blocks as lines
wrapping    text as lines of a width
prompt      where a person types, and to whom and how that goes
needs_you   what waits for a person, and where it is answered
status      the line at the bottom
asking      a question of the screen's own, with yes or no
help        the keys of a place
attention   how a terminal tells something while its window is not in front
themes      how the screen is coloured
keys        every key, with what it does
messages    what a person did
"""
