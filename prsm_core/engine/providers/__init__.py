"""Providers as the engine uses them: which there are, what they can, which models they have.

registry          the installed ones, opened when they are needed
owned             what there is of a session before its engine, which they can begin in
profiles          the logins of one
residents         who holds a process of its own, and who makes room for another
mcp_trials        whether MCP servers begin, before a vendor has them
breaker, retry    pauses after failures
enforcement       what is told of what one does not enforce; `levels` which it needs, `survey` asks
configured_names  the names that settings hold: which there are, and which are none
listings          the models that they list
model_names       what a model may be called; `model_choice` which one is meant
standing_in       what stands in for a model whose provider is not there
team              which of them an agent may give its children
"""
