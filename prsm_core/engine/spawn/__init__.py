"""Spawning: what a new agent is, decided once, before anything is written. Nothing here acts.

plan         the descriptor of a master or a child: its model, tools and MCP servers
regions      the files that are leased to it
idle         ended children that are free for another task
"""
