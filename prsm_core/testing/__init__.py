"""For plugin authors: contract tests, fakes, and loopback model servers.

Import what you need from its modules; this one loads nothing.
"""
