"""Screens of one session, the tree of agents and each one's transcript, and of all sessions.

plugin      what this distribution contributes
frontend    the frontend: a terminal, a screen on it, and what runs beside it
hub_frontend  the same for many sessions
settings    what the configuration may say of it
keys        every key, with what it does
model       a session as it is shown, made of a view and the events after it: pure
pump        the one reader of events, which keeps the model
acts        the one place that does something with the session, in order
file_acts   … with changes and snapshots of files       looking  … to look things up
rounds      the one reader of the list of sessions
hub_acts    the one place that does something with whole sessions
visit       one session of the list that is looked at, whoever owns it now
leaving     what becomes of a run when its person leaves
editor      the person's own editor
commands    what may be typed behind a slash
linear      the same model line by line, for who hears a terminal
screen      widgets: they show the model, and say what a person did
"""
