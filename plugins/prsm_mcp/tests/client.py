"""A client of the bridge for tests: it speaks to an engine as `prsm_mcp.proxy` does.

No read of it waits longer than its limit. A call that takes longer goes on in the engine, and is
asked for again by the token it was answered with. When the connection breaks meanwhile, or the
engine falls silent, the answer is not lost: the same call, made again, gets it.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prsm_mcp.server import WAIT_TOOL
from prsm_mcp.wire import LINE_LIMIT, TCP_PREFIX, LineReader, encode

from prsm_core.domain.tools import ToolOutcome
from prsm_core.errors import ControlError, LineTooLongError, OrchestrationError
from prsm_core.kit.clocks import SystemClock, first_of
from prsm_core.kit.local_socket import short_name
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.interfaces.clock import Clock

READ_SECONDS = 300.0
PROTOCOL = "2025-06-18"  # of MCP
_ANSWER_LIMIT = 4 * LINE_LIMIT


class SilentEngineError(OrchestrationError):
    """The engine said nothing for as long as a read may take."""

    code = "silent_engine"


class BridgeClient:
    """Calls an agent's tools over the bridge, one at a time; an async context manager.

    Args:
        address: The bridge's: `McpEndpoint.env["PRSM_SOCKET"]`.
        agent: The agent's id, PRSM_AGENT.
        token: Its token, PRSM_TOKEN.
        read_s: The longest that one read waits, in seconds. Where the agent has no tool that takes
            a token, its calls wait for as long as they take: the end of the stream is the signal.
        clock: What measures it.
    """

    def __init__(
        self,
        address: str,
        agent: str,
        token: str,
        *,
        read_s: float = READ_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._address = address
        self._hello = {"agent": agent, "token": token, "pid": os.getpid(), "patience_s": read_s / 2}
        self._read_s = read_s
        self._clock = clock or SystemClock()
        self._wire: _Wire | None = None
        self._outlives = False  # calls go on when the connection breaks
        self._one_at_a_time = asyncio.Lock()
        self._tokens: dict[str, str] = {}  # of calls whose answer has not come yet

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def list_tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the agent's tools as MCP describes them; raises what `call` does."""
        async with self._one_at_a_time:
            result = await self._ask("tools/list", {}, self._read_s)
        tools: list[Mapping[str, Any]] = result["tools"]
        return tools

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool and return its answer, whatever time it takes.

        After an error the connection is reset; the next call makes a new one. A
        `wait_for_message` with a timeout of its own comes back `pending` when that is over.

        Raises:
            SilentEngineError: the engine said nothing for `read_s` seconds.
            ControlError: the engine cannot be reached, refused the token, or broke off.
        """
        key = json.dumps([name, arguments], sort_keys=True)
        asks_itself = name == WAIT_TOOL and arguments.keys() & {"timeout", "timeout_seconds"}
        async with self._one_at_a_time:
            token = self._tokens.get(key)
            if token is None:
                outcome = await self._call_anew(name, arguments)
            else:
                outcome = await self._call(WAIT_TOOL, {"token": token})
            while (token := pending_token(outcome)) and not asks_itself:
                self._tokens[key] = token
                outcome = await self._call_anew(WAIT_TOOL, {"token": token})
            self._tokens.pop(key, None)
            return outcome

    async def aclose(self) -> None:
        """Close the connection; the client may still be used, over a new one."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.aclose()

    async def _call_anew(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool, and once more over a new connection when the one there was has broken.

        Only where calls outlive connections: elsewhere it might be done twice.
        """
        try:
            return await self._call(name, arguments)
        except ControlError as error:
            if error.code != "no_answer" or not self._outlives:
                raise
        return await self._call(name, arguments)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        await self._connected()
        limit = self._read_s if self._outlives else None
        params = {"name": name, "arguments": dict(arguments)}
        result = await self._ask("tools/call", params, limit)
        text = "".join(part.get("text", "") for part in result["content"])
        return ToolOutcome(text=text, is_error=result.get("isError", False), data=_data(text))

    async def _ask(self, method: str, params: Mapping[str, Any], limit: float | None) -> Any:
        """Return the result of a request; whatever goes wrong resets the connection."""
        wire = await self._connected()
        result: Any = None

        async def exchange() -> None:
            nonlocal result
            result = await wire.request(method, params)

        try:
            if await first_of(self._clock, limit, exchange):
                return result
        except (OSError, LineTooLongError) as error:
            await self.aclose()
            raise ControlError(f"the engine broke off: {error}", code="no_answer") from error
        except BaseException:
            await self.aclose()  # what it asked for is not wanted any more
            raise
        await self.aclose()
        raise _silence(self._read_s)

    async def _connected(self) -> _Wire:
        if self._wire is None:
            wire: _Wire | None = None

            async def connect() -> None:
                nonlocal wire
                wire = await _connect(self._address, self._hello)

            if not await first_of(self._clock, self._read_s, connect) or wire is None:
                raise _silence(self._read_s)
            self._wire, self._outlives = wire, wire.outlives
        return self._wire


class _Wire:
    """One connection: who connects was told, and MCP is spoken."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.outlives = False
        self._lines = LineReader(reader)
        self._writer = writer
        self._last_id = 0

    async def open(self, hello: Mapping[str, Any]) -> None:
        """Say who connects and begin to speak MCP."""
        self._writer.write(encode(hello))
        answer = json.loads(await self._line())
        if answer.get("ok") is not True:
            raise ControlError(
                f"the engine refused the connection: {answer.get('error')}",
                hint="a token is good for as long as its agent runs",
                code="forbidden",
            )
        self.outlives = "patience_s" in answer
        client = {"name": "prsm", "version": __version__}
        about = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        await self.request("initialize", about)
        self._writer.write(encode({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a request."""
        self._last_id += 1
        head = {"jsonrpc": "2.0", "id": self._last_id}
        self._writer.write(encode({**head, "method": method, "params": params}))
        await self._writer.drain()
        while True:
            answer = json.loads(await self._line())
            if answer.get("id") == self._last_id:
                break
        if "error" in answer:
            raise ControlError(f"{method}: {answer['error'].get('message')}", code="bad_answer")
        return answer["result"]

    async def aclose(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _line(self) -> bytes:
        line = await self._lines.line(_ANSWER_LIMIT)
        if line is None:
            raise ConnectionResetError("the connection has ended")
        return line


async def _connect(address: str, hello: Mapping[str, Any]) -> _Wire:
    """Return a connection on which MCP is spoken."""
    try:
        wire = _Wire(*await _dial(address))
    except (OSError, ValueError) as error:
        raise ControlError(
            f"the engine cannot be reached at {address}: {error}",
            hint="it has ended, or the address is another engine's",
            code="no_engine",
        ) from error
    try:
        await wire.open(hello)
    except OSError as error:
        await wire.aclose()
        raise ControlError(f"the engine broke off: {error}", code="no_answer") from error
    except BaseException:
        await wire.aclose()
        raise
    return wire


async def _dial(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith(TCP_PREFIX):
        host, _, port = address.removeprefix(TCP_PREFIX).rpartition(":")
        return await asyncio.open_connection(host, int(port))
    with short_name(Path(address)) as name:
        return await asyncio.open_unix_connection(name)


def pending_token(outcome: ToolOutcome) -> str | None:
    """Return the token of an answer that is still to come."""
    data = outcome.data
    if outcome.is_error or not isinstance(data, dict) or data.get("type") != "pending":
        return None
    return str(data["token"]) if "token" in data else None


def _data(text: str) -> Any:
    """Return what an answer says as JSON; None where it is only text."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _silence(seconds: float) -> SilentEngineError:
    return SilentEngineError(
        f"the engine said nothing for {seconds:g} s; the connection was reset",
        hint="make the same call again: it gets the answer of the first",
    )
