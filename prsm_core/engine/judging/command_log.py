"""How commands that an agent says it ran have ended, by the events of its own tool calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.events import Event

MAX_COMMANDS = 50  # of one claim

_ENDED = frozenset(state.value for state in AgentState if state.is_terminal)
# The beginning of what run_bash answers: the rest may have been cut off.
_EXIT_CODE = re.compile(r'\{"exit_code":(-?\d+)[,}]')


class CommandLog:
    """Follows one agent's events for a few commands; the last run of each decides.

    A call with a `command` is a shell's, the vendor's or run_bash. A vendor tells a command that
    failed from one that ended with status 0.
    """

    def __init__(self, commands: Sequence[str]) -> None:
        self._wanted = {_plain(command): command for command in commands[:MAX_COMMANDS]}
        self._left_out = len(commands) - MAX_COMMANDS
        self._open: dict[str, tuple[str, bool]] = {}  # by call: the command, is it run_bash
        self._ends: dict[str, bool] = {}

    def read(self, event: Event) -> None:
        """Take the next event of the agent."""
        data = event.data
        if event.type == "tool_call_started":
            command = (data.get("arguments") or {}).get("command")
            if isinstance(command, str) and (plain := _plain(command)) in self._wanted:
                self._open[data["call"]] = plain, bool(data.get("orchestration"))
                self._ends[plain] = False  # until it has ended well
        elif event.type == "tool_call_finished" and data["call"] in self._open:
            plain, is_ours = self._open.pop(data["call"])
            self._ends[plain] = _succeeded(event, is_ours)
        elif event.type == "agent_state_changed" and data.get("from") in _ENDED:
            self._open.clear()  # another life has begun
            self._ends.clear()

    def gaps(self) -> list[str]:
        """Return what is wrong with the commands."""
        gaps = [
            f"`{command}` was not run"
            if plain not in self._ends
            else f"`{command}` did not succeed"
            for plain, command in self._wanted.items()
            if not self._ends.get(plain)
        ]
        more = [f"{self._left_out} more commands were not checked"] * (self._left_out > 0)
        return gaps + more


def _plain(command: str) -> str:
    return " ".join(command.split())


def _succeeded(event: Event, is_ours: bool) -> bool:
    if event.data.get("status") != "completed":
        return False
    code = _EXIT_CODE.match(event.data.get("result") or "")
    return not is_ours or (code is not None and code[1] == "0")
