"""A session line by line, for screen readers: nothing is drawn, and nothing is written twice.

The model is the one of the screen. Each line begins with who or what it is of; rows that a long
line goes on in begin with blanks, which no line does.

phrases     a block of a transcript, and what waits for a person, in words: pure
telling     what is new in the model, as lines: each thing once
keyboard    what is typed, key by key
page        the lines that are written, and the one that is being typed
commands    what may be typed: commands, numbers, a yes
files       changes and snapshots by numbers, with their rows, decisions and comments
person      what a person typed, as acts; and what became of these
opening     the mode on a session, or on many
"""
