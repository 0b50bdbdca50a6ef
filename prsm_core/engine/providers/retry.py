"""Pauses after failures: how often a failed turn is retried, and when a provider rests.

All agents of a provider share its circuit breaker.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.turns import AgentError
    from prsm_core.interfaces.clock import Clock


BASE_SECONDS = 1.0
MAX_SECONDS = 30.0
JITTER = 0.2


class RetryPolicy(Record, frozen=True, kw_only=True):
    """Retries failed turns; pauses double from 1 s to 30 s, ± 20 %, or as vendors ask."""

    attempts: int = 5
    rng: random.Random = field(default_factory=random.Random)

    def delay(
        self, failures: int, error: AgentError, *, jitter: float | None = None
    ) -> float | None:
        """Return the seconds to wait after the n-th failure in a row; None to give up."""
        if not error.retryable or failures > self.attempts:
            return None
        backoff: float = min(BASE_SECONDS * 2 ** (failures - 1), MAX_SECONDS)
        backoff *= 1 + (self.rng.uniform(-JITTER, JITTER) if jitter is None else jitter)
        return max(backoff, error.retry_after_s or 0.0)

    def pauses_to_come(
        self, failures: int, error: AgentError, at_least: Callable[[int], float]
    ) -> list[float]:
        """Return the longest pause after each further failure, `at_least(n)` for the n-th."""
        pauses: list[float] = []
        while pause := self.delay(failures + len(pauses) + 1, error, jitter=JITTER):
            pauses.append(max(pause, at_least(len(pauses) + 1)))
        return pauses


FAILURES = 3
COOLDOWN_SECONDS = 20.0


class CircuitBreaker(Struct, eq=False):
    """Counts the failures of one provider."""

    clock: Clock
    _failures: int = 0
    _open_until: float = 0.0  # monotonic

    def succeeded(self) -> None:
        """Note a turn that the provider served."""
        self._failures = 0

    def failed(self) -> bool:
        """Note a failure; return whether it opened the breaker."""
        self._failures += 1
        if self._failures < FAILURES:
            return False
        was_open = self.remaining() > 0
        self._open_until = self.clock.now() + COOLDOWN_SECONDS
        return not was_open

    def remaining(self) -> float:
        """Return the seconds until the provider may be asked again; 0 when it may now."""
        return max(self._open_until - self.clock.now(), 0.0)

    def pause_after(self, more: int) -> float:
        """Return the seconds that the breaker would hold after `more` failures."""
        return COOLDOWN_SECONDS if self._failures + more >= FAILURES else 0.0
