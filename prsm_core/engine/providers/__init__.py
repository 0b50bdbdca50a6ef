"""Providers as the engine uses them: which there are, what they can, which models they have.

registry          the installed ones, opened when they are needed, with their logins
residents         who holds a process of its own, and who makes room for another
mcp_trials        whether MCP servers begin, before a vendor has them
retry             pauses after failures
enforcement       what is told of what one does not enforce; `levels` which it needs
configured_names  the names that settings hold: which there are, and which are none
listings          the models that they list, and what a survey of them tells
model_names       what a model may be called; `model_choice` which one is meant
team              which of them an agent may give its children
"""
