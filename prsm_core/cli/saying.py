"""Sentences and tables of commands, which fit the terminal that shows them."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

from prsm_core.terminal.cells import columns_of, rows_of
from prsm_core.terminal.table import format_table

if TYPE_CHECKING:
    from collections.abc import Sequence


def say(text: str, *, err: bool = False) -> None:
    """Print a harmless text to stdout or stderr; a terminal gets lines broken between words."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream is None else columns_of(stream)
    lines = text.split("\n")
    rows = lines if width is None else [row for line in lines for row in rows_of(line, width)]
    click.echo("\n".join(rows), err=err)


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str | None]], *, spare: Sequence[str] = ()
) -> None:
    """Print a table; a pipe or a file gets one line a row, a terminal what fits it."""
    click.echo(format_table(headers, rows, width=stdout_width(), spare=spare))


def stdout_width() -> int | None:
    """Return the columns of the terminal that stdout is, None where it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns
