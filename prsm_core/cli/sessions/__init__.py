"""`prsm sessions`: what a person does with sessions that were run.

commands      the command line of it       listing       all of a repository, one a line
showing       one: runs, tree, talk        changing      its name, its removal, disk space
replaying     one, event by event
exporting     one, to a file               importing     one, from a file
diffing       what differs between two
forking       another one, from a point    deleting      its removal, which a kill does not tear
unfinished    deletions that were cut off
keepers       who removes what is kept of one beside the ledger
"""
