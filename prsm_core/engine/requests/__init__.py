"""Requests: what waits for a person.

human  permission requests and questions, from the asking to the answer, and the rules they make
"""
