"""Reads a session as a resume adopts it: as it was after any commit, in one snapshot.

A row of a table `…_past` held until, but not in, a commit. After `:at` the first one with a greater
`until` held, else the row itself.
"""
# ruff: noqa: S608 - all of it is made of names

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult
from prsm_core.domain.changes import CHANGE_COLUMNS, to_change_row
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
from prsm_core.store.agent_rows import SUMS, read_descriptor, read_sums
from prsm_core.store.codec import decode, encode
from prsm_core.store.event_log import AFTER_ALL, read_names, stretches
from prsm_core.store.open_turn import TOLD, ToldTurn, build_call, build_effect
from prsm_core.store.readers import read_engine, to_grant, to_message, to_request

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.sessions import CallState, TurnState
    from prsm_core.domain.turns import Effect

    Rows = Iterator[dict[str, Any]]


_USED = (
    *("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "total_tokens", "cost_usd", "usage_provenance", "cost_provenance"),
)


def _past(of: str, table: str, key: str, own: str = "", also: str = "") -> str:
    """Return the join of rows with what held after `:at`, by `key`, called `own`, and `also`."""
    is_own = {key: own or key, **({also: also} if also else {})}

    def rows(past: str) -> str:
        return " AND ".join(f"{past}.{name} = {of}.{mine}" for name, mine in is_own.items())

    until = f"(SELECT min(until) FROM {table} AS x WHERE {rows('x')} AND x.until > :at)"
    return f" LEFT JOIN {table} AS {of}_p ON {rows(f'{of}_p')} AND {of}_p.until = {until}"


def _then(of: str, *names: str, now: str = "{of}.{name}") -> str:
    """Return columns as they were; `now` is what holds where nothing else is kept."""
    columns = ((name, now.format(of=of, name=name)) for name in names)
    return ", ".join(
        f"iif({of}_p.until IS NULL, {now}, {of}_p.{name}) AS {name}" for name, now in columns
    )


# The commits without events have an index of their own; the others are told by the log.
_NEWEST = """
SELECT max(0,
  coalesce((SELECT position FROM events WHERE session_id = :session ORDER BY seq DESC LIMIT 1), 0),
  coalesce((SELECT max(position) FROM steps WHERE session_id = :session AND event_count = 0), 0))
"""
_LAST_SEQ = "SELECT max(seq) FROM events WHERE session_id = :session"
_SEQ_OF = (
    "SELECT first_seq + event_count - 1 FROM steps WHERE position = :at AND session_id = :session"
)
_SESSION = "SELECT task, workspace, created_at FROM meta WHERE session_id = :session"
_RUNS = (
    "SELECT r.run_id, r.task, r.workspace, r.started_at, r.began, "
    + _then("r", "status", "outcome", "finished_at", "epoch", "options")
    + ", e.boot_id, e.pid, e.start FROM runs AS r"
    + _past("r", "runs_past", "run_id")
    + " LEFT JOIN engines AS e ON e.engine_id ="
    " iif(r_p.until IS NULL, r.engine_id, r_p.engine_id)"
    " WHERE r.session_id = :session AND r.began <= :at ORDER BY r.rowid"
)
_NEWEST_RUN = "SELECT max(began) FROM runs WHERE session_id = :session AND began <= :at"
_AGENTS = (
    "SELECT a.*, s.*, "
    + _then("a", "provider", "model", "state", "incarnation", "waiting_on", "resume_token")
    + ", "
    + _then("a", "result", "ended_at", "notes")
    + ", "
    + _then("s", "prompt", "mode", "grant_mode", "reasoning_effort", "labels")
    + " FROM agents AS a JOIN agent_specs AS s USING (agent_id)"
    + _past("a", "agents_past", "agent_id")
    + _past("s", "agent_specs_past", "agent_id")
    + " WHERE a.session_id = :session AND a.began <= :at ORDER BY a.rowid"
)
# Of what a fork shares only turns count that were over.
_OF_SESSION = " FROM lives AS a JOIN turns AS t ON t.agent_id = a.of_id"
_BEGUN = (
    " WHERE a.session_id = :session AND t.began <= :at"
    " AND (a.of_id = a.agent_id OR t.ended <= a.until)"
)
_OVER = " AND t.ended <= min(:at, a.until)"
# By agent: how many turns it has begun, in all and in the newest run.
_TURNS = (
    f"SELECT a.agent_id, max(t.turn_no), sum(t.began >= :run){_OF_SESSION}{_BEGUN}"
    " GROUP BY a.agent_id"
)
_SPENT = (
    f"SELECT a.agent_id, {SUMS}{_OF_SESSION}{_BEGUN} AND t.began >= :run{_OVER} GROUP BY a.agent_id"
)
# With max(), the other columns are those of the row that has the greatest. By agent, its newest
# turn of each type: its own end otherwise than those that only compacted its conversation.
_ENDS = (
    "SELECT a.agent_id, t.turn_type, t.id, t.stop_reason, t.error, max(t.ended)"
    f"{_OF_SESSION}{_BEGUN}{_OVER} GROUP BY a.agent_id, t.turn_type"
)
# What a turn that has been closed since had used is kept, if it told anything while it ran.
_OPEN_TURNS = (
    "SELECT t.agent_id, t.id, t.turn_no, t.parent_turn_id, t.started_at, c.first_seq, "
    + _then("t", *_USED, now="iif({of}.ended IS NULL, {of}.{name}, NULL)")
    + _OF_SESSION
    + _past("t", "turns_past", "turn_id", "id")
    + " LEFT JOIN steps AS c ON c.position = t.began"
    + _BEGUN
    + " AND a.of_id = a.agent_id AND (t.ended IS NULL OR t.ended > :at) ORDER BY t.rowid"
)
_SAID = "SELECT content FROM messages WHERE turn_id = ? AND role = 'assistant' ORDER BY rowid DESC"
_CALLS = "SELECT * FROM tool_calls WHERE turn_id = ? AND orchestration"
_EFFECTS = "SELECT * FROM effects WHERE turn_id = ? AND began <= ? ORDER BY rowid"
_TOLD_OF = (
    "SELECT seq, type, ts, data, position FROM events WHERE session_id = :of"
    " AND agent_id = :agent AND seq BETWEEN :first AND :last"
    f" AND type IN ({', '.join(repr(kind) for kind in TOLD)}) ORDER BY seq"
)
# A vendor uses an id again in a later turn: what counts is the commit that holds the answer. What
# was read before a fork is no message of the fork's.
_CONSUMED = """
SELECT message_id FROM (
SELECT m.message_id, m.position FROM inbox AS m
WHERE m.target = :agent AND m.ended = :answered AND m.consumed_by = :call
UNION ALL
SELECT m.message_id, m.position FROM inbox_past AS p CROSS JOIN inbox AS m USING (message_id)
WHERE p.ended = :answered AND p.consumed_by = :call AND m.target = :agent
) ORDER BY position
"""
_LETTER = (
    "m.message_id, m.type, m.source, {target} AS target, {life} AS incarnation,"
    " m.correlation_id, m.payload, m.created_at"
)
_LATER = (
    "(SELECT min(until) FROM inbox_past AS x WHERE x.message_id = m.message_id AND x.until > :at)"
)
_NOW = _LETTER.format(target="m.target", life="m.incarnation")
_THEN = _LETTER.format(target="m.target", life="p.incarnation")
# Of messages that were not handed on later the index tells which are unread.
_UNREAD = f"""
SELECT {_NOW}, m.position FROM agents AS a JOIN inbox AS m ON m.target = a.agent_id
WHERE a.session_id = :session AND m.ended IS NULL AND m.began <= :at AND {_LATER} IS NULL
UNION ALL
SELECT {_NOW}, m.position FROM agents AS a JOIN inbox AS m ON m.target = a.agent_id
WHERE a.session_id = :session AND m.ended > :at AND m.began <= :at AND {_LATER} IS NULL
UNION ALL
SELECT {_THEN}, m.position FROM inbox_past AS p JOIN inbox AS m USING (message_id)
WHERE p.until > :at AND p.until = {_LATER} AND m.session_id = :session AND m.began <= :at
AND (p.ended IS NULL OR p.ended > :at)
ORDER BY 9
"""
# Of some correlation ids, questions and answers; the last column: when it was consumed. A fork has
# the questions that are open, and shares the answers to all others.
_ASKED = _LETTER.format(target="a.agent_id", life="coalesce(m_p.incarnation, m.incarnation)")
_ABOUT = (
    f"SELECT {_ASKED}, iif(m_p.until IS NULL, m.ended, m_p.ended) AS ended"
    " FROM lives AS a JOIN inbox AS m ON m.target = a.of_id"
    + _past("m", "inbox_past", "message_id")
    + " WHERE a.session_id = :session AND m.began <= min(:at, a.until)"
    " AND (m.type = 'answer' OR m.type = 'question' AND a.of_id = a.agent_id)"
    " AND m.correlation_id IN (SELECT value FROM json_each(:about)) ORDER BY m.position"
)
_ORIGINS = (
    "SELECT origin_id AS session_id, position, seq FROM forks WHERE session_id = :session"
    " ORDER BY seq"
)
_REQUESTS = (
    "SELECT request_id, agent_id, kind, payload, opened_at FROM requests"
    " WHERE session_id = :session AND began <= :at AND (ended IS NULL OR ended > :at)"
    " ORDER BY rowid"
)
_GRANTS = (
    "SELECT agent_id, data, created_at FROM grants WHERE session_id = :session AND began <= :at"
    " ORDER BY grant_id"
)
_SNAPSHOTS = (
    f"SELECT {', '.join(SessionSnapshot.__struct_fields__)} FROM snapshots"
    " WHERE session_id = :session AND began <= :at ORDER BY rowid"
)
_CHANGE = ", ".join(f'c."{name}"' for name in (*CHANGE_COLUMNS, "authors", "beside", "found_at"))
_CHANGES = (
    f"SELECT {_CHANGE}, "
    + _then("c", "state", "why", "decided_at")
    + " FROM file_changes AS c"
    + _past("c", "file_changes_past", "id", also="session_id")
    + " WHERE c.session_id = :session AND c.began <= :at ORDER BY c.rowid"
)


def read_state(conn: sqlite3.Connection, session_id: str, at: int | None) -> SessionState:
    """Return the session as it was after the commit `at`, else as it is."""
    session = conn.execute(_SESSION, {"session": session_id}).fetchone()
    if session is None:
        raise unknown_session(session_id)
    position, seq = _moment(conn, session_id, at)
    return _Reading(conn, session_id, position, seq).read(*session)


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
    (newest,) = conn.execute(_NEWEST, own).fetchone()
    if at is None or at == newest:
        (seq,) = conn.execute(_LAST_SEQ, own).fetchone()
        return newest, seq or 0
    found = conn.execute(_SEQ_OF, own).fetchone() if at > 0 else None
    if found is None:
        raise unknown_position(session_id, at, newest)
    return at, found[0]


def read_changes(conn: sqlite3.Connection, session_id: str, at: int = AFTER_ALL) -> list[ChangeRow]:
    """Return the session's changes of files as they were after a commit, oldest first."""
    rows = _by_name(conn.execute(_CHANGES, {"session": session_id, "at": at}))
    return [to_change_row({**row, **_decoded(row, "authors", "beside")}) for row in rows]


class _Reading:
    def __init__(self, conn: sqlite3.Connection, session_id: str, position: int, seq: int) -> None:
        self._conn = conn
        self._session_id = session_id
        self._position = position
        self._seq = seq
        self._names = read_names(conn, session_id)

    def read(self, task: str, workspace: str, created_at: float) -> SessionState:
        runs = self.runs()
        if not runs:
            raise unknown_session(self._session_id)
        agents = tuple(self._agents())
        lives = {now.agent.agent_id: now.agent.incarnation for now in agents}
        letters = map(to_message, self._ask(_UNREAD))
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
            requests=tuple(map(to_request, self._ask(_REQUESTS))),
            grants=tuple(map(to_grant, self._ask(_GRANTS))),
            snapshots=tuple(
                build_snapshot({**row, **_decoded(row, "unquiet")})
                for row in self._rows(_SNAPSHOTS)
            ),
            changes=tuple(read_changes(self._conn, self._session_id, self._position)),
            origins=tuple(Origin(**row) for row in self._rows(_ORIGINS)),
            aliases=self._names,
        )

    def runs(self) -> list[RunNow]:
        rows = self._rows(_RUNS)
        return [build_run({**row, **_decoded(row, "options", "outcome")}) for row in rows]

    def _ask(self, query: str, **more: Any) -> sqlite3.Cursor:
        own = {"session": self._session_id, "at": self._position}
        return self._conn.execute(query, {**own, **more})

    def _rows(self, query: str, **more: Any) -> Rows:
        return _by_name(self._ask(query, **more))

    def _agents(self) -> Iterator[AgentNow]:
        (run,) = self._ask(_NEWEST_RUN).fetchone()
        begun = {agent: counts for agent, *counts in self._ask(_TURNS, run=run)}
        ends = defaultdict[str, dict[str, Any]](dict)
        for agent, turn_type, *end in self._ask(_ENDS):
            ends[agent][turn_type] = end
        spent = {row["agent_id"]: read_sums(row) for row in self._rows(_SPENT, run=run)}
        running = {row["agent_id"]: row for row in self._rows(_OPEN_TURNS)}  # the last counts
        for row in self._rows(_AGENTS):
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
        said = self._conn.execute(_SAID, (turn_id,))
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
            for seq, kind, ts, data, position in self._ask(_TOLD_OF, **of, **to):
                told.take(seq, kind, ts, renamed(decode(data), part.names))
                positions[seq] = position
        answers = {call: positions[seq] for call, seq in told.answers().items()}
        return told.build(turn, self._calls(turn, answers))

    def _calls(self, turn: Mapping[str, Any], answers: Mapping[str, int]) -> dict[str, CallState]:
        effects = defaultdict[str, list["Effect"]](list)
        for row in self._conn.execute(_EFFECTS, (turn["id"], self._position)):
            effects[row["call_id"]].append(build_effect({**row, **_decoded(row, "data")}))
        calls = {}
        for row in self._conn.execute(_CALLS, (turn["id"],)):
            call_id, used = row["id"], ()
            if call_id in answers:
                by = {"agent": turn["agent_id"], "call": call_id, "answered": answers[call_id]}
                used = tuple(id_ for (id_,) in self._ask(_CONSUMED, **by))
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
            [(to_message(row), row["ended"]) for row in self._ask(_ABOUT, about=about)]
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
    values = {name: row[name] for name in RunNow.__struct_fields__ if name != "engine"}
    return RunNow(**{**values, "options": row["options"] or {}}, engine=read_engine(row))


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
