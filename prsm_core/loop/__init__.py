"""The event loop that plugins' code runs on: it is watched, and it comes to an end.

run         a coroutine to its end              blocking    who keeps the loop from going on
leaving     the end of the process              blame       whose code runs
interrupts  Ctrl-C, told from what only looks like it
garbage     how often the process looks for it
"""
