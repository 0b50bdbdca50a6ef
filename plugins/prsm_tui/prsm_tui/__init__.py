"""A screen of one session: the tree of agents, each one's transcript, what waits for a person.

plugin      what this distribution contributes
settings    what may be set
frontend    the frontend: a terminal, a screen on it, and what runs beside it
model       a session as it is shown, made of a view and the events after it: pure
pump        the one reader of events, which keeps the model
acts        the one place that does something with the session
leaving     what becomes of a run when its person leaves
linear      the same model line by line, for who hears a terminal
screen      widgets: they show the model, and say what a person did
"""
