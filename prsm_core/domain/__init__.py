"""Immutable values, standard library only. Each module holds one kind of value."""
