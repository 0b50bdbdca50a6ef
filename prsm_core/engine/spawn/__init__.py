"""Spawning: what a new agent is, decided once, before anything is written. Nothing here acts.

plan         the descriptor of a master or a child
planner      the same of a request, by what holds now
grants       which tools it may use, and what its children may
regions      the files that are leased to it
mcp_servers  the servers that it gets
idle         ended children that are free for another task
"""
