"""Providers as the engine uses them: which there are, what they can, which models they have.

registry          the installed ones, opened when they are needed
profiles          the logins of one
breaker, retry    pauses after failures
enforcement       what one does not enforce of the permissions; `survey` asks before a run
listings          the models that they list
model_names       what a model may be called; `model_choice` which one is meant
model_parameters  with what it is called
team              which of them an agent may give its children
"""
