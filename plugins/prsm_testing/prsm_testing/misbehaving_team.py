"""A team with misbehaving agents: their programs do wrong, the others must not feel it.

The team is that of a real run (engine, ledger, launcher), but for its master, which a script
plays, and a neighbour that works all the while.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections import defaultdict
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_demo.plugin import prsm_providers as scripted
from prsm_files.session.session_files import opens

from prsm_core.config.schema import Settings
from prsm_core.domain.agents import AgentState
from prsm_core.domain.ids import Ids
from prsm_core.domain.tools import McpEndpoint
from prsm_core.domain.turns import (
    AssistantMessage,
    StopReason,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from prsm_core.engine.assembly import EngineConfig
from prsm_core.engine.engine import OrchestrationEngine
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.requests import HumanPolicy
from prsm_core.engine.tools.table import ToolTable
from prsm_core.interfaces.provider import (
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
)
from prsm_core.kit.clocks import SystemClock
from prsm_core.store import SqliteStore
from prsm_testing.doubles import until
from prsm_testing.faults import KEY
from prsm_testing.whole_runs import PAIRS, is_legal, plain_broker, unmatched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from prsm_core.domain.agents import AgentResult
    from prsm_core.domain.events import Event
    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.domain.usage import TokenUsage
    from prsm_core.engine.agents.manager import AgentManager
    from prsm_core.interfaces.clock import Timer
    from prsm_core.interfaces.provider import AgentHost, ProviderServices, SessionRequest


class RushClock:
    """A Clock; processes are started in real time, and then waits of minutes pass in moments."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._passed = 0.0  # until `_since`
        self._speed = 1.0
        self._until = math.inf  # then `_then` is the speed
        self._then = 1.0
        self._changed = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()

    def now(self) -> float:
        """Return the seconds that have passed on this clock."""
        real = time.monotonic() - self._since
        rushed = self._passed + real * self._speed
        if rushed <= self._until:
            return rushed
        return self._until + (real - (self._until - self._passed) / self._speed) * self._then

    def time(self) -> float:
        """Return Unix seconds, as the system has them."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` on this clock."""
        end = self.now() + seconds
        while self.now() < end:
            try:
                async with asyncio.timeout(self._real_seconds_to(end)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call after `seconds` on this clock."""

        async def call() -> None:
            await self.sleep(seconds)
            callback()

        task = asyncio.get_running_loop().create_task(call())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    def rush(self, speed: float, *, seconds: float = math.inf, then: float = 1.0) -> None:
        """Let time pass `speed` times as fast for `seconds` on this clock, `then` times after."""
        self._passed, self._since = self.now(), time.monotonic()
        self._speed, self._then = speed, then
        self._until = self._passed + seconds
        self._changed.set()
        self._changed = asyncio.Event()

    def _real_seconds_to(self, end: float) -> float:
        now = self.now()
        rushed = max(0.0, min(end, self._until) - now) / self._speed
        return rushed + max(0.0, end - max(now, self._until)) / self._then


SESSION = "session"
RUN_SECONDS = 60.0  # real ones; a test that needs them has failed
LEFT_SECONDS = 5.0  # real ones in which everything that a run held is given back
BEAT_SECONDS = 0.1
LONGEST_GAP = 2.0  # seconds without a beat, above those that a thread beside the loop had
LONGEST_REASON = 1000  # characters
DEADLINE_SECONDS = 0.5  # real ones in which the deadline of a fault passes
AFTER_DEADLINE = 5.0  # how fast time passes then
SLACK = 10.0  # seconds that pass with a deadline, for what is on its way meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run left behind, with the results of its misbehaving agents by name."""

    results: Mapping[str, AgentResult]
    usage: TokenUsage  # of the misbehaving agent
    log: Sequence[Event]
    names: Mapping[str, str]  # of the agents, by id

    @property
    def odd(self) -> AgentResult:
        """The result of the agent `odd`."""
        return self.results["odd"]

    def events(self, kind: str, agent: str = "odd") -> list[Mapping[str, Any]]:
        """Return what the events of one kind say of an agent."""
        return [
            event.data
            for event in self.log
            if event.type == kind and self.names.get(event.agent or "") == agent
        ]

    @property
    def states(self) -> list[str]:
        """The states that the misbehaving agent has passed."""
        moves = self.events("agent_state_changed")
        return [AgentState.PENDING.value, *(move["to"] for move in moves)]

    @property
    def texts(self) -> list[str]:
        """What the misbehaving agent said, message by message."""
        said = self.events("message_completed")
        return [event["text"] for event in said if event["role"] == "assistant"]

    @property
    def retries(self) -> list[float]:
        """The pauses before each further try of the misbehaving agent, in seconds."""
        return [event["delay_s"] for event in self.events("retry_scheduled")]

    @property
    def notices(self) -> list[str]:
        """What the misbehaving agent's provider and the engine told of it."""
        return [event["text"] for event in self.events("notice")]


@dataclass(kw_only=True, slots=True)
class MisbehavingTeam:
    """How to run a team on a provider; the misbehaving agents are those of `prompts`, by name.

    Once the fault has begun, which the file `begun` in `marks` tells, and the agent has `said` what
    is to be kept, `wait` seconds pass in a moment, or time passes `rush` times as fast, and
    `meddle(manager)` is called. They work in `workspace`, by default a new folder.
    """

    folder: Path
    workspace: Path | None = None
    spec: ProviderSpec
    settings: Mapping[str, Any]
    wait: float = 0.0
    rush: float = 1.0
    said: str = ""
    prompts: Mapping[str, str] = field(default_factory=lambda: {"odd": "Misbehave."})
    engine: Mapping[str, Any] = field(default_factory=dict)
    meddle: Callable[[AgentManager], Awaitable[object]] | None = None

    @property
    def marks(self) -> Path:
        """Where the fake writes what it has begun, and whom it has left."""
        return self.folder / "marks"

    async def run(self) -> Outcome:
        """Run it to the end and check what every run must keep."""
        for place in (self.marks, *([] if self.workspace else [self.folder / "work"])):
            place.mkdir(exist_ok=True)
        before = held()
        outcome = await self._run()

        def kept() -> dict[str, Any]:
            """Return what is held but for children from before, which may have ended meanwhile."""
            now = held()
            old = set(before["children"]).difference(now["children"])
            return {**now, "children": sorted([*now["children"], *old])}

        with suppress(TimeoutError):  # a thread may still be at its last line
            await until(lambda: kept() == before and not self._family(), timeout_s=LEFT_SECONDS)
        assert kept() == before
        assert not self._family()
        told = json.dumps([event.to_dict() for event in outcome.log])
        assert KEY not in told
        check_log(outcome.log)
        for name, result in outcome.results.items():
            check_end(outcome, name, result)
        return outcome

    async def _run(self) -> Outcome:
        clock, neighbour = RushClock(), _Neighbour(tuple(self.prompts))
        store = await SqliteStore.open(self.folder / "ledger.db")
        async with store, ProcessLauncher(SystemClock()) as launcher:
            config = self._config(clock, neighbour, store, launcher)
            async with OrchestrationEngine(config) as engine:
                neighbour.manager = engine.manager
                _ = engine.start_soon(self._hurry(engine.manager, clock), name="hurry")
                _ = engine.start_soon(_end_held(store, engine.manager), name="end who is held")
                with _beating_thread() as pulse:
                    async with asyncio.timeout(RUN_SECONDS):
                        result = await engine.run("do it")
                results = {name: _result(engine.manager, name) for name in self.prompts}
            assert result.status == "completed", result
            assert await store.open_requests(SESSION) == []
            log = [event async for event in store.events(SESSION)]
            rows = await store.agents(SESSION)
        assert neighbour.has_ended
        assert _longest_gap(neighbour.beats) - _longest_gap(pulse) < LONGEST_GAP
        names = {row.descriptor.agent_id: row.descriptor.name for row in rows}
        (usage,) = (row.spent.usage for row in rows if row.descriptor.name == "odd")
        return Outcome(results=results, usage=usage, log=log, names=names)

    def _config(
        self,
        clock: RushClock,
        neighbour: _Neighbour,
        store: SqliteStore,
        launcher: ProcessLauncher,
    ) -> EngineConfig:
        settings, tools = self._all_settings(), ToolTable()
        return EngineConfig(
            settings=settings,
            workspace=str(self.workspace or self.folder / "work"),
            session_id=SESSION,
            store=store,
            launcher=launcher,
            providers={spec.name: spec for spec in (*scripted(), self.spec, neighbour.spec())},
            broker=plain_broker(settings, tools, clock),
            tools=tools,
            human=HumanPolicy(interactive=False, on_ask="deny"),
            clock=clock,
            ids=Ids(clock.time),
            state_dir=self.folder / "state",
            open_endpoint=_endpoint,
            files=opens(None),
        )

    def _all_settings(self) -> Settings:
        own = f"{self.spec.name}/default"
        steps = [
            _spawn("neighbour", "work", "neighbour/default"),
            *(_spawn(name, prompt, own) for name, prompt in self.prompts.items()),
            {"call": {"tool": "wait_for_message", "arguments": {"all": True}}},
            {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}},
        ]
        script = {"scenario": {"lanes": {"master": {"marker": "", "steps": steps}}}}
        return Settings.of(
            {
                "engine": dict(self.engine),
                "sandbox": "off",
                "defaults": {"provider": "script"},
                "providers": {"script": script, self.spec.name: dict(self.settings)},
            }
        )

    async def _hurry(self, manager: AgentManager, clock: RushClock) -> None:
        await until((self.marks / "begun").exists, timeout_s=RUN_SECONDS)
        await until(lambda: self._has_said(manager), timeout_s=RUN_SECONDS)
        if self.wait:
            seconds = self.wait + SLACK
            clock.rush(seconds / DEADLINE_SECONDS, seconds=seconds, then=AFTER_DEADLINE)
        else:
            clock.rush(self.rush)
        if self.meddle is not None:
            await self.meddle(manager)

    def _has_said(self, manager: AgentManager) -> bool:
        if not self.said:
            return True
        session = manager.lives.session_of(manager.roster.resolve("odd").agent_id)
        return session is not None and self.said in session.partial_text

    def _family(self) -> list[int]:
        """Return the processes that the fake left about and that still live."""
        path = self.marks / "family"
        pids = json.loads(path.read_text()) if path.exists() else []
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def _end_held(store: SqliteStore, manager: AgentManager) -> None:
    """Kill whoever a login or a limit holds, and say by what: nobody mends that here."""
    async for event in store.events(SESSION, follow=True):
        if event.type == "agent_held" and event.data["waiting_on"] and event.agent:
            await manager.kill_agent(event.agent, event.data["reason"])


def _result(manager: AgentManager, name: str) -> AgentResult:
    result = manager.roster.resolve(name).result
    assert result is not None, name
    return result


def _spawn(name: str, prompt: str, model: str) -> dict[str, Any]:
    arguments = {"name": name, "prompt": prompt, "model": model}
    return {"call": {"tool": "spawn_child", "arguments": arguments}, "on_error": "fail"}


@asynccontextmanager
async def _endpoint(
    host: AgentHost, agent: str, *, patience_s: float | None = None
) -> AsyncIterator[McpEndpoint]:
    """Offer an endpoint that is connected at once: the faults call no orchestration tool."""

    async def connected() -> None:
        return

    yield McpEndpoint(argv=("true",), env={}, until_connected=connected)


@contextmanager
def _beating_thread() -> Iterator[list[float]]:
    """Yield the times at which a thread beats, which only the machine keeps from doing so."""
    beats, over = [time.monotonic()], threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat, name="pulse")
    thread.start()
    try:
        yield beats
    finally:
        over.set()
        thread.join()
        beats.append(time.monotonic())


def _longest_gap(beats: Sequence[float]) -> float:
    return max(later - earlier for earlier, later in pairwise(beats))


class _Neighbour(Provider):
    """A provider whose one agent works until the misbehaving ones have ended."""

    capabilities = ProviderCapabilities(enforcement="pre_tool")

    def __init__(self, odd: Sequence[str]) -> None:
        self.manager: AgentManager | None = None
        self.beats = [time.monotonic()]
        self.has_ended = False
        self._odd = odd

    def spec(self) -> ProviderSpec:
        def factory(_: Mapping[str, Any], __: ProviderServices) -> Provider:
            return self

        return ProviderSpec(name="neighbour", summary="works all the while", factory=factory)

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        yield _Work(self)

    async def probe(self) -> ProviderStatus:
        return ProviderStatus(available=True)

    @property
    def is_needed(self) -> bool:
        """Whether a misbehaving agent has not ended, or not begun."""
        if self.manager is None:
            return True
        records = [r for r in self.manager.roster.records() if r.descriptor.name in self._odd]
        return len(records) < len(self._odd) or any(not r.state.is_terminal for r in records)


class _Work(ProviderSession):
    """Beats: a call of a tool that begins and ends, told to the engine."""

    resume_token = None

    def __init__(self, provider: _Neighbour) -> None:
        self._provider = provider

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        beats = self._provider.beats
        while self._provider.is_needed:
            # Its time is no reasoning, and another call each time is no agent that is stuck.
            call = f"beat {len(beats)}"
            yield ToolCallStarted(call, "Bash", {"beat": len(beats)})
            await asyncio.sleep(BEAT_SECONDS)
            yield ToolCallFinished(call, "completed", "ok")
            beats.append(time.monotonic())
        yield AssistantMessage("it worked")
        self._provider.has_ended = True
        yield TurnEnded(StopReason.END_TURN)

    async def interrupt(self) -> None:
        """Do nothing: nobody interrupts it."""


def check_end(outcome: Outcome, name: str, result: AgentResult) -> None:
    """One end, one result, and a reason that a person can read."""
    ends = [event["to"] for event in outcome.events("agent_state_changed", name)]
    assert sum(ends.count(state) for state in ("completed", "failed", "killed")) == 1
    routed = [e for e in outcome.events("message_routed", name) if e["kind"] == "task_result"]
    assert len(routed) == 1
    if not result.success:
        reason = result.error
        assert reason
        assert reason.isprintable()
        assert [text for text in (KEY, "Traceback") if text in reason] == []
        assert len(reason) < LONGEST_REASON


def check_log(log: Sequence[Event]) -> None:
    """Check what must be true of every ledger: nothing is missing, and what begins ends."""
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    kinds = [event.type for event in log if event.run]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert kinds.count("run_finished") == 1
    for pair in PAIRS:
        assert not unmatched(log, *pair)
    states: defaultdict[str | None, list[AgentState]]
    states = defaultdict(lambda: [AgentState.PENDING])
    for event in log:
        if event.type == "agent_state_changed":
            assert states[event.agent][-1] == event.data["from"]
            states[event.agent].append(AgentState(event.data["to"]))
    assert all(map(is_legal, states.values()))


def held() -> dict[str, Any]:
    """Return what of the system this process holds: all of it must be given back.

    The threads of the loop's own executor stay until it is closed.
    """
    threads = [thread.name for thread in threading.enumerate()]
    return {
        "fds": len(list(Path("/proc/self/fd").iterdir())),
        "tasks": len(asyncio.all_tasks()),
        "threads": sorted(name for name in threads if "asyncio_" not in name),
        "children": sorted(_children()),
    }


def _children() -> Iterator[str]:
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has just ended
            yield from path.read_text().split()
