"""A session line by line, for screen readers: nothing is drawn, and nothing is written twice.

The model is the one of the screen. Each line begins with who or what it is of; rows that a long
line goes on in begin with blanks, which no line does.

switch      whether it is on, and by what
phrases     a block of a transcript in words: pure
requests    what waits for a person, with its choices numbered: pure
telling     what is new in the model, as lines: each thing once
keyboard    what is typed, key by key
page        the lines that are written, and the one that is being typed
commands    what may be typed behind a slash here
unedited    what of a screen has no place here
desk        what the parts of a person use of them: to say, to ask, to act
reviewing   changes by numbers, with their rows, decisions and comments
shelving    snapshots by numbers, and a restore that is asked about
person      what a person typed, as acts; and what became of these
many        the list of sessions, and the one that is visited
opening     the mode on a session, or on many
"""
