"""A second terminal: the events of a session as they are committed, and a person's answers."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsm_console.asking import REQUESTS
from prsm_console.closing import conclusion
from prsm_console.liveness import Liveness
from prsm_console.person import Person
from prsm_core import Spent
from prsm_core.kit import escape_exact, first_line
from prsm_core.terminal import SystemClock, code_of, room_in, stdin_descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core import Event
    from prsm_core.terminal import SessionOwner

KILLED = ": its process did, before the run was finished"
COMPLETED, FAILED = 0, 1  # exit codes
_TURNS_OF_RUN = frozenset({"run_started", "run_resumed", "run_finished"})
_LEFT = "left; the run goes on"
_LEAVE = "its agents' requests are put to you; Ctrl-C leaves, and the run goes on"
_ONLY_SHOWN = "stdin is no terminal: what its agents ask is only shown, `prsm answer` answers it"


class Attached:
    """Shows one session on this terminal."""

    def __init__(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._asks = sys.stdin is not None and sys.stdin.isatty()
        self._err = sys.stderr
        self._person = Person(
            owner,
            err=self._err,
            stdin=stdin_descriptor() if self._asks else None,
            is_asked=self._asks,
            leaves=True,
        )
        self._liveness = Liveness(self._person.screen, SystemClock(), self._person.refresh)
        self._seen = 0  # the number of the last event
        self._run_is_open = False
        self._code = COMPLETED  # of the run that ended last
        self._names: dict[str, str] = {}

    async def run(self) -> int:
        """Show what happens until the session's owner has ended or the person leaves.

        Returns the exit code; see `attach_session`.
        """
        self._say(f"attached to session {self._owner.session}: {first_line(self._owner.task)}")
        self._say(_LEAVE if self._asks else _ONLY_SHOWN)
        spent = await self._owner.spent()
        if spent != Spent():
            self._say(f"so far, turns that run included: {spent.text}")
        try:
            with _signalled() as leaving:
                await self._catch_up()
                is_over = await self._until_end(leaving)
            if is_over:
                await self._read()
        finally:
            self._person.close()
        self._say(self._end() if is_over else _LEFT)
        if not is_over:
            return COMPLETED
        return FAILED if self._run_is_open else self._code

    def _end(self) -> str:
        return f"the session has ended{KILLED if self._run_is_open else ''}"

    async def _catch_up(self) -> None:
        """Learn what has happened; show what is still open, and how a run that is over ended."""
        asked: dict[str, Event] = {}
        end: Event | None = None
        async for event in self._owner.events():
            self._note(event)
            self._person.learn(event)
            if event.type in REQUESTS:
                asked[event.data["request"]] = event
            elif event.type in _TURNS_OF_RUN:
                end = event if event.type == "run_finished" else None
        if end is not None:
            self._show(end)
        is_open = await self._owner.open_requests()
        for request, event in asked.items():
            if request in is_open:
                self._show(event)

    async def _until_end(self, leaving: asyncio.Event) -> bool:
        """Show and ask; return whether the session has ended, rather than the person left."""
        async with asyncio.TaskGroup() as group:
            gone = group.create_task(self._owner.until_gone(attending=self._asks), name="owner")
            ends = {gone, group.create_task(leaving.wait(), name="leave")}
            helpers = [group.create_task(self._read(follow=True), name="read")]
            helpers.append(group.create_task(self._person.serve(), name="serve the person"))
            helpers.append(group.create_task(self._liveness.watch(), name="status"))
            if (keyboard := self._person.keyboard) is not None:
                ends.add(group.create_task(keyboard.ended.wait(), name="end of input"))
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (*ends, *helpers):
                task.cancel()
        return gone.done() and not gone.cancelled()

    async def _read(self, *, follow: bool = False) -> None:
        """Show the events that have not been shown."""
        async for event in self._owner.events(self._seen, follow=follow):
            self._note(event)
            self._show(event)
            await room_in(self._err)

    def _note(self, event: Event) -> None:
        self._seen = event.seq or self._seen
        if event.type == "agent_spawned" and event.agent is not None:
            self._names[event.agent] = escape_exact(str(event.data.get("name")))
        if event.type in _TURNS_OF_RUN:
            self._run_is_open = event.type != "run_finished"
        if event.type == "run_finished":
            self._code = code_of(event.data)

    def _show(self, event: Event) -> None:
        self._liveness.note(event)
        if event.type == "run_finished":
            self._person.screen.print_lines(conclusion(event, self._names))
        else:
            self._liveness.printed(self._person.show(event))

    def _say(self, text: str) -> None:
        self._person.screen.print_lines([f"prsm: {text}"])


@contextmanager
def _signalled() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set."""
    loop, leaving = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, leaving.set)
    try:
        yield leaving
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
