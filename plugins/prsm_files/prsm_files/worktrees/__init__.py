"""Worktrees of agents: a branch and a folder for each that writes, merged where it came from."""
