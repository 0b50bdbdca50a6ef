"""Shows that a run is alive: "Thinking... (32s)", and a warning when nothing is heard of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.builtin.text import escape_exact, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.builtin.screen import Screen
    from prsm_core.domain.events import Event
    from prsm_core.interfaces.clock import Clock

TICK_SECONDS = 1.0
SILENCE_SECONDS = 30.0  # without any event of the engine
SLOW_SECONDS = 5.0  # of a beginning
_SIGNS = frozenset({"text_delta", "thinking_delta", "message_completed", "tool_call_started"})


class Liveness:
    """Knows when something was last heard and last printed."""

    def __init__(self, screen: Screen, clock: Clock, on_tick: Callable[[], None]) -> None:
        self._screen = screen
        self._clock = clock
        self._on_tick = on_tick
        self._heard = self._printed = clock.now()
        self._streaming_since: float | None = None
        self._warned = False
        self._start = ""  # what is waited for before anything is heard of an agent
        self._told_start = False

    def waits_for(self, what: str) -> None:
        """Show what the run waits for, until an agent is heard of."""
        self._start, self._told_start = what, False
        self._printed = self._clock.now()
        self._screen.show_status(self._status())

    def note(self, event: Event) -> None:
        """Take in any event, live deltas too."""
        self._heard = self._clock.now()
        self._warned = False
        self._follow_start(event)
        if event.type == "text_delta":
            if self._streaming_since is None:
                self._streaming_since = self._heard
        elif event.type in {"message_completed", "turn_finished", "thinking_delta"}:
            self._streaming_since = None

    def _follow_start(self, event: Event) -> None:
        """Say which agent's program is being started; its first word ends the beginning."""
        if event.type == "agent_spawned" and event.data.get("parent") is None:
            name = f"{event.data.get('provider')}/{event.data.get('model')}"
            self.waits_for(f"{escape_exact(name)} to begin")
        elif event.type in _SIGNS:
            self._start = ""

    def printed(self, something: bool) -> None:
        """Start the count again once something was printed."""
        if something:
            self._printed = self._clock.now()

    async def watch(self) -> None:
        """Refresh the status every second until cancelled."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            self._on_tick()
            self._tell_start()
            self._warn()
            self._screen.show_status(self._status())

    def _status(self) -> str:
        now = self._clock.now()
        if self._streaming_since is not None:
            return f"streaming ({format_duration(now - self._streaming_since)})"
        what = f"waits for {self._start}" if self._start else "Thinking..."
        silent = now - self._heard
        hint = f", silent for {format_duration(silent)}" if silent >= SILENCE_SECONDS else ""
        return f"{what} ({format_duration(now - self._printed)}{hint})"

    def _tell_start(self) -> None:
        """Say once, as a line, what a slow beginning waits for: not all see a status."""
        waited = self._clock.now() - self._printed
        if self._start and not self._told_start and waited >= SLOW_SECONDS:
            self._told_start = True
            self._screen.print_lines([f"waits for {self._start} since {format_duration(waited)}"])

    def _warn(self) -> None:
        silent = self._clock.now() - self._heard
        if silent >= SILENCE_SECONDS and not (self._warned or self._screen.is_asking):
            self._warned = True
            text = f"warning: nothing was heard from the agents for {format_duration(silent)}"
            self._screen.print_lines([text])
