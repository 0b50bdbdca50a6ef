"""`prsm snapshot`, and a prompt taken back: a folder's files as they were."""
