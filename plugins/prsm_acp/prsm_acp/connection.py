"""One running agent: its process, and requests in both directions by the SDK's connection.

The frames of one agent: lines of its process to JSON-RPC messages and back.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import sys
from typing import TYPE_CHECKING, Any, Protocol

from prsm_acp.errors import INTERNAL, AcpClosedError, AcpError, error_text
from prsm_core import ProcessError
from prsm_core.kit import Ending, Exit, as_object, deadline, one_line, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Process, ProviderServices

_LOST_SECONDS = 1.0  # between the end of stdin and the end of the process
_MAX_OPEN = 256  # requests of the agent that are being worked on


class Listener(Protocol):
    """Who is told what the agent says without asking."""

    async def on_notification(self, method: str, params: Json) -> None:
        """Take a notification; the next line is read when this returns."""
        ...


class ProcessTransport:
    """The transport that the SDK's connection reads and writes.

    Notifications do not go through the SDK: it would run each in a task of its own, in no order
    and without limit, and drop the fields it does not know. What is left are requests and answers,
    checked to be of the shape that the SDK relies on.
    """

    def __init__(
        self, name: str, process: Process, services: ProviderServices, listener: Listener
    ) -> None:
        self._name = name
        self._process = process
        self._services = services
        self._listener = listener
        self._lines = process.lines()
        self._writing = asyncio.Lock()
        self._over = asyncio.Event()  # the process has ended, and `closed` says how
        self.closed: AcpClosedError | None = None
        self.bad_lines = 0
        self.open_requests = 0

    async def send(self, message: Json) -> None:
        """Write one line; raise AcpClosedError when the agent does not read any more."""
        line = json.dumps(message).encode() + b"\n"
        try:
            async with self._writing:
                await self._process.write(line)
        except ProcessError as error:
            closed = await self._lost()
            if "method" in message:
                raise closed from error
            # An answer: whoever waits for the agent learns of its end by other ways.

    async def receive(self) -> Json | None:
        """Return the next request or answer; None once the agent has ended."""
        if self._over.is_set():
            return None
        try:
            async for line in self._lines:
                message = await self._take(line)
                if message is not None:
                    return message
        except ProcessError as error:
            self.hang_up(error.message)
        await self._end()
        return None

    async def close(self) -> None:
        """Do nothing: the process is not the connection's to end."""

    def hang_up(self, why: str) -> AcpClosedError:
        """Kill an agent that cannot be talked with."""
        self._process.kill()
        self.closed = self.closed or self._ended(why)
        return self.closed

    async def until_over(self, seconds: float) -> None:
        """Wait until the process has ended, no longer than `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with deadline(self._services, seconds):
                await self._over.wait()

    async def _lost(self) -> AcpClosedError:
        """Return why nothing can be written: how the agent ended, if it did."""
        await self.until_over(_LOST_SECONDS)
        return self.closed or self.hang_up("it closed its input")

    async def _take(self, line: bytes) -> Json | None:
        """Take one line; one of a wrong shape is counted and skipped, a wrong byte replaced."""
        try:
            return await self._route(read_object(line))
        except (ValueError, LookupError, TypeError, AttributeError, AcpError):
            self.bad_lines += 1
            return None

    async def _route(self, message: Json) -> Json | None:
        method, number = message.get("method"), message.get("id")
        if method is None:
            return _answer(message)
        if not isinstance(method, str):
            raise TypeError("a method that is no text")
        params = dict(as_object(message.get("params")))
        if "id" not in message:
            await self._listener.on_notification(method, params)
            return None
        if not isinstance(number, (int, str)):
            raise TypeError("a request whose number is none")
        if self.open_requests >= _MAX_OPEN:
            error = {"code": INTERNAL, "message": "too many requests at once"}
            await self.send({"jsonrpc": "2.0", "id": number, "error": error})
            return None
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

    async def _end(self) -> None:
        self.closed = self.hang_up(str(await Exit.of(self._process, self._services)))
        self._over.set()

    def _ended(self, why: str) -> AcpClosedError:
        """Return the end as an error: the reason, and in the same line what stderr says of it."""
        ending = Ending.of(why, self._process, bad_lines=self.bad_lines)
        return AcpClosedError(self._name, ending.why, tail=ending.tail)


def _answer(message: Json) -> Json:
    """Return an answer as the SDK expects it; raise TypeError for one that answers nothing."""
    number = message["id"]
    if type(number) is not int:
        raise TypeError("an answer to no request of ours")
    error = message.get("error")
    if error is None:
        return {"id": number, "result": dict(as_object(message.get("result")))}
    told = error if isinstance(error, dict) else {"message": str(error)}
    code = told.get("code")
    return {
        "id": number,
        "error": {
            "code": code if type(code) is int else INTERNAL,
            "message": one_line(str(told.get("message") or "no reason given")),
            "data": told.get("data"),
        },
    }


_log = logging.getLogger("prsm.acp")

REQUEST_SECONDS = 60.0
_GONE_SECONDS = 2.0
_STOP_GRACE = 2.0
_SDK = "acp.connection"

Json = dict[str, Any]


async def load_sdk() -> None:
    """Import the SDK in a thread: it takes a second of CPU, which must not stop the loop."""
    if not hasattr(sys.modules.get(_SDK), "Connection"):  # not there, or not all of it yet
        await asyncio.to_thread(importlib.import_module, _SDK)


class Peer(Protocol):
    """Who is told what the agent says and answers what it asks."""

    async def on_notification(self, method: str, params: Json) -> None:
        """Take a notification; the next line is read when this returns."""
        ...

    async def on_request(self, method: str, params: Json) -> Json:
        """Return the answer to a request; raise AcpError to refuse it."""
        ...


class Connection:
    """Talks with one agent; `load_sdk` comes first."""

    def __init__(self, name: str, process: Process, services: ProviderServices, peer: Peer) -> None:
        from acp.connection import Connection as SdkConnection

        self.name = name
        self._process = process
        self._services = services
        self._peer = peer
        self._transport = ProcessTransport(name, process, services, peer)
        self._rpc = SdkConnection(self._answer, self._transport)

    @property
    def closed(self) -> AcpClosedError | None:
        """How the agent ended; None while it lives."""
        return self._transport.closed

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = REQUEST_SECONDS
    ) -> Json:
        """Ask the agent and return its result.

        An agent that does not answer within `timeout_s` is killed: nothing else can be expected
        of it. Raises AcpError for an error, AcpClosedError when the agent has ended.
        """
        if timeout_s is None:
            return await self._request(method, params)
        try:
            async with deadline(self._services, timeout_s):
                return await self._request(method, params)
        except TimeoutError as error:
            silence = f"it did not answer {method} within {timeout_s:g} s"
            raise self._transport.hang_up(silence) from error

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the agent something it does not answer; raise AcpClosedError when it has ended."""
        try:
            await self._rpc.send_notification(method, dict(params))
        except ConnectionError as error:
            raise self._ended() from error

    def kill(self) -> None:
        """End the agent at once."""
        self._process.kill()

    async def aclose(self, *, politely: bool) -> None:
        """End the agent, by a signal that it may act upon or at once."""
        if politely and self.closed is None:
            await self._process.stop(_STOP_GRACE)
        await self.end()
        await self._rpc.close()

    async def end(self) -> None:
        """End the agent at once, and wait until it has gone."""
        self._process.kill()
        await self._transport.until_over(_GONE_SECONDS)

    async def _request(self, method: str, params: Mapping[str, Any]) -> Json:
        from acp.exceptions import RequestError

        try:
            result: Json = await self._rpc.send_request(method, dict(params))
        except RequestError as error:
            raise AcpError(error_text(str(error), error.data), number=error.code) from error
        except ConnectionError as error:
            raise self._ended() from error
        return result

    def _ended(self) -> AcpClosedError:
        return self.closed or self._transport.hang_up("the connection was closed")

    async def _answer(self, method: str, params: Any, _is_notification: bool) -> Json:
        """Let the peer answer a request of the agent."""
        from acp.exceptions import RequestError

        self._transport.open_requests += 1
        try:
            return await self._peer.on_request(method, params)
        except AcpError as error:
            raise RequestError(error.number, error.message) from error
        except Exception as error:
            _log.exception("%s: %s could not be answered", self.name, method)
            raise RequestError(INTERNAL, "the client failed; see its log") from error
        finally:
            self._transport.open_requests -= 1
