"""The control server: other processes of the same user act on a running session through it.

It listens on a Unix socket beside the session's lock. Nothing that a peer sends, or fails to
send, reaches the engine but the operations of one table. Agents may look; what acts is for people.
Of an answer with many values each is sent when it comes, to a peer that may be slow, or leave.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self

from msgspec import Struct, field

from prsm_core.engine.control.operations import OPERATIONS, Operation, StartedRuns
from prsm_core.engine.control.peers import Peer, why_no_person
from prsm_core.engine.control.visits import Visits
from prsm_core.engine.control.wire import (
    PROTOCOL,
    REQUEST_LIMIT,
    decode_request,
    encode,
    encode_end,
    encode_error,
    encode_failure,
    encode_next,
    too_long,
)
from prsm_core.errors import ControlError, PrsmError
from prsm_core.kit.clocks import Parting, first_of
from prsm_core.kit.local_socket import bind_private

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from prsm_core.engine.control.session_lock import SessionLock
    from prsm_core.engine.control.wire import Request
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.frontend import AppHandle


BUFFERED = 64 * 1024  # bytes that are sent and not yet taken, beyond which it is waited


class Streamed:
    """The values of one operation on their way to a peer."""

    def __init__(self, values: AsyncIterator[Any], *, is_numbered: bool) -> None:
        """Take the values; those that are numbered are events, each with its `seq`."""
        self._values = values
        self._is_numbered = is_numbered
        self._sent = 0  # the number of the last event that was sent
        self._last: int | None = None  # the one to end with
        self._closing = asyncio.Event()

    def finish(self, last: int) -> None:
        """End after event `last`: the session is being closed."""
        self._last = last
        self._check_end()

    def _check_end(self) -> None:
        if self._last is not None and (not self._is_numbered or self._sent >= self._last):
            self._closing.set()

    async def send(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        clock: Clock,
        patience_s: float,
    ) -> None:
        """Send the values until there are no more, the peer leaves, or the session is closed.

        A peer that takes nothing for `patience_s` is cut off.
        """
        writer.write(encode({"ok": None}))
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_all(writer, clock, patience_s), name="send")
            ends = {
                sending,
                group.create_task(self._closing.wait(), name="close"),
                group.create_task(_left(reader), name="peer leaves"),
            }
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            is_over = self._closing.is_set() and not sending.done()
            for task in ends:
                task.cancel()
        if (close := getattr(self._values, "aclose", None)) is not None:
            await close()
        if is_over:
            writer.write(encode_end("the session is being closed"))
            await first_of(clock, patience_s, lambda: _drained(writer))

    async def _send_all(
        self, writer: asyncio.StreamWriter, clock: Clock, patience_s: float
    ) -> None:
        try:
            async for value in self._values:
                writer.write(encode_next(value))
                if not await _taken(writer, clock, patience_s):
                    return
                if self._is_numbered and value.seq is not None:
                    self._sent = value.seq
                    self._check_end()
            writer.write(encode_end("there is no more"))
        except Exception as error:  # noqa: BLE001 - the boundary: told to the peer, and logged
            writer.write(encode_failure(error))
        await first_of(clock, patience_s, lambda: _drained(writer))


async def _taken(writer: asyncio.StreamWriter, clock: Clock, patience_s: float) -> bool:
    """Return whether the peer keeps up, once it has had time to."""
    if writer.transport.is_closing():
        return False
    if writer.transport.get_write_buffer_size() <= BUFFERED:
        return True
    return await first_of(clock, patience_s, lambda: _drained(writer))


async def _drained(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # it has gone, which is seen elsewhere
        await writer.drain()


async def _left(reader: asyncio.StreamReader) -> None:
    """Return once the peer has closed its end, or says what nobody asked for."""
    with suppress(ConnectionError):
        await reader.read(1)


_log = logging.getLogger("prsm.engine")

MAX_CONNECTIONS = 32
REFUSED_SECONDS = 2.0  # for a peer that is refused to read it
IDLE_SECONDS = 30.0  # for a whole request to arrive, and for an answer to be taken
CLOSING_SECONDS = 10.0  # for what was asked before the end to be answered


class StartSoon(Protocol):
    """How tasks are started: OrchestrationEngine.start_soon."""

    def __call__(self, work: Coroutine[Any, Any, object], *, name: str) -> asyncio.Task[None]:
        """Run `work` in the engine's task group."""
        ...


class ControlServer:
    """Serves an application from entering to leaving; what was asked by then is answered.

    What runs is ended on leaving, while those who follow it are still there to be told.
    """

    def __init__(
        self,
        app: AppHandle,
        lock: SessionLock,
        *,
        start_soon: StartSoon,
        clock: Clock,
        operations: Mapping[str, Operation] = OPERATIONS,
        end: Callable[[], Awaitable[None]] | None = None,
        parting: Parting | None = None,
        visits: Visits | None = None,
    ) -> None:
        """Serve `app` to the peers of the session's `lock`; `end` ends its run.

        `parting` says how long peers are waited for at the end, `visits` has the requests counted.
        """
        self._lock = lock
        self._parting = parting or Parting(clock)
        self._visits = visits or Visits()
        self._end = end
        self._is_closing = False
        self._start_soon = start_soon
        self._clock = clock
        ping = Operation(self._ping, looks=True)
        self._operations = {"ping": ping, **StartedRuns().operations, **operations}
        self._app = app
        self._connections: set[_Connection] = set()
        self._refused: set[asyncio.Task[None]] = set()  # who is being told so
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        listening = _bind(self._lock)
        try:
            self._server = await asyncio.start_unix_server(
                self._accept, sock=listening, limit=REQUEST_LIMIT
            )
        except BaseException:
            listening.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_closing = True
        if self._server is not None:
            self._server.close()
        try:
            seconds = self._parting.most(CLOSING_SECONDS)
            await first_of(self._clock, seconds, self._until_answered)
            if self._end is not None:
                await self._end()
        finally:
            await self._close()

    async def _until_answered(self) -> None:
        """Wait until all requests that were there are answered: what runs may end then."""
        for connection in tuple(self._connections):
            await connection.at_rest.wait()

    async def _close(self) -> None:
        """Tell who follows how it ended, and end all connections."""
        last = await self._last_event()
        tasks = {connection.close(last) for connection in self._connections} | self._refused
        if tasks:
            seconds = self._parting.most(CLOSING_SECONDS)
            await first_of(self._clock, seconds, lambda: asyncio.wait(tasks))
        for task in tasks:
            task.cancel()

    async def _last_event(self) -> int:
        """Return the number of the session's last event, up to which readers are told."""
        if not any(connection.streamed for connection in self._connections):
            return 0
        try:
            return (await self._app.view()).seq
        except PrsmError as error:  # the ledger is broken: there is nothing more to tell
            _log.warning("readers are left where they are: %s", error)
            return 0

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer.of(writer.get_extra_info("socket"))
        refusal = self._refusal(peer)
        if refusal is not None:
            peer.close()
            writer.write(encode_error(refusal))
            self._let_go(reader, writer)
            return
        connection = _Connection(reader, writer, self._clock, peer, self.answer, self._visits)
        self._connections.add(connection)
        task = self._start_soon(connection.serve(), name="control connection")
        connection.task = task
        task.add_done_callback(lambda _: self._connections.discard(connection))
        task.add_done_callback(lambda _: connection.drop())

    def _let_go(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Close a connection once its peer has read why: one that still writes might not."""
        if len(self._refused) >= MAX_CONNECTIONS:
            writer.close()
            return

        async def until_left() -> None:
            with suppress(ConnectionError, EOFError, asyncio.LimitOverrunError):  # it has gone
                await reader.readuntil(b"\n")

        async def linger() -> None:
            try:
                await first_of(self._clock, REFUSED_SECONDS, until_left)
            finally:
                writer.close()

        task = self._start_soon(linger(), name="refused connection")
        self._refused.add(task)
        task.add_done_callback(self._refused.discard)

    def _refusal(self, peer: Peer) -> ControlError | None:
        if peer.is_foreign:
            return ControlError("this session belongs to another user", code="forbidden")
        if len(self._connections) >= MAX_CONNECTIONS:
            return ControlError(
                f"{MAX_CONNECTIONS} processes are talking to this session already",
                hint="try again",
                code="busy",
            )
        return None

    async def answer(self, line: bytes, peer: Peer) -> bytes | Streamed:
        """Return the answer to one request of a peer, whatever it holds."""
        try:
            request = decode_request(line)
            operation = self._operation(request.op)
            operation.check(request.op, request.args)
            if not operation.looks:
                self._check_person(peer, request)
            if operation.acts:
                self._check_open()
            args = request.args
            if "via" in operation.args.__struct_fields__:
                args = {**args, "via": _place_of(peer, args.get("via", ""))}
            value = await operation.run(self._app, args)
            if isinstance(value, AsyncIterator):
                return Streamed(value, is_numbered=request.op == "events")
            return encode({"ok": value})
        except Exception as error:  # noqa: BLE001 - the boundary: told to the peer, and logged
            return encode_failure(error)

    def _check_person(self, peer: Peer, request: Request) -> None:
        """Raise ControlError unless a person's process asks."""
        why = why_no_person(peer, request.key, self._lock)
        if why is None:
            _log.info("%s by %s", request.op, peer)
            return
        _log.warning("%s by %s was refused: %s", request.op, peer, why)
        raise ControlError(
            f"{request.op} is for a person, and {peer} is not taken for one: {why}",
            hint="agents may look: a person does this in a terminal that no agent has opened",
            code="not_a_person",
        )

    def _check_open(self) -> None:
        """Raise ControlError once the session is being closed."""
        if self._is_closing:
            raise ControlError(
                f"session {self._lock.session} is being closed",
                hint="`prsm run --session` opens it again once its process has ended",
                code="closing",
            )

    def _operation(self, name: str) -> Operation:
        operation = self._operations.get(name)
        if operation is None:
            known = ", ".join(self._operations)
            raise ControlError(
                f"there is no operation {name!r}", hint=f"known: {known}", code="unknown_op"
            )
        return operation

    async def _ping(self, _: AppHandle, __: Mapping[str, Any]) -> dict[str, Any]:
        return {"session": self._lock.session, "pid": os.getpid(), "protocol": PROTOCOL}


class _Connection(Struct, eq=False):
    """One peer: reads a request, answers it, reads the next one."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _clock: Clock
    _peer: Peer
    _answer: Callable[[bytes, Peer], Awaitable[bytes | Streamed]]
    _visits: Visits
    task: asyncio.Task[None] | None = None
    streamed: Streamed | None = None  # what is being sent, value by value
    # Set while no request waits for its one answer.
    at_rest: asyncio.Event = field(default_factory=asyncio.Event)
    _closing: bool = False

    def __post_init__(self) -> None:
        self.at_rest.set()

    async def serve(self) -> None:
        try:
            await self._serve()
        finally:
            self.at_rest.set()

    async def _serve(self) -> None:
        while not self._closing:
            request = await self._read()
            if request is None:
                return
            with self._visits.visit():
                if not await self._reply(request):
                    return
            self.at_rest.set()

    async def _reply(self, request: bytes | ControlError) -> bool:
        """Answer a request; return whether the peer may ask for more."""
        self.at_rest.clear()
        if isinstance(request, ControlError):
            self._closing = True  # where the next request begins is not known
            answer: bytes | Streamed = encode_error(request)
        else:
            answer = await self._answer(request, self._peer)
        if isinstance(answer, Streamed):  # the connection is for it alone from now on
            self.streamed = answer
            self.at_rest.set()
            await answer.send(self._reader, self._writer, self._clock, IDLE_SECONDS)
            return False
        return await self._write(answer)

    def close(self, last: int) -> asyncio.Task[None]:
        """End the connection, once the request it works on is answered; return its task.

        Who reads events is told those up to `last`.
        """
        if self.task is None:
            raise RuntimeError("the connection is not served")
        self._closing = True
        if self.streamed is not None:
            self.streamed.finish(last)
        elif self.at_rest.is_set():
            self.task.cancel()
        return self.task

    def drop(self) -> None:
        """Close the transport; what the peer did not take within its time is lost."""
        self._peer.close()
        if self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def _read(self) -> bytes | ControlError | None:
        """Return a request, what is wrong with it, or None when the peer has nothing to ask."""
        read: bytes | ControlError | None = None

        async def read_line() -> None:
            nonlocal read
            try:
                read = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                read = too_long()
            except (asyncio.IncompleteReadError, ConnectionError):
                read = None

        await first_of(self._clock, IDLE_SECONDS, read_line)
        return read

    async def _write(self, answer: bytes) -> bool:
        """Send an answer; return whether the peer took it in time."""

        async def drain() -> None:
            with suppress(ConnectionError):  # it has gone; the next read ends the connection
                await self._writer.drain()

        self._writer.write(answer)
        return await first_of(self._clock, IDLE_SECONDS, drain)


def _place_of(peer: Peer, told: str) -> str:
    """Return from where an answer came: what the peer calls itself, and what the kernel does."""
    return f"{told}, {peer}" if told else str(peer)


def _bind(lock: SessionLock) -> socket.socket:
    """Return a socket bound beside the lock, in place of one that a dead owner left."""
    path = lock.owner.socket
    try:
        return bind_private(path)
    except OSError as error:
        raise ControlError(
            f"{path}: cannot be listened on: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
            code="no_socket",
        ) from error
