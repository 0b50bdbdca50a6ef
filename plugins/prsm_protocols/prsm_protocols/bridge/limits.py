"""How many requests an agent may make: a bucket of so many, filled again at a steady rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core import Clock

A_SECOND = 20


class Bucket:
    """Owns what is left of an agent's allowance, by the engine's clock."""

    def __init__(self, clock: Clock, rate: int = A_SECOND) -> None:
        self._clock = clock
        self._rate = rate
        self._left = float(rate)
        self._seen = clock.now()

    def take(self) -> float:
        """Take one; return 0, or the seconds until there is one to take."""
        now = self._clock.now()
        passed = max(now - self._seen, 0.0)
        self._left, self._seen = min(self._rate, self._left + passed * self._rate), now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self._rate
