"""Keeps the files that agents work on: snapshots, changes, worktrees, and proofs of claims.

session    for an engine: what agents changed, what they claim, prompts taken back
changes    what differs between two looks at a folder, whose it is, and how it is taken back
commits    accepted changes committed in the person's repository
worktrees  working trees of agents, made, merged and removed
shadow     git directories of PRSM's own beside the person's repository
artifacts  the files that an agent says it has made
commands   `prsm changes`, `prsm snapshot` and `prsm undo`
care       what goes with a session that is deleted
plugin     what the package brings
"""
