"""Shows that a run is alive, "Thinking... (32s)", and warns when nothing is heard of it.

Where several agents live, the status says whose it is: "w1: streaming 340 characters (5s)", or
"w1 > Bash (45s)" for a command that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.kit import escape_exact, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_console.screen import Screen
    from prsm_core import Clock, Event

TICK_SECONDS = 1.0
SILENCE_SECONDS = 30.0  # without any event of the engine
SLOW_SECONDS = 5.0  # of a beginning
_ENDED = frozenset({"completed", "failed", "killed"})
_SIGNS = frozenset({"text_delta", "thinking_delta", "message_completed", "tool_call_started"})


class Liveness:
    """Knows when something was last heard and last printed."""

    def __init__(
        self, screen: Screen, clock: Clock, on_tick: Callable[[], None], *, is_live: bool = True
    ) -> None:
        """Begin to count; of what is not live no time that passes tells anything."""
        self._is_live = is_live
        self._screen = screen
        self._clock = clock
        self._on_tick = on_tick
        self._heard = self._printed = clock.now()
        self._work = _Work()
        self._warned = False
        self._start = ""  # what is waited for before anything is heard of an agent
        self._told_start = False

    def waits_for(self, what: str) -> None:
        """Show what the run waits for, until an agent is heard of."""
        self._start, self._told_start = what, False
        self._printed = self._clock.now()
        self._show_status()

    def note(self, event: Event) -> None:
        """Take in any event, live deltas too."""
        self._heard = self._clock.now()
        self._warned = False
        self._follow_start(event)
        self._work.note(event, self._heard)

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
            if self._is_live:
                self._tell_start()
                self._warn()
            self._show_status()

    def _show_status(self) -> None:
        if self._is_live:
            self._screen.show_status(self._status())

    def _status(self) -> str:
        now = self._clock.now()
        if (does := self._work.told(now)) is not None:
            return does
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
            does = self._work.told(self._clock.now())
            text = f"warning: nothing was heard from the agents for {format_duration(silent)}"
            self._screen.print_lines([text + (f"; {does}" if does else "")])


class _Work:
    """What the agents do as one sees it: who streams since when, and whose commands run."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of agents that have not ended
        self._streams: dict[str, float] = {}  # since when, by agent
        self._said: dict[str, int] = {}  # characters of the message that it is at
        self._calls: dict[tuple[str, str], tuple[str, float]] = {}  # the tool, and since when
        self._asked: dict[str, str] = {}  # the agents of requests that wait for a person
        self._tries: dict[str, float] = {}  # when an agent tries again

    def note(self, event: Event, now: float) -> None:
        """Take in any event."""
        agent, data = event.agent or "", event.data
        match event.type:
            case "agent_spawned":
                self._names[agent] = escape_exact(str(data.get("name")))
            case "agent_state_changed" if data.get("to") in _ENDED:
                self._names.pop(agent, None)
                self._tries.pop(agent, None)
            case "retry_scheduled":
                self._tries[agent] = now + (data.get("delay_s") or 0)
            case "turn_started":
                self._tries.pop(agent, None)
            case "text_delta":
                self._streams.setdefault(agent, now)
                self._said[agent] = (data.get("at") or 0) + len(data["text"])
            case "message_completed" | "thinking_delta":
                self._end_stream(agent)
            case "turn_finished":
                self._end_stream(agent)
                self._calls = {key: call for key, call in self._calls.items() if key[0] != agent}
            case "tool_call_started" if not data.get("orchestration"):
                self._calls[agent, str(data.get("call"))] = str(data.get("tool")), now
            case "tool_call_finished":
                self._calls.pop((agent, str(data.get("call"))), None)
            case _:
                self._note_request(event, now)

    def _end_stream(self, agent: str) -> None:
        self._streams.pop(agent, None)
        self._said.pop(agent, None)

    def _note_request(self, event: Event, now: float) -> None:
        """Take in that something is asked or answered; what was asked about begins with that."""
        request = str(event.data.get("request"))
        if event.type == "permission_requested":
            self._asked[request] = event.agent or ""
        elif event.type == "permission_resolved":
            agent = self._asked.pop(request, None)
            for key, (tool, _) in self._calls.items():
                if key[0] == agent:
                    self._calls[key] = tool, now

    def told(self, now: float) -> str | None:
        """Return what is done longest, else a pause before another try; None: nothing is seen."""
        done = [
            (since, f"{self._whose(agent, ': ')}streaming {self._said[agent]:,} characters")
            for agent, since in self._streams.items()
        ]
        done += [
            (since, f"{self._whose(agent, ' > ')}{escape_exact(tool)}")
            for (agent, _), (tool, since) in self._calls.items()
            if agent not in self._asked.values()
        ]
        if not done:
            return self._told_pause(now)
        since, what = min(done)
        more = f", {len(done) - 1} more" if len(done) > 1 else ""
        return f"{what} ({format_duration(now - since)}){more}"

    def _told_pause(self, now: float) -> str | None:
        agent = min(self._tries, key=self._tries.__getitem__, default=None)
        if agent is None:
            return None
        left = format_duration(max(0.0, self._tries[agent] - now))
        return f"{self._names.get(agent, 'it')} tries again in {left}"

    def _whose(self, agent: str, sign: str) -> str:
        name = self._names.get(agent, "")
        return f"{name}{sign}" if name and (len(self._names) > 1 or sign != ": ") else ""
