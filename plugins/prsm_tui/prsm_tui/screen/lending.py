"""Leaves the terminal to another program for a while: nothing is read or drawn meanwhile."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsm_tui.editor import Ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_tui.screen.app import Tui


@contextmanager
def lent(tui: Tui) -> Iterator[Ends]:
    """Lend the terminal, where there is one; yield what the other program reads and draws on."""
    if tui.is_headless or tui.terminal is None:
        yield Ends()
        return
    tui.is_lent = True
    try:
        with tui.batch_update(), tui.suspend():
            yield Ends(tui.keyboard, tui.terminal.fileno())
    finally:
        tui.is_lent = False
        tui.refresh(layout=True)
        tui.changed()
