"""The world of one simulation: the real engine on simulated ground, from start to end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import UNSET, UnsetType
from prsm_files.session.session_files import opens

from prsm_core.config import Settings
from prsm_core.domain.account import REFUSED
from prsm_core.domain.agents import AgentRole, AgentState
from prsm_core.domain.ids import Ids
from prsm_core.domain.record import Record
from prsm_core.domain.structs import json_schema
from prsm_core.domain.tools import ToolSpec
from prsm_core.engine.agents.user_prompts import DELIVERIES
from prsm_core.engine.assembly import EngineConfig
from prsm_core.engine.engine import OrchestrationEngine
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.providers.retry import RetryPolicy
from prsm_core.engine.requests import HumanPolicy
from prsm_core.engine.tools.table import TOOLS, Tool, ToolTable
from prsm_core.engine.turns.call import Reply
from prsm_core.errors import (
    AgentSpawnError,
    ConfigError,
    FencedError,
    PrsmError,
    StoreError,
)
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.sink import EventSink, EventSinkSpec
from prsm_core.kit.temporary import temporary_folder
from prsm_testing.fake_clock import FakeClock
from prsm_testing.memory_ledger import MemoryLedger
from prsm_testing.sim.behaviour import Society
from prsm_testing.sim.faults import FaultDice
from prsm_testing.sim.model import ModelCrashError, SimProvider
from prsm_testing.sim.outcome import Outcome, digest
from prsm_testing.sim.rules import Findings
from prsm_testing.sim.shape import Shape
from prsm_testing.sim.stale_lives import StaleLives, check_marks
from prsm_testing.sim.store import CRASHED, SimStore
from prsm_testing.sim.watch import Watch
from prsm_testing.whole_runs import PAIRS, is_legal, plain_broker, unmatched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence

    from msgspec import Struct

    from prsm_core.domain.events import Event
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Call
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.frontend import RunResult
    from prsm_core.interfaces.provider import ProviderServices
    from prsm_core.interfaces.sink import RunInfo
    from prsm_testing.sim.plan import Plan
    from prsm_testing.sim.watch import Facts

SESSION = "simulated"
MORE_SECONDS = 600.0  # what a person gives to a run whose limit had gone by when it was cut off
ABANDON_SECONDS = 5.0  # real ones, that a run which broke a rule gets to be taken down

ALL = frozenset(role.value for role in AgentRole)
WORKERS = frozenset({AgentRole.WORKER.value})

LOOKS_EVERY = 30.0  # virtual seconds, on average


def simulate(plan: Plan) -> Outcome:
    """Play one seed and return what came of it."""
    findings = Findings()
    with temporary_folder("prsm-sim-") as folder, _listening(findings):
        world = World(plan, findings, folder)
        with asyncio.Runner() as runner, suppress(_AbandonedError):
            runner.run(world.play())
        return world.outcome()


class _AbandonedError(Exception):
    """A run that broke a rule could not be taken down in time."""


class World:
    """Owns everything of one simulation."""

    def __init__(self, plan: Plan, findings: Findings, folder: str) -> None:
        self._plan = plan
        self._findings = findings
        self._folder = folder
        self._dice = random.Random(plan.seed)  # noqa: S311 - a schedule, no secret
        self._shape = Shape.draw(self._dice, plan.agents)
        self._letters, self._takers = PeerTools(), takers(plan.seed)
        self._faults = FaultDice(plan.faults, self._dice, self._shape.fault_rate)
        self._clock = FakeClock(on_jump=self._before_jump)
        self._watch = Watch(findings, self._shape, self._clock)
        self._ledger = MemoryLedger()
        self._is_interrupted = False  # the present engine, by the user
        self._resumes = False  # the present engine goes on with the run of the one before
        self._is_broken = False  # a rule did not hold: the run is taken down
        self._playing: asyncio.Task[Any] | None = None
        self._deadline = 0.0  # virtual, of the present engine
        self._patience: asyncio.Timeout | None = None
        self._crashed_run: str | None = None
        self._limit_s: float | None = None  # of the run
        self._status = "not started"
        self._providers: list[SimProvider] = []
        findings.now = self._clock.now
        findings.on_violation = self._give_up

    async def play(self) -> None:
        """Run a task; after a crash or an interrupt another engine goes on with it."""
        asyncio.get_running_loop().set_exception_handler(self._loop_failed)
        crash_at = self._draw_moment("restart", 0.25)
        interrupt_at = self._draw_moment("interrupt", 0.15)
        try:
            async with asyncio.timeout(None) as self._patience:
                await self._play_engine(crash_at, interrupt_at)
                is_cut, again = self._crashed_run is not None, "again"
                # What a limit holds is gone on with as often as it takes.
                while (is_cut or self._is_interrupted) and not self._is_broken:
                    self._dice.seed(f"{self._plan.seed} {again}")
                    # An engine may have died before its first write.
                    self._resumes = bool(self._ledger.tables["runs"])
                    await self._play_engine()
                    is_cut, again = False, f"{again} again"
        except TimeoutError:
            raise _AbandonedError from None
        self._patience = None
        self._check_end()

    def _draw_moment(self, fault: str, chance: float) -> int | None:
        """Return the number of the write at which a fault strikes, None if it does not."""
        if not self._faults.strikes(fault, chance):
            return None
        return self._dice.randint(1, 30 * self._plan.agents)

    def outcome(self) -> Outcome:
        """Return what came of it."""
        events = self._ledger.events[SESSION]
        return Outcome(
            plan=self._plan,
            status=self._status,
            agents=len(self._ledger.tables["agents"]),
            calls=sum(provider.calls for provider in self._providers),
            messages=len(self._ledger.tables["inbox"]),
            knots=sum(event.type == "deadlock_detected" for event in events),
            faults=self._faults.injected,
            virtual_s=round(self._clock.now(), 3),
            digest=digest(events, self._folder),
            checked=self._findings.checked,
            violations=tuple(self._findings.violations),
        )

    async def _play_engine(
        self, crash_at: int | None = None, interrupt_at: int | None = None
    ) -> None:
        self._deadline = self._clock.now() + self._plan.minutes * 60
        self._is_interrupted = False
        stale = StaleLives(self._faults, self._findings, self._dice, self._clock)
        store = stale.store = SimStore(
            self._ledger,
            self._clock,
            self._dice,
            on_applied=(self._watch.applied, stale.applied),
            on_refused=self._watch.refused,
            slowest_s=self._shape.commit_s,
            crash_at=crash_at,
            tell_at=interrupt_at,
        )
        engine = stale.engine = OrchestrationEngine(self._config(store))
        self._letters.mail = engine.peers
        self._watch.attach(engine, store)
        person = Person(engine, self._shape, self._dice, self._clock)
        async with _running(store.run()):
            with _unless_crashed():
                async with (
                    engine,
                    _running(person.run()),
                    _running(stale.run()),
                    _running(self._interrupt(engine, store)),
                ):
                    async with asyncio.TaskGroup() as group:
                        self._playing = group.create_task(self._run_tasks(engine, store))
                    self._playing = None
            await self._until_let_go(engine)
        self._watch.detach()
        if store.crashed.is_set():
            self._crashed_run = next(reversed(self._ledger.tables["runs"]), "")
        elif not self._is_broken:
            self._check_engine(engine)

    async def _until_let_go(self, engine: OrchestrationEngine) -> None:
        """Wait for what a closed engine has left behind since it would not end."""
        tasks = engine.manager.lives.running()
        if tasks and any(provider.lingering for provider in self._providers):
            await asyncio.wait(tasks)

    async def _interrupt(self, engine: OrchestrationEngine, store: SimStore) -> None:
        """Stop the run in the middle: by closing the engine under it, or by leaving it."""
        await store.reached.wait()
        if self._playing is None or store.crashed.is_set():
            return
        self._is_interrupted = True
        self._status = "interrupted"
        if self._dice.random() < 0.5:
            with _unless_crashed():
                await engine.shutdown()
        else:
            self._playing.cancel()

    async def _run_tasks(self, engine: OrchestrationEngine, store: SimStore) -> None:
        try:
            await self._run_and_continue(engine)
        except PrsmError as error:
            if not store.crashed.is_set():
                self._findings.fail("surprises", f"the run raised {error.code}: {error.message}")

    async def _run_and_continue(self, engine: OrchestrationEngine) -> None:
        limit = self._dice.uniform(10, 600) if self._dice.random() < 0.05 else None
        if self._resumes:
            result = await self._resume(engine)
        else:
            self._limit_s = limit
            result = await engine.run("a task", mode=self._shape.mode, timeout_s=limit)
        self._take(result)
        there = engine.manager.roster.records()  # nobody, if the run had ended with the last engine
        if self._dice.random() < 0.2 and not self._is_interrupted and there:
            master = next(iter(there)).agent_id
            try:
                result = await engine.run_continuation("one thing more", master)
            except AgentSpawnError:
                return  # its provider does not let go of it
            self._take(result)

    def _take(self, result: RunResult) -> None:
        """Note how a run has ended, or that a limit holds it and nobody is there."""
        self._status = result.status
        if (result.status, result.exit_code) == ("interrupted", REFUSED):
            self._is_interrupted = True

    async def _resume(self, engine: OrchestrationEngine) -> RunResult:
        """Go on with the run; the person gives more time where its limit has gone by."""
        try:
            return await engine.resume()
        except ConfigError as error:
            if error.code != "no_time_left" or self._limit_s is None:
                raise
            return await engine.resume(timeout_s=MORE_SECONDS)

    def _config(self, store: SimStore) -> EngineConfig:
        settings = Settings.of(self._shape.settings)
        takes = self._takers
        tools = ToolTable() if takes is None else self._letters.table(takes=takes)
        return EngineConfig(
            settings=settings,
            workspace=self._folder,
            session_id=SESSION,
            store=store,
            launcher=SimLauncher(self._clock, self._findings, self._shape.residents),
            providers={
                "sim": ProviderSpec(name="sim", summary="simulated", factory=self._provider)
            },
            broker=plain_broker(settings, tools, self._clock),
            tools=tools,
            human=HumanPolicy(interactive=self._shape.interactive, on_ask=self._shape.on_ask),
            clock=self._clock,
            ids=Ids(self._clock.time, self._dice),
            state_dir=Path(self._folder),
            retry=RetryPolicy(rng=self._dice),
            files=opens(None),
            sinks=[
                EventSinkSpec(name=f"sink{n}", summary="simulated", maxsize=50, factory=self._sink)
                for n in range(self._shape.sinks)
            ],
        )

    def _provider(self, _settings: Mapping[str, Any], services: ProviderServices) -> SimProvider:
        society = Society(
            shape=self._shape,
            dice=self._dice,
            to_spawn=self._plan.agents + self._plan.agents // 5,
            restarts=self._plan.agents // 3,
        )
        opened = self._watch.opened
        provider = SimProvider(society, self._faults, self._findings, services, opened)
        self._providers.append(provider)
        return provider

    def _sink(self, _run: RunInfo, _settings: Mapping[str, Any]) -> EventSink:
        return SimSink(self._faults, self._clock)

    def _before_jump(self, due: float) -> None:
        """Look at everything while nothing runs; see to it that the run ends."""
        if self._is_broken:
            return
        self._watch.look(due - self._clock.now())
        if due > self._deadline:
            self._findings.fail("ends", f"it goes on after {self._plan.minutes:g} virtual minutes")

    def _give_up(self) -> None:
        """Take down a run that has broken a rule: soon, and without further questions."""
        if self._is_broken:
            return
        self._is_broken = True
        if self._patience is not None:
            now = asyncio.get_running_loop().time()
            self._patience.reschedule(now + ABANDON_SECONDS)
        if self._playing is not None:
            self._playing.cancel()

    def _loop_failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._findings.fail("surprises", f"{context['message']}: {context.get('exception')!r}")

    def _check_engine(self, engine: OrchestrationEngine) -> None:
        """Check that a closed engine has let go of everything."""
        manager = engine.manager
        records = manager.roster.records()
        left = {
            "requests": len(engine.requests.waiting()),
            "slots": engine.slots.in_use,
            "sessions": len(manager.lives.running()),
        }
        if not self._is_interrupted:  # else the agents stay as they were, for a resume
            left |= {
                "waits": len(engine.detector.graph.blocked),
                "mailboxes": sum(
                    engine.router.is_registered(record.agent_id) for record in records
                ),
                "live agents": sum(not record.has_ended for record in records),
            }
        for what, count in left.items():
            self._findings.check("leftovers", not count, f"{count} {what} are left")

    def _check_end(self) -> None:
        if self._is_broken:
            return
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        names = ", ".join(sorted(task.get_name() for task in tasks))
        self._findings.check("leftovers", not tasks, f"tasks are left: {names}")
        self._findings.checked["ends"] += 1
        crashed = None if self._resumes else self._crashed_run
        check_ledger(self._ledger, SESSION, self._findings, crashed=crashed)
        check_marks(self._ledger.events[SESSION], self._findings)
        check_ended(self._ledger, self._watch.facts, self._findings, crashed=crashed)


@dataclass
class SimSink(EventSink):
    """A sink that is slow or fails, if that is what strikes."""

    _faults: FaultDice
    _clock: Clock

    async def write(self, batch: Sequence[Event]) -> None:
        """Take a batch, perhaps for minutes, perhaps not at all."""
        if self._faults.strikes("slow-sink", 0.02):
            await self._clock.sleep(200.0)
        if self._faults.strikes("slow-sink", 0.02):
            raise OSError("the disk is full")


@contextmanager
def _unless_crashed() -> Iterator[None]:
    """Go on where the engine cannot even write how it ends, since its process has died."""
    try:
        yield
    except StoreError as error:
        if error.code != CRASHED:
            raise


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something beside the body; it ends with it."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        try:
            yield
        finally:
            task.cancel()


class _Listener(logging.Handler):
    """Hears the engine's log: whatever fails by surprise is a finding."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(logging.ERROR)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        """Tell faults of the simulation from those of the engine."""
        error = record.exc_info[1] if record.exc_info else None
        expected = isinstance(error, ModelCrashError | FencedError) or (
            isinstance(error, StoreError) and error.code == CRASHED
        )
        if not expected:
            what = "" if error is None else f": {type(error).__name__}: {error}"
            self._findings.fail("surprises", record.getMessage() + what)


@contextmanager
def _listening(findings: Findings) -> Iterator[None]:
    log, listener = logging.getLogger("prsm"), _Listener(findings)
    propagates, log.propagate = log.propagate, False
    log.addHandler(listener)
    try:
        yield
    finally:
        log.removeHandler(listener)
        log.propagate = propagates


def takers(seed: int) -> frozenset[str] | None:
    """Return the roles that take messages themselves in the run of a seed; None: nobody writes.

    It is drawn apart, so that a run without letters is what it was without this.
    """
    dice = random.Random(f"{seed} letters")  # noqa: S311 - a schedule, no secret
    return dice.choice((None, None, frozenset(), WORKERS))


class _Letter(Record, frozen=True, forbid_unknown_fields=True):
    to: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


class _NextLetter(Record, frozen=True, forbid_unknown_fields=True):
    seconds: float | UnsetType = UNSET


def _tool(name: str, arguments: type[Struct], roles: frozenset[str], **about: Any) -> Tool:
    schema = json_schema(arguments)
    spec = ToolSpec(name=name, description=name, input_schema=schema, roles=roles)
    return Tool(spec=spec, arguments=arguments, **about)


class PeerTools:
    """Owns `message_send` and `message_next`, once it has the mail of an engine."""

    mail: Peers

    async def message_send(self, call: Call) -> Reply:
        """Write to another agent; the message is in the step of the answer."""
        if (sent := call.recall("message")) is not None:
            return Reply({"id": sent.ref})
        message = self.mail.message(call.record, call.args["to"], call.args["text"])
        reply = Reply({"id": message.message_id})
        await call.open(message, reply=reply, noted=call.effect("message", message.message_id))
        return reply

    async def message_next(self, call: Call) -> Reply:
        """Take the oldest message of a peer."""
        message = await self.mail.next(call, call.args.get("seconds"))
        told = message and {"id": message.message_id, "from": message.name, "text": message.text}
        return Reply({"message": told})

    def table(
        self,
        *,
        takes: frozenset[str] = frozenset(),
        sends: frozenset[str] = ALL,
        nexts: frozenset[str] = ALL,
    ) -> ToolTable:
        """Return a table with them: roles of `takes` take messages themselves."""
        tools = [
            _tool("message_send", _Letter, sends, sends_messages=True),
            _tool("message_next", _NextLetter, nexts - takes),
            _tool("message_next", _NextLetter, takes, takes_messages=True),
        ]
        handlers = {"message_send": self.message_send, "message_next": self.message_next}
        return ToolTable((*TOOLS, *tools), handlers)


class Person:
    """Meddles a few times, and answers questions for as long as the run lasts."""

    def __init__(
        self, engine: OrchestrationEngine, shape: Shape, dice: random.Random, clock: Clock
    ) -> None:
        self._engine = engine
        self._dice = dice
        self._clock = clock
        self._acts = shape.meddling
        self._answers = shape.interactive

    async def run(self) -> None:
        """Act until cancelled; what the engine refuses is no harm done."""
        while self._acts > 0 or self._answers:
            await self._clock.sleep(self._dice.expovariate(1 / LOOKS_EVERY))
            try:
                await self._act()
            except PrsmError:
                continue

    async def _act(self) -> None:
        if self._answers:
            self._answer()
        records = list(self._engine.manager.roster.records())
        if self._acts <= 0 or not records:
            return
        self._acts -= 1
        await self._meddle(self._dice.choice(records))

    def _answer(self) -> None:
        for request in self._engine.requests.waiting():
            if self._dice.random() < 0.5:
                answer: dict[str, Any] = {"verdict": self._dice.choice(("once", "deny"))}
                if request.kind == "question":
                    answer = {"choices": [], "text": "do as you like"}
                self._engine.requests.resolve(request.request_id, request.kind, answer)

    async def _meddle(self, record: AgentRecord) -> None:
        manager, roll = self._engine.manager, self._dice.random()
        is_master = record.descriptor.parent_id is None
        if roll < 0.4 and (not is_master or roll < 0.03):
            await manager.kill_agent(record.agent_id, "killed by the user")
        elif roll < 0.8:
            delivery = self._dice.choice(DELIVERIES)
            await self._engine.prompting.prompt(record.agent_id, "hurry up", delivery)
        elif not is_master:
            await manager.restart_agent(record.agent_id, "try again")


@dataclass(eq=False)
class SimProcess:
    """A process of a session."""

    _processes: list[SimProcess]  # that have not ended
    is_own: ClassVar = False  # it is the agent's, no helper of PRSM itself

    def kill(self) -> None:
        """End it at once."""
        self._processes.remove(self)


class SimLauncher(ProcessLauncher):
    """Starts no process; there may be `limit` of them, where there is one."""

    def __init__(self, clock: Clock, findings: Findings, limit: int | None) -> None:
        super().__init__(clock)
        self._findings = findings
        self._limit = limit
        self._processes: list[SimProcess] = []

    @property
    def live(self) -> Any:
        """The processes that have not ended."""
        return tuple(self._processes)

    @property
    def of_agents(self) -> int:
        """How many have not ended."""
        return len(self._processes)

    async def start(self, *_: Any, **__: Any) -> Any:
        """Count one more, which begins a little later."""
        await self._clock.sleep(0.05)
        self._processes.append(process := SimProcess(self._processes))
        count = len(self._processes)
        self._findings.check(
            "processes",
            self._limit is not None and count <= self._limit,
            f"{count} processes run at one time, of {self._limit} that may",
        )
        return process


def check_ledger(
    ledger: MemoryLedger, session: str, findings: Findings, *, crashed: str | None
) -> None:
    """Check a whole ledger; of the run that crashed only what holds at every moment."""
    events = ledger.events[session]
    findings.check(
        "log",
        [event.seq for event in events] == list(range(1, len(events) + 1)),
        "the events' numbers have a gap",
    )
    for run in ledger.tables["runs"]:
        own = [event for event in events if event.run == run]
        _check_frame(own, findings, is_open=run == crashed)
        for pair in PAIRS if run != crashed else ():
            told = unmatched(own, *pair)
            findings.check("fold", not told, told)
    internal = [e.data["text"] for e in events if "failed inside prsm" in e.data.get("text", "")]
    findings.check("surprises", not internal, "; ".join(internal[:3]))
    _check_states(ledger, events, findings)
    _check_messages(ledger, events, findings)


def _check_frame(events: Sequence[Event], findings: Findings, *, is_open: bool) -> None:
    kinds = [event.type for event in events]
    findings.check("log", kinds[:1] == ["run_started"] or not kinds, "a run begins with no start")
    ends = [number for number, kind in enumerate(kinds, 1) if kind == "run_finished"]
    last = [number for number in ends if kinds[number : number + 1] != ["run_resumed"]]
    findings.check(
        "log",
        last == [len(kinds)] or (is_open and not last),
        f"run_finished stands at {ends} of {len(kinds)} events",
    )


def _check_states(ledger: MemoryLedger, events: Sequence[Event], findings: Findings) -> None:
    moves: defaultdict[str | None, list[Event]] = defaultdict(list)
    for event in events:
        if event.type == "agent_state_changed":
            moves[event.agent].append(event)
    for agent_id, row in ledger.tables["agents"].items():
        state, name = AgentState(row["state"]), row["name"]
        states = [AgentState.PENDING, *(AgentState(m.data["to"]) for m in moves[agent_id])]
        sources = [AgentState(m.data["from"]) for m in moves[agent_id]]
        findings.check(
            "fold",
            states[-1] is state and sources == states[:-1],
            f"{name} is {state} in the ledger, by its events {states[-1]}",
        )
        findings.check("results", is_legal(states), f"{name} went {' → '.join(states)}")
        if state.is_terminal:
            findings.check("results", row["result"] is not None, f"{name} ended without a result")


def _check_messages(ledger: MemoryLedger, events: Sequence[Event], findings: Findings) -> None:
    told = [event.data["mid"] for event in events if event.type == "message_routed"]
    findings.check(
        "fold",
        told == list(ledger.tables["inbox"]),
        "the messages in the ledger are not those that its events tell of",
    )


def check_ended(
    ledger: MemoryLedger, facts: Facts, findings: Findings, *, crashed: str | None
) -> None:
    """Check that the runs that have ended, all but the one that crashed, left nobody behind.

    Who was interrupted has not ended, and can be resumed; but its turns have.
    """
    events = [event for log in ledger.events.values() for event in log]
    torn = {event.agent for event in events if event.run == crashed and crashed is not None}
    runs, turns = ledger.tables["runs"], ledger.tables["turns"]
    interrupted = {run for run, row in runs.items() if row["status"] == "interrupted"}
    stopped = {event.agent for event in events if event.run in interrupted}
    for agent_id, row in ledger.tables["agents"].items():
        name, has_ended = row["name"], AgentState(row["state"]).is_terminal
        if agent_id in torn:
            continue
        findings.check(
            "results",
            has_ended or agent_id in stopped,
            f"the run has ended and {name} is {row['state']}",
        )
        lives = [n for agent, n in facts.results if agent == agent_id]
        findings.check(
            "results",
            lives == sorted(set(lives)) and (not has_ended or lives[-1:] == [row["incarnation"]]),
            f"{name} has lived {row['incarnation']} times, and has results of {lives}",
        )
        own = [turn for turn in turns.values() if turn["agent_id"] == agent_id]
        is_open = any(turn["status"] == "running" for turn in own)
        findings.check("fold", not is_open, f"{name} has a turn that never ended")
    waiting = [
        row
        for row in ledger.tables["requests"].values()
        if row["state"] == "open" and row["agent_id"] not in torn
    ]
    findings.check("leftovers", not waiting, f"{len(waiting)} requests still wait for a person")
