"""Agent protocols: markdown that says what agents may do in each state, and is enforced."""
