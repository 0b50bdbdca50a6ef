"""What the engine gives a provider, small enough to see through: services and a scripted host."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.permissions import Allow, Answer
from prsm_core.domain.tools import NATIVE_TOOLS, ToolOutcome, ToolSpec
from prsm_core.domain.turns import AgentMessage, AssembledContext, TurnEnded
from prsm_core.engine.background import Background
from prsm_core.engine.processes import ProcessLauncher
from prsm_core.interfaces.provider import SessionRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from prsm_core.interfaces.clock import Clock

TURN_SECONDS = 30.0


class LoopClock:
    """The real time."""

    def now(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Services:
    """ProviderServices over the real launcher and task group."""

    def __init__(self, state_dir: Path, launcher: ProcessLauncher, background: Background):
        self.state_dir = state_dir
        self.clock: Clock = LoopClock()
        self.processes: list[Any] = []
        self._launcher = launcher
        self._background = background

    async def start_process(self, argv: Any, *, name: str, cwd: Any = None, env: Any = None) -> Any:
        process = await self._launcher.start(argv, name=name, cwd=cwd, env=env)
        self.processes.append(process)
        return process

    def start_soon(self, fn: Any, *args: Any, name: str) -> Any:
        return self._background.start(fn(*args), name=name)

    def shielded(self, argv: Any) -> Any:
        return self._launcher.shielded(argv)


@asynccontextmanager
async def open_services(state_dir: Path) -> AsyncIterator[Services]:
    """Yield services; a background task that failed fails the test."""
    errors: list[tuple[str, Exception]] = []
    async with (
        ProcessLauncher(LoopClock()) as launcher,
        Background(lambda name, error: errors.append((name, error))) as background,
    ):
        yield Services(state_dir, launcher, background)
    assert errors == []


def tool(name: str, **properties: str) -> ToolSpec:
    """Return an orchestration tool with text arguments."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
    }
    return ToolSpec(
        name=name,
        description=f"The tool {name}.",
        input_schema=schema,
        roles=frozenset(AgentRole),
        waits=False,
        parallel=True,
    )


class Host:
    """An AgentHost: `handlers` answer orchestration calls, `verdict` every permission request."""

    def __init__(self, *, verdict: Any = None, answer: Answer | None = None, **handlers: Any):
        self.tools: Sequence[ToolSpec] = [tool(name, text="string") for name in handlers]
        self.handlers = handlers
        self.verdict = verdict or (lambda request: Allow())
        self.answer = answer or Answer(text="no human")
        self.calls: list[tuple[str, dict[str, Any], str | None]] = []
        self.requests: list[Any] = []
        self.questions: list[Any] = []

    def is_orchestration(self, vendor_name):
        return vendor_name in self.handlers

    async def call_tool(self, name, arguments, *, call_id=None):
        self.calls.append((name, dict(arguments), call_id))
        return await self.handlers[name](**arguments)

    async def authorize(self, request):
        self.requests.append(request)
        return self.verdict(request)

    async def ask_user(self, question):
        self.questions.append(question)
        return self.answer

    def mcp_endpoint(self):
        raise NotImplementedError


async def completes(**_: Any) -> ToolOutcome:
    """Answer task_complete."""
    return ToolOutcome(text='{"ok":true}', ends_turn=True)


def request(cwd: Path | str, **changes: Any) -> SessionRequest:
    """Return a session request of a worker with every tool."""
    given: dict[str, Any] = {
        "agent_id": "a" * 32,
        "name": "w1",
        "role": AgentRole.WORKER,
        "model": "scripted-1",
        "system_prompt": "You are w1.",
        "cwd": str(cwd),
        "native_tools": NATIVE_TOOLS,
    }
    return SessionRequest(**{**given, **changes})


def context(text: str | None, *history: tuple[str, str]) -> AssembledContext:
    """Return the context of a turn that begins with `text`."""
    messages = [
        AgentMessage(id=str(n), role=role, content=content, sequence=n, created_at=0)
        for n, (role, content) in enumerate((*history, ("user", text or "")))
    ]
    return AssembledContext(
        system_prompt="You are w1.",
        history=messages[:-1],
        current_message=messages[-1] if text is not None else None,
        model="scripted-1",
        provider="codex",
        run_id="r",
        session_label="s/w1",
        role="worker",
        toolset_name="worker",
        workspace_path="/",
    )


async def run_turn(session, text: str | None, *history: tuple[str, str]) -> list[Any]:
    """Run a turn to its end and return its events."""
    async with (
        asyncio.timeout(TURN_SECONDS),
        aclosing(session.run_turn(context(text, *history))) as turn,
    ):
        events = [event async for event in turn]
    assert [e for e in events if isinstance(e, TurnEnded)] == events[-1:]
    return events


async def until(condition: Callable[[], bool]) -> None:
    """Return once something outside this process is as it should be, within five seconds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


def only(kind: type, events: list[Any]) -> list[Any]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]
