"""The person at this terminal: what stands on their screen, what they answer, what they say.

What they type is a prompt: `do it` is for the master, `@w1 do it` for w1.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TextIO, cast

from prsm_console.asking import Answering, Desk, LineReader
from prsm_console.render import Ink, Renderer
from prsm_console.screen import Screen, can_move
from prsm_core import PrsmError
from prsm_core.kit import escape_exact, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_console.keyboard import Keyboard
    from prsm_console.live_screen import LiveScreen
    from prsm_core import Event


INVITE = "a line typed here is a prompt to the master, @NAME … to another agent"
DELIVERY = "inject"  # into the running turn, where the provider can
_TO = re.compile(r'\s*@([^\s/"]+)(?!\S)\s*(.*)', re.DOTALL)  # no name has these: a path may
_WHEN = {
    "injected": "it has it now",
    "queued": "it reads it at its next step",
    "interrupting": "its turn ends for it",
}
_WAITING = 100  # prompts that have not been sent
_ID = re.compile(r"[0-9a-f]{8,}")  # of an agent, or as much of it as `prsm tree` prints


class _Line(NamedTuple):
    """What was typed, and what of it is for whom; no name is the master."""

    typed: str
    name: str
    text: str

    @classmethod
    def read(cls, typed: str) -> Self:
        named = _TO.fullmatch(typed)
        name, text = named.groups() if named else ("", typed)
        return cls(typed.strip(), name, text.strip())


class Prompting(Protocol):
    """Where prompts go: the agents of an AppHandle."""

    async def prompt(self, agent: str, text: str, delivery: str = "queue") -> str:
        """Send a person's prompt to an agent."""


class Prompter:
    """Sends typed lines one after the other, once there is somebody to send them to.

    A name means the agent of that very name, or the beginning of an id as `prsm tree` prints it.
    What is for an agent that there is not yet is kept for it, and sent when it begins: a name is
    often typed before its agent is spawned, and the line is meant for nobody else.
    """

    def __init__(self, agents: Prompting, screen: Screen) -> None:
        self._to = agents
        self._screen = screen
        self._lines: asyncio.Queue[_Line] = asyncio.Queue()
        self._has_master = asyncio.Event()
        self._master = ""
        self._agents: dict[str, str] = {}  # ids by name
        self._kept: dict[str, list[_Line]] = {}  # for agents that there are not yet, by name
        self._own: Counter[str] = Counter()  # prompts on their way that nobody has shown, by agent

    def note(self, event: Event) -> bool:
        """Learn who leads, and who has begun; return whether this is the way of a line of ours."""
        if event.type == "message_routed" and event.data.get("kind") == "user_prompt":
            agent = str(event.data.get("to"))
            is_own = self._own[agent] > 0
            self._own[agent] -= is_own
            return is_own
        if event.type == "agent_spawned" and event.agent:
            self._note_agent(event, event.agent)
        return False

    def _note_agent(self, event: Event, agent: str) -> None:
        name = str(event.data.get("name"))
        self._agents[name] = agent
        if not event.data.get("parent"):
            self._master = agent
            self._has_master.set()
        for line in self._kept.pop(name, ()):
            self._lines.put_nowait(line)

    def take(self, typed: str) -> None:
        """Take a typed line."""
        line = _Line.read(typed)
        if self._lines.qsize() + sum(map(len, self._kept.values())) >= _WAITING:
            self._tell(line, f"not sent: {_WAITING} lines before it wait already")
            return
        self._lines.put_nowait(line)
        if not self._has_master.is_set():
            self._tell(line, "waits for the master's beginning")

    async def serve(self) -> None:
        """Send what is typed until cancelled."""
        await self._has_master.wait()
        while True:
            line = await self._lines.get()
            agent = self._agent_of(line)
            if not line.text:
                self._tell(line, "not sent: what is the prompt? @NAME, then what to tell it")
            elif agent is None:
                self._keep(line)
            else:
                await self._send(agent, line)

    def unsent(self) -> Sequence[str]:
        """Return the lines that nobody got."""
        left = []
        while not self._lines.empty():
            left.append(self._lines.get_nowait())
        return [line.typed for line in (*left, *chain(*self._kept.values()))]

    def _agent_of(self, line: _Line) -> str | None:
        """Return the id of the agent that a line is for, None where there is none yet."""
        if not line.name:
            return self._master
        if line.name in self._agents or not _ID.fullmatch(line.name):
            return self._agents.get(line.name)
        fitting = [agent for agent in self._agents.values() if agent.startswith(line.name)]
        return fitting[0] if len(fitting) == 1 else None

    def _keep(self, line: _Line) -> None:
        self._kept.setdefault(line.name, []).append(line)
        from difflib import get_close_matches

        near = get_close_matches(line.name, self._agents, n=1)
        meant = f", did you mean @{escape_exact(near[0])}?" if near else ""
        known = ", ".join(map(escape_exact, self._agents))
        self._tell(line, f"kept until there is an agent of that name{meant}; now: {known}")

    async def _send(self, agent: str, line: _Line) -> None:
        self._own[agent] += 1  # its event may come before the answer
        try:
            delivery = await self._to.prompt(agent, line.text, DELIVERY)
        except PrsmError as error:
            self._own[agent] -= 1
            hint = f"; {error.hint}" if error.hint else ""
            self._tell(line, f"not sent: {escape_exact(error.message + hint)}")
            return
        self._tell(line, _WHEN.get(delivery, delivery))

    def _tell(self, line: _Line, what: str) -> None:
        self._screen.print_lines([f"you: {first_line(line.typed)} ({what})"])


class Person:
    """Owns the terminal for as long as a run is shown on it.

    Args:
        requests: Where answers go.
        agents: Where prompts go.
        err: What is shown, is shown here.
        stdin: The descriptor that is read. Typed lines are read from a terminal alone; a pipe is
            read for answers.
        is_asked: Whether requests are put to the person, or only shown.
        leaves: Whether the end of input is the person's leave, rather than a refusal.
    """

    def __init__(
        self,
        requests: Answering,
        agents: Prompting,
        *,
        err: TextIO,
        stdin: int | None,
        is_asked: bool = True,
        leaves: bool = False,
    ) -> None:
        is_plain = not err.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self.renderer = Renderer(Ink(not is_plain))
        types = stdin is not None and os.isatty(stdin)
        self._stderr = sys.stderr
        self.screen = Screen(err)
        view: LiveScreen | None = None
        if can_move(err):
            from prsm_console.live_screen import AboveScreen, LiveScreen

            self.screen = view = LiveScreen(err, invite=INVITE if types else "")
            if sys.stderr is err:
                sys.stderr = cast("TextIO", AboveScreen(view, err))
        self.prompter = Prompter(agents, self.screen)
        self.keyboard: Keyboard | None = None
        if stdin is not None and types:
            from prsm_console.keyboard import Keyboard

            self.keyboard = Keyboard(
                stdin,
                on_prompt=self.prompter.take,
                tell=lambda text: self.screen.print_lines([text]),
                view=view,
                leaves=leaves,
            )
        reader = self.keyboard or LineReader(stdin)
        on_prompt = self.prompter.take if self.keyboard is not None else None
        self._desk = Desk(requests, reader, self.screen, self.renderer.lines, on_prompt)
        self._is_asked = is_asked

    def show(self, event: Event) -> bool:
        """Show an event that is committed; return whether that printed anything."""
        is_own = self.prompter.note(event)  # which is shown as what was typed, with its fate
        if is_own or (self._is_asked and self._desk.note(event)):
            return False
        lines = self.renderer.lines(event)
        self.screen.print_lines(lines)
        return bool(lines)

    def learn(self, event: Event) -> None:
        """Remember what an event that is past says of names and calls."""
        self.prompter.note(event)
        self.renderer.lines(event)

    def refresh(self) -> None:
        """Follow the terminal: call it every second."""
        if self.keyboard is not None:
            self.screen.step_back(not self.keyboard.refresh())

    async def serve(self) -> None:
        """Read and answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self.keyboard is not None:
                _ = group.create_task(self.keyboard.serve(), name="read the terminal")
                _ = group.create_task(self.prompter.serve(), name="send prompts")
            if self._is_asked:
                _ = group.create_task(self._desk.serve(), name="ask the user")

    def close(self) -> None:
        """Give the terminal back; what was typed and reached nobody is told."""
        self.screen.close()
        sys.stderr = self._stderr
        left = list(self.prompter.unsent())
        if self.keyboard is not None:
            left += [self.keyboard.draft] if self.keyboard.draft.strip() else []
            self.keyboard.close()
        self.screen.print_lines([f"not sent: {first_line(line)}" for line in left])
