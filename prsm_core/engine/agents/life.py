"""One life of an agent: its parts, its slot, its waits, and the host that its provider calls."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.permissions import Deny
from prsm_core.domain.tools import ORCHESTRATION_TOOLS, McpEndpoint, ToolOutcome, ToolSpec
from prsm_core.domain.writes import MessageSent
from prsm_core.engine.state import MESSAGES_IN_A_PROMPT, Evidence
from prsm_core.engine.turns.call import Mended, turn_over
from prsm_core.engine.turns.context import Prompt, render_messages, render_repeat
from prsm_core.engine.turns.parts import TURN_OVER, TurnParts
from prsm_core.engine.turns.waits import edge_of
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_core.interfaces.provider import ChildNow
from prsm_core.kit.sanitize import sanitize
from prsm_core.lifecycle import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.permissions import Allow, Answer, PermissionRequest, Question
    from prsm_core.domain.usage import Spent
    from prsm_core.domain.writes import StateChanged
    from prsm_core.engine.agents.holds import Holds
    from prsm_core.engine.agents.labelling import Labelling
    from prsm_core.engine.agents.opening import Contexts, Opening
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.journal.unit import AgentSteps
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.providers.retry import CircuitBreaker, RetryPolicy
    from prsm_core.engine.spawn import IdleChildren
    from prsm_core.engine.state import AgentRecord, Roster, Staged
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.ports import Ends
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.engine.turns.waits import Wait
    from prsm_core.engine.workspace_files import WorkspaceFiles
    from prsm_core.interfaces.provider import AgentHost
    from prsm_core.interfaces.store import AgentRow, Store
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter


class Slots:
    """Limits how many agents have a streaming model or a running tool at one time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._free = asyncio.Semaphore(limit)
        # Acts that tell of slots which are free again.
        self._let_go: list[Staged] = []

    async def acquire(self) -> None:
        """Wait in line for a slot."""
        await self._free.acquire()
        self.in_use += 1

    def untold(self) -> list[Staged]:
        """Return the acts to write before the ledger may show the newest holder at work."""
        self._let_go = [act for act in self._let_go if not act.is_settled]
        return self._let_go if self.in_use + len(self._let_go) > self.limit else []

    def release(self, act: Staged | None = None) -> None:
        """Give a slot back, as `act` will record."""
        if act is not None:
            self._let_go.append(act)
        self.in_use -= 1
        self._free.release()


class SlotLease(Struct, eq=False):
    """One agent's hold on a slot; taking or releasing it twice is one act."""

    slots: Slots
    held: bool = False
    _is_closed: bool = False
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def acquire(self) -> None:
        """Hold a slot."""
        async with self._asking:
            if not self.held:
                await self.slots.acquire()
                self.held = True
                if self._is_closed:  # whoever wanted it has ended meanwhile
                    self.release()

    def release(self, act: Staged | None = None) -> None:
        """Hold none, as `act` will record."""
        if self.held:
            self.held = False
            self.slots.release(act)

    def close(self) -> None:
        """Hold none, for good."""
        self._is_closed = True
        self.release()


class Inbox(Struct, eq=False):
    """Turns agents' mailboxes and unanswered questions into prompts."""

    roster: Roster
    router: MessageRouter
    steps: AgentSteps
    peers: Peers
    idle: IdleChildren

    def leave(self, record: AgentRecord) -> None:
        """Note that an agent will answer and write nothing more; wake whoever waits for it."""
        self.peers.falls_silent(record)
        for child in record.children:
            self.router.wake(child)

    def take_reminder(self, record: AgentRecord) -> Prompt | None:
        """Return a question that must be shown again, once."""
        if (question := record.next_reminder()) is None:
            return None
        message = question.message
        return replace(self._repeat(message), reminds=message.correlation_id)

    def take_unread(self, record: AgentRecord) -> Prompt | None:
        """Return unread messages as a prompt, up to the limit."""
        is_wanted = record.is_prompted_by
        claimed = self.router.claim_all(record.agent_id, is_wanted, MESSAGES_IN_A_PROMPT)
        if not claimed:
            return None
        for message in claimed:
            if message.type is MessageType.QUESTION:
                record.note_delivered(message)
        text = render_messages(claimed, self.roster.names())
        return Prompt(text=text, consumed=tuple(m.message_id for m in claimed))

    def take_forgotten(self, record: AgentRecord) -> Prompt | None:
        """Return a question that the model was shown and did not answer, once."""
        repeated = record.notes.repeated
        for about, question in record.questions.items():
            if question.delivered and about not in repeated:
                return replace(self._repeat(question.message), repeats=about)
        return None

    def forget(self, record: AgentRecord, told: Mapping[str, Any]) -> None:
        """Make the contents of an undone answer new again."""
        about = told.get("correlation_id")
        if told.get("reminder") and about in record.questions:
            others = tuple(one for one in record.notes.reminders if one != about)
            record.note(reminders=(about, *others))
        heard = dict(record.notes.heard)
        for report in told.get("progress", ()):
            child = report["from"]
            heard[child] = min(heard.get(child, 0), self.roster.get(child).notes.reports - 1)
            if child not in record.progress:
                record.heard_of(child, {key: report[key] for key in report if key != "from"})
        if heard != record.notes.heard:
            record.note(heard=heard)

    def restore(self, record: AgentRecord, messages: Sequence[RoutedMessage]) -> None:
        """Hold unread messages again, some of which were read before."""
        for message in messages:
            if message.type is MessageType.QUESTION:
                record.note_delivered(message, delivered=False)
            elif message.type is MessageType.TASK_RESULT and message.source is not None:
                self.idle.hold(self.roster.get(message.source), unread=message.message_id)
        self.router.restore(record.agent_id, messages)

    async def refuse_questions(self, record: AgentRecord) -> None:
        """Answer with an error the questions that were shown, repeated and never answered."""
        for correlation_id, question in tuple(record.questions.items()):
            asker = question.message.source
            if correlation_id not in record.notes.repeated or asker is None:
                continue
            record.settled(correlation_id)
            if self.roster.get(asker).is_over:
                continue
            refusal = self.steps.message(
                record,
                MessageType.ANSWER,
                asker,
                {"error": "parent_did_not_answer"},
                correlation_id,
            )
            await self.steps.write(record, MessageSent(message=refusal))

    def _repeat(self, message: RoutedMessage) -> Prompt:
        return Prompt(text=render_repeat(message, self.roster.names()))


class OpenEndpoint(Protocol):
    """Opens an MCP endpoint for a host's tools; given from outside, as the engine knows no MCP."""

    def __call__(
        self, host: AgentHost, agent: str, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Open an endpoint to the tools of this host, of the agent of this id."""


class SessionParts(TurnParts, frozen=True, kw_only=True):
    """What the sessions of all agents use."""

    ends: Ends
    detector: DeadlockDetector
    slots: Slots
    files: WorkspaceFiles  # which weigh claims
    is_closing: Callable[[], bool]  # the engine is: nothing begins any more
    forget: Callable[[str], None]  # keeps nothing of the life of an agent that has ended
    providers: ProviderRegistry
    listings: Listings
    breaker_of: Callable[[str], CircuitBreaker]  # of a provider; all its agents share it
    retry: RetryPolicy
    holds: Holds
    opening: Opening
    contexts: Contexts
    inbox: Inbox
    tools: Callable[[AgentRecord], Toolbox]
    labelling: Labelling
    open_endpoint: OpenEndpoint | None
    roster: Roster
    store: Store


# Of several, the first one is told.
_WAIT_ORDER = (
    AgentState.WAITING_FOR_PARENT,
    AgentState.WAITING_FOR_EXPERT,
    AgentState.WAITING_FOR_CHILD,
)


class AgentLife:
    """Owns the slot of one life and its present waits."""

    def __init__(self, record: AgentRecord, parts: SessionParts, *, is_external: bool) -> None:
        self.record = record
        self.turn: TurnRun | None = None  # the running one, or the last
        self.is_leaving = False  # its session is to be left: no wait goes on in it
        self._parts = parts
        self._number = record.incarnation
        self._lease = SlotLease(Slots(1) if is_external else parts.slots)
        self._waits: Sequence[Wait] = ()  # what blocks the agent, or did until somebody moved it

    @property
    def is_over(self) -> bool:
        """Whether this life may act no more; the agent's next one may have begun."""
        has_passed = self.record.incarnation != self._number
        return has_passed or self.record.is_over or self._parts.is_closing()

    @property
    def holds_slot(self) -> bool:
        """Whether the agent holds a slot."""
        return self._lease.held

    @property
    def is_working(self) -> bool:
        """Whether the agent runs and holds a slot, so that it can be answered at once."""
        return self._lease.held and self.record.state is AgentState.RUNNING

    async def take_slot(self) -> None:
        """Wait in line for a slot; the log first says who has left theirs."""
        if self._lease.held:
            return
        await self._lease.acquire()
        for act in self._parts.slots.untold():
            if not act.is_settled:  # while another one was written
                await self._parts.steps.land(act.step.agent_id)

    def release_slot(self) -> None:
        """Give the slot back for now."""
        self._lease.release()

    def leave_slot(self) -> None:
        """Give the slot back for good; nothing of this life writes any more."""
        self._lease.close()
        if self.record.incarnation == self._number:  # else the next one may have begun
            self._parts.quiet.turn_over(self.record.agent_id)

    def leave(self) -> None:
        """Let go of everything. Once the agent has ended, drop its last turn too."""
        self.leave_slot()
        if self.record.has_ended and self.record.incarnation == self._number:
            if self.turn is not None:
                self.turn.forget()
            self.turn = None
            self._parts.forget(self.record.agent_id)

    def resume(self) -> tuple[StateChanged, ...]:
        """Let a waiting agent that holds a slot run again; return the writes for a step."""
        if self.record.state in WAITING and self._lease.held:
            return self._parts.steps.move(self.record, AgentState.RUNNING, "answered")
        return ()

    @property
    def is_blocked(self) -> bool:
        """Whether the agent only waits, as far as nobody has moved it since."""
        return bool(self._waits)

    def moved(self) -> None:
        """Note that the agent moves or is about to, so it is not blocked."""
        if self._waits and self.record.incarnation == self._number:
            self._waits = ()
            self._parts.detector.moved(self.record.agent_id)

    def idles(self) -> None:
        """Note that the agent only waits for a person; it keeps its slot."""
        self._parts.providers.residents.waits(self.record.agent_id)

    def blocked(self, waits: Sequence[Wait]) -> None:
        """Become WAITING and give the slot back. A knot of waits is found here and now."""
        record, steps = self.record, self._parts.steps
        wait = waits[0] if len(waits) == 1 else min(waits, key=lambda w: _WAIT_ORDER.index(w.state))
        act = None
        if (record.state, record.waiting_on) != (wait.state, wait.on):
            reason = f"waits for {wait.on}"
            changes = steps.move(record, wait.state, reason, waiting_on=wait.on)
            act = steps.stage(record, *changes)
        self._lease.release(act)
        self._waits = waits
        self._parts.providers.residents.waits(record.agent_id)
        if not record.is_condemned:
            self._parts.detector.blocked(record.agent_id, [edge_of(wait) for wait in waits])

    def wait_anew(self) -> None:
        """Make a blocked agent wait for agents that have begun since, too."""
        detector, agent_id = self._parts.detector, self.record.agent_id
        if detector.graph.waits_of(agent_id):
            detector.blocked(agent_id, [edge_of(wait) for wait in self._waits])

    async def runs_again(self, rests: Callable[[], bool]) -> None:
        """Become RUNNING, unless the turn rests again by the time a slot is free."""
        self.moved()
        if self.record.state not in WAITING:
            return
        await self.take_slot()
        if rests():
            self._lease.release()
            return
        if changes := self.resume():
            self._parts.steps.stage(self.record, *changes)

    @property
    def has_only_talked(self) -> bool:
        """Whether this life provably did nothing but orchestrate."""
        turn, record = self.turn, self.record
        if turn is None or record.children or record.incarnation > 1 or record.next_turn > 2:
            return False
        folders = self._parts.files.folders
        if folders.of(record.descriptor.cwd) != folders.main:
            return False  # what is done in a worktree is seen there
        ours = [row.tool_name for row in turn.calls.rows.values()]
        ours += [call.name for call in turn.calls.open]
        talk = ORCHESTRATION_TOOLS - {"run_bash"}
        return not turn.fold.calls and talk.issuperset(ours)

    async def weigh(
        self, artifacts: Sequence[str], commands: Sequence[str], *, is_last: bool = False
    ) -> Evidence:
        """Check the agent's claims, and run the gates if it changed files; see `Proof.weigh`."""
        if not (artifacts or commands) and self.has_only_talked:
            return Evidence()
        proof = self._parts.files.proof(self.record)
        return await proof.weigh(artifacts, commands, is_last=is_last)


_VENDOR_PREFIX = re.compile(r"mcp__?[A-Za-z0-9-]+?__?(?=[a-z])")


_PAST_SESSIONS = 20  # whose agents are asked what they used


class SessionHost(Struct, eq=False):
    """The AgentHost of one life."""

    _life: AgentLife
    _tools: Toolbox
    _parts: SessionParts

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The orchestration tools of this agent."""
        return self._tools.specs

    @property
    def _is_program(self) -> bool:
        return self._parts.labelling.program_of(self._life.record.descriptor.provider) is not None

    def is_orchestration(self, vendor_name: str) -> bool:
        """Return whether a vendor's tool name is an orchestration tool."""
        names = self._tools.names
        return vendor_name in names or _VENDOR_PREFIX.sub("", vendor_name, count=1) in names

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> Coroutine[Any, Any, ToolOutcome]:
        """Run an orchestration tool in the running turn."""
        if self._is_program:
            return self._run(name, Mended(sanitize(arguments)), call_id, patience_s)
        return self._run(name, self._mended(name, arguments), call_id, patience_s)

    def _mended(self, name: str, arguments: Mapping[str, Any]) -> Mended:
        mended = self._tools.mend(name, sanitize(arguments))
        # What the JSON texts say that were read in mending may be unfit, too.
        return mended if mended.fits else sanitize(mended)

    def _run(
        self, name: str, mended: Mended, call_id: str | None, patience_s: float | None
    ) -> Coroutine[Any, Any, ToolOutcome]:
        turn = self._life.turn
        if turn is None:
            return self._outside()
        name, call_id = sanitize(name), sanitize(call_id)
        if patience_s is None:
            return turn.calls.run(name, mended, call_id)
        return self._long_call(turn, name, mended, call_id, patience_s)

    async def _outside(self) -> ToolOutcome:
        if self._life.is_over:
            return turn_over()
        raise RuntimeError("call_tool outside a turn")

    async def _long_call(
        self, turn: TurnRun, name: str, mended: Mended, call_id: str | None, patience_s: float
    ) -> ToolOutcome:
        if name != "task_complete" and await turn.hold():
            return turn_over()
        outcome = await turn.earlier.run(name, mended, call_id, patience_s)
        is_pending = not outcome.is_error and outcome.data.get("type") == "pending"
        if is_pending and await turn.hold():
            return turn_over()
        if is_pending and turn.is_running:
            await turn.model_speaks()  # it goes on, while the call still waits
        return outcome

    async def authorize(self, request: PermissionRequest) -> Allow | Deny:
        """Decide a permission request; an allowed one is a call in the ledger from then on."""
        turn, permits = self._life.turn, self._parts.permits
        if turn is None or self.is_orchestration(request.tool):
            return await permits.authorize(self._life, request)
        asked = turn.vendors.asks(sanitize(request))
        verdict = await permits.authorize(self._life, request)
        if isinstance(verdict, Deny) or await turn.allow(asked):
            return verdict
        return Deny(TURN_OVER)

    def ask_user(self, question: Question) -> Coroutine[Any, Any, Answer]:
        """Ask a person, or their stand-in; without an answer the text says why."""
        return self._parts.permits.ask_user(self._life, question)

    def mcp_endpoint(
        self, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Offer the tools by MCP while the endpoint is open."""
        if (open_endpoint := self._parts.open_endpoint) is None:
            raise ProviderNotAvailableError(
                "this engine has no MCP bridge for command-line agents",
                hint="use a provider that takes the tools directly",
            )
        host = ModelsHost(self._life, self._tools, self._parts) if self._is_program else self
        return open_endpoint(host, self._life.record.agent_id, patience_s=patience_s)

    def relabel(
        self, changes: Mapping[str, str | None], agent: str | None = None
    ) -> Coroutine[Any, Any, Mapping[str, str]]:
        """Change labels of the agent or its child; return all its labels."""
        return self._parts.labelling.relabel(self._life, changes, agent)

    def children(self) -> Sequence[ChildNow]:
        """Return the agent's children, oldest first."""
        roster, spent_by = self._parts.roster, self._parts.budgets.spent_by
        return tuple(_child(roster.get(id_), spent_by(id_)) for id_ in self._life.record.children)

    async def end_child(self, agent: str, reason: str) -> None:
        """Kill a child of the agent and all below it."""
        record = self._life.record
        self._parts.labelling.owner_of(record.descriptor)
        child = self._parts.roster.resolve(agent, record.children)
        if not child.state.is_terminal:
            await self._parts.ends.kill_tree(child, reason)

    async def spent_with_label(self, label: str, text: str) -> Sequence[Spent]:
        """Return what ended agents with a label have used, in the whole ledger."""
        self._parts.labelling.owner_of(self._life.record.descriptor)
        store = self._parts.store
        spent: list[Spent] = []
        for session in await store.sessions_with(label, text, limit=_PAST_SESSIONS):
            spent += _spent_by_tops(await store.agents(session), label, text)
        return spent


class ModelsHost(SessionHost, eq=False):
    """Offers a program's tools to its models by MCP; they may pass no private arguments."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Run a tool; arguments that only programs may pass are refused as unknown."""
        mended = self._mended(name, arguments)
        try:
            self._tools.find(name, mended.arguments, by_program=False, fits=mended.fits)
        except PrsmError as error:
            return ToolOutcome.failed(error)
        return await self._run(name, mended, call_id, patience_s)


def _spent_by_tops(rows: Sequence[AgentRow], label: str, text: str) -> Iterator[Spent]:
    """Yield the usage of labelled agents without a labelled parent, with all below them."""
    below: dict[str | None, list[AgentRow]] = {}
    for row in rows:
        below.setdefault(row.descriptor.parent_id, []).append(row)
    having = {row.descriptor.agent_id for row in rows if row.descriptor.labels.get(label) == text}

    def whole(row: AgentRow) -> Spent:
        return sum(map(whole, below.get(row.descriptor.agent_id, ())), row.spent)

    for row in rows:
        agent = row.descriptor
        if agent.agent_id in having and agent.parent_id not in having and agent.state.is_terminal:
            yield whole(row)


def _child(record: AgentRecord, spent: Spent) -> ChildNow:
    agent = record.descriptor
    return ChildNow(
        agent_id=agent.agent_id,
        name=agent.name,
        role=agent.role,
        state=record.state,
        incarnation=record.incarnation,
        provider=agent.provider,
        model=agent.model,
        cwd=agent.cwd,
        region=agent.grant.region,
        labels=agent.labels,
        result=record.result if record.has_ended else None,
        spent=spent,
    )
