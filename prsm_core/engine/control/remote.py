"""RemoteApp: AppHandle over the control socket of the process that owns a session.

So a command can have the agents of all engines in a working tree write nothing while it acts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.events import Event
from prsm_core.engine.control.client import ANSWER_SECONDS, Asking, connect, open_control, silence
from prsm_core.engine.control.session_lock import find_owner, read_key
from prsm_core.engine.control.wire import (
    ANSWER_LIMIT,
    PROTOCOL,
    STARTABLE,
    WRONG,
    End,
    bad_answer,
    decode_answer,
    decode_part,
    encode_request,
)
from prsm_core.errors import ConfigError, ControlError
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_core.kit.arguments import check_limit, takes_checked
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence


_BUFFERED = 64 * 1024  # bytes: what waits here is no delta that the owner could still drop


class RemoteRun:
    """RunHandle of a run in the owner's process."""

    def __init__(self, app: RemoteApp, run_id: str, session: str, since: int = 0) -> None:
        self.run_id = run_id
        self.session = session
        self.since = since
        self._app = app

    async def result(self) -> RunResult:
        """Wait for the run's end; raises ControlError when the session is closed before it."""
        async with aclosing(self._app.stream("result", run=self.run_id)) as values:
            async for value in values:
                return _result(value)
        raise ControlError(
            f"session {self.session} was closed before its run ended", code="session_closed"
        )


@takes_checked
class RemoteApp(Asking):
    """AppHandle over another process; each operation has a connection of its own.

    Every method raises the error that the owner met, and ControlError when the owner cannot be
    reached or ends before its answer.
    """

    def __init__(self, state_dir: Path, session: str, options: RunOptions, *, via: str) -> None:
        super().__init__(state_dir, session, via=via)
        self.options = options

    async def start_run(self, task: str, **overrides: Any) -> RemoteRun:
        """Start a run of `task` at the owner; see AppHandle."""
        if unknown := sorted(overrides.keys() - STARTABLE):
            raise ConfigError(f"a run in another process has no {', '.join(unknown)} of its own")
        check_limit(overrides.get("timeout_s"))
        told = {name: value for name, value in overrides.items() if value is not None}
        if "mcp_servers" in told:
            servers = told["mcp_servers"].items()
            told["mcp_servers"] = {name: asdict(server) for name, server in servers}
        images = told.pop("images", ())
        return self._run(await self._ask_with_images("start_run", images, task=task, **told))

    async def continue_run(self, task: str, images: Sequence[str] = ()) -> RemoteRun:
        """Give the last master a follow-up task; see AppHandle."""
        return self._run(await self._ask_with_images("continue_run", images, task=task))

    def _run(self, started: Mapping[str, Any]) -> RemoteRun:
        return RemoteRun(self, started["run"], started["session"])

    async def set_mode(self, mode: PermissionMode) -> None:
        """Let the runs that begin from now on have this mode; see AppHandle."""
        await self.ask("set_mode", mode=str(mode))
        self.options = replace(self.options, mode=PermissionMode(mode))

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Yield committed events, then live ones with deltas; see AppHandle.

        It ends when the owner closes the session. Raises ControlError (code `no_answer`) where the
        owner ends without a word, or cuts off a reader that takes nothing.
        """
        async with aclosing(self.stream("subscribe", after=after)) as values:
            async for value in values:
                yield _event(value)

    def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        """Keep agents from beginning to write for as long as this is open; see AppHandle."""
        return self.stream("hold_files")

    async def ask(self, op: str, **args: Any) -> Any:
        """Return the answer of any operation that has one, over a connection of its own."""
        async with open_control(self._state_dir, self.session) as client:
            return await client.ask(op, **args)

    async def stream(self, op: str, **args: Any) -> AsyncGenerator[Any, None]:
        """Yield the values of an operation that has many, over a connection of its own."""
        reader, writer = await connect(self._state_dir, self.session, buffered=_BUFFERED)
        lines = _Lines(reader, self.session)
        try:
            writer.write(encode_request(op, args, read_key(self._state_dir, self.session)))
            async with asyncio.timeout(ANSWER_SECONDS):
                decode_answer(await lines.next())
            while not isinstance(part := decode_part(await lines.next()), End):
                yield part
        except TimeoutError as error:
            raise silence(self.session, f"did not answer within {ANSWER_SECONDS:.0f} s") from error
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


class _Lines:
    """The lines of a stream: each may be long, and few wait in this process to be read."""

    def __init__(self, reader: asyncio.StreamReader, session: str) -> None:
        self._reader = reader
        self._session = session
        self._whole: deque[bytes] = deque()
        self._begun: list[bytes] = []  # pieces of a line whose end has not come

    async def next(self) -> bytes:
        """Return the next line; raises ControlError where the owner has gone."""
        while not self._whole:
            try:
                piece = await self._reader.read(_BUFFERED)
            except ConnectionError:
                piece = b""
            if not piece:
                raise silence(self._session, "ended, or cut this reader off, without a word")
            self._take(piece)
        return self._whole.popleft()

    def _take(self, piece: bytes) -> None:
        first, *others = piece.split(b"\n")
        self._begun.append(first)
        if others:
            self._whole.append(b"".join(self._begun))
            self._whole.extend(others[:-1])
            self._begun = [others[-1]]
        elif sum(map(len, self._begun)) > ANSWER_LIMIT:
            raise bad_answer()


def _event(value: Any) -> Event:
    try:
        return Event(**value)
    except WRONG as error:
        raise bad_answer() from error


def _result(value: Any) -> RunResult:
    try:
        return msgspec.convert(value, RunResult)
    except WRONG as error:
        raise bad_answer() from error


def _options(value: Any, session: str) -> RunOptions:
    try:
        return RunOptions(**{**value, "mode": PermissionMode(value["mode"]), "session": session})
    except WRONG as error:
        raise bad_answer() from error


@asynccontextmanager
async def open_remote(state_dir: Path, session: str, *, via: str = "") -> AsyncIterator[RemoteApp]:
    """Reach the owner of a session; `via` is told as where a person's answers come from.

    Raises:
        ControlError: nobody owns it (code `no_owner`), its owner cannot be reached, or is of a
            version that speaks otherwise (code `other_version`).
    """
    async with open_control(state_dir, session) as client:
        told = await client.ping()
        spoken = told.get("protocol") if isinstance(told, dict) else None
        if spoken != PROTOCOL:
            raise ControlError(
                f"the owner of session {session} speaks version {spoken} of the protocol, "
                f"this prsm version {PROTOCOL}",
                hint="use the same version of prsm for both",
                code="other_version",
            )
        options = _options(await client.ask("options"), session)
    yield RemoteApp(state_dir, session, options, via=via)  # type: ignore[abstract]


_OVER = frozenset({"no_owner", "closing"})  # codes of errors: its agents write no more


@asynccontextmanager
async def held(
    state: Path, folder: Path, *, but: str | None = None
) -> AsyncIterator[Sequence[str]]:
    """Hold the files that a folder is part of; yield the agents that may write all the same.

    Every engine that works there is asked, `but` that of one session, and waits for its agents, for
    ten seconds. What this process dies of releases the files. Raises ControlError for an engine
    that does not answer.
    """
    root = repo_identity(folder).root
    known = sorted(lock.stem for lock in (state / "runs").glob("*.lock"))
    running = [one for one in known if one != but and find_owner(state, one) is not None]
    async with AsyncExitStack() as stack:
        found = await asyncio.gather(*(_hold(stack, state, root, one) for one in running))
        yield [writer for writers in found for writer in writers]


async def _hold(stack: AsyncExitStack, state: Path, root: Path, session: str) -> Sequence[str]:
    """Hold the files of a session, if it works in that working tree."""
    try:
        app = await stack.enter_async_context(open_remote(state, session))
        if repo_identity(Path(app.options.workspace)).root != root:
            return ()
        values = app.hold_files()
        stack.push_async_callback(values.aclose)
        return await anext(values)
    except ControlError as error:
        if error.code in _OVER:  # it has ended meanwhile
            return ()
        raise


def require_quiet(writers: Sequence[str]) -> None:
    """Raise ConfigError while agents write: what they do would be mixed with what is restored."""
    if writers:
        raise ConfigError(
            f"nothing was changed, because an agent writes here: {'; '.join(writers)}",
            hint="let it end, or end it with `prsm kill`, then try again",
            code="agents_write",
        )
