"""What changed in a folder, whose it is, and how one change is taken back while others stay.

Nothing here knows agents' lives or the ledger: calls are values, and moments are numbers.

records      what is at a path, a change of it, a call that may have made it
tracker      what changed between two looks, over all roots of a folder
looking      one look at a root, by an index of its own
attribution  whose a change is, from the calls that could have made it
splitting    what became of a text: what a call says it did, and the rest
acting       an act carried out: what it overwrites is kept, and its intent is written, first
rejecting    changes taken back, each alone, and acts
merging      what a file would be without one change
tracing      which change a line of a file is from
writing      one file written whole
diffing      changes as a patch
forgetting   what was kept for a session, removed with it
"""
