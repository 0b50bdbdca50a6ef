"""Prints tables: on a terminal as wide as it is."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, TypeVar

import click

from prsm_core.builtin.cells import text_width
from prsm_core.builtin.table import format_table

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str | None]], *, spare: Sequence[str] = ()
) -> None:
    """Print a table; a pipe or a file gets one line a row, a terminal what fits it.

    The `spare` columns are left out one after the other, where the terminal is too narrow.
    """
    width = stdout_width()
    table = format_table(headers, rows, width=width)
    for name in spare if width is not None else ():
        if max(map(text_width, table.splitlines())) <= (width or 0):
            break
        place = headers.index(name)
        headers = _without(headers, place)
        rows = [_without(row, place) for row in rows]
        table = format_table(headers, rows, width=width)
    click.echo(table)


def _without(cells: Sequence[T], place: int) -> Sequence[T]:
    return [*cells[:place], *cells[place + 1 :]]


def stdout_width() -> int | None:
    """Return the columns of the terminal that stdout is, None where it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns
