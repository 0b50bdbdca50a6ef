"""Worktrees of agents: a branch and a folder for each that writes, merged where it came from.

What was in no commit is in none afterwards either: it is copied into the worktree, and what its
agent changed beside it is told from it.
"""
