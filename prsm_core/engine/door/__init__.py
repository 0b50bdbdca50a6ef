"""The door: AppHandle over the engine of this process, and what it shows.

local       LocalApp: what a frontend may do     view        one picture at one moment
history     an agent's conversation in pages     completion  what a person's word may become
offers      providers, models, sessions          naming      what a session is called
replay      ReplayApp: the same over a log       looking     LookApp: over a ledger
"""
