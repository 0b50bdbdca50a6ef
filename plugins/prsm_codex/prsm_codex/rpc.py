"""JSON-RPC with an app-server, in both directions."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any, Protocol

from prsm_codex.errors import NOISE
from prsm_core import ProcessError
from prsm_core.kit import Ending, Exit, as_object, first_of, one_line, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Process, ProviderServices

REQUEST_SECONDS = 60.0
_MAX_OPEN = 1024  # requests of the server that are being worked on
_LOST_SECONDS = 1.0  # between the end of stdin and the end of the process

Json = dict[str, Any]
METHOD_NOT_FOUND = -32601
REFUSED = -32000


class RpcError(ProcessError):
    """The app-server answered a request with an error."""

    code = "codex_rpc"


class RpcClosedError(RpcError):
    """The app-server has ended; `why` is the reason, `tail` the last telling lines of stderr."""

    code = "codex_ended"

    def __init__(self, why: str, *, tail: str = "") -> None:
        super().__init__(f"codex app-server ended: {why}", hint="The next turn starts it again.")
        self.why = why
        self.tail = tail


class ServerRequest:
    """A request of the app-server. It is answered at most once."""

    def __init__(self, rpc: Rpc, number: Any, method: str, params: Json) -> None:
        self._rpc = rpc
        self._number = number
        self.method = method
        self.params = params
        self.answered = False

    async def answer(self, result: Json) -> None:
        """Answer; a second answer is dropped."""
        await self._send({"result": result})

    async def refuse(self, code: int, message: str) -> None:
        """Answer with an error; dropped when the request is answered."""
        await self._send({"error": {"code": code, "message": message}})

    async def _send(self, body: Json) -> None:
        if not self.answered:
            self.answered = True
            await self._rpc.send({"id": self._number, **body})


class Peer(Protocol):
    """Hears what the app-server says, of all threads or of one."""

    async def on_notification(self, method: str, params: Json) -> None:
        """Take a notification. The next line is read when this returns."""

    async def on_request(self, request: ServerRequest) -> None:
        """Answer a request of the server, in a task of its own."""

    async def on_closed(self, error: RpcClosedError) -> None:
        """Learn that the app-server has ended."""


class Rpc:
    """One app-server's connection. `closed` says how it ended."""

    def __init__(self, process: Process, services: ProviderServices, peer: Peer) -> None:
        self._process = process
        self._services = services
        self._peer = peer
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._open = 0
        self._writing = asyncio.Lock()
        self._over = asyncio.Event()  # the process has ended
        self.closed: RpcClosedError | None = None
        self.bad_lines = 0

    def start(self) -> None:
        """Begin to read."""
        self._services.start_soon(self._read, name="codex app-server reader")

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float = REQUEST_SECONDS,
        vital: bool = True,
    ) -> Json:
        """Ask the server and return its result.

        A server that does not answer a vital request is ended: it would answer no other either.
        Raises RpcError for an error, RpcClosedError when the server has ended.
        """
        if self.closed:
            raise self.closed
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = future

        async def ask() -> None:
            await self.send({"id": number, "method": method, "params": params})
            await future

        try:
            if not await first_of(self._services.clock, timeout_s, ask):
                silence = f"it did not answer {method} within {timeout_s:g} s"
                raise self.hang_up(silence) if vital else RpcError(f"codex app-server: {silence}")
            return dict(as_object(future.result()))
        finally:
            del self._pending[number]
            if future.done() and not future.cancelled():
                future.exception()  # `send` may have raised it already; unread, it would be logged

    def hang_up(self, why: str) -> RpcClosedError:
        """End a server that cannot be talked with. The next turn of an agent starts a new one."""
        self._process.kill()
        if self.closed is None:
            ending = Ending.of(why, self._process, bad_lines=self.bad_lines, noise=NOISE)
            self.closed = RpcClosedError(ending.why, tail=ending.tail)
        return self.closed

    async def send(self, message: Json) -> None:
        """Write one line; raise RpcClosedError if the server reads no more."""
        line = json.dumps(message).encode() + b"\n"
        try:
            async with self._writing:
                await self._process.write(line)
        except ProcessError as error:
            # If the process has ended, how it ended says more.
            await first_of(self._services.clock, _LOST_SECONDS, self._over.wait)
            raise self.closed or self.hang_up("it closed its input") from error

    async def _read(self) -> None:
        try:
            async for line in self._process.lines():
                await self._take(line)
        except ProcessError as error:
            self.hang_up(error.message)
        await self._close()

    async def _take(self, line: bytes) -> None:
        """Take one line. One of a wrong shape is counted and skipped, a wrong byte replaced."""
        try:
            await self._route(read_object(line))
        except (ValueError, LookupError, TypeError, AttributeError, RpcError):
            self.bad_lines += 1

    async def _route(self, message: Json) -> None:
        method, params = message.get("method"), dict(as_object(message.get("params")))
        if not isinstance(method, str):
            self._settle(message)
        elif "id" in message:
            self._ask(ServerRequest(self, message["id"], method, params))
        else:
            await self._peer.on_notification(method, params)

    def _settle(self, message: Json) -> None:
        number = message.get("id")
        future = self._pending.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            return  # nobody waits for it any more
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
        else:
            text = error.get("message") if isinstance(error, dict) else None
            future.set_exception(RpcError(one_line(str(text or error))))

    def _ask(self, request: ServerRequest) -> None:
        if self._open >= _MAX_OPEN:
            why = "too many requests at once"
            self._services.start_soon(request.refuse, REFUSED, why, name="codex refusal")
            return
        self._open += 1
        self._services.start_soon(self._work, request, name=f"codex {request.method}")

    async def _work(self, request: ServerRequest) -> None:
        try:
            await self._peer.on_request(request)
        except RpcClosedError:
            return  # on_closed tells whoever waits for the server
        except Exception:
            # A cancelled task answers nothing: the call may be answered after a resume.
            await request.refuse(REFUSED, "the client failed; see its log")
            raise
        finally:
            self._open -= 1

    async def _close(self) -> None:
        self.closed = self.hang_up(str(await Exit.of(self._process, self._services)))
        self._over.set()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(self.closed)
        await self._peer.on_closed(self.closed)
