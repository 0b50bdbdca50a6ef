"""Run turns: from a prompt to what the provider makes of it."""
