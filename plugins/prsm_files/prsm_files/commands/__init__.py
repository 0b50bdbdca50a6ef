"""The commands on what is kept of files.

changes    `prsm changes`, `prsm accept` and `prsm reject`
snapshots  `prsm snapshot`, and what takes a prompt or a restore back
undo       `prsm undo`: which of them an act is
"""
