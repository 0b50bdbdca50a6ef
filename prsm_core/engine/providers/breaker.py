"""Circuit breakers: one per provider, shared by all its agents.

After three failures in a row nobody asks that provider for twenty seconds; the first failure
after the pause opens the breaker again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.interfaces.clock import Clock

FAILURES = 3
COOLDOWN_SECONDS = 20.0


class CircuitBreaker:
    """Counts the failures of one provider."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0  # monotonic

    def succeeded(self) -> None:
        """Note a turn that the provider served."""
        self._failures = 0

    def failed(self) -> bool:
        """Note a failure; return whether it opened the breaker."""
        self._failures += 1
        if self._failures < FAILURES:
            return False
        was_open = self.remaining() > 0
        self._open_until = self._clock.now() + COOLDOWN_SECONDS
        return not was_open

    def remaining(self) -> float:
        """Return the seconds until the provider may be asked again; 0 when it may now."""
        return max(self._open_until - self._clock.now(), 0.0)

    def pause_after(self, more: int) -> float:
        """Return the seconds that the breaker would hold after so many further failures."""
        return COOLDOWN_SECONDS if self._failures + more >= FAILURES else 0.0


class Breakers:
    """Owns the breakers, by provider."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_name: dict[str, CircuitBreaker] = {}

    def of(self, provider: str) -> CircuitBreaker:
        """Return the breaker of a provider."""
        return self._by_name.setdefault(provider, CircuitBreaker(self._clock))
