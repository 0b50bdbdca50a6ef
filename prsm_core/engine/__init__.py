"""The engine: agents, their turns and tools, and read-only views of what happened."""
