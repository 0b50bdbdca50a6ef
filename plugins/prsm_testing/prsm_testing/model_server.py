"""A loopback model server that plays a scenario to the real command-line agents.

In a test::

    async with ModelServer(scenario) as server:
        ...  # point the agent at server.base_url, then look at server.requests
        assert server.failures == []

From a shell, `python -m prsm_testing.model_server SCENARIO.yaml [--port N]` prints
`{"base_url": …}` on one line, serves until it is interrupted or terminated, then prints
`{"requests": …, "failures": […], "unplayed": {…}}` and exits 1 if there were failures.

The scenario knows nothing of HTTP, the wire format nothing of lanes: a further vendor's format is
one more class beside `OpenAIResponses`. One server speaks all of them at once, so that one scenario
can play to a tree of several vendors.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, Self

from prsm_demo.script.steps import FOREVER

from prsm_core.errors import PrsmError
from prsm_testing.anthropic_wire import AnthropicMessages
from prsm_testing.gemini_wire import GeminiGenerateContent
from prsm_testing.openai_wire import OpenAIResponses
from prsm_testing.playback import Conversation, HttpError, Player, Reply, Scenario, Step

_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024 * 1024
_CLOSE_SECONDS = 5.0
_SECRET_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "cookie"})


class Wire(Protocol):
    """One vendor's request and answer format; `body` is always the decoded request."""

    def serves(self, path: str) -> bool:
        """Return whether a POST to `path` is a model request of this format."""

    def aside(self, method: str, path: str, body: Mapping[str, Any]) -> bytes | None:
        """Answer what no scenario knows (model lists, token counts); None = not such a request."""

    def read(self, body: Mapping[str, Any]) -> Conversation:
        """Return what a request says."""

    def is_streamed(self, path: str, body: Mapping[str, Any]) -> bool:
        """Return whether the client wants a stream."""

    def stream(self, reply: Reply, body: Mapping[str, Any]) -> list[bytes]:
        """Return the pieces of a streamed answer."""

    def whole(self, reply: Reply, body: Mapping[str, Any]) -> bytes:
        """Return the answer to a request that wants no stream."""

    def error(self, error: HttpError) -> bytes:
        """Return the body of an HTTP error."""


class Model(Protocol):
    """What answers the requests of all agents, whatever their wire format: a Player is one."""

    failures: list[str]

    @property
    def unplayed(self) -> Mapping[str, int]:
        """What it would still have said, by lane."""

    def answer(self, conversation: Conversation) -> Reply:
        """Answer a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One model request as it came in; the values of secret headers are left out."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Mapping[str, Any]
    conversation: Conversation
    lane: str | None


@dataclass(frozen=True, slots=True)
class _Head:
    method: str
    path: str
    headers: Mapping[str, str]


class _BadRequestError(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


_WIRES: tuple[Wire, ...] = (OpenAIResponses(), AnthropicMessages(), GeminiGenerateContent())


class ModelServer:
    """Serves a scenario on 127.0.0.1; requests of one lane are answered in order of arrival.

    Instead of a scenario it may be given a model of one's own.

    `requests` holds every model request, `failures` what did not go by the scenario; one request
    after a lane's last step is none, where that step calls task_complete.
    """

    def __init__(
        self,
        scenario: Scenario | Mapping[str, Any] | Model,
        *,
        port: int = 0,
        max_requests: int = 5000,
    ) -> None:
        if isinstance(scenario, Mapping):
            scenario = Scenario.from_mapping(scenario)
        self._model: Model = (
            Player(scenario, may_be_late=True) if isinstance(scenario, Scenario) else scenario
        )
        self._port = port
        self._max_requests = max_requests
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Condition()
        self.requests: list[RecordedRequest] = []

    @property
    def base_url(self) -> str:
        """The URL to configure for OpenAI's format."""
        return f"{self.root_url}/v1"

    @property
    def root_url(self) -> str:
        """The URL to configure where the client adds the version of the interface itself."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def failures(self) -> list[str]:
        """What did not go by the scenario; a test asserts that it is empty."""
        return self._model.failures

    @property
    def unplayed(self) -> Mapping[str, int]:
        """The number of steps that no request has asked for yet, by lane."""
        return self._model.unplayed

    async def wait_for_requests(self, count: int, *, timeout_s: float = 30.0) -> None:
        """Return once `count` model requests have come; raise TimeoutError otherwise."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self._port, limit=_MAX_HEAD
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is None:
            return
        self._server.close()
        for writer in self._connections:
            writer.transport.abort()  # wakes whoever hangs on it
        async with asyncio.timeout(_CLOSE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: not self._connections)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.close()
            self._connections.discard(writer)
            async with self._changed:
                self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await _read_head(reader)
            body = await _read_body(reader, head)
        except _BadRequestError as error:
            self.failures.append(f"bad request: {error}")
            await _send(writer, error.status, _plain_error(str(error)))
            return
        if "upgrade" in head.headers:
            await _send(writer, 426, _plain_error("no WebSocket here"))
            return
        try:
            asked = _decoded(body)
            answers = (wire.aside(head.method, head.path, asked) for wire in _WIRES)
            aside = next((answer for answer in answers if answer is not None), None)
            serving = (wire for wire in _WIRES if head.method == "POST" and wire.serves(head.path))
            wire = next(serving, None)
            if aside is not None:
                await _send(writer, 200, aside)
            elif wire is None:
                self.failures.append(f"{head.method} {head.path}: no such path")
                await _send(writer, 404, _plain_error(f"no such path: {head.path}"))
            else:
                await self._answer(wire, head, asked, wire.read(asked), reader, writer)
        except (ValueError, RecursionError, AttributeError, TypeError) as error:
            self.failures.append(f"{head.path}: a body that cannot be read: {error}")
            await _send(writer, 400, _plain_error("the body cannot be read"))

    async def _answer(
        self,
        wire: Wire,
        head: _Head,
        body: Mapping[str, Any],
        conversation: Conversation,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if len(self.requests) >= self._max_requests:
            self.failures.append(f"more than {self._max_requests} requests")
            await _send(writer, 503, _plain_error("too many requests for one scenario"))
            return
        reply = self._model.answer(conversation)
        await self._record(head, body, conversation, reply)
        if reply.error:
            after = reply.error.retry_after
            headers = [] if after is None else [f"Retry-After: {after:g}"]
            await _send(writer, reply.error.status, wire.error(reply.error), headers)
        elif wire.is_streamed(head.path, body):
            await _stream(wire.stream(reply, body), reply.step, reader, writer)
        else:
            await _send(writer, 200, wire.whole(reply, body))

    async def _record(
        self, head: _Head, body: Mapping[str, Any], conversation: Conversation, reply: Reply
    ) -> None:
        secret = dict.fromkeys(_SECRET_HEADERS & head.headers.keys(), "(left out)")
        request = RecordedRequest(
            path=head.path,
            headers={**head.headers, **secret},
            body=body,
            conversation=conversation,
            lane=reply.lane,
        )
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise _BadRequestError(413, "the header is too long") from error
    first, *lines = raw.decode("latin-1").rstrip().split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3:
        raise _BadRequestError(400, f"no request line: {first!r}")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return _Head(parts[0], parts[1].partition("?")[0], headers)


async def _read_body(reader: asyncio.StreamReader, head: _Head) -> bytes:
    if "transfer-encoding" in head.headers:
        raise _BadRequestError(411, "a body needs a Content-Length")
    length = head.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > _MAX_BODY:
        raise _BadRequestError(413, f"a body of {length} bytes")
    return await reader.readexactly(int(length))


def _decoded(raw: bytes) -> Mapping[str, Any]:
    body = json.loads(raw) if raw else {}
    if not isinstance(body, dict):
        raise TypeError("no JSON object")
    return body


def _plain_error(message: str) -> bytes:
    return json.dumps({"error": {"message": message}}).encode()


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: Sequence[str] = ()
) -> None:
    writer.write(_http_head(status, "application/json", len(body), headers) + body)
    await writer.drain()


def _http_head(status: int, content: str, length: int | None, headers: Sequence[str] = ()) -> bytes:
    phrase = next((known.phrase for known in HTTPStatus if known == status), "Scripted")
    lines = [f"HTTP/1.1 {status} {phrase}", f"Content-Type: {content}", "Connection: close"]
    lines += headers
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _stream(
    pieces: list[bytes], step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send the pieces; silence and a cut strike in the middle."""
    writer.write(_http_head(200, "text/event-stream", None))
    middle = len(pieces) // 2
    for number, piece in enumerate(pieces):
        if number == middle and step.cut:
            return
        await _pause(reader, step.hang if number == middle else 0.0)
        await _pause(reader, step.delay if number else 0.0)
        writer.write(piece)
        await writer.drain()


async def _pause(reader: asyncio.StreamReader, seconds: float) -> None:
    """Wait, but no longer than the client stays."""
    if not seconds:
        return
    try:
        async with asyncio.timeout(None if seconds == FOREVER else seconds):
            while await reader.read(4096):
                pass
    except TimeoutError:
        return
    raise ConnectionResetError("the client has gone")


async def _run(scenario: Scenario, port: int) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with ModelServer(scenario, port=port) as server:
        _print({"base_url": server.base_url})
        await stopped.wait()
    told = {"failures": server.failures, "unplayed": server.unplayed}
    _print({"requests": len(server.requests), **told})
    return 1 if server.failures else 0


def _print(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Serve a scenario file until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m prsm_testing.model_server")
    parser.add_argument("scenario", help="a YAML file")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    options = parser.parse_args()
    try:
        return asyncio.run(_run(Scenario.load(options.scenario), options.port))
    except PrsmError as error:
        sys.stderr.write(f"{error.message}\n{error.hint or ''}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
