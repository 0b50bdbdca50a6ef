"""`prsm sessions`: what a person does with sessions that were run.

commands      the command line of it       listing       all of a repository, one a line
showing       one: runs, tree, talk        changing      its name, and its removal
replaying     one, event by event          page          one, as HTML
exporting     one, to a file               importing     one, from a file
comparing     what differs between two     diffing       that, for a person
forking       another one, from a point    leftovers     what others keep of one, and goes with it
transcripts   what vendors keep            retelling     that, as a session
"""
