"""MemoryStore: the Store without a file, for tests and measurements.

It keeps every rule of the contract but durability. What one store leaves in its ledger another
can open: `MemoryStore(first.ledger)` is the next start of the same program.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult
from prsm_core.domain.changes import to_change_row
from prsm_core.domain.notes import NO_NOTES, Notes
from prsm_core.domain.sessions import AgentNow, AskedQuestion, Origin, SessionState, TurnEnd
from prsm_core.domain.steps import HumanRequest
from prsm_core.domain.usage import Spent, total
from prsm_core.errors import StoreError
from prsm_core.interfaces.store import AgentRow, Picture, SessionInfo, SessionLog, Store, TakenNames
from prsm_core.store import arguments_hash
from prsm_core.store.agent_rows import build_descriptor
from prsm_core.store.event_log import AFTER_ALL
from prsm_core.store.open_turn import ToldTurn, build_call, build_effect, read_spent
from prsm_core.store.readers import build_message
from prsm_core.store.state import (
    asked_by,
    build_run,
    build_snapshot,
    unknown_event,
    unknown_position,
    unknown_session,
)
from prsm_testing.memory_ledger import MemoryLedger, Row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.rows import Values
    from prsm_core.domain.sessions import CallState, TurnState
    from prsm_core.domain.steps import Committed, Step
    from prsm_core.domain.turns import Effect
    from prsm_testing.memory_ledger import Tables

_REQUEST = HumanRequest.__struct_fields__


class MemoryStore(Store):
    """A store in memory; also an async context manager. It belongs to one event loop.

    A commit is applied without giving way to other tasks: a test that needs a slow store must
    wrap it.
    """

    def __init__(self, ledger: MemoryLedger | None = None) -> None:
        self.ledger = MemoryLedger() if ledger is None else ledger
        self._waiting: list[asyncio.Future[None]] = []  # for the next write
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def commit(self, step: Step) -> Committed:
        committed = self._open.commit(step)
        self._wake()
        return committed

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        numbered = self._open.append(events)
        self._wake()
        return numbered

    async def events(
        self, session_id: str, after: int = 0, *, follow: bool = False, agent: str | None = None
    ) -> AsyncIterator[Event]:
        log = self._open.events[session_id]
        while not self._closed:
            for event in log[after:]:
                after += 1
                if agent in {None, event.agent}:
                    yield event
            if after < len(log):
                continue
            if not follow:
                return
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    async def last_events(
        self,
        session_id: str,
        agent: str,
        *,
        kinds: Collection[str],
        limit: int,
        before: int | None = None,
    ) -> Sequence[Event]:
        log = self._open.events[session_id]
        number = len(log) if before is None else min(max(before - 1, 0), len(log))
        events: list[Event] = []
        while number and len(events) < limit:
            number -= 1
            event = log[number]
            if event.agent == agent and event.type in kinds:
                events.append(event)
        return events[::-1]

    async def picture(self, session_id: str) -> Picture:
        """Return the session at one moment: no task goes on while this reads."""
        log = SessionLog()
        async for event in self.events(session_id):
            log.add(event)
        agents = await self.agents(session_id)
        return Picture(
            seq=log.seq,
            run=log.run,
            agents=agents,
            requests=await self.open_requests(session_id),
            unread=await self.inbox(session_id),
            turns=log.open_turns([row.descriptor.agent_id for row in agents]),
            contexts=log.contexts,
        )

    async def state(self, session_id: str, at: int | None = None) -> SessionState:
        ledger = self._open
        if session_id not in ledger.tables["meta"]:
            raise unknown_session(session_id)
        newest = ledger.newest(session_id)
        position = newest if at is None else at
        seq = ledger.seq_at(session_id, position)
        if seq is None:
            raise unknown_position(session_id, position, newest)
        return MemoryState(ledger, session_id, position, seq).read()

    async def shared_snapshots(self) -> frozenset[str]:
        tables = self._open.tables
        forks = {row["session_id"] for row in tables["forks"].values()}
        rows = tables["snapshots"].values()
        return frozenset(row["snapshot_id"] for row in rows if row["session_id"] in forks)

    async def find_commit(self, session_id: str, seq: int) -> tuple[str, int]:
        commit = self._open.commit_of(session_id, seq)
        if commit is None:
            raise unknown_event(session_id, seq)
        return commit

    async def sessions(self) -> Sequence[SessionInfo]:
        tables = self._open.tables
        origins = {fork["session_id"]: fork["origin_id"] for fork in tables["forks"].values()}
        newest = {run["session_id"]: run for run in tables["runs"].values()}
        # By when they came, or came back: a clock may have been set back.
        newest_first = sorted(tables["meta"].items(), key=lambda row: row[1]["came"], reverse=True)
        return [
            SessionInfo(
                session_id=session_id,
                run_id=newest[session_id]["run_id"],
                status=newest[session_id]["status"],
                task=session["task"],
                workspace=session["workspace"],
                started_at=session["created_at"],
                last_seq=len(self._open.events[session_id]),
                name=session["name"],
                last_at=self._open.events[session_id][-1].ts,
                origin=origins.get(session_id),
                is_aside=(session["aside"] or 0) > newest[session_id]["began"],
            )
            for session_id, session in newest_first
        ]

    async def sessions_with(self, label: str, text: str, *, limit: int) -> Sequence[str]:
        tables = self._open.tables
        specs = tables["agent_specs"].items()
        agents = [agent for agent, row in specs if (row["labels"] or {}).get(label) == text]
        own = {tables["agents"][agent]["session_id"] for agent in agents}
        return [info.session_id for info in await self.sessions() if info.session_id in own][:limit]

    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        tables, log = self._open.tables, self._open.events[session_id]
        last_at = {event.agent: event.ts for event in log}
        calls = [event for event in log if event.type == "tool_call_started"]
        last_tool = {event.agent: event.data.get("tool") for event in calls}
        agents = []
        for agent_id, agent in tables["agents"].items():
            if agent["session_id"] != session_id:
                continue
            row = Row({**agent, **tables["agent_specs"][agent_id]})
            turns = turns_of(tables, agent_id)
            (session,) = tables.find("sessions", {"agent_id": agent_id})
            agents.append(
                AgentRow(
                    descriptor=build_descriptor(row),
                    waiting_on=row["waiting_on"],
                    result=_result(row),
                    resume_token=row["resume_token"],
                    next_turn=row["next_turn"],
                    head_turn_id=session["thread_id"],
                    started_at=turns[0]["started_at"] / 1000 if turns else None,
                    ended_at=row["ended_at"],
                    last_tool=last_tool.get(agent_id),
                    last_event_at=last_at.get(agent_id),
                    spent=_sum_up(turns) or Spent(),
                    chosen=_notes(row).chosen,
                )
            )
        return agents

    async def taken(self, session_id: str) -> TakenNames:
        rows = await self.agents(session_id)
        last = max((row.last_event_at or 0.0 for row in rows), default=0.0)
        return TakenNames(names=frozenset(row.descriptor.name for row in rows), last_event_at=last)

    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        return MemoryState(self._open, session_id).unread()

    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        return MemoryState(self._open, session_id).open_requests()

    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        tables = self._open.tables
        return [
            {
                **call,
                "params": dict(call["params"]),
                "arguments_hash": arguments_hash(call["params"]),
                "orchestration": bool(call["orchestration"]),
                "turn_no": turn["turn_no"],
                "turn_status": turn["status"],
            }
            for turn in turns_of(tables, agent_id)
            for call in sorted(
                tables.find("tool_calls", {"turn_id": turn["id"]}),
                key=lambda call: call["sequence"],
            )
        ]

    async def changes(self, session_id: str) -> Sequence[ChangeRow]:
        rows = self._open.tables["file_changes"].values()
        return [to_change_row(row) for row in rows if row["session_id"] == session_id]

    async def aclose(self) -> None:
        """End the followers and refuse what comes later; the ledger stays."""
        self._closed = True
        self._wake()

    @property
    def _open(self) -> MemoryLedger:
        """The ledger; raises StoreError once the store is closed."""
        if self._closed:
            raise StoreError("the ledger is closed", hint="open it again", code="closed")
        return self.ledger

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def _result(row: Row) -> AgentResult | None:
    return None if row["result"] is None else AgentResult.from_dict(row["result"])


def _notes(row: Row) -> Notes:
    return NO_NOTES if row["notes"] is None else Notes.from_dict(row["notes"])


class MemoryState:
    """Reads one session as the tables of a ledger have it, with its log up to an event.

    At a position it is read as it was, else as it is.
    """

    def __init__(
        self, ledger: MemoryLedger, session_id: str, position: int = 0, seq: int | None = None
    ) -> None:
        self._ledger = ledger
        self._tables = ledger.as_of(position) if position else ledger.tables
        log = ledger.events[session_id]
        self._log = log if seq is None else log[:seq]
        self._session_id = session_id
        self._position = position

    def read(self) -> SessionState:
        """Return the session. Raises StoreError where it had not begun yet."""
        session = self._tables["meta"].get(self._session_id)
        if session is None:
            raise unknown_session(self._session_id)
        runs = self._own("runs")
        agents = [self._agent(row, runs[-1]["began"]) for row in self._own("agents")]
        return SessionState(
            session_id=self._session_id,
            position=self._position,
            seq=len(self._log),
            task=session["task"],
            workspace=session["workspace"],
            created_at=session["created_at"],
            runs=tuple(build_run(Row({**run, **self._engine(run)})) for run in runs),
            agents=tuple(agents),
            unread=tuple(self.unread()),
            questions=tuple(self._questions(agents)),
            requests=tuple(self.open_requests()),
            grants=tuple(
                {name: grant[name] for name in ("agent_id", "data", "created_at")}
                for grant in self._own("grants")
            ),
            snapshots=tuple(map(build_snapshot, self._own("snapshots"))),
            changes=tuple(map(to_change_row, self._own("file_changes"))),
            origins=tuple(
                Origin(session_id=one["origin_id"], position=one["position"], seq=one["seq"])
                for one in self._own("forks")
            ),
            aliases={one["old_id"]: one["new_id"] for one in self._own("aliases")},
        )

    def unread(self) -> list[RoutedMessage]:
        """Return the messages that the present incarnations have not consumed."""
        agents, rows = self._tables["agents"], self._own("inbox", consumed_by=None)
        return [
            build_message(row)
            for row in rows
            if row["incarnation"] == agents[row["target"]]["incarnation"]
        ]

    def open_requests(self) -> list[HumanRequest]:
        """Return the requests nobody has answered, oldest first."""
        rows = self._own("requests", state="open")
        return [HumanRequest(**{name: row[name] for name in _REQUEST}) for row in rows]

    def _own(self, table: str, **where: Any) -> list[Row]:
        return self._tables.find(table, {"session_id": self._session_id, **where})

    def _engine(self, run: Values) -> Values:
        number = run["engine_id"]
        return {} if number is None else self._tables.find("engines", {"engine_id": number})[0]

    def _agent(self, row: Row, run: int) -> AgentNow:
        agent_id = row["agent_id"]
        turns = turns_of(self._tables, agent_id)
        own = [turn for turn in turns if turn["began"] >= run]
        running = [turn for turn in turns if turn["closed_by"] is None]
        (session,) = self._tables.find("sessions", {"agent_id": agent_id})
        return AgentNow(
            agent=build_descriptor(Row({**row, **self._tables["agent_specs"][agent_id]})),
            waiting_on=row["waiting_on"],
            result=_result(row),
            resume_token=row["resume_token"],
            notes=_notes(row),
            next_turn=row["next_turn"],
            head_turn_id=session["thread_id"],
            open_turn=self._open_turn(running[-1]) if running else None,
            last_turn=self._last_turn(turns),
            turns=len(own),
            spent=_sum_up(own),
            ended_at=row["ended_at"],
        )

    def _open_turn(self, turn: Values) -> TurnState:
        told = ToldTurn(turn["id"])
        for event in self._log:
            if event.agent == turn["agent_id"]:
                told.take(event.seq or 0, event.type, event.ts, event.data)
        return told.build(turn, self._calls(turn, told.answers()))

    def _calls(self, turn: Values, answers: Mapping[str, int]) -> dict[str, CallState]:
        effects = defaultdict[str, list["Effect"]](list)
        for row in self._tables.find("effects", {"turn_id": turn["id"]}):
            effects[row["call_id"]].append(build_effect(row))
        return {
            row["id"]: build_call(
                row,
                effects[row["id"]],
                self._consumed(turn["agent_id"], row["id"], answers.get(row["id"])),
                is_answered=row["id"] in answers,
            )
            for row in self._tables.find("tool_calls", {"turn_id": turn["id"]})
            if row["orchestration"]
        }

    def _consumed(self, agent_id: str, call_id: str, answered: int | None) -> list[str]:
        """Return what the answer of a call consumed, told by an event."""
        if answered is None:
            return []
        by = self._ledger.positions[self._session_id][answered - 1]
        mine = {"target": agent_id, "consumed_by": call_id, "ended": by}
        return [row["message_id"] for row in self._tables.find("inbox", mine)]

    def _last_turn(self, turns: Iterable[Values]) -> TurnEnd | None:
        """Return how the turn of an agent's own that ended last did so; and if compacted since."""
        closed = [turn for turn in turns if turn["closed_by"] is not None]
        ended = sorted(closed, key=lambda turn: turn["ended"])
        own = [turn for turn in ended if turn["turn_type"] == "normal"]
        if not own:
            return None
        since = ended[ended.index(own[-1]) + 1 :]
        is_compacted = bool(since) and since[-1]["error"] is None
        return replace(self._turn_end(own[-1]), is_compacted=is_compacted)

    def _turn_end(self, turn: Values) -> TurnEnd:
        said = self._tables.find("messages", {"turn_id": turn["id"], "role": "assistant"})
        texts = [row["content"] for row in reversed(said)]
        return TurnEnd(
            turn_id=turn["id"],
            stop_reason=turn["stop_reason"],
            error=turn["error"],
            last_text=next((text for text in texts if text.strip()), ""),
        )

    def _questions(self, agents: Iterable[AgentNow]) -> Iterable[AskedQuestion]:
        asked, mail = asked_by(agents), self._own("inbox")
        answered = {
            (now.agent.agent_id, row["correlation_id"])
            for now in agents
            for of, until in lives_of(self._tables, now.agent.agent_id)
            for row in self._tables.find("inbox", {"target": of})
            if row["type"] == "answer" and row["began"] <= until
        }
        for row in mail:
            about = row["source"], row["correlation_id"]
            if row["type"] == "question" and about in asked - answered:
                is_read = row["consumed_by"] is not None
                yield AskedQuestion(message=build_message(row), is_read=is_read)


def lives_of(tables: Tables, agent_id: str) -> list[tuple[str, int]]:
    """Return an agent, and before it those whose past it shares, with the last commit of that."""
    shared = []
    for one in tables["aliases"].values():
        if one["new_id"] == agent_id and one["old_id"] in tables["agents"]:
            origin = tables["agents"][one["old_id"]]["session_id"]
            fork = tables["forks"].get((one["session_id"], origin))
            if fork is not None:
                shared.append((one["old_id"], fork["position"]))
    return [*sorted(shared, key=lambda life: life[1]), (agent_id, AFTER_ALL)]


def turns_of(tables: Tables, agent_id: str) -> list[Row]:
    """Return the turns of an agent, and those that were over of whose past it shares."""
    return [
        turn
        for of, until in lives_of(tables, agent_id)
        for turn in tables["turns"].values()
        if turn["agent_id"] == of
        and (of == agent_id or (turn["closed_by"] is not None and turn["ended"] <= until))
    ]


def _sum_up(turns: Iterable[Values]) -> Spent | None:
    """Return what the closed ones of some turns used, from their rows; None without any."""
    spent = [read_spent(turn) for turn in turns if turn["closed_by"] is not None]
    return total(one for one in spent if one is not None) if spent else None
