"""Doubles of what the engine gives a provider: services over real processes, a host that records.

In a test of a provider::

    async with open_services(tmp_path) as services:
        provider = build(settings, services)
        host = RecordingHost(note=answers("noted"))
        async with provider.open_session(session_request(tmp_path), host) as session:
            events = await run_turn(session, "Take a note.")
        assert [call.name for call in host.calls] == ["note"]
        await provider.aclose()
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace
from prsm_sandbox.plugin import prsm_executors

from prsm_core.domain.agents import AgentResult, AgentRole, AgentState
from prsm_core.domain.permissions import Allow, Answer
from prsm_core.domain.structs import read
from prsm_core.domain.tools import NATIVE_TOOLS, ToolOutcome, ToolSpec
from prsm_core.domain.turns import AgentMessage, AssembledContext, TurnEnded
from prsm_core.engine.processes.executor import ChosenExecutor, ProgramBoxes
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.errors import MessageRoutingError
from prsm_core.interfaces.provider import SessionRequest
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.plugins.objects import load_object
from prsm_core.plugins.settings import reference_of, settings_model, with_settings

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.boxes import Box
    from prsm_core.domain.permissions import Deny, PermissionRequest, Question
    from prsm_core.domain.tools import McpEndpoint
    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.domain.usage import Spent
    from prsm_core.engine.processes.child import ChildProcess
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import BackgroundTask, ChildNow, ProviderSession
    from prsm_core.plugins.settings import Configurable

    Handler = Callable[..., Awaitable[ToolOutcome]]

T = TypeVar("T")

# Above the minute that a provider itself waits for its vendor to begin: its own error says more.
TURN_SECONDS = 90.0
_POLL_SECONDS = 0.01
_numbers = itertools.count(1)  # of messages


SANDBOX = ChosenExecutor(spec=next(iter(prsm_executors())))


class LocalServices:
    """ProviderServices over the engine's own launcher; `processes` holds all it has started."""

    def __init__(
        self, state_dir: Path, launcher: ProcessLauncher, background: Background, clock: Clock
    ) -> None:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.state_dir = state_dir
        self.clock = clock
        self.processes: list[ChildProcess] = []
        self._launcher = launcher
        self._boxes = ProgramBoxes(launcher, state_dir, SANDBOX)
        self._background = background

    def redact(self, value: Any) -> Any:
        """Return it as it is: tests have no secrets."""
        return value

    @property
    def live(self) -> list[ChildProcess]:
        """The processes that have not ended."""
        return [process for process in self.processes if not process.has_exited]

    def story(self) -> str:
        """Return what each process came to, and the last that it said on stderr."""
        return "\n".join(map(_story, self.processes)) or "no process was started"

    @property
    def environment(self) -> Mapping[str, str]:
        """What each process is started with."""
        return self._launcher.environment()

    async def start_process(
        self,
        argv: Sequence[str],
        *,
        name: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        box: Box | None = None,
    ) -> ChildProcess:
        """Start a process under the reaper shim, in a box if one is given; see ProviderServices."""
        process = await self._boxes.start(argv, name=name, cwd=cwd, env=env, box=box)
        self.processes.append(process)
        return process

    def close(self) -> None:
        """Leave no box behind; what still runs in one is removed at its end."""
        self._boxes.close()

    def start_soon(
        self, fn: Callable[..., Awaitable[object]], *args: Any, name: str
    ) -> BackgroundTask:
        """Run `fn(*args)` until it ends or the services are closed."""
        return self._background.start(_awaited(fn, *args), name=name)

    def shielded(self, argv: Sequence[str]) -> Sequence[str]:
        """Return argv under the reaper shim."""
        return self._launcher.shielded(argv)


def _story(process: ChildProcess) -> str:
    came_to = f"exit code {process.wire.exit_code}" if process.has_exited else "running"
    return f"process {process.pid} ({process.name}): {came_to}; stderr: {process.stderr_tail!r}"


async def _awaited(fn: Callable[..., Awaitable[object]], *args: Any) -> None:
    await fn(*args)


@asynccontextmanager
async def open_background() -> AsyncIterator[Background]:
    """Yield a task group as the engine has one.

    Raises ExceptionGroup on leaving when a task in it has failed.
    """
    errors: list[Exception] = []
    async with Background(lambda _, error: errors.append(error)) as background:
        yield background
    if errors:
        raise ExceptionGroup("background tasks of the provider failed", errors)


@asynccontextmanager
async def open_services(
    state_dir: Path, *, clock: Clock | None = None
) -> AsyncIterator[LocalServices]:
    """Yield services; on leaving, whatever still runs is ended.

    An error that leaves it gets a note of what the processes came to: many a fault of a vendor's
    program is only seen there. Raises ExceptionGroup on leaving when a background task of the
    provider has failed.
    """
    async with ProcessLauncher(SystemClock()) as launcher, open_background() as background:
        services = LocalServices(state_dir, launcher, background, clock or SystemClock())
        try:
            yield services
        except Exception as error:
            error.add_note(services.story())
            raise
        finally:
            services.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """An orchestration call as it reached the host."""

    name: str
    arguments: Mapping[str, Any]
    call_id: str | None


class RecordingHost:
    """An AgentHost that keeps what it is asked.

    `handlers` are the orchestration tools, by name: each gets the call's arguments by keyword.
    `verdict` answers every permission request (default: Allow), `answer` every question. `labels`
    are the agent's, `known` its children: a program reads both, and changes them by `relabel` and
    `end_child`. `past` are agents of other sessions.
    """

    def __init__(
        self,
        *,
        verdict: Callable[[PermissionRequest], Allow | Deny] | None = None,
        answer: Answer | None = None,
        labels: Mapping[str, str] | None = None,
        known: Sequence[ChildNow] = (),
        past: Sequence[ChildNow] = (),
        **handlers: Handler,
    ) -> None:
        self.tools: Sequence[ToolSpec] = [tool_spec(name, text="string") for name in handlers]
        self.calls: list[RecordedCall] = []
        self.requests: list[PermissionRequest] = []
        self.questions: list[Question] = []
        self.labels: Mapping[str, str] = dict(labels or {})
        self.known = list(known)
        self.past = tuple(past)
        self._handlers = handlers
        self._verdict = verdict or (lambda _: Allow())
        self._answer = answer or Answer(text="no human is attached")

    def is_orchestration(self, vendor_name: str) -> bool:
        """Return whether a vendor's tool name is, or ends with, one of the handlers' names."""
        return any(
            vendor_name == name or vendor_name.endswith(f"_{name}") for name in self._handlers
        )

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,  # a handler answers at once or not at all
    ) -> ToolOutcome:
        """Keep the call and let its handler answer."""
        self.calls.append(RecordedCall(name=name, arguments=dict(arguments), call_id=call_id))
        return await self._handlers[name](**arguments)

    async def authorize(self, request: PermissionRequest) -> Allow | Deny:
        """Keep the request and return the verdict."""
        self.requests.append(request)
        return self._verdict(request)

    async def ask_user(self, question: Question) -> Answer:
        """Keep the question and return the answer."""
        self.questions.append(question)
        return self._answer

    async def relabel(
        self, changes: Mapping[str, str | None], agent: str | None = None
    ) -> Mapping[str, str]:
        """Change labels of the agent, or of a child of it, as the engine does of a program."""
        if agent is None:
            self.labels = _laid(self.labels, changes)
            return self.labels
        place = self._place_of(agent)
        labels = _laid(self.known[place].labels, changes)
        self.known[place] = replace(self.known[place], labels=labels)
        return labels

    def _place_of(self, child: str) -> int:
        for place, known in enumerate(self.known):
            if child in {known.agent_id, known.name}:
                return place
        raise MessageRoutingError(f"{child!r} is no child of yours", code="unknown_agent")

    def children(self) -> Sequence[ChildNow]:
        """Return the children that are known."""
        return tuple(self.known)

    async def end_child(self, agent: str, reason: str) -> None:
        """Have a child be killed, if it has not ended."""
        place = self._place_of(agent)
        if not self.known[place].state.is_terminal:
            self.known[place] = _killed(self.known[place], reason)

    async def spent_with_label(self, label: str, text: str) -> Sequence[Spent]:
        """Return what the known children with a label have used, and those of `past`."""
        return [
            child.spent
            for child in (*self.past, *self.known)
            if child.labels.get(label) == text and child.state.is_terminal
        ]

    def mcp_endpoint(
        self, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Serve the handlers by MCP, as the engine does, until left; prsm-mcp has to be there."""
        return _endpoint(_Served(self), patience_s)


def _killed(child: ChildNow, reason: str) -> ChildNow:
    result = AgentResult(
        agent_id=child.agent_id, success=False, summary="", error=reason, error_kind="killed"
    )
    return replace(child, state=AgentState.KILLED, result=result)


def _laid(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in {**labels, **changes}.items() if text is not None}


class _Served:
    """A host's tools as the engine serves them: an agent that has completed calls no other."""

    def __init__(self, host: RecordingHost) -> None:
        self._host = host
        self._has_completed = False

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._host.tools

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        if self._has_completed:
            return ToolOutcome(text="this agent has completed", is_error=True)
        outcome = await self._host.call_tool(
            name, arguments, call_id=call_id, patience_s=patience_s
        )
        self._has_completed = outcome.ends_turn
        return outcome


@asynccontextmanager
async def _endpoint(host: _Served, patience_s: float | None) -> AsyncIterator[McpEndpoint]:
    from prsm_core.plugins.tool_server import tool_server  # only this double needs it

    with TemporaryDirectory(prefix="prsm-bridge-") as folder:
        async with (
            tool_server()(Path(folder) / "bridge.sock", SystemClock()) as open_endpoint,
            open_endpoint(host, "a" * 32, patience_s=patience_s) as endpoint,
        ):
            yield endpoint


def tool_spec(name: str, **properties: str) -> ToolSpec:
    """Return an orchestration tool; `properties` are its arguments with their JSON types."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
    }
    return ToolSpec(
        name=name,
        description=f"The tool {name}.",
        input_schema=schema,
        roles=frozenset(AgentRole),
    )


def answers(text: str, **fields: Any) -> Handler:
    """Return a handler that always gives the same outcome."""

    async def handler(**_: Any) -> ToolOutcome:
        return ToolOutcome(text=text, **fields)

    return handler


completes = answers('{"ok":true}', ends_turn=True)  # answers task_complete


def session_request(cwd: Path | str, **changes: Any) -> SessionRequest:
    """Return the session request of a worker that has every native tool."""
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


def turn_context(text: str | None, *history: tuple[str, str], **changes: Any) -> AssembledContext:
    """Return the context of a turn that begins with `text`; `history` is (role, content) pairs.

    Without text the turn goes on where the last one stopped. No two messages have the same id.
    `changes` are other fields of it.
    """
    messages = [
        AgentMessage(id=f"m{next(_numbers)}", role=role, content=content, sequence=n, created_at=0)
        for n, (role, content) in enumerate((*history, ("user", text or "")))
    ]
    given: dict[str, Any] = {
        "system_prompt": "You are w1.",
        "history": messages[:-1],
        "current_message": messages[-1] if text is not None else None,
        "model": "scripted-1",
        "provider": "tested",
        "run_id": "r",
        "session_label": "s/w1",
        "role": "worker",
        "toolset_name": "worker",
        "workspace_path": "/",
    }
    return AssembledContext(**{**given, **changes})


async def run_turn(
    session: ProviderSession,
    text: str | None,
    *history: tuple[str, str],
    timeout_s: float = TURN_SECONDS,
    **changes: Any,
) -> list[Any]:
    """Run a turn to its end and return its events, of which the last is the only TurnEnded.

    `changes` are other fields of its context.

    Raises TimeoutError, with the events so far, when it has not ended after `timeout_s`, and
    ValueError when the end is missing, repeated or not the last.
    """
    context = turn_context(text, *history, **changes)
    stream: AsyncGenerator[ProviderEvent, None] = session.run_turn(context)  # type: ignore[assignment]
    events: list[Any] = []
    try:
        async with asyncio.timeout(timeout_s), aclosing(stream):
            async for event in stream:
                events.append(event)  # noqa: PERF401 - what has come is told where no more comes
    except TimeoutError as error:
        raise TimeoutError(f"no end of a turn in {timeout_s:g} s; so far: {events}") from error
    ends = only(TurnEnded, events)
    if len(ends) != 1 or events[-1] is not ends[0]:
        raise ValueError(f"a turn ends with exactly one TurnEnded, its last event: {events}")
    return events


def only(kind: type[T], events: Iterable[object]) -> list[T]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


async def until(condition: Callable[[], object], *, timeout_s: float = 10.0) -> None:
    """Return once something that nothing tells of is as it should be; raise TimeoutError else."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(_POLL_SECONDS)


def tried_with(spec: Configurable, values: Mapping[str, Any]) -> Any:
    """Return what a record registers, given settings that its model reads from these values.

    Raises msgspec.ValidationError where they do not fit.
    """
    model = settings_model(spec, plugin=spec.name)
    if model is None:
        return load_object(reference_of(spec), plugin=spec.name)
    found = read(model, dict(values))
    return reference_of(with_settings(spec, found, plugin=spec.name))
