"""Snapshots of a folder's files and staging area, in git directories of our own: see `Shadow`."""
