"""The tables of the README that are made of the code: run it to write them anew."""

from __future__ import annotations

import sys
from pathlib import Path

from prsm_tui.commands import COMMANDS
from prsm_tui.linear.commands import LINEAR
from prsm_tui.screen.keys import KEYS

README = Path(__file__).resolve().parents[1] / "README.md"


def keys():
    rows = ["| where | key | what it does |", "| --- | --- | --- |"]
    for place, known in KEYS.items():
        rows += [f"| {place} | {key.shown} | {key.does} |" for key in known]
    return rows


def commands(known):
    rows = ["| command | what it does |", "| --- | --- |"]
    return [*rows, *(f"| `{one.usage}` | {one.does} |" for one in known.values())]


TABLES = {"keys": keys(), "commands": commands(COMMANDS), "linear": commands(LINEAR)}


def made(text):
    """Return the README with its tables as the code has them."""
    for name, rows in TABLES.items():
        marks = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        table = "\n".join(["", "", *rows, "", ""])
        before, after = (text.index(mark) for mark in marks)
        text = text[: before + len(marks[0])] + table + text[after:]
    return text


if __name__ == "__main__":
    README.write_text(made(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"written: {README}\n")
