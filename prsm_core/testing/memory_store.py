"""MemoryStore: the Store without a file, for tests and measurements.

It keeps every rule of the contract but durability. What one store leaves in its ledger another
can open: `MemoryStore(first.ledger)` is the next start of the same program.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from prsm_core.domain.usage import Spent
from prsm_core.errors import StoreError
from prsm_core.interfaces.store import AgentRow, SessionInfo, Store
from prsm_core.store import arguments_hash
from prsm_core.testing.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from types import TracebackType

    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Committed, HumanRequest, Step
    from prsm_core.domain.turns import AgentToolCall
    from prsm_core.testing.memory_rows import AgentEntry, CallEntry, TurnEntry


class MemoryStore(Store):
    """A store in memory; also an async context manager. It belongs to one event loop.

    A commit is applied without giving way to other tasks: a test that needs a slow store must
    wrap it.
    """

    def __init__(self, ledger: MemoryLedger | None = None) -> None:
        self.ledger = MemoryLedger() if ledger is None else ledger
        self._followers: set[asyncio.Future[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def commit(self, step: Step) -> Committed:
        """Apply a step, whole or not at all."""
        self._check_open()
        committed = self.ledger.commit(step)
        self._wake()
        return committed

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events that no step causes, numbered."""
        self._check_open()
        numbered = self.ledger.append(events)
        self._wake()
        return numbered

    async def events(
        self, session_id: str, after: int = 0, *, follow: bool = False, agent: str | None = None
    ) -> AsyncIterator[Event]:
        """Yield the session's events after `after`; with `follow` until the store is closed."""
        self._check_open()
        log = self.ledger.events[session_id]
        while not self._closed:
            while after < len(log):
                event = log[after]
                after += 1
                if agent in {None, event.agent}:
                    yield event
            if not follow:
                return
            await self._changed()

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""
        self._check_open()
        newest = {run.session_id: run for run in self.ledger.runs.values()}
        found = [
            SessionInfo(
                session_id=session_id,
                run_id=newest[session_id].run_id,
                status=newest[session_id].status,
                task=session.task,
                workspace=session.workspace,
                started_at=session.created_at,
                last_seq=len(self.ledger.events[session_id]),
            )
            for session_id, session in self.ledger.sessions.items()
        ]
        found.reverse()  # of two that began at one moment the later comes first
        return sorted(found, key=lambda info: info.started_at, reverse=True)

    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        """Return the session's agents in order of creation."""
        self._check_open()
        turns: defaultdict[str, list[TurnEntry]] = defaultdict(list)
        for turn in self.ledger.turns.values():
            turns[turn.agent_id].append(turn)
        events = {event.agent: event for event in self.ledger.events[session_id]}
        tools = {
            event.agent: event.data.get("tool")
            for event in self.ledger.events[session_id]
            if event.type == "tool_call_started"
        }
        return [
            _agent_row(entry, turns[agent_id], events.get(agent_id), tools.get(agent_id))
            for agent_id, entry in self.ledger.agents.items()
            if entry.descriptor.session_id == session_id
        ]

    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        """Return the messages that the present incarnations have not consumed."""
        self._check_open()
        agents = self.ledger.agents
        return [
            replace(entry.message, incarnation=entry.incarnation)
            for entry in self.ledger.messages.values()
            if entry.session_id == session_id
            and entry.consumed_by is None
            and entry.incarnation == agents[entry.message.target].incarnation
        ]

    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        """Return the requests nobody has answered, oldest first."""
        self._check_open()
        return [
            entry.request
            for entry in self.ledger.requests.values()
            if entry.session_id == session_id and entry.resolution is None
        ]

    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the agent's tool calls: the ledger's columns with `turn_no`, `turn_status`."""
        self._check_open()
        turns = [turn for turn in self.ledger.turns.values() if turn.agent_id == agent_id]
        return [row for turn in turns for row in _call_rows(turn)]

    async def aclose(self) -> None:
        """End the followers and refuse what comes later; the ledger stays."""
        self._closed = True
        self._wake()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the ledger is closed", hint="Open it again.", code="closed")

    def _wake(self) -> None:
        followers, self._followers = self._followers, set()
        for follower in followers:
            if not follower.done():
                follower.set_result(None)

    async def _changed(self) -> None:
        follower = asyncio.get_running_loop().create_future()
        self._followers.add(follower)
        try:
            await follower
        finally:
            self._followers.discard(follower)


def _agent_row(
    entry: AgentEntry, turns: Sequence[TurnEntry], last: Event | None, tool: str | None
) -> AgentRow:
    spent = Spent()
    for result in (turn.result for turn in turns if turn.result is not None):
        spent = spent + result.spent
    return AgentRow(
        descriptor=replace(
            entry.descriptor, state=entry.state, incarnation=entry.incarnation, prompt=entry.prompt
        ),
        waiting_on=entry.waiting_on,
        result=entry.result,
        resume_token=entry.resume_token,
        usage=spent.usage,
        cost_usd=spent.cost_usd,
        next_turn=entry.next_turn,
        head_turn_id=entry.head_turn_id,
        started_at=turns[0].step.started_at_ms / 1000 if turns else None,
        ended_at=entry.ended_at,
        last_tool=tool,
        last_event_at=None if last is None else last.ts,
        usage_provenance=spent.tokens_from,
        cost_provenance=spent.cost_from,
        turns_without_usage=spent.turns_without_tokens,
        turns_without_cost=spent.turns_without_cost,
    )


def _call_rows(turn: TurnEntry) -> Iterator[dict[str, Any]]:
    """Yield a turn's calls by sequence: what was stored before the agent saw it is the truth."""
    told = {call.id: call for call in (turn.result.tool_calls if turn.result else ())}
    calls = [_merged(entry, told.pop(key, None)) for key, entry in turn.calls.items()]
    calls += told.values()
    for call in sorted(calls, key=lambda call: call.sequence):
        yield {
            "turn_id": turn.step.turn_id,
            "id": call.id,
            "message_id": _caller(turn, call),
            "tool_name": call.tool_name,
            "params": dict(call.params),
            "arguments_hash": arguments_hash(call.params),
            "result": call.result,
            "error": call.error,
            "status": call.status,
            "started_at": call.started_at,
            "completed_at": call.completed_at,
            "sequence": call.sequence,
            "orchestration": call.orchestration,
            "spawned_session_label": call.spawned_session_label,
            "turn_no": turn.step.number,
            "turn_status": turn.status,
        }


def _merged(entry: CallEntry, told: AgentToolCall | None) -> AgentToolCall:
    """Return an orchestration call with its stored answer, and where it stands in its turn."""
    call, close = replace(entry.call, orchestration=True), entry.close
    if close is not None:
        error = close.result if close.status == "failed" else None
        call = replace(
            call, status=close.status, result=close.result, error=error, completed_at=close.at_ms
        )
    if told is None:
        return call
    label = told.spawned_session_label or call.spawned_session_label
    call = replace(call, sequence=told.sequence, spawned_session_label=label)
    if call.completed_at is not None:
        return call
    return replace(
        call,
        status=told.status,
        result=told.result,
        error=told.error,
        completed_at=told.completed_at,
    )


def _caller(turn: TurnEntry, call: AgentToolCall) -> str | None:
    """Return the last assistant message begun before the call, once the turn is closed."""
    if turn.result is None or call.id not in {told.id for told in turn.result.tool_calls}:
        return None
    told = next(told for told in turn.result.tool_calls if told.id == call.id)
    before = [
        message.id
        for message in turn.result.messages
        if message.role == "assistant" and message.created_at <= told.started_at
    ]
    return before[-1] if before else None
