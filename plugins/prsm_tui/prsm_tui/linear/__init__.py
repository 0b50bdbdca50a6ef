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
person      what a person typed, as acts; and what became of these
opening     the mode on a session
"""
