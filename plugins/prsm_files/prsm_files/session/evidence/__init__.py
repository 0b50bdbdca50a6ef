"""Evidence: what an agent's claim to be done is worth."""

NEVER = -1  # the number of an event before all others
