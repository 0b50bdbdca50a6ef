"""The journal: what happens is committed to the ledger, told to readers, and read again.

unit       the order of steps and facts; the only path to the store
steps      how what agents do is committed, then told to those it concerns
staging    what an agent has done and is not written yet, and how it is joined
redaction  takes the secrets out of them before anybody has them
spoken     what turns that run have said and no event has yet, told in its place
feed       tells in-process readers what was committed
sinks      tells the sinks of plugins, each by a queue of its own
views      the tree of agents and their conversations, read from the ledger
"""
