"""Plain tables: aligned columns, no borders, no colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.builtin.text import escape_exact

if TYPE_CHECKING:
    from collections.abc import Sequence


def format_table(headers: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """Return lines with every column as wide as its widest cell; None is shown as "-"."""
    cells = [[_cell(value) for value in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def _cell(value: str | None) -> str:
    return "-" if value is None else escape_exact(value)
