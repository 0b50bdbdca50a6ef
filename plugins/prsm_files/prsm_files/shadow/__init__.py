"""Snapshots of a folder's files and staging area, in git directories of our own, and the way back.

`Shadow` (worktree) is what others use; one command of git at a time, by the port in `git`.

whereabouts where shadows lie, without running git; one process at a time
opening    the shadow of a folder as PRSM itself keeps it
worktree   take, plan, restore, undo, delete, secure what is borrowed; one lock, one journal
records    a snapshot, what differs, what was left out: values and their JSON
git        the port by which git is run, and what it may know of the person's settings
place      what a root's repository says of itself: HEAD, what is under way, roots inside of it
root       one root's git directory: captures, compares, checks out; the index it begins with
staging    the person's index, copied and put back
files      what is at a path
modes      permissions that git does not keep
hindrances what would make a restore lose something, looked for before it begins
writing    a restore's way through the roots, and the look at what it left
keeping    snapshots as commits and refs, and which of them go
acts       what PRSM did to files, what takes each act back, and what is under way
strays     where a new file is prepared, and what a death leaves of it
written    what was written, told to those who look for changes
exporting  a snapshot written as a folder
importing  … and taken in, from anybody
"""
