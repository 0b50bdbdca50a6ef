"""Identifiers: ULIDs for turns, runs and sessions, random hex for agents.

Ids are made once, when a step is built, from an injected time and random source, so that a
simulated run makes the same ids every time.
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
    value = (millis & (2**48 - 1)) << 80 | (entropy & (2**80 - 1))
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)])


class Ids:
    """The one source of new identifiers of an engine."""

    def __init__(self, wall_time: Callable[[], float], rng: random.Random | None = None) -> None:
        self._time = wall_time
        self._rng = rng or random.SystemRandom()
        self._last = (-1, 0)  # the milliseconds and the entropy of the newest ULID
        self._head = encode_ulid(*self._last)[:-2]  # all but its last two characters

    def ulid(self) -> str:
        """Return a new ULID, greater than every one this source made before."""
        millis = int(self._time() * 1000)
        last, entropy = self._last
        if millis > last:
            last, entropy = millis, self._rng.getrandbits(80)
            self._head = encode_ulid(last, entropy)[:-2]
        else:  # as most are: only the end differs from the newest one, but for one in 1024
            entropy += 1
            if not entropy & 1023:
                self._head = encode_ulid(last, entropy)[:-2]
        self._last = last, entropy
        return self._head + _PAIRS[entropy & 1023]

    def not_before(self, time: float) -> None:
        """Make only ULIDs that sort after a Unix time, though the clock was set back since."""
        millis = int(time * 1000) + 1
        if millis > self._last[0]:
            self._last = millis, self._rng.getrandbits(80)
            self._head = encode_ulid(*self._last)[:-2]

    def agent(self) -> str:
        """Return a new random agent id (32 hex digits)."""
        return f"{self._rng.getrandbits(128):032x}"

    def request(self) -> str:
        """Return a new random UUID (version 4) for a permission request or question."""
        value = self._rng.getrandbits(128) & ~(0xF << 76) | (4 << 76)
        value = value & ~(0x3 << 62) | (2 << 62)
        text = f"{value:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
