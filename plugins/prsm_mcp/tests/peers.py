"""What talks to a bridge in the tests: proxies, raw connections, a line that breaks."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from prsm_testing.doubles import RecordingHost, answers

from prsm_core.domain.tools import ToolOutcome
from prsm_core.kit.local_socket import short_name

DEADLINE = 20.0  # real seconds; a test that needs them has failed
LINE_LIMIT = 1 << 26


class WaitingHost(RecordingHost):
    """A host with tools that answer at once, wait for each other, and never end."""

    def __init__(self, **handlers) -> None:
        self.began: asyncio.Queue[str] = asyncio.Queue()
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()
        self.release = asyncio.Event()
        super().__init__(note=answers("noted"), wait=self._wait, **handlers)

    async def _wait(self, text="") -> ToolOutcome:
        self.began.put_nowait(text)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.put_nowait(text)
            raise
        return ToolOutcome(text=f"waited for {text}")


class Frames:
    """JSON-RPC over a pair of streams, as a command line would speak it."""

    def __init__(self, reader, writer) -> None:
        self.reader = reader
        self.writer = writer
        self._ids = count(1)

    def send(self, method, params=None, **fields) -> None:
        frame = {"jsonrpc": "2.0", "method": method, **fields}
        if params is not None:
            frame["params"] = params
        self.writer.write(json.dumps(frame).encode() + b"\n")

    def begin(self, method, params) -> int:
        """Send a request; return its id."""
        number = next(self._ids)
        self.send(method, params, id=number)
        return number

    async def receive(self):
        """Return the next frame; None at the end."""
        async with asyncio.timeout(DEADLINE):
            line = await self.reader.readline()
        return json.loads(line) if line else None

    async def ask(self, method, params):
        """Send a request and return the frame that answers it."""
        number = self.begin(method, params)
        while (frame := await self.receive()) is not None:
            if frame.get("id") == number:
                return frame
        raise AssertionError(f"no answer to {method}")

    async def shake_hands(self):
        """Begin MCP as clients have done it until 2025."""
        about = {"name": "test", "version": "0"}
        answer = await self.ask(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about},
        )
        self.send("notifications/initialized")
        return answer["result"]

    def begin_call(self, name, **arguments) -> int:
        return self.begin("tools/call", {"name": name, "arguments": arguments})

    async def call(self, name, **arguments) -> tuple[str, bool]:
        """Call a tool; return the text of its answer and whether it is an error."""
        frame = await self.ask("tools/call", {"name": name, "arguments": arguments})
        [part] = frame["result"]["content"]
        return part["text"], frame["result"]["isError"]


class Proxy(Frames):
    """A proxy as a process."""

    def __init__(self, process) -> None:
        super().__init__(process.stdout, process.stdin)
        self.process = process

    async def end(self) -> tuple[int, str]:
        """Close its stdin; return its exit code and what it said on stderr."""
        self.process.stdin.close()
        return await self.ended()

    async def ended(self) -> tuple[int, str]:
        async with asyncio.timeout(DEADLINE):
            stderr = await self.process.stderr.read()
            return await self.process.wait(), stderr.decode()


@asynccontextmanager
async def proxy(endpoint, *, argv=None, stdout=asyncio.subprocess.PIPE, **env):
    """Start the proxy of an endpoint; on leaving it is killed if it has not ended."""
    process = await asyncio.create_subprocess_exec(
        *(argv or endpoint.argv),
        env={**endpoint.env, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT,
    )
    command_line = Proxy(process)
    try:
        yield command_line
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()
        command_line.writer.close()


@asynccontextmanager
async def connection(endpoint, **changes):
    """Connect to a bridge and say who this is; yield the first answer and the frames."""
    reader, writer = await dial(endpoint.env["PRSM_SOCKET"])
    try:
        writer.write(json.dumps(hello(endpoint, **changes)).encode() + b"\n")
        frames = Frames(reader, writer)
        yield await frames.receive(), frames
    finally:
        writer.close()


def hello(endpoint, **changes):
    said = {"agent": endpoint.env["PRSM_AGENT"], "token": endpoint.env["PRSM_TOKEN"], "pid": 1}
    return {**said, **changes}


async def dial(address):
    """Connect to a Unix socket, whatever the length of its path."""
    with short_name(Path(address)) as name:
        return await asyncio.open_unix_connection(name, limit=LINE_LIMIT)


class Relay:
    """A Unix socket that leads to another, until it is cut or held up."""

    def __init__(self, path: Path, target: str) -> None:
        self.address = str(path)
        self.again = asyncio.Event()  # somebody has come a second time
        self.is_held = False  # what the other end says goes no further
        self.held = asyncio.Event()  # something was held back
        self._target = target
        self._count = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[Any] = set()
        self._server: Any = None

    async def __aenter__(self):
        with short_name(Path(self.address)) as name:
            self._server = await asyncio.start_unix_server(self._accept, name)
        return self

    async def __aexit__(self, *exc_info):
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Break every connection off."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader, writer) -> None:
        self._count += 1
        if self._count > 1:
            self.again.set()
        self._tasks.add(asyncio.current_task())
        there, back = await dial(self._target)
        self._writers |= {writer, back}
        async with asyncio.TaskGroup() as group:
            _ = group.create_task(self._pump(reader, back))
            _ = group.create_task(self._pump(there, writer, may_be_held=True))

    async def _pump(self, reader, writer, *, may_be_held=False) -> None:
        try:
            while data := await reader.read(1 << 16):
                if may_be_held and self.is_held:
                    self.held.set()
                    continue
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
