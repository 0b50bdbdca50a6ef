"""The provider `program`: any program as an agent, in a box, prompted on stdin, asking by aism.

provider  sessions and their turns               program  one turn: starts, prompts, watches
home      an agent's own folder, and its notes
words     what is said to it
config    its section of the configuration, read and shown
"""
