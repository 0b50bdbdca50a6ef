"""The phases of a turn, as a table.

NEW ⇄ STREAMING: it is opened in the ledger, or the ledger refuses it and nothing has begun.
STREAMING ⇄ RESTING: the model's response is complete while some call is still open, until the
last call is answered or the model speaks all the same. From both → CLOSING → CLOSED: the stream
is over, what works for the turn is ended, its end is written. From both → VOID → CLOSED: its
provider does not let go, so that somebody else closes it; what the provider still yields counts
for nothing. Nothing leaves CLOSED, so that no turn is closed twice.
"""

from __future__ import annotations

from enum import StrEnum

from prsm_core.lifecycle.machine import Machine


class TurnPhase(StrEnum):
    """How far a turn is."""

    NEW = "new"
    STREAMING = "streaming"
    RESTING = "resting"
    CLOSING = "closing"
    VOID = "void"
    CLOSED = "closed"

    @property
    def is_live(self) -> bool:
        """Whether the provider streams the turn, and what it says counts."""
        return self in _LIVE


_LIVE = frozenset({TurnPhase.STREAMING, TurnPhase.RESTING})
_ENDS = frozenset({TurnPhase.CLOSING, TurnPhase.VOID})

TURN_MACHINE: Machine[TurnPhase] = Machine(
    "turn",
    {
        TurnPhase.NEW: {TurnPhase.STREAMING},
        TurnPhase.STREAMING: {TurnPhase.NEW, TurnPhase.RESTING} | _ENDS,
        TurnPhase.RESTING: {TurnPhase.STREAMING} | _ENDS,
        TurnPhase.CLOSING: {TurnPhase.CLOSED},
        TurnPhase.VOID: {TurnPhase.CLOSED},
    },
)
