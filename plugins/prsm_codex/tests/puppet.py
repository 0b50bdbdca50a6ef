"""An app-server without a process: answers requests as told, and says what a test wants."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_codex.app_server import HOME
from prsm_codex.provider import build
from prsm_codex.session import CodexSession
from prsm_testing.doubles import RecordingHost, open_background, session_request, until

from prsm_core.errors import ProcessError
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.hook_gate import HookGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from prsm_codex.provider import CodexProvider

    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background

THREAD = "thread-1"
TURN = "turn-1"
HOOK = {
    "key": "k",
    "eventName": "preToolUse",
    "source": "sessionFlags",
    "command": HookGate.command,
    "enabled": True,
    "currentHash": "sha256:1",
    "trustStatus": "trusted",
}
HOOK_LIST = {"data": [{"cwd": "/w", "hooks": [HOOK]}]}


class Puppet:
    """A Process; `answers` maps a method to what is answered (None: nothing), or to a function
    of its parameters."""

    pid = 1
    stderr_tail = ""

    def __init__(self, **answers: Any) -> None:
        self.received: list[dict[str, Any]] = []
        self.ended: str | None = None
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answers: dict[str, Any] = {
            "initialize": {},
            "thread/start": {"thread": {"id": THREAD}},
            "thread/resume": {"thread": {"id": THREAD}},
            "thread/backgroundTerminals/clean": {},
            "turn/start": {"turn": {"id": TURN}},
            "turn/steer": {},
            "turn/interrupt": {},
            "thread/inject_items": {},
            "hooks/list": HOOK_LIST,
            "config/batchWrite": {"status": "ok"},
            **answers,
        }

    async def write(self, data):
        if self.ended:
            raise ProcessError("the standard input of codex is closed")
        message = json.loads(data)
        self.received.append(message)
        method = message.get("method")
        if "id" not in message or method is None:
            return
        answer = self.answers[method]
        if callable(answer):
            answer = answer(message["params"])
        if isinstance(answer, Exception):
            self.say({"id": message["id"], "error": {"code": -32600, "message": str(answer)}})
        elif answer is not None:
            self.say({"id": message["id"], "result": answer})
            if method == "turn/start":
                params = {"threadId": THREAD, "turn": {"id": TURN, "status": "inProgress"}}
                self.say({"method": "turn/started", "params": params})

    async def lines(self):
        while (line := await self._lines.get()) is not None:
            yield line

    def close_stdin(self):
        self._end("stopped")

    async def wait(self):
        return 0

    async def stop(self, grace=5.0):
        self._end("stopped")
        return 0

    def kill(self):
        self._end("killed")

    def _end(self, how: str) -> None:
        if self.ended is None:
            self.ended = how
            self._lines.put_nowait(None)

    def say(self, message: dict[str, Any]) -> None:
        """Write a line."""
        self._lines.put_nowait(json.dumps(message).encode())

    def say_raw(self, line: bytes) -> None:
        """Write a line that need not be JSON."""
        self._lines.put_nowait(line)

    def tell(self, method: str, **params: Any) -> None:
        """Say a notification of the turn."""
        self.say({"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}})

    def ask(self, number: int, method: str, **params: Any) -> None:
        """Ask the client something about the turn."""
        params = {"threadId": THREAD, "turnId": TURN, **params}
        self.say({"id": number, "method": method, "params": params})

    def complete(self, status: str = "completed", turn: str = TURN) -> None:
        """Say that a turn has ended."""
        params = {"threadId": THREAD, "turn": {"id": turn, "status": status}}
        self.say({"method": "turn/completed", "params": params})

    async def sent(self, method: str) -> dict[str, Any]:
        """Wait for a request of the client and return it."""
        await until(lambda: any(m.get("method") == method for m in self.received))
        return next(m for m in self.received if m.get("method") == method)

    async def answer(self, number: int) -> dict[str, Any]:
        """Wait for the client's answer to a request and return it."""

        def found() -> list[dict[str, Any]]:
            return [m for m in self.received if m.get("id") == number and "method" not in m]

        await until(lambda: bool(found()))
        (answer,) = found()
        return answer


class VersionProcess(Puppet):
    """`codex --version`."""

    def __init__(self, version: str) -> None:
        super().__init__()
        self.say_raw(f"codex-cli {version}".encode())
        self._end("exited")


class PuppetServices:
    """ProviderServices that hand out fake processes."""

    def __init__(
        self, state_dir, background: Background, make: Callable[[], Puppet], clock: Clock
    ) -> None:
        self.state_dir = state_dir
        self.clock = clock
        self.environment = {"PATH": "/bin"}
        self.argvs: list[tuple[str, ...]] = []
        self.envs: list[dict[str, str]] = []
        self.codex: list[Puppet] = []
        self.version = "0.169.0"
        self._background = background
        self._make = make

    async def start_process(
        self, argv: Any, *, name: str, cwd: Any = None, env: Any = None, box: Any = None
    ) -> Any:
        self.argvs.append(tuple(argv))
        if name == "codex --version":
            return VersionProcess(self.version)
        self.envs.append(dict(env or {}))
        self.codex.append(self._make())
        return self.codex[-1]

    def start_soon(self, fn: Any, *args: Any, name: str) -> Any:
        return self._background.start(fn(*args), name=name)

    def shielded(self, argv: Any) -> Any:
        return argv

    def redact(self, value: Any) -> Any:
        return value


@asynccontextmanager
async def open_fake(
    state_dir: Path,
    *,
    clock: Clock | None = None,
    settings: dict[str, Any] | None = None,
    **answers: Any,
) -> AsyncIterator[tuple[CodexProvider, PuppetServices]]:
    """Yield a provider over puppets, and its services; it asks for approval, without the hook.

    Its private home is made already, so that the first puppet is the one that serves.
    """
    (state_dir / HOME).mkdir(exist_ok=True)
    async with open_background() as background:
        services = PuppetServices(
            state_dir, background, lambda: Puppet(**answers), clock or SystemClock()
        )
        given = {"base_url": "http://127.0.0.1:1/v1", "enforcement": "approval"}
        provider = build({**given, **(settings or {})}, services)
        try:
            yield provider, services
        finally:
            await provider.aclose()


@asynccontextmanager
async def open_session(
    state_dir: Path,
    host: RecordingHost | None = None,
    *,
    clock: Clock | None = None,
    settings: dict[str, Any] | None = None,
    request: dict[str, Any] | None = None,
    **answers: Any,
) -> AsyncIterator[tuple[CodexSession, Puppet]]:
    """Yield a session and the puppet behind it; `request` holds fields of its SessionRequest."""
    async with (
        open_fake(state_dir, clock=clock, settings=settings, **answers) as (provider, services),
        provider.open_session(
            session_request(state_dir, **(request or {})), host or RecordingHost()
        ) as session,
    ):
        assert isinstance(session, CodexSession)
        yield session, services.codex[-1]
