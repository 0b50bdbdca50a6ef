"""The journal: what happens is committed to the ledger, told to readers, and read again.

unit       the only path to the store: steps and facts, what of them is not written yet, their order
redaction  takes the secrets out of them before anybody has them
feed       tells in-process readers what was committed, and what running turns say meanwhile
sinks      tells the sinks of plugins, each by a queue of its own
views      the tree of agents and their conversations, read from the ledger
"""
