"""The event loop that plugins' code runs on: it is watched, and it comes to an end.

run         a coroutine to its end              blocking    who keeps the loop from going on
leaving     the end of the process, garbage     blame       whose code runs
interrupts  Ctrl-C, told from what only looks like it
output      stdout and stderr: a thread writes them, so that no terminal holds the loop up
"""
