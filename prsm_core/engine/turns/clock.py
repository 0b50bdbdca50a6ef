"""The clocks that end a turn which reasons or stays silent too long."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.domain.sparing import NOTHING, drop, put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.interfaces.clock import Clock


@lru_cache(maxsize=16)
def _shared(*seconds: float) -> tuple[float, ...]:
    """Return limits as one value for all turns that have the same."""
    return seconds


class TurnClock:
    """Measures one turn: reasoning time without tools, silence, and each vendor tool call.

    `bound` says how long it may reason; what the agent's earlier turns reasoned is given as `used`.
    `idle_seconds` bounds the silence while no tool runs, `tool_seconds` one vendor call.
    """

    __slots__ = (
        "_clock",
        "_is_paused",
        "_limits",
        "_open",
        "_since",
        "_used",
        "_vendor",
        "last_event",
    )

    def __init__(
        self,
        clock: Clock,
        *,
        idle_seconds: float,
        tool_seconds: float,
        used: float = 0.0,
    ) -> None:
        self._clock = clock
        self._limits = _shared(math.inf, idle_seconds, tool_seconds)
        self._used = used
        self._since = clock.now()  # start of the present stretch without a tool
        self.last_event = self._since
        self._open = 0  # tool calls of any kind now running
        self._is_paused = False
        self._vendor: Mapping[str, float] = NOTHING  # vendor call -> start

    @property
    def reasoning(self) -> float:
        """Seconds of reasoning so far, earlier turns included."""
        is_idle = self._open or self._is_paused
        running = 0.0 if is_idle else self._clock.now() - self._since
        return self._used + running

    def left_of(self, agent_seconds: float) -> int:
        """Return how much of an agent's reasoning time is left, in milliseconds, rounded up."""
        return max(0, math.ceil(round((agent_seconds - self.reasoning) * 1000, 3)))

    def bound(self, timeout_ms: int) -> None:
        """Let no more reasoning pass from now on than that."""
        self._limits = _shared(self.reasoning + timeout_ms / 1000, *self._limits[1:])

    def touch(self) -> None:
        """Note that the provider said something."""
        self.last_event = self._clock.now()

    @property
    def open_tools(self) -> int:
        """How many tool calls, of any kind, run now."""
        return self._open

    def tool_started(self, vendor_call: str | None = None) -> None:
        """Stop the reasoning clock; a vendor call gets a clock of its own."""
        if vendor_call is not None:
            if vendor_call in self._vendor:
                return  # told twice: it ends only once
            self._vendor = put(self._vendor, vendor_call, self._clock.now())
        if not self._open:
            self._used = self.reasoning
        self._open += 1
        self.touch()  # who calls is not silent

    def tool_finished(self, vendor_call: str | None = None) -> None:
        """Let the reasoning clock go on once no tool runs."""
        if vendor_call is not None and drop(self._vendor, vendor_call) is None:
            return
        self._open -= 1
        if not self._open:
            self._since = self.last_event = self._clock.now()

    def pause(self) -> None:
        """Count no reasoning until `go_on`: there is no session."""
        self._used = self.reasoning
        self._is_paused = True

    def go_on(self) -> None:
        """Count from now on: a session begins."""
        self._is_paused = False
        self._since = self.last_event = self._clock.now()

    def expired(self) -> str | None:
        """Return what ran out: reasoning, idle, tool, or None."""
        agent_seconds, idle_seconds, tool_seconds = self._limits
        now = self._clock.now()
        if self.reasoning >= agent_seconds:
            return "reasoning"
        if not self._open and now - self.last_event >= idle_seconds:
            return "idle"
        if any(now - start >= tool_seconds for start in self._vendor.values()):
            return "tool"
        return None

    @property
    def soonest(self) -> float:
        """Seconds within which nothing runs out that begins to count now."""
        agent_seconds, idle_seconds, tool_seconds = self._limits
        if not (self._open or self._is_paused):
            agent_seconds -= self._clock.now() - self._since
        return min(agent_seconds - self._used, idle_seconds, tool_seconds)

    def remaining(self) -> float:
        """Return the seconds until something may run out, as things stand."""
        agent_seconds, idle_seconds, tool_seconds = self._limits
        now = self._clock.now()
        ends = [start + tool_seconds - now for start in self._vendor.values()]
        if not self._open:
            ends += [agent_seconds - self.reasoning, self.last_event + idle_seconds - now]
        return max(min(ends, default=idle_seconds), 0.0)
