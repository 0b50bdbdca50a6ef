"""The client of a control server: acts on a session that another process owns."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import aclosing, asynccontextmanager, suppress
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from prsm_core.domain.agents import PermissionMode
from prsm_core.engine.control.session_lock import find_owner, read_key
from prsm_core.engine.control.wire import (
    ANSWER_LIMIT,
    STARTABLE,
    WRONG,
    End,
    bad_answer,
    decode_answer,
    decode_part,
    encode_request,
    read_value,
)
from prsm_core.errors import ConfigError, ControlError
from prsm_core.interfaces.app_handle import (
    METHODS,
    Agents,
    Changes,
    Requests,
    Runs,
    Sessions,
    Snapshots,
    derive,
    operation_name,
)
from prsm_core.interfaces.runs import RunResult
from prsm_core.kit.arguments import check_limit, takes_checked
from prsm_core.kit.local_socket import short_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.engine.control.session_lock import Owner

CONNECT_SECONDS = 5.0  # for an owner that has only just begun
ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.02
_BUFFERED = 64 * 1024  # bytes: what waits here is no delta that the owner could still drop

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


T = TypeVar("T")


def _asked(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of AppHandle, or of one of its groups, as one that asks the owner."""
    name, taken = operation_name(method), signature(method)

    @wraps(method)
    async def ask(self: _Group | Asking, *args: Any, **more: Any) -> Any:
        app = self.app
        given = taken.bind(self, *args, **more).arguments
        del given["self"]
        if "via" in taken.parameters:
            given["via"] = given.get("via") or app.via
        images = given.pop("images", ())
        return read_value(name, await app.ask_with_images(name, images, **given))

    return ask


class _Group:
    """A group of AppHandle whose methods ask the owner of a session."""

    def __init__(self, app: Asking) -> None:
        self.app = app


class RemoteRun(Struct, eq=False):
    """RunHandle of a run in the owner's process."""

    _app: Asking
    run_id: str
    session: str
    since: int = 0

    async def result(self) -> RunResult:
        """Wait for the run's end; raises ControlError when the session is closed before it."""
        async with aclosing(self._app.stream("runs.result", run=self.run_id)) as values:
            async for value in values:
                return _result(value)
        raise ControlError(
            f"session {self.session} was closed before its run ended", code="session_closed"
        )


@takes_checked
class RemoteRuns(_Group, Runs):
    """The runs of a session that another process owns."""

    async def start(self, task: str, **overrides: Any) -> RemoteRun:
        """Start a run of `task` at the owner; see Runs."""
        if unknown := sorted(overrides.keys() - STARTABLE):
            raise ConfigError(f"a run in another process has no {', '.join(unknown)} of its own")
        check_limit(overrides.get("timeout_s"))
        told = {name: value for name, value in overrides.items() if value is not None}
        if "mcp_servers" in told:
            servers = told["mcp_servers"].items()
            told["mcp_servers"] = {name: asdict(server) for name, server in servers}
        return await self._begin("runs.start", told.pop("images", ()), task=task, **told)

    async def follow_up(self, task: str, images: Sequence[str] = ()) -> RemoteRun:
        """Give the last master a follow-up task; see Runs."""
        return await self._begin("runs.follow_up", images, task=task)

    async def set_mode(self, mode: PermissionMode) -> None:
        """Let the runs that begin from now on have this mode; see Runs."""
        await self.app.ask("runs.set_mode", mode=str(mode))
        self.app.note_mode(PermissionMode(mode))

    async def _begin(self, op: str, images: Sequence[str], **args: Any) -> RemoteRun:
        started = await self.app.ask_with_images(op, images, **args)
        return RemoteRun(self.app, started["run"], started["session"])


class _Changes(_Group, Changes):
    def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        return self.app.stream("changes.hold_files")


def asking_group(kind: type) -> Any:
    """Return a group that has all its methods."""
    base = kind if issubclass(kind, _Group) else type(kind.__name__, (_Group, kind), {})
    return takes_checked(derive(base, _asked))


_RUNS, _AGENTS, _REQUESTS, _CHANGES, _SNAPSHOTS, _SESSIONS = map(
    asking_group, (RemoteRuns, Agents, Requests, _Changes, Snapshots, Sessions)
)


def asks_owner(door: type[T]) -> type[T]:
    """Give a class the methods of AppHandle that are in no group, and have one answer."""
    for name, (method, _) in METHODS.items():
        if "." not in name:
            setattr(door, name, _asked(method))
    return door


@takes_checked
@asks_owner
class Asking:
    """What AppHandle has, but for its options and events, asked of the owner of a session.

    Each method raises the error that the owner met, and ControlError when the owner cannot be
    reached or ends before its answer.
    """

    def __init__(self, state_dir: Path, session: str, *, via: str) -> None:
        self.session = session
        self.via = via
        self._state_dir = state_dir
        self.runs: Runs = _RUNS(self)
        self.agents: Agents = _AGENTS(self)
        self.requests: Requests = _REQUESTS(self)
        self.changes: Changes = _CHANGES(self)
        self.snapshots: Snapshots = _SNAPSHOTS(self)
        self.sessions: Sessions = _SESSIONS(self)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name what `asks_owner` adds."""

    @property
    def app(self) -> Asking:
        """This very object, which its groups know by the same name."""
        return self

    async def ask(self, op: str, **args: Any) -> Any:
        """Return the answer of any operation that has one."""
        raise NotImplementedError

    async def ask_with_images(self, op: str, images: Sequence[str], **args: Any) -> Any:
        """Ask for what shows images, each a path, which this process reads, or a `data:` URL."""
        async with kept_images(self._state_dir, images) as shown:
            return await self.ask(op, **args, **shown)

    def note_mode(self, mode: PermissionMode) -> None:
        """Note the mode of the runs that begin from now on."""

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


class _Lines(Struct, eq=False):
    """The lines of a stream: each may be long, and few wait in this process to be read."""

    _reader: asyncio.StreamReader
    _session: str
    _whole: deque[bytes] = field(default_factory=deque)
    _begun: list[bytes] = []  # pieces of a line whose end has not come

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


def _result(value: Any) -> RunResult:
    try:
        return msgspec.convert(value, RunResult)
    except WRONG as error:
        raise bad_answer() from error


class ControlClient(Asking):
    """Asks the owner of a session over one connection, one request at a time."""

    def __init__(
        self, state_dir: Path, session: str, streams: _Streams, *, key: str = "", via: str = ""
    ) -> None:
        super().__init__(state_dir, session, via=via)
        self._reader, self._writer = streams
        self._key = key

    async def ping(self) -> Mapping[str, Any]:
        """Return the owner's session, pid and version of the protocol."""
        return cast("Mapping[str, Any]", await self.ask("ping"))

    async def ask(self, op: str, **args: Any) -> Any:
        """Return the answer of any operation that has one."""
        request = encode_request(op, args, self._key)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._writer.write(request)
                await self._writer.drain()
                line = await self._reader.readuntil(b"\n")
        except TimeoutError as error:
            raise silence(self.session, f"did not answer within {ANSWER_SECONDS:.0f} s") from error
        except asyncio.LimitOverrunError as error:
            raise ControlError(
                f"the answer of session {self.session} has more than {ANSWER_LIMIT} bytes",
                hint="ask for less, such as a page of fewer entries",
                code="line_too_long",
            ) from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise silence(self.session, "ended before it answered") from error
        return decode_answer(line)

    async def aclose(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def kept_images(
    state_dir: Path, images: Sequence[str]
) -> AsyncIterator[Mapping[str, Sequence[str]]]:
    """Yield what of a request tells its images: they are read and kept here, by the peer.

    So the owner of the session reads no path that a peer names, and what goes over the socket is
    short. This is left with the owner's answer: until then none of them is removed. Raises
    ConfigError for one that is unfit.
    """
    if not images:
        yield {}
        return
    from prsm_core.workspace.images import (  # few prompts have any
        IMAGES,
        holding_images,
        keep_images,
    )

    folder = state_dir / IMAGES
    async with holding_images(folder):
        yield {"images": await asyncio.to_thread(keep_images, images, folder)}


def silence(session: str, what: str) -> ControlError:
    """Return the error of an owner that tells nothing."""
    return ControlError(
        f"the owner of session {session} {what}",
        hint=f"`prsm tree {session}` shows what became of it",
        code="no_answer",
    )


@asynccontextmanager
async def open_control(
    state_dir: Path, session: str, *, via: str = ""
) -> AsyncIterator[ControlClient]:
    """Connect to the owner of a session; `via` is told as where a person's answers come from.

    The owner's key is shown to it, so that a person may do more than look.

    Raises:
        ControlError: nobody owns it (code `no_owner`), or its owner cannot be reached.
    """
    streams = await connect(state_dir, session)
    key = read_key(state_dir, session)
    client = ControlClient(state_dir, session, streams, key=key, via=via)
    try:
        yield client
    finally:
        await client.aclose()


async def connect(state_dir: Path, session: str, *, buffered: int = ANSWER_LIMIT) -> _Streams:
    """Return the streams of a new connection to the owner of a session; see open_control.

    What came and was not read yet takes little more than twice `buffered` bytes.
    """
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        owner = find_owner(state_dir, session)
        if owner is None:
            raise ControlError(
                f"nothing runs in session {session}",
                hint=f"`prsm tree {session}` shows what became of it",
                code="no_owner",
            )
        try:
            return await _open(owner, buffered)
        except (FileNotFoundError, ConnectionError) as error:
            if time.monotonic() > deadline:
                raise ControlError(
                    f"process {owner.process.pid}, which owns session {session}, does not listen",
                    hint="end that process if it hangs",
                    code="no_answer",
                ) from error
        await asyncio.sleep(_POLL_SECONDS)


async def _open(owner: Owner, buffered: int) -> _Streams:
    with short_name(owner.socket) as name:
        return await asyncio.open_unix_connection(name, limit=buffered)
