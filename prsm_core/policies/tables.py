"""Tables of names, without what reads words of a shell: also a start needs some."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, as tables of names are written."""
    return frozenset(text.split())
