"""The one retry policy: how often a failed turn is continued, and after how long."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.turns import AgentError

BASE_SECONDS = 1.0
MAX_SECONDS = 30.0
JITTER = 0.2


class RetryPolicy(Record, frozen=True, kw_only=True):
    """A failed turn is tried again `attempts` times; back-off doubles from 1 s to 30 s, ± 20 %.

    A vendor that asks for a longer pause gets it.
    """

    attempts: int = 5
    rng: random.Random = field(default_factory=random.Random)

    def delay(self, failures: int, error: AgentError) -> float | None:
        """Return the seconds to wait after the n-th failure in a row; None = give up."""
        if not error.retryable or failures > self.attempts:
            return None
        backoff: float = min(BASE_SECONDS * 2 ** (failures - 1), MAX_SECONDS)
        backoff *= 1 + self.rng.uniform(-JITTER, JITTER)
        return max(backoff, error.retry_after_s or 0.0)

    def pauses_to_come(
        self, failures: int, error: AgentError, at_least: Callable[[int], float]
    ) -> list[float]:
        """Return the longest pause after each further failure, until it gives up.

        `at_least(n)` is how many seconds the n-th of them lasts at least, for other reasons.
        """
        longest = replace(self, rng=_Longest())
        pauses: list[float] = []
        while (pause := longest.delay(failures + len(pauses) + 1, error)) is not None:
            pauses.append(max(pause, at_least(len(pauses) + 1)))
        return pauses


class _Longest(random.Random):
    """Draws the end of every range."""

    def uniform(self, a: float, b: float) -> float:
        """Return the larger of the two."""
        return max(a, b)
