"""State machines: one generic machine, and the tables that use it."""
