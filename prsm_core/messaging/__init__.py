"""Messages between agents: the in-memory view of the inbox."""
