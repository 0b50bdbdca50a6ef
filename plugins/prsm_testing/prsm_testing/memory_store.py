"""MemoryStore: the Store without a file, for tests and measurements.

It keeps every rule of the contract but durability. What one store leaves in its ledger another
can open: `MemoryStore(first.ledger)` is the next start of the same program.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult
from prsm_core.domain.changes import to_change_row
from prsm_core.domain.notes import Notes
from prsm_core.domain.usage import Provenance, Spent, TokenUsage, total
from prsm_core.errors import StoreError
from prsm_core.interfaces.store import AgentRow, SessionInfo, Store
from prsm_core.store import arguments_hash
from prsm_core.store.agent_rows import build_descriptor
from prsm_core.store.state import unknown_event
from prsm_testing.memory_ledger import MemoryLedger
from prsm_testing.memory_state import MemoryState, read_state, turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from types import TracebackType

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.rows import Values
    from prsm_core.domain.sessions import SessionState
    from prsm_core.domain.steps import Committed, HumanRequest, Step


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

    async def last_events(
        self,
        session_id: str,
        agent: str,
        *,
        kinds: Collection[str],
        limit: int,
        before: int | None = None,
    ) -> Sequence[Event]:
        """Return the agent's last events of these kinds; the log is read from its end."""
        self._check_open()
        log = self.ledger.events[session_id]
        newest = len(log) if before is None else min(max(before - 1, 0), len(log))
        found = (
            event
            for event in (log[number] for number in range(newest - 1, -1, -1))
            if event.agent == agent and event.type in kinds
        )
        return list(islice(found, min(limit, sys.maxsize)))[::-1]

    async def state(self, session_id: str, at: int | None = None) -> SessionState:
        """Return the session as it was after the commit `at`, else as it is."""
        self._check_open()
        return read_state(self.ledger, session_id, at)

    async def shared_snapshots(self) -> frozenset[str]:
        """Return the ids of the snapshots of files that forks name."""
        self._check_open()
        tables = self.ledger.tables
        forks = {row["session_id"] for row in tables["forks"].values()}
        rows = tables["snapshots"].values()
        return frozenset(row["snapshot_id"] for row in rows if row["session_id"] in forks)

    async def find_commit(self, session_id: str, seq: int) -> tuple[str, int]:
        """Return whose commit holds the session's event `seq`, and its position."""
        self._check_open()
        found = self.ledger.commit_of(session_id, seq)
        if found is None:
            raise unknown_event(session_id, seq)
        return found

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""
        self._check_open()
        tables = self.ledger.tables
        origins = {fork["session_id"]: fork["origin_id"] for fork in tables["forks"].values()}
        newest = {run["session_id"]: run for run in tables["runs"].values()}
        found = [
            SessionInfo(
                session_id=session_id,
                run_id=newest[session_id]["run_id"],
                status=newest[session_id]["status"],
                task=session["task"],
                workspace=session["workspace"],
                started_at=session["created_at"],
                last_seq=len(self.ledger.events[session_id]),
                name=session.get("name"),
                last_at=self.ledger.events[session_id][-1].ts,
                origin=origins.get(session_id),
                is_aside=(session.get("aside") or 0) > newest[session_id]["began"],
            )
            for session_id, session in tables["meta"].items()
        ]
        # By when they came, or came back: a clock may have been set back.
        came = {session_id: row["came"] for session_id, row in tables["meta"].items()}
        return sorted(found, key=lambda info: came[info.session_id], reverse=True)

    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        """Return the session's agents in order of creation."""
        self._check_open()
        tables = self.ledger.tables
        turns = {agent_id: turns_of(tables, agent_id) for agent_id in tables["agents"]}
        heads = {one["agent_id"]: one.get("thread_id") for one in tables["sessions"].values()}
        events = {event.agent: event for event in self.ledger.events[session_id]}
        tools = {
            event.agent: event.data.get("tool")
            for event in self.ledger.events[session_id]
            if event.type == "tool_call_started"
        }
        return [
            replace(
                _agent_row({**row, **tables["agent_specs"][agent_id]}, turns[agent_id]),
                head_turn_id=heads[agent_id],
                last_tool=tools.get(agent_id),
                last_event_at=events[agent_id].ts if agent_id in events else None,
            )
            for agent_id, row in tables["agents"].items()
            if row["session_id"] == session_id
        ]

    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        """Return the messages that the present incarnations have not consumed."""
        self._check_open()
        return MemoryState(self.ledger, session_id).unread()

    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        """Return the requests nobody has answered, oldest first."""
        self._check_open()
        return MemoryState(self.ledger, session_id).open_requests()

    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the agent's tool calls: the ledger's columns with `turn_no`, `turn_status`."""
        self._check_open()
        tables = self.ledger.tables
        turns = turns_of(tables, agent_id)
        return [
            {
                **call,
                "params": dict(call["params"]),
                "arguments_hash": arguments_hash(call["params"]),
                "orchestration": bool(call["orchestration"]),
                "turn_no": turn["turn_no"],
                "turn_status": turn["status"],
            }
            for turn in turns
            for call in sorted(
                (c for c in tables["tool_calls"].values() if c["turn_id"] == turn["id"]),
                key=lambda call: call["sequence"],
            )
        ]

    async def changes(self, session_id: str) -> Sequence[ChangeRow]:
        """Return all changes of files that the session has found, oldest first."""
        self._check_open()
        rows = self.ledger.tables["file_changes"].values()
        return [to_change_row(row) for row in rows if row["session_id"] == session_id]

    async def aclose(self) -> None:
        """End the followers and refuse what comes later; the ledger stays."""
        self._closed = True
        self._wake()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the ledger is closed", hint="open it again", code="closed")

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


def _agent_row(row: Values, turns: Sequence[Values]) -> AgentRow:
    spent = total(_spent(turn) for turn in turns if turn.get("closed_by") is not None)
    result = row.get("result")
    return AgentRow(
        descriptor=build_descriptor(row),
        waiting_on=row.get("waiting_on"),
        result=None if result is None else AgentResult.from_dict(result),
        resume_token=row.get("resume_token"),
        usage=spent.usage,
        cost_usd=spent.cost_usd,
        next_turn=row["next_turn"],
        head_turn_id=None,
        started_at=turns[0]["started_at"] / 1000 if turns else None,
        ended_at=row.get("ended_at"),
        last_tool=None,
        last_event_at=None,
        usage_provenance=spent.tokens_from,
        cost_provenance=spent.cost_from,
        turns_without_usage=spent.turns_without_tokens,
        turns_without_cost=spent.turns_without_cost,
        chosen=Notes.from_dict(row.get("notes") or {}).chosen,
    )


def _spent(turn: Values) -> Spent:
    usage = TokenUsage(**{name: turn[name] for name in TokenUsage.__struct_fields__})
    sources = Provenance(turn["usage_provenance"]), Provenance(turn["cost_provenance"])
    return Spent.of_turn(usage, turn["cost_usd"], *sources)
