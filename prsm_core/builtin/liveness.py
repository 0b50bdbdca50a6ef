"""Shows that a run is alive: "Thinking... (32s)", and a warning when nothing is heard of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.builtin.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.builtin.screen import Screen
    from prsm_core.domain.events import Event
    from prsm_core.interfaces.clock import Clock

TICK_SECONDS = 1.0
SILENCE_SECONDS = 30.0  # without any event of the engine


class Liveness:
    """Knows when something was last heard and last printed."""

    def __init__(self, screen: Screen, clock: Clock, on_tick: Callable[[], None]) -> None:
        self._screen = screen
        self._clock = clock
        self._on_tick = on_tick
        self._heard = self._printed = clock.now()
        self._streaming_since: float | None = None
        self._warned = False

    def note(self, event: Event) -> None:
        """Take in any event, live deltas too."""
        self._heard = self._clock.now()
        self._warned = False
        if event.type == "text_delta":
            if self._streaming_since is None:
                self._streaming_since = self._heard
        elif event.type in {"message_completed", "turn_finished", "thinking_delta"}:
            self._streaming_since = None

    def printed(self, something: bool) -> None:
        """Start the count again once something was printed."""
        if something:
            self._printed = self._clock.now()

    async def watch(self) -> None:
        """Refresh the status every second until cancelled."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            self._on_tick()
            self._warn()
            self._screen.show_status(self._status())

    def _status(self) -> str:
        now = self._clock.now()
        if self._streaming_since is not None:
            return f"streaming ({format_duration(now - self._streaming_since)})"
        silent = now - self._heard
        hint = f", silent for {format_duration(silent)}" if silent >= SILENCE_SECONDS else ""
        return f"Thinking... ({format_duration(now - self._printed)}{hint})"

    def _warn(self) -> None:
        silent = self._clock.now() - self._heard
        if silent >= SILENCE_SECONDS and not (self._warned or self._screen.is_asking):
            self._warned = True
            text = f"warning: nothing was heard from the agents for {format_duration(silent)}"
            self._screen.print_lines([text])
