"""The watch: checks the rules while the run goes on, at every step, knot and quiet moment.

Deadlocks by the definition: who is blocked, on whom, and the least fixpoint, by brute force.

Written from the rules of waiting, not from the engine's wait graph, which it is there to check.
Only a wait of a tool that is unknown here is taken from the engine's word.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_core.domain import writes
from prsm_core.domain.agents import AgentState, PermissionMode
from prsm_core.domain.budgets import NO_LIMITS, Budget
from prsm_core.domain.messages import MessageType
from prsm_core.domain.projection import made_of
from prsm_core.errors import FencedError, InvalidTransitionError, MessageRoutingError
from prsm_core.messaging.waits import ANYONE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor, AgentResult
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Step, Write
    from prsm_core.engine.engine import OrchestrationEngine
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Call
    from prsm_core.errors import PrsmError
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import SessionRequest
    from prsm_testing.memory_ledger import MemoryLedger
    from prsm_testing.sim.rules import Findings
    from prsm_testing.sim.shape import Shape
    from prsm_testing.sim.store import SimStore

QUIET_SECONDS = 0.2  # a jump at least this long is worth a look at everything

_LADDER = (
    PermissionMode.PLAN,
    PermissionMode.DEFAULT,
    PermissionMode.ACCEPT_EDITS,
    PermissionMode.BYPASS,
)
_IN_ORDER = frozenset({MessageType.QUESTION, MessageType.TASK_RESULT, MessageType.USER_PROMPT})
Life = tuple[str, int]  # an agent and its incarnation

_WAITING = frozenset(
    {AgentState.WAITING_FOR_PARENT, AgentState.WAITING_FOR_CHILD, AgentState.WAITING_FOR_EXPERT}
)
_NEWS = frozenset(
    {MessageType.QUESTION, MessageType.TASK_RESULT, MessageType.USER_PROMPT, MessageType.PEER}
)
_FROM_CHILD = frozenset({MessageType.QUESTION, MessageType.TASK_RESULT})


@dataclass(slots=True)
class Facts:
    """What the steps tell, in the order in which the ledger took them."""

    agents: dict[str, AgentDescriptor] = field(default_factory=dict)
    spawned: int = 0
    results: dict[Life, AgentResult] = field(default_factory=dict)
    inboxes: defaultdict[Life, dict[str, RoutedMessage]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    letters: dict[str, RoutedMessage] = field(default_factory=dict)
    consumed: dict[str, str] = field(default_factory=dict)  # message -> step
    waits_for_one: set[str] = field(default_factory=set)  # calls that take one child's messages
    calls: int = 0
    asked: dict[str, str] = field(default_factory=dict)  # call of an agent -> correlation id
    numbers: dict[str, int] = field(default_factory=dict)  # message -> its place among all
    lives: dict[str, int] = field(default_factory=dict)  # agent -> messages before its life began
    present: dict[str, int] = field(default_factory=dict)  # agent -> life, if not its first
    is_finished: bool = False


class Watch:
    """Owns the facts of a run and checks them; also the store's watcher."""

    def __init__(self, findings: Findings, shape: Shape, clock: Clock) -> None:
        self.facts = Facts()
        self._clock = clock
        self._findings = findings
        self._shape = shape
        self._observer: Observer | None = None
        self._seen = -1  # writes at the last look
        self._spending = Spending(findings, shape.budget)
        self._reopened: set[str] = set()  # who had a session since the run went on

    def attach(self, engine: OrchestrationEngine, store: SimStore) -> None:
        """Watch an engine, and be asked before it acts on a knot."""
        self._observer = Observer(engine, store, self.facts)
        resolve = engine.detector.on_knot

        def act(agents: frozenset[str], by_sweep: bool) -> None:
            self._knot(agents, by_sweep=by_sweep)
            resolve(agents, by_sweep)

        engine.detector.on_knot = act

    def detach(self) -> None:
        """Look at the engine no more: it is closed."""
        self._observer = None

    def refused(self, step: Step, error: PrsmError) -> None:
        """Take note of a step that the ledger refused: only what came too late may be."""
        if self._is_past(step):
            self._findings.check(
                "incarnations",
                isinstance(error, FencedError),
                f"{made_of(step).names} of life {step.incarnation} of"
                f" {self._name(step.agent_id)} came to the next one: {error.message}",
            )
            return
        if isinstance(error, FencedError | MessageRoutingError):
            self._findings.checked["incarnations"] += 1
            return
        rule = {"not_consumable": "messages"}.get(error.code, "surprises")
        if isinstance(error, InvalidTransitionError):
            rule = "results"
        self._findings.fail(rule, f"the ledger refused {made_of(step).names}: {error.message}")

    def applied(self, step: Step) -> None:
        """Take in a step."""
        facts = self.facts
        if facts.is_finished:
            self._findings.check(
                "log",
                any(
                    isinstance(write, writes.RunStarted | writes.RunResumed)
                    for write in step.writes
                ),
                f"{made_of(step).names} of {self._name(step.agent_id)} came after run_finished",
            )
        self._findings.check(
            "incarnations",
            not self._is_past(step),
            f"{made_of(step).names} of life {step.incarnation} of {self._name(step.agent_id)} was"
            " taken in the next one",
        )
        for sent in step.all(writes.MessageSent):
            message = sent.message
            facts.letters[message.message_id] = message
            facts.numbers[message.message_id] = len(facts.numbers)
            facts.inboxes[message.target, message.incarnation][message.message_id] = message
        for write in step.writes:
            self._take(step, write)

    def _take(self, step: Step, write: Write) -> None:
        match write:
            case writes.AgentSpawned():
                self._spawned(write.agent)
            case writes.TurnOpened():
                self._spending.opened(step.at)
                self._consume(step, write.consumed)
            case writes.TurnClosed():
                self._spending.closed(write, self._clock.time())
            case writes.CallOpened():
                self._call_opened(step, write)
            case writes.CallClosed():
                call = f"{step.agent_id} {write.turn_id} {write.call_id}"
                self._consume(step, write.consumed, call)
            case writes.AgentEnded():
                self._ended(step, write)
            case writes.MessagesConsumed() | writes.ReceivesUndone():
                self._read_or_undone(step, write)
            case writes.RunStarted() | writes.RunFinished() | writes.RunResumed():
                self._began_or_ended(write)
            case writes.AgentRestarted() | writes.AgentsResumed():
                self._live_again(step, write)

    def _is_past(self, step: Step) -> bool:
        """Return whether a step is of a life after which another one has begun."""
        return step.incarnation < self.facts.present.get(step.agent_id or "", 1)

    def _spawned(self, child: AgentDescriptor) -> None:
        facts = self.facts
        facts.spawned += 1
        facts.agents[child.agent_id] = child
        facts.lives[child.agent_id] = len(facts.numbers)
        parent = facts.agents.get(child.parent_id or "")
        self._findings.check(
            "limits",
            facts.spawned <= self._shape.agents
            and child.depth <= self._shape.depth
            and child.depth == (0 if parent is None else parent.depth + 1),
            f"{child.name} is agent {facts.spawned} of the run, at depth {child.depth}",
        )
        if parent is not None:
            self._spending.launched()
            self._findings.check(
                "grants",
                _may(child, parent),
                f"{child.name} may do more than {parent.name} may hand down",
            )

    def _call_opened(self, step: Step, opened: writes.CallOpened) -> None:
        self.facts.calls += 1
        call = opened.call
        key = f"{step.agent_id} {opened.turn_id} {call.id}"
        if call.params.get("wait") or call.tool_name == "consult_expert":
            self.facts.waits_for_one.add(key)
        for message in [sent.message for sent in step.all(writes.MessageSent)]:
            if message.type is MessageType.QUESTION and message.correlation_id is not None:
                self.facts.asked[key] = message.correlation_id

    def _ended(self, step: Step, end: writes.AgentEnded) -> None:
        facts, life = self.facts, (step.agent_id or "", step.incarnation)
        self._findings.check(
            "results",
            life not in facts.results,
            f"life {step.incarnation} of {self._name(step.agent_id)} has a second result",
        )
        facts.results[life] = end.result
        parent_id = facts.agents[life[0]].parent_id
        sent = [one.message for one in step.all(writes.MessageSent)]
        told = [message for message in sent if message.type is MessageType.TASK_RESULT]
        self._findings.check(
            "results",
            len(told) <= 1 and all(m.target == parent_id for m in told),
            f"the end of {self._name(step.agent_id)} was told {len(told)} times",
        )

    def _began_or_ended(self, write: Write) -> None:
        facts = self.facts
        if isinstance(write, writes.RunFinished):
            facts.is_finished = True
        elif isinstance(write, writes.RunStarted):
            facts.is_finished = False
            facts.spawned = 0
            self._spending.begin()
        elif isinstance(write, writes.RunResumed):
            facts.is_finished = False
            self._reopened.clear()

    def _live_again(self, step: Step, write: writes.AgentRestarted | writes.AgentsResumed) -> None:
        if isinstance(write, writes.AgentsResumed):
            for agent_id, incarnation in write.lives.items():
                self._lives_again(agent_id, incarnation, is_resume=True)
        elif step.agent_id is not None:
            self._lives_again(step.agent_id, step.incarnation, is_resume=write.is_resume)

    def _lives_again(self, agent_id: str, incarnation: int, *, is_resume: bool) -> None:
        facts, before = self.facts, (agent_id, incarnation - 1)
        facts.present[agent_id] = incarnation
        if is_resume:
            facts.inboxes[agent_id, incarnation] = facts.inboxes.pop(before, {})
        else:
            facts.lives[agent_id] = len(facts.numbers)
        self._findings.check(
            "results",
            (before in facts.results) is not is_resume,
            f"{self._name(agent_id)} lives again and had no result",
        )

    def _consume(self, step: Step, message_ids: tuple[str, ...], call: str = "") -> None:
        facts, life = self.facts, (step.agent_id or "", step.incarnation)
        name = self._name(step.agent_id)
        for message_id in message_ids:
            message = facts.inboxes[life].pop(message_id, None)
            first = facts.consumed.setdefault(message_id, step.step_id)
            self._findings.check(
                "messages", first == step.step_id, f"{name} consumed {message_id} a second time"
            )
            self._findings.check(
                "incarnations",
                message is not None or first != step.step_id,
                f"life {step.incarnation} of {name} consumed what was sent to another one",
            )
            if message is not None and call not in facts.waits_for_one:
                self._check_order(life, message)

    def _read_or_undone(
        self, step: Step, write: writes.MessagesConsumed | writes.ReceivesUndone
    ) -> None:
        if isinstance(write, writes.MessagesConsumed):
            self._consume(step, write.messages)
            return
        facts, life = self.facts, (step.agent_id or "", step.incarnation)
        for message_id in (id_ for ids in write.received.values() for id_ in ids):
            was_read = facts.consumed.pop(message_id, None) is not None
            self._findings.check("messages", was_read, f"{message_id} was unread already")
            facts.inboxes[life][message_id] = facts.letters[message_id]

    def opened(self, request: SessionRequest) -> None:
        """Look at what an agent has received whose engine died, as its first session begins.

        One that has a thread is told what that lacks; another one has a history of all that.
        """
        agent = request.agent_id
        if self._observer is None or agent in self._reopened:
            return
        self._reopened.add(agent)
        if request.resume_token is None:
            lost = received_unheard(self._observer.store.ledger, agent)
            name = self._name(agent)
            self._findings.check("receives", not lost, f"{name} lost what {lost} had received")

    def _check_order(self, life: Life, message: RoutedMessage) -> None:
        """Of what one agent has sent, the older comes first, unless nobody needs it any more."""
        if message.type not in _IN_ORDER:
            return
        number = self.facts.numbers[message.message_id]
        older = [
            other
            for other in self.facts.inboxes[life].values()
            if other.source == message.source
            and other.type is message.type
            and other.type is not MessageType.QUESTION
            and self.facts.numbers[other.message_id] < number
        ]
        self._findings.check(
            "messages", not older, f"{self._name(life[0])} consumed a message before an older one"
        )

    def _name(self, agent_id: str | None) -> str:
        agent = self.facts.agents.get(agent_id or "")
        return "the run" if agent is None else agent.name

    def _knot(self, agents: frozenset[str], *, by_sweep: bool) -> None:
        if self._observer is None:
            return
        expected = find_knot(self._observer.blocked(), self._observer.alive())
        self._findings.check(
            "victims",
            agents == expected,
            f"a knot of {self._names(agents)} was found, by definition it is"
            f" {self._names(expected)}",
        )
        self._findings.check(
            "knots", not by_sweep, f"the knot of {self._names(agents)} was found by the sweep only"
        )

    def _names(self, agents: frozenset[str]) -> str:
        return ", ".join(sorted(map(self._name, agents))) or "nobody"

    def look(self, seconds: float) -> None:
        """Look at everything when nothing can run and this much time is about to pass."""
        observer = self._observer
        if observer is None or seconds < QUIET_SECONDS:
            return
        engine, store = observer.engine, observer.store
        is_left = store.crashed.is_set() or engine.journal.is_suspended
        if not store.is_idle or store.writes == self._seen or is_left:
            return
        self._seen = store.writes
        self._check_slots(engine)
        self._check_senders(engine)
        for record in engine.manager.roster.records():
            self._findings.check(
                "results",
                record.has_ended or not record.state.is_terminal,
                f"{record.descriptor.name} has ended, and nobody was told",
            )
        blocked = observer.blocked()
        knot = find_knot(blocked, observer.alive())
        self._findings.check("knots", not knot, f"{self._names(knot)} wait for each other")
        for agent, waits in blocked.items():
            missed = [wait.what for wait in waits if wait.ready and not wait.timed]
            self._findings.check(
                "wakeups",
                not missed,
                f"{self._name(agent)} sleeps although {' and '.join(missed)} is there",
            )
            self._check_blocked(engine, agent)

    def _check_senders(self, engine: OrchestrationEngine) -> None:
        """Who has ended or claimed its result writes no more; who waits may."""
        blocked = engine.detector.graph.blocked
        for agent_id, record in engine.peers.senders.items():
            self._findings.check(
                "wakeups",
                not (record.has_ended or (record.claimed_result and agent_id in blocked)),
                f"{record.descriptor.name} is waited for, and writes no more",
            )

    def _check_slots(self, engine: OrchestrationEngine) -> None:
        slots = engine.slots
        manager = engine.manager
        sessions = [manager.lives.session_of(r.agent_id) for r in manager.roster.records()]
        holders = [
            session for session in sessions if session is not None and session.life.holds_slot
        ]
        self._findings.check(
            "slots",
            len(holders) == slots.in_use <= slots.limit,
            f"{len(holders)} agents hold {slots.in_use} of {slots.limit} slots",
        )

    def _check_blocked(self, engine: OrchestrationEngine, agent_id: str) -> None:
        record = engine.manager.roster.get(agent_id)
        name, life = record.descriptor.name, (agent_id, record.incarnation)
        session = engine.manager.lives.session_of(agent_id)
        self._findings.check(
            "slots",
            session is not None and not session.life.holds_slot,
            f"{name} waits and holds a slot",
        )
        if record.claimed_result is not None:
            return  # it reads nothing any more
        unread = {message.message_id for message in engine.router.unread(agent_id)}
        self._findings.check(
            "mailboxes",
            unread == self.facts.inboxes[life].keys(),
            f"{name} waits; its mailbox and its inbox differ by"
            f" {len(unread ^ self.facts.inboxes[life].keys())} messages",
        )


def _may(child: AgentDescriptor, parent: AgentDescriptor) -> bool:
    below, above = child.grant, parent.grant
    return (
        child.tools <= below.tools <= above.tools
        and _rank(child.mode) <= _rank(below.mode) <= _rank(above.mode)
        and (above.models is None or (below.models is not None and below.models <= above.models))
        and (above.depth is None or (below.depth is not None and below.depth < above.depth))
        and below.budget.within(above.budget) == below.budget
    )


def _rank(mode: PermissionMode) -> int:
    """Return how far a mode reaches: who only delegates does less than any rung lets."""
    return -1 if mode is PermissionMode.DELEGATE else _LADDER.index(mode)


def received_unheard(ledger: MemoryLedger, agent: str) -> list[str]:
    """Return the calls that did nothing but receive, and whose answers nobody has acted on."""
    turns = ledger.tables["turns"].values()
    own = (turn for turn in turns if turn["agent_id"] == agent and turn["status"] == "running")
    if (turn := next(own, None)) is None:
        return []
    (session,) = ledger.events
    events = [event for event in ledger.events[session] if event.agent == agent]
    effects = ledger.tables["effects"].values()
    has_acted = {row["call_id"] for row in effects if row["turn_id"] == turn["id"]}
    inbox = ledger.tables["inbox"].values()
    used = {(row["consumed_by"], row["ended"]) for row in inbox if row["target"] == agent}
    return [
        call
        for call, seq in _unheard_answers(events, turn["id"]).items()
        if call not in has_acted and (call, ledger.positions[session][seq - 1]) in used
    ]


def _unheard_answers(events: Sequence[Event], turn_id: str) -> dict[str, int]:
    """Return the answers to the newest response, by call, unless the model has spoken since.

    Each is the number of the event that tells it.
    """
    began = next(n for n, event in enumerate(events) if event.data.get("turn") == turn_id)
    calls, ends, spoke, newest = dict[str, int](), dict[str, int](), 0, 0
    for event in events[began:]:
        seq = event.seq or 0
        match event.type:
            case "tool_call_started":
                spoke, newest = seq, max(newest, event.data["response"])
                if event.data["orchestration"]:
                    calls[event.data["call"]] = event.data["response"]
            case "message_completed" if event.data["role"] == "assistant":
                spoke = seq
            case "tool_call_finished" if event.data.get("turn") == turn_id:
                ends[event.data["call"]] = seq
            case "receives_undone":
                for call in event.data["calls"]:
                    del calls[call]
    last = [call for call, response in calls.items() if response == newest]
    if all(ends.get(call, spoke) < spoke for call in last):
        return {}
    return {call: ends[call] for call in last if call in ends}


class Spending:
    """Adds up what the turns of a run have used; a turn may only begin while something is left.

    What was in flight when a limit was reached may pass it. Spawns and turns are counted before
    they begin, so that they never do.
    """

    def __init__(self, findings: Findings, limits: Budget) -> None:
        self._findings = findings
        self._limits = limits
        self.begin()

    def begin(self) -> None:
        """Begin a run, whose budget is its own."""
        self._turns = self._spawns = 0
        self._used: list[tuple[float, float, float]] = [(-1.0, 0.0, 0.0)]  # when, tokens, USD

    def launched(self) -> None:
        """Note that an agent's child was spawned, or restarted by it."""
        self._spawns += 1
        self._check("spawns", self._spawns, self._limits.spawns)

    def opened(self, decided: float) -> None:
        """Note that a turn began; what counts is what was used up when it was decided."""
        if self._limits == NO_LIMITS:
            return
        self._turns += 1
        self._check("turns", self._turns, self._limits.turns)
        _, tokens, usd = max(entry for entry in self._used if entry[0] < decided)
        for kind, used, limit in (
            ("tokens", tokens, self._limits.tokens),
            ("USD", usd, self._limits.usd),
        ):
            self._findings.check(
                "budgets",
                limit is None or used < limit,
                f"a turn began when {used:g} of {limit or 0:g} {kind} were used",
            )

    def closed(self, turn: writes.TurnClosed, at: float) -> None:
        """Note what a turn used, as far as its provider told; `at` is Unix seconds."""
        _, tokens, usd = self._used[-1]
        tokens += turn.result.usage.known_total or 0
        self._used.append((at, tokens, usd + (turn.result.cost_usd or 0.0)))

    def _check(self, kind: str, count: int, limit: int | None) -> None:
        self._findings.check(
            "budgets", limit is None or count <= limit, f"{count} {kind}, and {limit} are the limit"
        )


@dataclass(frozen=True, slots=True)
class SeenWait:
    """One wait: what it is, whether something ends it now, and who else can end it."""

    what: str
    ready: bool
    targets: tuple[str, ...]
    timed: bool = False  # ready because the caller set a limit; nothing need be there


class Observer:
    """Sees who waits for what, by the records and the mailboxes.

    Of the facts it takes what the ledger alone knows: the correlation of each question, the start
    of each life.
    """

    def __init__(self, engine: OrchestrationEngine, store: SimStore, facts: Facts) -> None:
        self.engine, self.store = engine, store
        self._manager = engine.manager
        self._graph = engine.detector.graph
        self._facts = facts
        self._router = engine.router
        self._peers = engine.peers

    def alive(self) -> frozenset[str]:
        """Return the agents that have not ended."""
        records = self._manager.roster.records()
        return frozenset(record.agent_id for record in records if not record.has_ended)

    def blocked(self) -> dict[str, list[SeenWait]]:
        """Return the waits of all agents that do nothing but wait."""
        found: dict[str, list[SeenWait]] = {}
        for record in self._manager.roster.records():
            if record.state not in _WAITING or record.is_condemned:
                continue  # whoever was chosen to end a knot is about to end
            waits = self._waits(record)
            if waits is not None:
                found[record.agent_id] = waits
        return found

    def _waits(self, record: AgentRecord) -> list[SeenWait] | None:
        lives = self._manager.lives
        task, session = lives.task_of(record.agent_id), lives.session_of(record.agent_id)
        if task is None or task.done() or task.cancelling() or session is None:
            return None  # about to begin, or to end
        turn = session.turn
        if turn is not None and turn.calls.open:
            if not turn.is_blocked():
                return None
            return [self._wait_of(record, call) for call in turn.calls.open]
        blocks_now = record.agent_id in self._graph.blocked  # and sleeps next
        if not blocks_now and not self._router.is_awaited(record.agent_id):
            return None  # back-off, in line for a slot, opening or closing a session
        if record.claimed_result is not None:
            return [self._end_of(child) for child in record.live_children.values()]
        return [self._any_message(record)]

    def _wait_of(self, record: AgentRecord, call: Call) -> SeenWait:
        match call.name:
            case "ask_parent":
                return self._answer(record, call)
            case "wait_for_message" if "token" not in call.args:
                timed = bool(call.args.get("timeout") or call.args.get("timeout_seconds"))
                if call.args.get("all"):
                    return self._all_results(record, timed=timed)
                return self._any_message(record, timed=timed)
            case "message_next":
                return self._what_a_peer_writes(record, call)
            case "spawn_child" | "restart_child" | "consult_expert":
                return self._child(record, call.spawned_session_label or "")
        wait = call.wait
        if wait is None:
            raise RuntimeError(f"{call.name} waits for nothing")
        timed = bool(call.args.get("timeout") or call.args.get("timeout_seconds"))
        targets = [target for target in wait.targets() if target != ANYONE]
        if ANYONE in wait.targets():
            targets += self._others(record)
        return SeenWait(call.name, wait.ready(), tuple(targets), timed)

    def _answer(self, record: AgentRecord, call: Call) -> SeenWait:
        parent = self._manager.roster.get(record.descriptor.parent_id or "")
        asked = self._facts.asked.get(f"{record.agent_id} {call.turn_id} {call.id}")
        is_there = any(
            message.type is MessageType.ANSWER and message.correlation_id == asked
            for message in self._router.unread(record.agent_id)
        )
        return SeenWait("an answer", is_there or parent.is_over, (parent.agent_id,))

    def _what_a_peer_writes(self, record: AgentRecord, call: Call) -> SeenWait:
        unread = self._router.unread(record.agent_id)
        others, timed = self._others(record), "seconds" in call.args
        is_there = any(message.type is MessageType.PEER for message in unread) or not others
        is_there = is_there or self._peers.is_given_up(record.agent_id)
        return SeenWait("what a peer writes", is_there or timed, others, timed and not is_there)

    def _others(self, record: AgentRecord) -> tuple[str, ...]:
        """Return who else may write, by the engine's word."""
        return tuple(agent for agent in self._peers.senders if agent != record.agent_id)

    def _child(self, record: AgentRecord, label: str) -> SeenWait:
        child = next(
            agent
            for agent in (self._manager.roster.get(child_id) for child_id in record.children)
            if agent.label == label
        )
        numbers, since = self._facts.numbers, self._facts.lives[child.agent_id]
        is_there = any(
            message.source == child.agent_id
            and message.type in _FROM_CHILD
            and numbers[message.message_id] >= since
            for message in self._router.unread(record.agent_id)
        )
        return SeenWait("a child", is_there or child.has_ended, (child.agent_id,))

    def _end_of(self, child: AgentRecord) -> SeenWait:
        return SeenWait("a child's end", child.has_ended, (child.agent_id,))

    def _any_message(self, record: AgentRecord, *, timed: bool = False) -> SeenWait:
        parent_id = record.descriptor.parent_id
        roster = self._manager.roster
        targets = [child for child in record.children if not roster.get(child).has_ended]
        is_there = (
            any(_is_news(record, m) for m in self._router.unread(record.agent_id))
            or bool(record.notes.reminders)
            or (parent_id is None and not targets)
        )
        if parent_id is not None and not roster.get(parent_id).has_ended:
            targets.append(parent_id)
        if not record.takes_messages:
            targets += self._others(record)
        return SeenWait("a message", is_there or timed, tuple(targets), timed and not is_there)

    def _all_results(self, record: AgentRecord, *, timed: bool) -> SeenWait:
        """Return a wait that the same agents may end, and a result alone does not."""
        roster, unread = self._manager.roster, self._router.unread(record.agent_id)
        others = (m for m in unread if m.type is not MessageType.TASK_RESULT)
        is_there = (
            any(_is_news(record, message) for message in others)
            or bool(record.notes.reminders)
            or all(roster.get(child).has_ended for child in record.children)
        )
        targets = self._any_message(record).targets
        return SeenWait("all results", is_there or timed, targets, timed and not is_there)


def _is_news(record: AgentRecord, message: RoutedMessage) -> bool:
    if message.type is MessageType.QUESTION:
        return message.correlation_id in record.questions
    if message.type is MessageType.PEER and record.takes_messages:
        return False
    return message.type in _NEWS


def find_knot(blocked: Mapping[str, Iterable[SeenWait]], alive: Container[str]) -> frozenset[str]:
    """Return the blocked agents that are not live: the complement of the least fixpoint.

    `alive` are all agents that have not ended.
    """
    stuck = dict(blocked)
    while True:
        freed = [
            agent
            for agent, waits in stuck.items()
            if all(
                wait.ready or any(t in alive and t not in stuck for t in wait.targets)
                for wait in waits
            )
        ]
        if not freed:
            return frozenset(stuck)
        for agent in freed:
            del stuck[agent]
