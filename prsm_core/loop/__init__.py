"""The event loop that plugins' code runs on: it is watched, and it comes to an end."""
