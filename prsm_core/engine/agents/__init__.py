"""Agents: their registry and sessions, and what begins, moves and ends them.

manager    spawns, restarts, ends and kills agents; only it commits their steps
lives      the session of each one's newest life, and its task
session    one incarnation: its provider's session, its turns one after another
inbox      what an agent is told between its turns
failover   what an agent goes on with after a turn that failed
deadlock   what is done about a knot of waits
prompting  a person's prompt to an agent that runs
external   a master that somebody outside the engine drives
slots      how many agents run at a time
"""
