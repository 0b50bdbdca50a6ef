"""Time, injected: the engine asks a Clock and nothing else what time it is."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Monotonic and wall time, and sleeping."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean something."""
        ...

    def time(self) -> float:
        """Return Unix seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock's time."""
        ...
