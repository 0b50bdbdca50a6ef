"""What a person types to the agents of a run: `do it` is for the master, `@w1 do it` for w1."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Protocol

from prsm_core.builtin.text import escape_exact, one_line
from prsm_core.errors import PrsmError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.builtin.screen import Screen
    from prsm_core.domain.events import Event

INVITE = "a line typed here is a prompt to the master, @NAME … to another agent"
DELIVERY = "inject"  # into the running turn, where the provider can
_TO = re.compile(r"\s*@(\S+)\s*(.*)", re.DOTALL)
_WHEN = {
    "injected": "it has it now",
    "queued": "it reads it at its next step",
    "interrupting": "its turn ends for it",
}
_WAITING = 100  # prompts that have not been sent


class Prompting(Protocol):
    """Where prompts go; every AppHandle is one."""

    async def prompt_agent(self, agent: str, text: str, delivery: str = "queue") -> str:
        """Send a person's prompt to an agent."""
        ...


class Prompter:
    """Sends typed lines one after the other, once there is a master to send them to."""

    def __init__(self, app: Prompting, screen: Screen) -> None:
        self._app = app
        self._screen = screen
        self._lines: asyncio.Queue[str] = asyncio.Queue(_WAITING)
        self._has_master = asyncio.Event()
        self._master = ""

    def note(self, event: Event) -> None:
        """Learn who leads."""
        if event.type == "agent_spawned" and event.agent and not event.data.get("parent"):
            self._master = event.agent
            self._has_master.set()

    def take(self, line: str) -> None:
        """Take a typed line."""
        try:
            self._lines.put_nowait(line)
        except asyncio.QueueFull:
            self._tell(line, f"not sent: {_WAITING} lines before it wait already")
            return
        if not self._has_master.is_set():
            self._tell(line, "waits for the master's beginning")

    async def serve(self) -> None:
        """Send what is typed until cancelled."""
        await self._has_master.wait()
        while True:
            line = await self._lines.get()
            named = _TO.fullmatch(line)
            to, text = named.groups() if named else (self._master, line)
            if text.strip():
                await self._send(to, text.strip(), "" if named is None else to)
            else:
                self._tell(line, "not sent: what is the prompt? @NAME, then what to tell it")

    def unsent(self) -> Sequence[str]:
        """Return the lines that nobody got."""
        left = []
        while not self._lines.empty():
            left.append(self._lines.get_nowait())
        return left

    async def _send(self, agent: str, text: str, name: str) -> None:
        try:
            delivery = await self._app.prompt_agent(agent, text, DELIVERY)
        except PrsmError as error:
            hint = f"; {error.hint}" if error.hint else ""
            self._tell(text, f"not sent: {escape_exact(error.message + hint)}")
            return
        to = f"to {escape_exact(name)}: " if name else ""
        self._tell(text, f"{to}{_WHEN.get(delivery, delivery)}")

    def _tell(self, line: str, what: str) -> None:
        self._screen.print_lines([f"you: {one_line(line)} ({what})"])
