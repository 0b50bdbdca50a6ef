"""`prsm changes`: what agents changed, whose it is, and what becomes of it.

commands   the command line
knowing    the changes that are meant
showing    lists, one change, diffs, and worktrees that are not merged
deciding   accept and reject, by the session's engine or without one
committing accepted changes committed, by the session's engine or without one
finishing  what a process that has died began
undoing    what an id names, or the last turn's changes
"""
