"""Tables of names, without what reads words of a shell: also a start needs some."""

from __future__ import annotations

from pathlib import Path


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, as tables of names are written."""
    return frozenset(text.split())


def read_lines(table: str) -> tuple[str, ...]:
    """Return the lines of a table beside this module, without blank ones and comments."""
    text = Path(__file__).with_name(f"{table}.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and line[0] != "#")


def read_words(table: str) -> frozenset[str]:
    """Return the words of a table beside this module."""
    return word_set(" ".join(read_lines(table)))
