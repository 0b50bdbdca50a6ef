"""Which screens beside the panes there are, by their names; each is imported once it is gone to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session
    from prsm_tui.screen.place import Place


def make_place(name: str, session: Session, delivery: Callable[[], str], keymap: Keymap) -> Place:
    """Return the screen of a name; one that is not known is a page of the model.

    `delivery` tells how what is said on it goes to agents.
    """
    if name == "changes":
        from prsm_tui.screen.changes import Changes

        return Changes(session, delivery, keymap)
    if name == "snapshots":
        from prsm_tui.screen.snapshots import Snapshots

        return Snapshots(session, keymap)
    if name == "palette":
        from prsm_tui.screen.palette import Palette

        return Palette(session, keymap)
    from prsm_tui.screen.board import BoardScreen

    return BoardScreen(session, name, keymap)
