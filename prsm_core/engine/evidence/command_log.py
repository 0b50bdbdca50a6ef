"""How commands that an agent says were run have ended, by the events of tool calls.

What the agents below it ran for it counts as its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from prsm_core.domain.events import Event

MAX_COMMANDS = 50  # of one claim

_ENDED = frozenset(state.value for state in AgentState if state.is_terminal)
_SHELLS = {False: "Bash", True: "run_bash"}  # the vendor's, and PRSM's own


class _End(StrEnum):
    """How a run of a command has ended."""

    SUCCEEDED = "succeeded"
    FAILED = "did not succeed"  # or has not ended
    UNKNOWN = "ended, but its exit code is not known"


class _Run(Record, frozen=True):
    """A run of a command: when it was last heard of, who ran it, and how it ended."""

    seq: int
    who: str  # "" is the agent itself
    end: _End


class CommandLog:
    """Follows the events of an agent and those below it for a few commands.

    The last run of each decides, whoever it was that ran it. A run has succeeded if its exit code
    is known to be 0: what a vendor does not tell proves nothing.
    """

    def __init__(self, commands: Sequence[str]) -> None:
        self._wanted = {_plain(command): command for command in commands[:MAX_COMMANDS]}
        self._left_out = len(commands) - MAX_COMMANDS
        self._open: dict[tuple[str, str], str] = {}  # by agent and call: the command
        self._runs: dict[str, _Run] = {}
        self._since = -1  # the agent itself has lived since then

    def read(self, event: Event, who: str = "") -> None:
        """Take the next event of the agent, or of one below it, by its path: `w1/w2`.

        All events of the agent itself come first, then those of each of the others.
        """
        data, seq = event.data, event.seq or 0
        if seq <= self._since:
            return
        if event.type == "tool_call_started":
            self._started(data, seq, who)
        elif event.type == "tool_call_finished":
            command = self._open.pop((who, data["call"]), None)
            if command is not None:
                self._note(command, _Run(seq, who, _end(data)))
        elif event.type == "agent_state_changed" and data.get("from") in _ENDED and not who:
            self._open.clear()  # another life has begun
            self._runs.clear()
            self._since = seq

    def gaps(self) -> list[str]:
        """Return what is wrong with the commands, and whose run was the last."""
        gaps = [
            f"`{command}` was not run" if run is None else f"`{command}` {_told(run)}"
            for command, run in self._found()
            if run is None or run.end is not _End.SUCCEEDED
        ]
        more = [f"{self._left_out} more commands were not checked"] * (self._left_out > 0)
        return gaps + more

    def others(self) -> list[str]:
        """Return who ran the commands that the agent itself did not, where they succeeded."""
        return [
            f"`{command}` was run by {run.who}"
            for command, run in self._found()
            if run is not None and run.who and run.end is _End.SUCCEEDED
        ]

    def _found(self) -> list[tuple[str, _Run | None]]:
        return [(command, self._runs.get(plain)) for plain, command in self._wanted.items()]

    def _started(self, data: Any, seq: int, who: str) -> None:
        command = (data.get("arguments") or {}).get("command")
        is_shell = data.get("tool") == _SHELLS[bool(data.get("orchestration"))]
        if is_shell and isinstance(command, str) and (plain := _plain(command)) in self._wanted:
            self._open[who, data["call"]] = plain
            self._note(plain, _Run(seq, who, _End.FAILED))  # until it has ended well

    def _note(self, command: str, run: _Run) -> None:
        known = self._runs.get(command)
        if known is None or known.seq <= run.seq:
            self._runs[command] = run


def _plain(command: str) -> str:
    return " ".join(command.split())


def _end(data: Any) -> _End:
    code = data.get("exit_code")
    if data.get("status") != "completed" or code not in (None, 0):
        return _End.FAILED
    return _End.UNKNOWN if code is None else _End.SUCCEEDED


def _told(run: _Run) -> str:
    return f"{run.end}, run by {run.who}" if run.who else str(run.end)
