"""Agents: their registry and sessions, and what begins, moves and ends them.

manager    spawns and restarts agents
ends       ends, fails and kills them, with those below them; none of a run outlives it
steps      how what they do is committed
lives      the session of each one's newest life, and its task
session    one incarnation: its provider's session, its turns one after another
session_parts what the sessions of all agents use
left_turn  a turn without a session, until one is opened for it
life       one incarnation: is it over, its slot, what it waits for
opening    a provider's session is opened, a lost thread is told again, as far as it fits
aside      a model is asked for a text beside the agents' own work
compacting a conversation that is too long is summarised, and goes on from the summary
naming     a model is asked for a session's name
inbox      what an agent is told between its turns
failover   what an agent goes on with after a turn that failed
holds      agents that a login or a limit keeps from going on
deadlock   what is done about a knot of waits
peers      what agents write to each other that need be no kin, and who may write
run_labels whether a run's labels make its master work itself; those that nothing reads
steering   what is said to a model within its turn
prompting  a person's prompt to an agent that runs
saying     what a person says, as the text that is kept of it
labelling  what is said of agents, and by whom
adoption   those that ended in an earlier process, taken over from the ledger
resuming   those that an earlier engine has left, let live on
needs      what those go on with is there, or it is told
external   masters that somebody outside the engine drives
skills     which there are, and what each agent is told of them
slots      how many agents run at a time
"""
