"""A second terminal: the events of a session as they are committed, and a person's answers.

Joins a run that another process has begun: for frontends that begin one and end with it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from prsm_core.builtin.closing import problem_lines
from prsm_core.builtin.foreground import leaving_nothing_typed, stdin_descriptor
from prsm_core.builtin.liveness import Liveness
from prsm_core.builtin.person import Person
from prsm_core.builtin.render import hanging
from prsm_core.cli.control import GONE, choose_running, open_running, state_dir
from prsm_core.cli.ledger import open_session
from prsm_core.cli.running import build_frontend, interruptible, session_frontend, stdout_of
from prsm_core.cli.saying import say
from prsm_core.cli.setup import load_setup
from prsm_core.domain.account import COMPLETED, FAILED, code_of, problems_of
from prsm_core.domain.events import ends_run
from prsm_core.domain.usage import Spent
from prsm_core.engine.control.remote import RemoteApp, RemoteRun, open_remote
from prsm_core.errors import ControlError
from prsm_core.interfaces.frontend import RunResult
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.text import escape_exact, escape_prose, first_line
from prsm_core.loop.output import hurry_output, room_in, write_aside
from prsm_core.loop.run import run_to_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from prsm_core.cli.launch import Launch
    from prsm_core.domain.events import Event
    from prsm_core.domain.permissions import Answer
    from prsm_core.engine.control.client import ControlClient
    from prsm_core.interfaces.frontend import Frontend
    from prsm_core.interfaces.store import SessionInfo, Store

T = TypeVar("T")

BEAT_SECONDS = 1.0  # between two signs that somebody is there
_REQUESTS = frozenset({"permission_requested", "question_asked"})
_TURNS_OF_RUN = frozenset({"run_started", "run_resumed", "run_finished"})
_VIA = "prsm attach"
_LEFT = "left; the run goes on"
_LEAVE = "its agents' requests are put to you; Ctrl-C leaves, and the run goes on"
_ONLY_SHOWN = "stdin is no terminal: what its agents ask is only shown, `prsm answer` answers it"


async def attach_session(workspace: str, prefix: str | None) -> int:
    """Follow a session that runs, and let the person answer, until it ends or they leave.

    Returns the exit code of the run that ended last, 0 for a person who leaves before, and 1 where
    the session's process died.

    Raises:
        PrsmError: nothing runs.
    """
    write_aside()
    with leaving_nothing_typed(stdin_descriptor()):
        return await _attach(workspace, prefix)


def attach_frontend(launch: Launch, workspace: str, prefix: str | None, ui: str) -> int:
    """Let a frontend show a session that runs elsewhere; return its exit code.

    One that ends with its run is given the run that is open. The console has a way of its own.

    Raises:
        PrsmError: nothing runs, or there is no such frontend.
    """
    write_aside()
    setup = load_setup(launch, workspace)
    spec = session_frontend(setup.plugins, ui)
    if ui == "console":
        return run_to_end(attach_session(workspace, prefix))
    frontend = build_frontend(setup.plugins, spec)
    with leaving_nothing_typed(stdin_descriptor()):
        return run_to_end(_drive(frontend, workspace, prefix, stays=spec.stays))


async def _drive(frontend: Frontend, workspace: str, prefix: str | None, *, stays: bool) -> int:
    session, state, via = await choose_running(workspace, prefix), state_dir(workspace), _VIA
    with stdout_of(frontend):
        try:
            with interruptible():
                async with open_remote(state, session, via=via) as app:
                    if stays:
                        return await frontend.run(app)
                    joined = JoinedApp(app, state, await app.view(), via=via)
                    return await frontend.run(joined)
        except KeyboardInterrupt:
            hurry_output(even_results=True)
            say(f"prsm: {_LEFT}", err=True)
            return 0


async def _attach(workspace: str, prefix: str | None) -> int:
    async with (
        await open_running(workspace, prefix, via=_VIA) as client,
        open_session(workspace, client.session) as (store, info),
    ):
        return await Attached(Owner(client), store, info).run()


KILLED = ": its process did, before the run was finished"


class Owner:
    """The owner of the session, asked one thing at a time; once it has gone it takes no answer."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client
        self._turn = asyncio.Lock()

    async def resolve_permission(self, request: str, verdict: str) -> bool:
        """Answer a permission request; see AppHandle."""
        return await self._give(lambda: self._client.resolve_permission(request, verdict))

    async def answer(self, request: str, answer: Answer) -> bool:
        """Answer a question; see AppHandle."""
        return await self._give(lambda: self._client.answer(request, answer))

    async def prompt_agent(self, agent: str, text: str, delivery: str = "queue") -> str:
        """Send a prompt to an agent; see AppHandle."""
        async with self._turn:
            return await self._client.prompt_agent(agent, text, delivery)

    async def open_requests(self) -> set[str]:
        """Return the ids of what waits for an answer; with its owner a session's requests end."""
        requests = await self._while_there(self._client.requests)
        return {request["request"] for request in requests or ()}

    async def spent(self) -> Spent:
        """Return what the agents have used so far; nothing where the owner does not tell it."""
        tree = await self._while_there(self._client.tree)
        return Spent.from_dict((tree or {}).get("spent") or {})

    async def until_gone(self, *, attending: bool) -> None:
        """Tell the owner now and again that a person is there; return once it has ended."""
        sign = self._client.attend if attending else self._client.ping
        while True:
            if not await self._while_there(lambda: _done(sign)):
                return
            await asyncio.sleep(BEAT_SECONDS)

    async def _give(self, answer: Callable[[], Awaitable[bool]]) -> bool:
        return bool(await self._while_there(answer))

    async def _while_there(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Ask the owner; None once it has ended, which it may at any moment."""
        try:
            async with self._turn:
                return await ask()
        except ControlError as error:
            if error.code not in GONE:
                raise
            return None


async def _done(work: Callable[[], Awaitable[object]]) -> bool:
    await work()
    return True


class Attached:
    """Shows one session on this terminal."""

    def __init__(self, owner: Owner, store: Store, info: SessionInfo) -> None:
        self._owner = owner
        self._store = store
        self._info = info
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
        self._say(f"attached to session {self._info.session_id}: {first_line(self._info.task)}")
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
        async for event in self._store.events(self._info.session_id):
            self._note(event)
            self._person.learn(event)
            if event.type in _REQUESTS:
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
        session = self._info.session_id
        async for event in self._store.events(session, self._seen, follow=follow):
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
            self._person.screen.print_lines(_conclusion(event, self._names))
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


def _conclusion(event: Event, names: Mapping[str, str]) -> list[str]:
    error, summary = event.data.get("error"), event.data.get("summary")
    told = [*hanging("error: ", escape_prose(error))] if error else []
    told += [f"  {line}" for line in escape_prose(summary).splitlines()] if summary else []
    used = Spent.from_dict({**(event.data.get("usage") or {}), **event.data}).text
    told += problem_lines(problems_of(event.data), names)
    return [f"the run has ended: {escape_exact(str(event.data.get('status')))}, {used}", *told]


class JoinedRun(RemoteRun):
    """The handle of a run that is open; its end is read from its events."""

    def __init__(self, app: RemoteApp, run_id: str, session: str, since: int) -> None:
        super().__init__(app, run_id, session, since)
        self._app = app

    async def result(self) -> RunResult:
        """Wait for the run's end; raises ControlError when the session is closed before it."""
        async with aclosing(self._app.events(self.since)) as events:
            async for event in events:
                if ends_run(event, self.run_id, self.since):
                    return _result(event.data)
        raise ControlError(
            f"session {self.session} was closed before its run ended", code="session_closed"
        )


class JoinedApp(RemoteApp):
    """The owner of a session, with its open run as the first that is started."""

    def __init__(
        self, app: RemoteApp, state_dir: Path, view: Mapping[str, Any], *, via: str
    ) -> None:
        """Join the run of a session that is open as it is viewed."""
        run = view["run"] or {"task": None, "status": None}
        options = replace(app.options, task=run["task"])
        super().__init__(state_dir, app.session, options, via=via)
        self._is_joined = False
        self._open: JoinedRun | None = None
        if run["status"] == "running":
            self._open = JoinedRun(self, run["id"], app.session, view["seq"])

    async def start_run(self, task: str, **overrides: Any) -> RemoteRun:
        """Return the open run, once; after that start another at the owner.

        Raises ControlError (code `no_run`) where none was open.
        """
        if self._is_joined:
            return await super().start_run(task, **overrides)
        if self._open is None:
            raise ControlError(
                f"no run is open in session {self.session}",
                hint="`prsm events` prints what it did",
                code="no_run",
            )
        self._is_joined = True
        return self._open


def _result(told: Mapping[str, Any]) -> RunResult:
    spent = Spent.from_dict({**(told.get("usage") or {}), **told})
    return RunResult(
        status=told["status"],
        summary=told.get("summary") or "",
        exit_code=code_of(told),
        error=told.get("error"),
        usage=spent.usage,
        spent=spent,
        problems=problems_of(told),
    )
