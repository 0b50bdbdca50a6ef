"""The commands on changes, snapshots, worktrees and commits."""
