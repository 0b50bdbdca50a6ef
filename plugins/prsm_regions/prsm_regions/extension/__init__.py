"""The run as lines of JSON, for an editor or another program that leads it.

messages   what is said on stdin, stdout and each feed, a JSON object a line
frontend   the frontend `extension`: commands in, messages and a port for each feed out
"""
