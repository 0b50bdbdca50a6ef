"""The phases of a turn, as a table.

NEW ⇄ STREAMING: it is opened in the ledger, or the ledger refuses it and nothing has begun.
STREAMING ⇄ RESTING: the model's response is complete while some call is still open, until the
last call is answered or the model speaks all the same. From both → CLOSING → CLOSED: the stream
is over, what works for the turn is ended, its end is written. From both → VOID → CLOSED: its
provider does not let go, so that somebody else closes it; what the provider still yields counts
for nothing. Nothing leaves CLOSED, so that no turn is closed twice.

A turn that an earlier engine has left open begins otherwise: NEW → SETTLING, its calls are
answered while there is no provider, → STREAMING, or → CLOSING where it ends with that. RESTING →
PARKED → SETTLING is one whose session is closed for others to have its process: until that has
ended nothing is answered, and then it goes on alike.
"""

from __future__ import annotations

from enum import StrEnum

from prsm_core.lifecycle.machine import Machine


class TurnPhase(StrEnum):
    """How far a turn is."""

    NEW = "new"
    PARKED = "parked"
    SETTLING = "settling"
    STREAMING = "streaming"
    RESTING = "resting"
    CLOSING = "closing"
    VOID = "void"
    CLOSED = "closed"

    @property
    def is_live(self) -> bool:
        """Whether the provider streams the turn, and what it says counts."""
        return self in _LIVE

    @property
    def is_open(self) -> bool:
        """Whether the turn has to be closed in the ledger, and nobody does so yet."""
        return self in _OPEN

    @property
    def may_rest(self) -> bool:
        """Whether no response of the model's is under way."""
        return self in _RESTING


# An enum's member is looked up by code in Python: those that each call asks for are named here.
PARKED, STREAMING, RESTING = TurnPhase.PARKED, TurnPhase.STREAMING, TurnPhase.RESTING
_LIVE = frozenset({STREAMING, RESTING})
_OPEN = _LIVE | {TurnPhase.PARKED, TurnPhase.SETTLING}
_RESTING = frozenset({TurnPhase.RESTING, TurnPhase.SETTLING})
_ENDS = frozenset({TurnPhase.CLOSING, TurnPhase.VOID})

TURN_MACHINE: Machine[TurnPhase] = Machine(
    "turn",
    {
        TurnPhase.NEW: {TurnPhase.STREAMING, TurnPhase.SETTLING},
        TurnPhase.SETTLING: {TurnPhase.STREAMING} | _ENDS,
        TurnPhase.STREAMING: {TurnPhase.NEW, TurnPhase.RESTING} | _ENDS,
        TurnPhase.RESTING: {TurnPhase.STREAMING, TurnPhase.PARKED} | _ENDS,
        TurnPhase.PARKED: {TurnPhase.SETTLING} | _ENDS,
        TurnPhase.CLOSING: {TurnPhase.CLOSED},
        TurnPhase.VOID: {TurnPhase.CLOSED},
    },
)
