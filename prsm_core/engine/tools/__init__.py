"""The orchestration tools: one table, and the handlers by topic."""
