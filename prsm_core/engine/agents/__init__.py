"""Agents: their sessions, and what begins, moves and ends them."""
