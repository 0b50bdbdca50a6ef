"""Commits of accepted changes in the person's repository: nothing else of it changes.

records     what is asked for, what becomes of it
lock        the person's index, replaced under git's own lock
carrying    commits made, all or none of a repository, by the person's git; an intent first
"""
