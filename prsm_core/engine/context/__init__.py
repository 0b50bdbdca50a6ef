"""Contexts of models: how much is in one, and what of a conversation goes into it.

tokens      how many tokens a text counts as, and how many a model has room for
layers      what of a rebuilt conversation fits, and what is left out
remembered  a conversation as the log has it, since it was last compacted
skills      what of skills stands in a system prompt, and what of that is told
summary     which part of one is summarised, what is asked for, what stands for it afterwards

All of it is pure. What acts is `engine/agents/opening.py` and `engine/agents/compacting.py`.
"""
