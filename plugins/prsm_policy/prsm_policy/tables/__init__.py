"""What is known of programs and their options, as text beside this module: data, and no code.

A row is a line that names what it is about and, indented below it, its fields: a word for the kind
of field, and its value. A kind may have several lines. A line that begins with `#` is a comment.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Fields = Mapping[str, list[str]]


def read_rows(table: str) -> Iterator[tuple[str, Fields]]:
    """Yield the head of each row of a table, and its lines by kind."""
    head, fields = "", dict[str, list[str]]()
    text = Path(__file__).with_name(f"{table}.txt").read_text(encoding="utf-8")
    for line in filter(None, text.splitlines()):
        if line[0] == " ":
            kind, _, value = line.strip().partition(" ")
            fields.setdefault(kind, []).append(value)
        elif line[0] != "#":
            if head:
                yield head, fields
            head, fields = line, {}
    yield head, fields


def read_words(table: str, kind: str) -> dict[str, frozenset[str]]:
    """Return the words of one kind, by each name in the heads of the rows that have some."""
    return {name: words_of(fields, kind) for name, fields in _named(table, kind)}


def read_patterns(table: str, kind: str) -> dict[str, re.Pattern[str]]:
    """Return the pattern of one kind, by each name in the heads of the rows that have one."""
    return {name: re.compile(fields[kind][0]) for name, fields in _named(table, kind)}


def _named(table: str, kind: str) -> Iterator[tuple[str, Fields]]:
    for head, fields in read_rows(table):
        if kind in fields:
            yield from ((name, fields) for name in head.split())


def values_of(fields: Fields, types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row that a record declares, by its annotations as text."""
    values: dict[str, Any] = dict.fromkeys(words_of(fields, "is"), True)
    for kind in fields.keys() & types.keys():
        text = " ".join(fields[kind])
        if types[kind] == "frozenset[str]":
            values[kind] = word_set(text)
        else:
            values[kind] = int(text) if types[kind].startswith("int") else text
    return values


def words_of(fields: Fields, kind: str) -> frozenset[str]:
    """Return the words of one kind in a row."""
    return frozenset(" ".join(fields.get(kind, ())).split())
