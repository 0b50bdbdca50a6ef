"""Keeps the files that agents work on: snapshots, changes, worktrees, and proofs of claims."""
