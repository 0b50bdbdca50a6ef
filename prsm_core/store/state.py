"""Reading a session as a resume adopts it: as it was after any commit, in one snapshot."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult
from prsm_core.domain.changes import to_change_row
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import NO_NOTES, Notes
from prsm_core.domain.renaming import renamed
from prsm_core.domain.sessions import (
    AgentNow,
    AskedQuestion,
    Origin,
    RunNow,
    SessionSnapshot,
    SessionState,
    TurnEnd,
)
from prsm_core.errors import StoreError
from prsm_core.store import as_of
from prsm_core.store.agent_rows import read_descriptor, read_sums
from prsm_core.store.codec import decode, encode
from prsm_core.store.event_log import AFTER_ALL, read_names, stretches
from prsm_core.store.open_turn import ToldTurn, build_call, build_effect
from prsm_core.store.readers import to_grant, to_message, to_request

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.sessions import CallState, TurnState
    from prsm_core.domain.turns import Effect

    Rows = Iterator[dict[str, Any]]


def read_state(conn: sqlite3.Connection, session_id: str, at: int | None) -> list[SessionState]:
    """Return the session; a list of one, since a ledger may be yet to be made."""
    session = conn.execute(as_of.SESSION, {"session": session_id}).fetchone()
    if session is None:
        raise unknown_session(session_id)
    position, seq = _moment(conn, session_id, at)
    return [_Reading(conn, session_id, position, seq).read(*session)]


def unknown_session(session_id: str) -> StoreError:
    """Return the error of a session that a ledger does not have."""
    return StoreError(
        f"there is no session {session_id} in the ledger",
        hint="`prsm sessions` lists those there are; or set PRSM_HOME to where it is.",
        code="unknown_session",
    )


def unknown_position(session_id: str, at: int, newest: int) -> StoreError:
    """Return the error of a commit that a session does not have."""
    hint = "give the position of one of its own commits"
    if at <= 0:
        hint = "commits are numbered from 1; what a copied fork shares is read as it is now"
    return StoreError(
        f"session {session_id} has no commit {at}; its newest is {newest}",
        hint=hint,
        code="unknown_position",
    )


def unknown_event(session_id: str, seq: int, *, is_shared: bool = False) -> StoreError:
    """Return the error of an event that a session does not have, or cannot be read at."""
    if is_shared:
        return StoreError(
            f"event {seq} of session {session_id} is from before the fork that was copied",
            hint="what a copied fork shares is read as it is now",
            code="unknown_position",
        )
    return StoreError(
        f"session {session_id} has no event {seq}",
        hint=f"`prsm events {session_id}` tells their numbers",
        code="unknown_position",
    )


def _moment(conn: sqlite3.Connection, session_id: str, at: int | None) -> tuple[int, int]:
    """Return the position of a commit, else of the newest, and the session's last event by then."""
    own = {"session": session_id, "at": at}
    (newest,) = conn.execute(as_of.NEWEST, own).fetchone()
    if at is None or at == newest:
        (seq,) = conn.execute(as_of.LAST_SEQ, own).fetchone()
        return newest, seq or 0
    found = conn.execute(as_of.SEQ_OF, own).fetchone() if at > 0 else None
    if found is None:
        raise unknown_position(session_id, at, newest)
    return at, found[0]


def read_changes(conn: sqlite3.Connection, session_id: str, at: int = AFTER_ALL) -> list[ChangeRow]:
    """Return the session's changes of files as they were after a commit, oldest first."""
    rows = _by_name(conn.execute(as_of.CHANGES, {"session": session_id, "at": at}))
    return [to_change_row({**row, **_decoded(row, "authors", "beside")}) for row in rows]


class _Reading:
    """Reads one session as it was after one commit, once."""

    def __init__(self, conn: sqlite3.Connection, session_id: str, position: int, seq: int) -> None:
        self._conn = conn
        self._session_id = session_id
        self._position = position
        self._seq = seq
        self._names = read_names(conn, session_id)

    def read(self, task: str, workspace: str, created_at: float) -> SessionState:
        """Return the session. Raises StoreError where it had not begun yet."""
        runs = self.runs()
        if not runs:
            raise unknown_session(self._session_id)
        agents = tuple(self._agents())
        lives = {now.agent.agent_id: now.agent.incarnation for now in agents}
        letters = (to_message(tuple(row)[:-1]) for row in self._ask(as_of.UNREAD))
        return SessionState(
            session_id=self._session_id,
            position=self._position,
            seq=self._seq,
            task=task,
            workspace=workspace,
            created_at=created_at,
            runs=tuple(runs),
            agents=agents,
            unread=tuple(one for one in letters if lives[one.target] == one.incarnation),
            questions=tuple(self._questions(agents)),
            requests=tuple(to_request(row) for row in self._ask(as_of.REQUESTS)),
            grants=tuple(to_grant(row) for row in self._ask(as_of.GRANTS)),
            snapshots=tuple(map(build_snapshot, self._snapshots())),
            changes=tuple(read_changes(self._conn, self._session_id, self._position)),
            origins=tuple(Origin(**row) for row in self._rows(as_of.ORIGINS)),
            aliases=self._names,
        )

    def runs(self) -> list[RunNow]:
        """Return the runs that had begun, oldest first."""
        rows = self._rows(as_of.RUNS)
        return [build_run({**row, **_decoded(row, "options", "outcome")}) for row in rows]

    def _snapshots(self) -> Rows:
        return ({**row, **_decoded(row, "unquiet")} for row in self._rows(as_of.SNAPSHOTS))

    def _ask(self, query: str, **more: Any) -> sqlite3.Cursor:
        own = {"session": self._session_id, "at": self._position}
        return self._conn.execute(query, {**own, **more})

    def _rows(self, query: str, **more: Any) -> Rows:
        return _by_name(self._ask(query, **more))

    def _agents(self) -> Iterator[AgentNow]:
        (run,) = self._ask(as_of.NEWEST_RUN).fetchone()
        begun = {agent: counts for agent, *counts in self._ask(as_of.TURNS, run=run)}
        ends = defaultdict[str, dict[str, Any]](dict)
        for agent, turn_type, *end in self._ask(as_of.ENDS):
            ends[agent][turn_type] = end
        spent = {row["agent_id"]: read_sums(row) for row in self._rows(as_of.SPENT, run=run)}
        running = {row["agent_id"]: row for row in self._rows(as_of.OPEN_TURNS)}  # the last counts
        for row in self._rows(as_of.AGENTS):
            agent_id, known = row["agent_id"], _decoded(row, "result", "notes")
            result, notes = known["result"], known["notes"]
            newest_turn, turns = begun.get(agent_id, (0, 0))
            last, head = self._last_turns(ends[agent_id])
            yield AgentNow(
                agent=read_descriptor(row),
                waiting_on=row["waiting_on"],
                result=None if result is None else AgentResult.from_dict(result),
                resume_token=row["resume_token"],
                notes=NO_NOTES if notes is None else Notes.from_dict(notes),
                next_turn=newest_turn + 1,
                head_turn_id=head,
                open_turn=self._open_turn(running[agent_id]) if agent_id in running else None,
                last_turn=last,
                turns=turns,
                spent=spent.get(agent_id),
                ended_at=row["ended_at"],
            )

    def _last_turns(self, ends: Mapping[str, Any]) -> tuple[TurnEnd | None, str | None]:
        """Return how the newest turn of an agent's own ended, and the id of its newest one."""
        own, compaction = ends.get("normal"), ends.get("compaction")
        if own is None:
            return None, None
        last = self._turn_end(*own)
        if compaction is None or compaction[-1] < own[-1]:
            return last, last.turn_id
        is_compacted = compaction[2] is None  # it has no error
        return replace(last, is_compacted=is_compacted), compaction[0]

    def _turn_end(self, turn_id: str, stop_reason: str, error: str | None, _: int) -> TurnEnd:
        said = self._conn.execute(as_of.SAID, (turn_id,))
        return TurnEnd(
            turn_id=turn_id,
            stop_reason=stop_reason,
            error=None if error is None else decode(error),
            last_text=next((text for (text,) in said if text.strip()), ""),
        )

    def _open_turn(self, turn: Mapping[str, Any]) -> TurnState:
        told, positions = ToldTurn(turn["id"]), dict[int, int]()
        first = turn["first_seq"] or 0
        for part in stretches(self._conn, self._session_id, turn["agent_id"], after=first - 1):
            of = {"of": part.session_id, "agent": part.agent}
            to = {"first": first, "last": min(part.last, self._seq)}
            for seq, kind, ts, data, position in self._ask(as_of.TOLD_OF, **of, **to):
                told.take(seq, kind, ts, renamed(decode(data), part.names))
                positions[seq] = position
        answers = {call: positions[seq] for call, seq in told.answers().items()}
        return told.build(turn, self._calls(turn, answers))

    def _calls(self, turn: Mapping[str, Any], answers: Mapping[str, int]) -> dict[str, CallState]:
        effects = defaultdict[str, list["Effect"]](list)
        for row in self._conn.execute(as_of.EFFECTS, (turn["id"], self._position)):
            effects[row["call_id"]].append(build_effect({**row, **_decoded(row, "data")}))
        calls = {}
        for row in self._conn.execute(as_of.CALLS, (turn["id"],)):
            call_id, used = row["id"], ()
            if call_id in answers:
                by = {"agent": turn["agent_id"], "call": call_id, "answered": answers[call_id]}
                used = tuple(id_ for (id_,) in self._ask(as_of.CONSUMED, **by))
            calls[call_id] = build_call(
                {**row, **_decoded(row, "params")},
                effects[call_id],
                used,
                is_answered=call_id in answers,
            )
        return calls

    def _questions(self, agents: Iterable[AgentNow]) -> Iterator[AskedQuestion]:
        asked = asked_by(agents)
        about = encode([ref for _, ref in asked])
        found = (
            [(to_message(tuple(row)[:-1]), row[-1]) for row in self._ask(as_of.ABOUT, about=about)]
            if asked
            else []
        )
        answered = {
            (message.target, message.correlation_id)
            for message, _ in found
            if message.type is MessageType.ANSWER
        }
        for message, ended in found:
            of = message.source, message.correlation_id
            if message.type is MessageType.QUESTION and of in asked - answered:
                is_read = ended is not None and ended <= self._position
                yield AskedQuestion(message=message, is_read=is_read)


def read_runs(conn: sqlite3.Connection, session_id: str) -> list[RunNow]:
    """Return the session's runs as they are, oldest first."""
    return _Reading(conn, session_id, AFTER_ALL, 0).runs()


def build_snapshot(row: Mapping[str, Any]) -> SessionSnapshot:
    """Return a snapshot of files, of its row."""
    values = {name: row[name] for name in SessionSnapshot.__struct_fields__}
    return SessionSnapshot(**{**values, "unquiet": tuple(row["unquiet"])})


def build_run(row: Mapping[str, Any]) -> RunNow:
    """Return a run from its columns and those of its engine; JSON decoded."""
    engine = None if row["boot_id"] is None else (row["boot_id"], row["pid"], row["start"])
    values = {name: row[name] for name in RunNow.__struct_fields__ if name != "engine"}
    return RunNow(**{**values, "options": row["options"] or {}}, engine=engine)


def asked_by(agents: Iterable[AgentNow]) -> set[tuple[str | None, str | None]]:
    """Return who waits for the answer to which question: agents, and correlation ids."""
    return {
        (now.agent.agent_id, effect.ref)
        for now in agents
        if now.open_turn is not None
        for state in now.open_turn.calls
        if state.call.completed_at is None
        for effect in state.effects
        if effect.name == "question" and effect.ref is not None
    }


def _by_name(found: sqlite3.Cursor) -> Rows:
    """Return rows by the names of their columns; of those of one name the last counts."""
    names = [column[0] for column in found.description]
    return (dict(zip(names, row, strict=True)) for row in found)


def _decoded(row: Mapping[str, Any] | sqlite3.Row, *names: str) -> dict[str, Any]:
    return {name: None if row[name] is None else decode(row[name]) for name in names}
