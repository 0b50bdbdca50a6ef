"""A session of a MemoryLedger as a resume adopts it, read by looking at every row."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult
from prsm_core.domain.changes import to_change_row
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.notes import NO_NOTES, Notes
from prsm_core.domain.sessions import AgentNow, AskedQuestion, Origin, SessionState, TurnEnd
from prsm_core.domain.steps import HumanRequest
from prsm_core.domain.usage import total
from prsm_core.store.agent_rows import build_descriptor
from prsm_core.store.event_log import AFTER_ALL
from prsm_core.store.open_turn import ToldTurn, build_call, build_effect, read_spent
from prsm_core.store.state import (
    asked_by,
    build_run,
    build_snapshot,
    unknown_position,
    unknown_session,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.rows import Values
    from prsm_core.domain.sessions import CallState, TurnState
    from prsm_core.domain.turns import Effect
    from prsm_core.domain.usage import Spent
    from prsm_testing.memory_ledger import MemoryLedger
    from prsm_testing.memory_rows import Tables

_REQUEST = HumanRequest.__struct_fields__
_MESSAGE = RoutedMessage.__struct_fields__


def read_state(ledger: MemoryLedger, session_id: str, at: int | None) -> SessionState:
    """Return a session as it was after a commit, else as it is."""
    if session_id not in ledger.tables["meta"]:
        raise unknown_session(session_id)
    newest = ledger.newest(session_id)
    position = newest if at is None else at
    seq = ledger.seq_at(session_id, position)
    if seq is None:
        raise unknown_position(session_id, position, newest)
    return MemoryState(ledger, session_id, position, seq).read()


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
            runs=tuple(build_run(_Known({**run, **self._engine(run)})) for run in runs),
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
        agents = self._tables["agents"]
        return [
            build_message(row)
            for row in self._own("inbox")
            if row.get("consumed_by") is None
            and row["incarnation"] == agents[row["target"]]["incarnation"]
        ]

    def open_requests(self) -> list[HumanRequest]:
        """Return the requests nobody has answered, oldest first."""
        return [
            HumanRequest(**{name: row[name] for name in _REQUEST})
            for row in self._own("requests")
            if row["state"] == "open"
        ]

    def _own(self, table: str) -> list[dict[str, Any]]:
        return [
            row for row in self._tables[table].values() if row["session_id"] == self._session_id
        ]

    def _engine(self, run: Values) -> Values:
        """Return the columns of a run's engine."""
        number = run.get("engine_id")
        return {} if number is None else self._tables.find("engines", {"engine_id": number})[0]

    def _agent(self, row: Values, run: int) -> AgentNow:
        agent_id, known = row["agent_id"], _Known(row)
        turns = [_Known(turn) for turn in turns_of(self._tables, agent_id)]
        own = [turn for turn in turns if turn["began"] >= run]
        running = [turn for turn in turns if turn["closed_by"] is None]
        sessions = self._tables.find("sessions", {"agent_id": agent_id})
        head = _Known(sessions[0])["thread_id"]
        result, notes = known["result"], known["notes"]
        return AgentNow(
            agent=build_descriptor({**row, **self._tables["agent_specs"][agent_id]}),
            waiting_on=known["waiting_on"],
            result=None if result is None else AgentResult.from_dict(result),
            resume_token=known["resume_token"],
            notes=NO_NOTES if notes is None else Notes.from_dict(notes),
            next_turn=row["next_turn"],
            head_turn_id=head,
            open_turn=self._open_turn(running[-1]) if running else None,
            last_turn=self._last_turn(turns),
            turns=len(own),
            spent=_sum_up(own),
            ended_at=known["ended_at"],
        )

    def _open_turn(self, turn: Values) -> TurnState:
        told = ToldTurn(turn["id"])
        for event in self._log:
            if event.agent == turn["agent_id"]:
                told.take(event.seq or 0, event.type, event.ts, event.data)
        return told.build(turn, self._calls(turn, told.answers()))

    def _calls(self, turn: Values, answers: Mapping[str, int]) -> dict[str, CallState]:
        effects = defaultdict[str, list["Effect"]](list)
        for row in self._tables["effects"].values():
            if row["turn_id"] == turn["id"]:
                effects[row["call_id"]].append(build_effect(row))
        return {
            row["id"]: build_call(
                _Known(row),
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
        mine = {"target": agent_id, "consumed_by": call_id}
        return [row["message_id"] for row in self._tables.find("inbox", mine) if row["ended"] == by]

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
        said = [
            row["content"]
            for row in self._tables["messages"].values()
            if row["turn_id"] == turn["id"] and row["role"] == "assistant"
        ]
        return TurnEnd(
            turn_id=turn["id"],
            stop_reason=turn["stop_reason"],
            error=turn["error"],
            last_text=next((text for text in reversed(said) if text.strip()), ""),
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
                is_read = row.get("consumed_by") is not None
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


def turns_of(tables: Tables, agent_id: str) -> list[dict[str, Any]]:
    """Return the turns of an agent, and those that were over of whose past it shares."""
    return [
        turn
        for of, until in lives_of(tables, agent_id)
        for turn in tables["turns"].values()
        if turn["agent_id"] == of
        and (of == agent_id or (turn.get("closed_by") is not None and turn["ended"] <= until))
    ]


def build_message(row: Values) -> RoutedMessage:
    """Return a message from its columns."""
    return RoutedMessage(
        **{**{name: row[name] for name in _MESSAGE}, "type": MessageType(row["type"])}
    )


def _sum_up(turns: Iterable[Values]) -> Spent | None:
    """Return what the closed ones of some turns used, from their rows; None without any."""
    spent = [read_spent(turn) for turn in turns if turn["closed_by"] is not None]
    return total(one for one in spent if one is not None) if spent else None


class _Known(dict[str, Any]):
    """A row in which columns that were never written hold nothing."""

    def __missing__(self, name: str) -> None:
        return None
