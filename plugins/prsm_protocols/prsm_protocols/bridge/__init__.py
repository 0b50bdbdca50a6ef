"""The bridge: how requests of programs reach the tools of their agents.

wire     requests and answers, as they travel      desk    answers an agent's, each id once
line     a Unix socket for one agent
redis    streams and lists of Redis                lua     what Redis does in one step
"""
