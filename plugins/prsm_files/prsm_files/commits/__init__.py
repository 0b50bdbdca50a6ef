"""Commits of accepted changes in the person's repository: nothing else of it changes.

records     what is asked for, what becomes of it
carrying    commits made, all or none of a repository, by the person's git; an intent first
"""
