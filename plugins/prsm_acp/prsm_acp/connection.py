"""One running agent: its process, and JSON-RPC with it in both directions."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from prsm_acp.errors import INTERNAL, AcpClosedError, AcpError, error_text
from prsm_core import ProcessError
from prsm_core.kit import Ending, Exit, as_object, first_of, one_line, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Process, ProviderServices

    Json = dict[str, Any]

_log = logging.getLogger("prsm.acp")

REQUEST_SECONDS = 60.0
_LOST_SECONDS = 1.0  # between the end of stdin and the end of the process
_GONE_SECONDS = 2.0
_STOP_GRACE = 2.0
_MAX_OPEN = 256  # requests of the agent that are being worked on


class Peer(Protocol):
    """Hears what the agent says and answers what it asks."""

    async def on_notification(self, method: str, params: Json) -> None:
        """Take a notification. The next line is read when this returns."""

    async def on_request(self, method: str, params: Json) -> Json:
        """Return the answer to a request; raise AcpError to refuse it."""


class Connection:
    """Talks with one agent. `closed` says how the agent ended; None while it lives."""

    def __init__(self, name: str, process: Process, services: ProviderServices, peer: Peer) -> None:
        self._name = name
        self._process = process
        self._services = services
        self._peer = peer
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Json]] = {}
        self._open_requests = 0
        self._writing = asyncio.Lock()
        self._over = asyncio.Event()  # the process has ended
        self._bad_lines = 0
        self.closed: AcpClosedError | None = None
        services.start_soon(self._read, name=f"{name} reader")

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = REQUEST_SECONDS
    ) -> Json:
        """Ask the agent and return its result.

        An agent that does not answer within `timeout_s` is killed: nothing else can be expected
        of it. Raises AcpError for an error, AcpClosedError when the agent has ended.
        """
        if self.closed is not None:
            raise self.closed
        number = next(self._numbers)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer

        async def ask() -> None:
            await self._send({"id": number, "method": method, "params": dict(params)})
            await answer

        try:
            if not await first_of(self._services.clock, timeout_s, ask):
                raise self._hang_up(f"it did not answer {method} within {timeout_s:g} s")
            return answer.result()
        finally:
            del self._pending[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # `_send` may have raised it already; unread, it would be logged

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the agent something it does not answer; raise AcpClosedError when it has ended."""
        await self._send({"method": method, "params": dict(params)})

    def kill(self) -> None:
        """End the agent at once."""
        self._process.kill()

    async def aclose(self, *, politely: bool) -> None:
        """End the agent, by a signal that it may act upon or at once."""
        if politely and self.closed is None:
            await self._process.stop(_STOP_GRACE)
        await self.end()

    async def end(self) -> None:
        """End the agent at once, and wait until it has gone."""
        self._process.kill()
        await first_of(self._services.clock, _GONE_SECONDS, self._over.wait)

    async def _send(self, message: Json) -> None:
        """Write one line; raise AcpClosedError when the agent does not read any more."""
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        try:
            async with self._writing:
                await self._process.write(line)
        except ProcessError as error:
            # If the process has ended, how it ended says more.
            await first_of(self._services.clock, _LOST_SECONDS, self._over.wait)
            raise self._hang_up("it closed its input") from error

    def _hang_up(self, why: str) -> AcpClosedError:
        """Kill an agent that cannot be talked with; return how it ended, or why it is killed."""
        self._process.kill()
        if self.closed is None:
            ending = Ending.of(why, self._process, bad_lines=self._bad_lines)
            self.closed = AcpClosedError(self._name, ending.why, tail=ending.tail)
        return self.closed

    async def _read(self) -> None:
        try:
            async for line in self._process.lines():
                await self._take(line)
        except ProcessError as error:
            self._hang_up(error.message)
        closed = self._hang_up(str(await Exit.of(self._process, self._services)))
        self._over.set()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(closed)

    async def _take(self, line: bytes) -> None:
        """Take one line. One of a wrong shape is counted and skipped, a wrong byte replaced."""
        try:
            await self._route(read_object(line))
        except (ValueError, LookupError, TypeError, AttributeError, AcpError):
            self._bad_lines += 1

    async def _route(self, message: Json) -> None:
        method, params = message.get("method"), dict(as_object(message.get("params")))
        if method is None:
            self._settle(message)
        elif not isinstance(method, str):
            raise TypeError("a method that is no text")
        elif "id" in message:
            await self._accept(message["id"], method, params)
        else:
            await self._peer.on_notification(method, params)

    def _settle(self, message: Json) -> None:
        """Give an answer to whoever waits; raise TypeError for one that answers nothing."""
        number, error = message["id"], message.get("error")
        if type(number) is not int:
            raise TypeError("an answer to no request of ours")
        answer = self._pending.get(number)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(dict(as_object(message.get("result"))))
            return
        details = error if isinstance(error, dict) else {"message": str(error)}
        text = one_line(str(details.get("message") or "no reason given"))
        code = details.get("code")
        answer.set_exception(
            AcpError(
                error_text(text, details.get("data")),
                number=code if type(code) is int else INTERNAL,
            )
        )

    async def _accept(self, number: object, method: str, params: Json) -> None:
        if not isinstance(number, (int, str)):
            raise TypeError("a request whose number is none")
        if self._open_requests >= _MAX_OPEN:
            await self._reply(number, _error(INTERNAL, "too many requests at once"))
            return
        self._open_requests += 1
        self._services.start_soon(self._answer, number, method, params, name=f"acp {method}")

    async def _answer(self, number: int | str, method: str, params: Json) -> None:
        try:
            reply = {"result": await self._peer.on_request(method, params)}
        except AcpError as error:
            reply = _error(error.number, error.message)
        except Exception:  # noqa: BLE001 - the boundary: the agent is told, and it is logged
            _log.exception("%s: %s could not be answered", self._name, method)
            reply = _error(INTERNAL, "the client failed; see its log")
        finally:
            self._open_requests -= 1
        await self._reply(number, reply)

    async def _reply(self, number: int | str, reply: Json) -> None:
        # Whoever waits for an agent that has ended learns of it in other ways.
        with suppress(AcpClosedError):
            await self._send({"id": number, **reply})


def _error(code: int, message: str) -> Json:
    return {"error": {"code": code, "message": message}}
