"""The engine: agents, their turns and tools, and read-only views of what happened.

engine      one session's runs; `assembly` puts the parts together, `runtime` holds what they share
ports       what the parts need of those above them
state       what is held of each agent beside the ledger
agents/     the registry of agents, their sessions, deadlocks, a person's prompts
spawn/      what a new agent is: decided once, before anything is written
turns/      one turn: run, folded, judged, ended; orchestration calls
tools/      the orchestration tools
requests/   what waits for a person
providers/  which there are, what they can, which models they have
evidence/   what a claim to be done is worth
spending/   budgets
processes/  all that is started
control/    the lock of a session, and its socket
journal     steps committed; `secrecy` takes secrets out, `feed` and `sinks` tell readers, `views`
guarded     calls into code of others; `given` what crosses, `failing` what a failure is called
"""
