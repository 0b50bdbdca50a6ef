"""Turns: from a prompt to what the provider made of it.

run           one turn: opened in the ledger, streamed, closed; its phases, as a table
fold          what its events add up to
limits        how long it reasons and is silent, and what ends it before its own end
going_on      what an earlier engine has left of it
context       what the model is given; `model_parameters` what it is called with
parts         what turns are given; `ports` what they need of the agents above them
permits       what of that is permitted, and by whom
call          one orchestration call, as its handler sees it
calls         those of a turn, also those that outlive a client's patience
waits         what an agent waits for: any message, or something else
vendor_calls  the vendor's own calls, which of them a permission is for; texts while they are said
stuck         does an agent do the same again and again, and what then
"""
