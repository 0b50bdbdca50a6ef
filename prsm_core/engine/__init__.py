"""The engine: agents, their turns and tools, and read-only views of what happened.

engine      one session's runs: that one is open, what ends it, and its end
assembly    what an engine is made of; puts the parts together, each given what it uses
forking     a session that goes on from another one
starting    what a run begins with: its model, its master
state       what is held of each agent beside the ledger
quiet       which calls may write to files now, and the moment in which none does
workspace_files the port of what keeps files; where nothing does, it keeps nothing
outcome     how a run ends, also by an embedder's signal, and what speaks against its result
agents/     the registry of agents, their sessions, deadlocks, a person's prompts
spawn       what a new agent is: decided once, before anything is written
turns/      one turn: run, folded, judged, ended; orchestration calls
tools/      the orchestration tools
requests    what waits for a person
providers/  which there are, what they can, which models they have
spending    budgets
processes/  all that is started
door/       AppHandle over an engine: what frontends may do and see
control/    the lock of a session, and its socket
journal/    the only path to the ledger, what is told of it and read from it
guarded/    code of others: called within limits, what it gives checked, its failures told
"""
