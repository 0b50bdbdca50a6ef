"""The tables of README and docs/tui.md that are made of the code: run it to write them anew."""

from __future__ import annotations

import sys
from pathlib import Path

from prsm_tui.commands import COMMANDS
from prsm_tui.keys import KEYS, Keymap
from prsm_tui.linear.commands import LINEAR, MANY

PACKAGE = Path(__file__).resolve().parents[1]
DOCUMENTS = (PACKAGE / "README.md", PACKAGE.parents[1] / "docs" / "tui.md")


def keys():
    keymap = Keymap()
    rows = ["| where | key | what it does | its name |", "| --- | --- | --- | --- |"]
    for place, known in KEYS.items():
        rows += [
            f"| {place} | {keymap.shown(key.name)} | {key.does} | `{key.name}` |" for key in known
        ]
    return rows


def commands(known):
    rows = ["| command | what it does |", "| --- | --- |"]
    return [*rows, *(f"| `{one.usage}` | {one.does} |" for one in known.values())]


TABLES = {
    "keys": keys(),
    "commands": commands(COMMANDS),
    "linear": commands(LINEAR),
    "many": commands(MANY),
}


def made(text):
    """Return a document with its tables as the code has them, those that it has."""
    for name, rows in TABLES.items():
        marks = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        table = "\n".join(["", "", *rows, "", ""])
        before, after = (text.index(mark) for mark in marks)
        text = text[: before + len(marks[0])] + table + text[after:]
    return text


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(made(document.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"written: {document}\n")
