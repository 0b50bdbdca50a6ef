"""`prsm snapshot` and `prsm undo`: a folder's files as they were.

commands   the command line of both     opening    the shadow of a folder, with git behind it
showing    all of a folder, and one     restoring  the plan, the question, what was done
creating   one is taken, and named by a session
folders    one is written as a folder, and taken in
undoing    a prompt taken back, with files and conversation
"""
