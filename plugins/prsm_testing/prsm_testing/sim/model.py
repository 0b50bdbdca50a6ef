"""The simulated provider: how a model streams and calls, and how it misbehaves."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.permissions import PermissionRequest
from prsm_core.domain.turns import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    PlanEntry,
    PlanUpdated,
    StepEnded,
    StopReason,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import Provider, ProviderSession
from prsm_testing.sim.behaviour import Behaviour
from prsm_testing.sim.stale_lives import call_late

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Callable

    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.interfaces.provider import (
        AgentHost,
        BackgroundTask,
        ProviderServices,
        SessionRequest,
    )
    from prsm_testing.sim.behaviour import Request, Society
    from prsm_testing.sim.faults import FaultDice
    from prsm_testing.sim.rules import Findings

QUEUE = 1000  # events that the engine has not taken yet
_STREAM_ENDS = object()
_GARBAGE: tuple[Any, ...] = (
    TextDelta("half a pair: \ud83d"),
    AssistantMessage("\ud800", thinking="\udfff"),
    AssistantMessage(""),
    ToolCallFinished("never-begun", "completed", result="x"),
    ToolCallFinished("never-begun", "no such status"),
    ToolOutput("never-begun", "x"),
    PlanUpdated((PlanEntry("\ud800", "in_progress"), PlanEntry("", "pending"))),
    ToolCallStarted("twice", "Bash", {"command": "\ud800", "n": float("inf")}),
    UsageReported(TokenUsage(input_tokens=-5, output_tokens=10**30), cost_usd=float("nan")),
    StepEnded(),
    object(),
)


class ModelCrashError(Exception):
    """A provider's session broke: the simulation's doing, no surprise."""


@dataclass(eq=False)
class SimProvider(Provider):
    """Gives every agent a behaviour of its own; `on_open` is given each request for a session."""

    society: Society
    faults: FaultDice
    findings: Findings
    services: ProviderServices
    on_open: Callable[[SessionRequest], None]
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    calls: int = 0
    lingering: int = 0  # sessions that do not let go just now
    _working: set[SimSession] = field(default_factory=set)
    _open: dict[int, SimSession] = field(default_factory=dict)  # by host
    _lives: dict[str, list[AgentHost]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.society.shape.residents is not None:
            self.capabilities = replace(self.capabilities, own_process=True)

    @property
    def dice(self) -> random.Random:
        """The run's source of chance."""
        return self.society.dice

    async def pause(self, mean_s: float) -> None:
        """Let some time pass; sometimes none."""
        await self.services.clock.sleep(min(self.dice.expovariate(1.0) * mean_s, 20 * mean_s))

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open a session after a while, or fail to."""
        await self.pause(0.2)
        if request.resume_token is not None and self.faults.strikes("crash", 0.05):
            raise ProviderNotAvailableError("the thread is gone", code="resume_failed")
        if self.faults.strikes("crash", 0.01):
            raise ProviderNotAvailableError("the program is gone")
        process = None
        if self.capabilities.own_process:
            process = await self.services.start_process(("sim",), name=request.name)
        session = SimSession(self, request, host)
        self.on_open(request)
        self._begin_life(request, host)
        self._open[id(host)] = session  # a life has one host, and one session after the other
        try:
            yield session
        finally:
            del self._open[id(host)]
            if self.faults.strikes("hang", 0.02):
                await self.linger()
            if process is not None:
                process.kill()

    def _begin_life(self, request: SessionRequest, host: AgentHost) -> None:
        """Keep the hosts of an agent's lives; some that are over are used all the same."""
        lives = self._lives.setdefault(request.agent_id, [])
        if host in lives:
            return
        for stale in lives:
            if self.faults.strikes("stale", 0.7):
                self.services.start_soon(
                    self._use_stale, stale, request, name=f"a stale life of {request.name}"
                )
        lives.append(host)
        if request.name not in self.society.names:
            self.society.names.append(request.name)

    async def _use_stale(self, host: AgentHost, request: SessionRequest) -> None:
        for _ in range(self.dice.randint(1, 4)):
            await self.pause(2.0)
            await call_late(host, request, self.dice, self.findings)

    async def linger(self) -> None:
        """Take long to close, and do not listen to whoever wants it sooner."""
        self.lingering += 1
        for _ in range(3):
            try:
                await self.services.clock.sleep(20.0)
            except asyncio.CancelledError:
                continue
        self.lingering -= 1

    def is_open(self, host: AgentHost) -> bool:
        """Return whether a session of this life of an agent is open."""
        return id(host) in self._open

    def confuse(self, host: AgentHost) -> None:
        """Note that a call of another turn comes into the one that runs, if one does."""
        session = self._open.get(id(host))
        if session is not None and session.turn is not None:
            session.turn.confuse()

    def works(self, session: SimSession) -> None:
        """Note that a model works; there must be a slot for it."""
        self._working.add(session)
        limit = self.society.shape.slots
        self.findings.check(
            "slots",
            len(self._working) <= limit,
            f"{len(self._working)} models work at one time, on {limit} slots",
        )

    def rests(self, session: SimSession) -> None:
        """Note that a model has ended its turn, or only waits for answers."""
        self._working.discard(session)


class SimSession(ProviderSession):
    """One agent's conversation, for as long as the engine keeps the session open."""

    def __init__(self, provider: SimProvider, request: SessionRequest, host: AgentHost) -> None:
        self.provider = provider
        self.request = request
        self.host = host
        self.behaviour = provider.behaviours.setdefault(
            request.agent_id, Behaviour(provider.society)
        )
        self.reusable = provider.dice.random() < 0.9
        self.resume_token = request.resume_token
        dice = provider.dice  # some clients cut off what takes long
        self.patience_s = dice.uniform(1, 60) if dice.random() < 0.15 else None
        self.turn: _Turn | None = None  # the newest

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Stream one turn; a crash is raised out of the stream."""
        if self.provider.dice.random() < 0.5:
            self.resume_token = f"thread of {self.request.name}"
        turn = self.turn = _Turn(self, context)
        try:
            while (event := await turn.queue.get()) is not _STREAM_ENDS:
                if isinstance(event, ModelCrashError):
                    raise event
                yield event
        finally:
            turn.stop()
            if self.provider.faults.strikes("hang", 0.01):
                await self.provider.linger()

    async def interrupt(self) -> None:
        """End the running turn soon, or do not listen."""
        if self.turn is not None and not self.provider.faults.strikes("hang", 0.2):
            await self.provider.pause(0.2)
            self.turn.abort()


class _Turn:
    """One turn of a model: thinks, calls, and hears the answers."""

    def __init__(self, session: SimSession, context: AssembledContext) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue(QUEUE)
        self._session = session
        self._provider = session.provider
        self._dice = session.provider.dice
        self._strikes = session.provider.faults.strikes
        self._tasks: list[BackgroundTask] = []
        message = context.current_message
        session.behaviour.wake(None if message is None else message.content)
        self._is_over = False
        self._is_honest = True  # it has told nothing that makes the engine believe it rests
        self._play = self._start(self._run)

    def stop(self) -> None:
        """End whatever the turn does; sometimes a call comes all the same."""
        self._is_over = True
        self._provider.rests(self._session)
        self._play.cancel()
        if self._strikes("late", 0.1):
            self._start(self._call_late, self._session.behaviour.random_request())
        else:
            for task in self._tasks:
                task.cancel()

    def confuse(self) -> None:
        """Note that the engine may believe from now on that the model rests while it works."""
        self._is_honest = False
        self._provider.rests(self._session)

    def abort(self) -> None:
        self._play.cancel()
        self.queue.put_nowait(TurnEnded(StopReason.ABORTED))

    def _start(self, work: Callable[..., Awaitable[object]], *arguments: Any) -> BackgroundTask:
        name = f"model of {self._session.request.name}"
        return self._provider.services.start_soon(work, *arguments, name=name)

    def _tell(self, event: Any) -> None:
        self.queue.put_nowait(event)

    def _work(self) -> None:
        if self._is_honest and not self._is_over:
            self._provider.works(self._session)

    async def _run(self) -> None:
        self._work()
        behaviour = self._session.behaviour
        tools = frozenset(spec.name for spec in self._session.host.tools)
        while True:
            await self._think()
            if await self._misbehave():
                return
            requests = behaviour.next_response(tools)
            if not requests or await self._respond(requests):
                break
        await self._end()

    async def _think(self) -> None:
        await self._provider.pause(self._provider.society.shape.think_s)
        roll = self._dice.random()
        if roll < 0.2:
            self._tell(TextDelta("hm"))
        elif roll < 0.4:
            self._tell(AssistantMessage("I see.", thinking="what now"))
        elif roll < 0.6:
            tokens = TokenUsage(input_tokens=self._dice.randint(1, 999), output_tokens=5)
            self._tell(UsageReported(tokens, cost_usd=0.01))
        elif roll < 0.75:
            await self._use_own_tool()

    async def _use_own_tool(self) -> None:
        call_id = f"v{self._dice.randint(1, 5)}"
        if self._dice.random() < 0.3:
            of, command = self._session.request, self._dice.choice(("ls", "git push", "rm -r /"))
            asked = PermissionRequest(
                agent_id=of.agent_id, tool="Bash", arguments={}, cwd=of.cwd, command=command
            )
            await self._session.host.authorize(asked)
        self._tell(ToolCallStarted(call_id, "Bash", {"command": "ls"}))
        await self._provider.pause(self._provider.society.shape.think_s)
        self._tell(ToolOutput(call_id, "o"))
        if self._dice.random() < 0.95:
            self._tell(ToolCallFinished(call_id, self._dice.choice(("completed", "failed")), "ok"))

    async def _respond(self, requests: list[Request]) -> bool:
        """Make the calls of one response; return whether the turn ends with them."""
        answers = [self._call(request) for request in requests]
        if self._strikes("duplicate", 0.03):
            answers.append(self._call(requests[-1], again=True))
        if self._strikes("late", 0.01):  # it does not wait for the answers
            await asyncio.sleep(0)
            return True
        if self._dice.random() < 0.2:
            await self._provider.pause(0.05)
        else:
            await asyncio.sleep(0)  # now the engine has them
        if self._dice.random() < self._provider.society.shape.step_ends:
            self._tell(StepEnded())
        self._provider.rests(self._session)
        if any([await answer for answer in answers]):
            return True
        self._work()
        return False

    def _call(self, request: Request, *, again: bool = False) -> asyncio.Future[bool]:
        """Begin a call, or the last one `again`, under its id.

        The future tells whether the turn ends with its answer.
        """
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._provider.calls += not again
        has_id = again or self._dice.random() < 0.8
        call_id = f"c{self._provider.calls}" if has_id else None
        self._tasks.append(self._start(self._deliver, request, call_id, answered))
        return answered

    async def _deliver(
        self, request: Request, call_id: str | None, answered: asyncio.Future[bool]
    ) -> None:
        name, arguments = request
        outcome = await self._session.host.call_tool(
            name, arguments, call_id=call_id, patience_s=self._session.patience_s
        )
        self._session.behaviour.learn(outcome)
        if "token" in (outcome.data or {}):
            self.confuse()  # the call still waits; after a silence all seems to
        if not answered.done():
            answered.set_result(outcome.ends_turn)

    async def _call_late(self, request: Request) -> None:
        """Call when the turn is over, perhaps in a later turn or another life of the agent."""
        await self._provider.pause(3.0)
        name, arguments = request
        host = self._session.host
        closed = not self._provider.is_open(host)
        self._provider.confuse(host)
        outcome = await host.call_tool(name, arguments)
        if closed and not self._provider.is_open(host):
            self._provider.findings.check(
                "incarnations",
                outcome.is_error,
                f"{name} of {self._session.request.name} had an effect after its session's end",
            )

    async def _end(self) -> None:
        if self._strikes("garbage", 0.03):
            self._tell(_STREAM_ENDS)
            return
        if self._dice.random() < 0.5:
            self._tell(AssistantMessage("That is all."))
        self._tell(UsageReported(TokenUsage(output_tokens=3)))
        self._tell(TurnEnded(StopReason.END_TURN))
        if self._strikes("garbage", 0.05):
            self._tell(AssistantMessage("by the way"))
            self._tell(TurnEnded(StopReason.MAX_TOKENS))

    async def _misbehave(self) -> bool:
        """Let a fault strike, or none; return whether it has ended the turn."""
        if self._strikes("crash", 0.01):
            self._tell(ModelCrashError("the session broke"))
            return True
        if self._strikes("hang", 0.006):
            await asyncio.get_running_loop().create_future()
        if self._strikes("429", 0.02):
            self._tell(TurnEnded(StopReason.ERROR, self._limited()))
            return True
        if self._strikes("garbage", 0.04):
            self.confuse()
            for _ in range(self._dice.randint(1, 3)):
                self._tell(self._dice.choice(_GARBAGE))
        return False

    def _limited(self) -> AgentError:
        after = round(self._dice.uniform(0.0, 90.0), 1) if self._dice.random() < 0.7 else None
        return AgentError(
            kind=ErrorKind.RATE_LIMIT, message="429", retryable=True, retry_after_s=after
        )
