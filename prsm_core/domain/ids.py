"""Identifiers: ULIDs for turns, runs and sessions, random hex for agents.

They come from an injected time and random source, so that a simulated run repeats them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _CROCKFORD for low in _CROCKFORD)
_SHIFTS = range(120, -1, -10)


def encode_ulid(millis: int, entropy: int) -> str:
    """Return the 26-character ULID of a Unix time in ms and 80 bits of entropy."""
    value = (millis & (2**48 - 1)) << 80 | entropy & (2**80 - 1)
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


class Ids:
    """The one source of new identifiers of an engine."""

    def __init__(self, wall_time: Callable[[], float], rng: random.Random | None = None) -> None:
        self._time = wall_time
        self._rng = rng or random.SystemRandom()
        # Drawn once: what counts up from it is met by no other source. One bit is left to count.
        self._entropy = self._rng.getrandbits(79)
        self._millis = -1  # of the newest ULID
        self._head, self._text = (-1, -1), ""  # what many ULIDs of a moment begin with

    def ulid(self) -> str:
        """Return a new ULID, greater than every one this source made before."""
        self._millis = max(self._millis, int(self._time() * 1000))
        self._entropy += 1
        head = self._millis, self._entropy >> 10
        if head != self._head:
            self._head, self._text = head, encode_ulid(self._millis, self._entropy)[:-2]
        return self._text + _PAIRS[self._entropy & 1023]

    def not_before(self, time: float) -> None:
        """Make only ULIDs that sort after a Unix time, though the clock was set back since."""
        self._millis = max(self._millis, int(time * 1000) + 1)

    def agent(self) -> str:
        """Return a new random agent id (32 hex digits)."""
        return f"{self._rng.getrandbits(128):032x}"

    def request(self) -> str:
        """Return a new random UUID (version 4) for a permission request or question."""
        from uuid import UUID

        return str(UUID(int=self._rng.getrandbits(128), version=4))
