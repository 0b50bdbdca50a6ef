"""Evidence: what an agent's claim to be done is worth."""
