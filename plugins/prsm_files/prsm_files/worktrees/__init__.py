"""Worktrees of agents: a branch and a folder for each that writes, merged where it came from.

Nothing here knows agents' lives or the ledger; every method blocks, and uses git by the port of
`prsm_files.shadow`. What was in no commit is in none afterwards either: it is copied into the
worktree, and what its agent changed beside it is told from it.

records      what is known of one: a file that is replaced whole, so that it is whole at any time
worktrees    those made from one folder: make, settle, finish, sweep; what agents changed in them
making       the branch, and the folder with its files
removing     a worktree, its branch, and what was kept for it
"""
