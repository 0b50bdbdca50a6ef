"""Commits of accepted changes in the person's repository: nothing else of it changes.

records     what is asked for, what becomes of it
repository  the person's git: settings, identity, HEAD, entries
lock        the person's index, replaced under git's own lock
carrying    commits made, all or none of a repository; an intent first
"""
