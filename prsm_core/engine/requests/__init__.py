"""Requests: what waits for a person.

human  permission requests and questions, from the asking to the answer
rules  the rules that a person's answers make
"""
