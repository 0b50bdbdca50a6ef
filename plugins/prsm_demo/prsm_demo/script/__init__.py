"""Scripted agents: scenarios, their playback, and the session that carries out their steps."""
