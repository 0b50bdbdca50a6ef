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


def encode_ulid(millis: int, entropy: int) -> str:
    """Return the 26-character ULID of a Unix time in ms and 80 bits of entropy."""
    return _encoded(millis & (2**48 - 1), 5) + _encoded(entropy & (2**80 - 1), 8)


def _encoded(value: int, pairs: int) -> str:
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(10 * pairs - 10, -1, -10)])


class Ids:
    """The one source of new identifiers of an engine."""

    def __init__(self, wall_time: Callable[[], float], rng: random.Random | None = None) -> None:
        self._time = wall_time
        self._rng = rng or random.SystemRandom()
        # Drawn once: what counts up from it is met by no other source. One bit is left to count.
        self._entropy = self._rng.getrandbits(79)
        self._millis = -1  # of the newest ULID
        self._middle = _encoded(self._entropy >> 10, 7)  # between its time and its last two digits
        self._second, self._second_text = -1, ""  # its time, but for the last two digits of that
        self._head = ""  # its time, and the middle

    def ulid(self) -> str:
        """Return a new ULID, greater than every one this source made before."""
        millis = int(self._time() * 1000)
        self._entropy += 1
        if not self._entropy & 1023:
            self._middle = _encoded(self._entropy >> 10, 7)
            self._begin(max(millis, self._millis))
        elif millis > self._millis:  # else only the end differs from the newest one
            self._begin(millis)
        return self._head + _PAIRS[self._entropy & 1023]

    def not_before(self, time: float) -> None:
        """Make only ULIDs that sort after a Unix time, though the clock was set back since."""
        millis = int(time * 1000) + 1
        if millis > self._millis:
            self._begin(millis)

    def _begin(self, millis: int) -> None:
        self._millis = millis
        second = (millis & (2**48 - 1)) >> 10
        if second != self._second:
            self._second, self._second_text = second, _encoded(second, 4)
        self._head = self._second_text + _PAIRS[millis & 1023] + self._middle

    def agent(self) -> str:
        """Return a new random agent id (32 hex digits)."""
        return f"{self._rng.getrandbits(128):032x}"

    def request(self) -> str:
        """Return a new random UUID (version 4) for a permission request or question."""
        from uuid import UUID

        return str(UUID(int=self._rng.getrandbits(128), version=4))
