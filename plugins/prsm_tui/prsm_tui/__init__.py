"""Screens of one session, the tree of agents and each one's transcript, and of all sessions.

plugin      what this distribution contributes
hub_frontend  the frontends: a terminal, a screen on it, and what runs beside it
settings    what the configuration may say of it
keys        every key, with what it does
model       a session as it is shown, made of a view and the events after it: pure
pump        the one reader of events, which keeps the model
acts        the one place that does something with the session, and with its files, in order
rounds      the one reader of the list of sessions
hub_acts    the one place that does something with whole sessions
editor      the person's own editor
commands    what may be typed behind a slash
linear      the same model line by line, for who hears a terminal
screen      widgets: they show the model, and say what a person did
"""
