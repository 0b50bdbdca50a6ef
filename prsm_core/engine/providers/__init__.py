"""Providers: which there are, what they can do and which models they have."""
