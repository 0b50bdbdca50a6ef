"""What a fork must be, told by the session that it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.forking import forked

if TYPE_CHECKING:
    from prsm_core.domain.sessions import SessionState


def rewritten(origin: SessionState, fork: SessionState, now: float) -> SessionState:
    """Return what a fork of a state must be: names stand for ids, and nothing else has changed."""
    names = {old: new for old, new in fork.aliases.items() if old not in origin.aliases}
    return replace(forked(origin, names, now), position=fork.position)
