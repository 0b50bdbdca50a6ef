"""The screen: widgets show the model and say, in messages, what a person did. They call nothing.

app         the Textual application: frames, the chosen agent, where messages go
hub_app     the same for many sessions: the list, and the session that is visited
driver      the terminal that Textual draws on
panes       the panes of one session
lines       a list of lines with a cursor, of which only those that are seen are made
transcript  the blocks of the chosen agent
drawing     blocks as lines
wrapping    text as lines of a width
prompt      where a person types, and to whom and how that goes
needs_you   what waits for a person, and where it is answered
status      the line at the bottom
place       a screen beside the panes
changes     what was changed, and where a comment on it is typed
diff        the lines of one change
snapshots   snapshots of the files, and what a restore changes
board       a page to be read; palette  all commands
sessions    the list of sessions, and a peek at the chosen one
help        the keys of a place
themes      how the screen is coloured
keys        the keys of the table as bindings
messages    what a person did, or the act that is asked for
"""
