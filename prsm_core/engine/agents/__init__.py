"""Agents: their registry and sessions, and what begins, moves and ends them.

manager    spawns and restarts agents
ends       ends, fails and kills them, with those below them; none of a run outlives it
session    one incarnation: its provider's session, its turns, and the task of each agent's newest
life       one incarnation: its slot, what it waits for, the host that its provider asks
parts      what sessions are given: their slots, what they are told between turns
opening    a provider's session is opened, a lost thread is told again, as far as it fits
side_query a model is asked for a text beside the agents' own work, as for a session's name
compacting a conversation that is too long is summarised, and goes on from the summary
failover   what an agent goes on with after a turn that failed
holds      agents that a login or a limit keeps from going on
deadlock   what is done about a knot of waits
peers      what agents write to each other that need be no kin, and who may write
user_prompts the texts of prompts of persons, and how they reach agents
labelling  what is said of agents and of a run, and by whom
resuming   those of an earlier engine: let live on, or taken over
skills     which there are, and what each agent is told of them
"""
