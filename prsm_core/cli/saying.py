"""Sentences of commands: on a terminal broken between words, elsewhere one line each."""

from __future__ import annotations

import sys

import click

from prsm_core.terminal.cells import columns_of, rows_of


def say(text: str, *, err: bool = False) -> None:
    """Print a text of one or more lines, which is harmless already, to stdout or stderr."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream is None else columns_of(stream)
    lines = text.split("\n")
    rows = lines if width is None else [row for line in lines for row in rows_of(line, width)]
    click.echo("\n".join(rows), err=err)
