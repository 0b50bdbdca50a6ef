"""What a fork must be, told by the session that it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.forking import forked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.sessions import SessionState


def rewritten(
    origin: SessionState, fork: SessionState, now: float, changes: Sequence[ChangeRow] = ()
) -> SessionState:
    """Return what a fork of a state must be: names stand for ids, and nothing else has changed.

    But what was decided since about its `changes`, which are one with those of the origin.
    """
    since = {row.change.id: row for row in changes}
    origin = replace(origin, changes=tuple(since.get(one.change.id, one) for one in origin.changes))
    names = {old: new for old, new in fork.aliases.items() if old not in origin.aliases}
    return replace(forked(origin, names, now), position=fork.position)
