"""Time, injected: the engine asks a Clock and nothing else what time it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """A call that a clock will make."""

    def cancel(self) -> object:
        """Cancel the call. No-op if it already ran or was cancelled."""


class Clock(Protocol):
    """Monotonic and wall time, sleeping, and calls that come later."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean something."""

    def time(self) -> float:
        """Return Unix seconds."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock's time."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback`, which must not raise, after `seconds` of this clock's time."""
