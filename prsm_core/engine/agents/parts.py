"""What the sessions of agents share: slots, prompts between turns, and their other parts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.messages import MessageType
from prsm_core.domain.record import Record
from prsm_core.domain.writes import MessageSent
from prsm_core.engine.state import MESSAGES_IN_A_PROMPT
from prsm_core.engine.turns.context import Prompt, render_messages, render_repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from prsm_core.config import Settings
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.tools import McpEndpoint
    from prsm_core.engine.agents.holds import Holds
    from prsm_core.engine.agents.labelling import Labelling
    from prsm_core.engine.agents.opening import Contexts, Opening
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.providers.retry import Breakers, RetryPolicy
    from prsm_core.engine.quiet import QuietMoment
    from prsm_core.engine.spawn import IdleChildren
    from prsm_core.engine.state import AgentRecord, Roster, Staged
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.engine.turns.permits import Permits
    from prsm_core.engine.turns.ports import Ends
    from prsm_core.engine.workspace_files import WorkspaceFiles
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import AgentHost
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background
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
                record.note_undelivered(message)
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


class SessionParts(Record, frozen=True, kw_only=True):
    """What the sessions of all agents use."""

    settings: Settings
    ends: Ends
    steps: AgentSteps
    detector: DeadlockDetector
    slots: Slots
    quiet: QuietMoment
    files: WorkspaceFiles  # which weigh claims
    is_closing: Callable[[], bool]  # the engine is: nothing begins any more
    forget: Callable[[str], None]  # keeps nothing of the life of an agent that has ended
    turns: TurnParts
    providers: ProviderRegistry
    listings: Listings
    breakers: Breakers
    retry: RetryPolicy
    holds: Holds
    opening: Opening
    contexts: Contexts
    inbox: Inbox
    tools: Callable[[AgentRecord], Toolbox]
    permits: Permits
    labelling: Labelling
    open_endpoint: OpenEndpoint | None
    roster: Roster
    store: Store
    journal: Journal
    clock: Clock
    background: Background
