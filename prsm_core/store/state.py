"""Reading a session as a resume adopts it: all in one snapshot of the ledger."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentResult
from prsm_core.domain.sessions import AgentNow, AskedQuestion, RunNow, SessionState, TurnEnd
from prsm_core.domain.usage import total
from prsm_core.errors import StoreError
from prsm_core.store.agent_rows import read_descriptor
from prsm_core.store.codec import decode
from prsm_core.store.inbox import MESSAGE, read_unconsumed, to_message
from prsm_core.store.open_turn import TOLD, ToldTurn, build_call, build_effect, read_spent
from prsm_core.store.requests import read_open
from prsm_core.store.runs import read_grants

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.sessions import CallState, TurnState
    from prsm_core.domain.turns import Effect
    from prsm_core.domain.usage import Spent

_RUNS = (
    "SELECT r.*, e.boot_id, e.pid, e.start FROM runs AS r LEFT JOIN engines AS e USING (engine_id)"
    " WHERE r.session_id = ? ORDER BY r.rowid"
)
_AGENTS = (
    "SELECT p.*, s.thread_id, a.* FROM agents AS a JOIN agent_specs AS p USING (agent_id)"
    " JOIN sessions AS s USING (agent_id) WHERE a.session_id = ? ORDER BY a.rowid"
)
_TURNS = (
    "SELECT t.* FROM agents AS a JOIN turns AS t USING (agent_id) WHERE a.session_id = ?"
    " ORDER BY t.rowid"
)
_CALLS = "SELECT * FROM tool_calls WHERE turn_id = ? AND orchestration"
_EFFECTS = "SELECT * FROM effects WHERE turn_id = ? ORDER BY rowid"
_CONSUMED = (
    "SELECT message_id FROM inbox WHERE session_id = ? AND target = ? AND consumed_by = ?"
    " ORDER BY position"
)
_QUESTIONS = (
    f"SELECT {MESSAGE}, m.consumed_by IS NOT NULL FROM inbox AS m WHERE m.session_id = ?"  # noqa: S608 - names
    " AND m.type = 'question' AND NOT EXISTS (SELECT 1 FROM inbox AS r WHERE"
    " r.session_id = m.session_id AND r.type = 'answer' AND r.correlation_id = m.correlation_id)"
    " ORDER BY m.position"
)
_SAID = "SELECT content FROM messages WHERE turn_id = ? AND role = 'assistant' ORDER BY rowid DESC"
_TOLD = (
    "SELECT seq, type, ts, data FROM events WHERE session_id = ? AND agent_id = ?"  # noqa: S608
    f" AND type IN ({', '.join(repr(kind) for kind in TOLD)}, 'turn_started') ORDER BY seq DESC"
)


def read_state(conn: sqlite3.Connection, session_id: str, at: int | None) -> list[SessionState]:
    """Return the session; a list of one, since a ledger may be yet to be made."""
    if at is not None:
        raise StoreError("this ledger tells its sessions as they are now only", code="no_state")
    session = conn.execute(
        "SELECT task, workspace, created_at FROM meta WHERE session_id = ?", (session_id,)
    ).fetchone()
    if session is None:
        raise unknown_session(session_id)
    return [_Reading(conn, session_id).read(*session)]


def unknown_session(session_id: str) -> StoreError:
    """Return the error of a session that a ledger does not have."""
    return StoreError(
        f"there is no session {session_id} in the ledger",
        hint="`prsm sessions` lists those there are; or set PRSM_HOME to where it is.",
        code="unknown_session",
    )


class _Reading:
    """Reads one session, once."""

    def __init__(self, conn: sqlite3.Connection, session_id: str) -> None:
        self._conn = conn
        self._session_id = session_id

    def read(self, task: str, workspace: str, created_at: float) -> SessionState:
        """Return the session."""
        conn, own = self._conn, (self._session_id,)
        (seq,) = conn.execute("SELECT max(seq) FROM events WHERE session_id = ?", own).fetchone()
        (count,) = conn.execute("SELECT count(*) FROM steps WHERE session_id = ?", own).fetchone()
        runs = read_runs(conn, self._session_id)
        agents = self._agents(runs[-1].started_at if runs else 0.0)
        return SessionState(
            session_id=self._session_id,
            position=count,
            seq=seq or 0,
            task=task,
            workspace=workspace,
            created_at=created_at,
            runs=tuple(runs),
            agents=tuple(agents),
            unread=tuple(read_unconsumed(conn, self._session_id)),
            questions=tuple(self._questions(agents)),
            requests=tuple(read_open(conn, self._session_id)),
            grants=tuple(read_grants(conn, self._session_id)),
        )

    def _agents(self, run_began: float) -> list[AgentNow]:
        conn, own = self._conn, (self._session_id,)
        turns: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for turn in conn.execute(_TURNS, own):
            turns[turn["agent_id"]].append(dict(turn))
        return [
            self._agent(dict(row), turns[row["agent_id"]], run_began)
            for row in conn.execute(_AGENTS, own)
        ]

    def _agent(
        self, row: dict[str, Any], turns: list[dict[str, Any]], run_began: float
    ) -> AgentNow:
        head = next((turn for turn in turns if turn["id"] == row["thread_id"]), None)
        own = [turn for turn in turns if turn["started_at"] >= run_began * 1000]
        running = [turn for turn in turns if turn["closed_by"] is None]
        row |= _decoded(row, "result")
        return AgentNow(
            agent=read_descriptor(row),
            waiting_on=row["waiting_on"],
            result=None if row["result"] is None else AgentResult.from_dict(row["result"]),
            resume_token=row["resume_token"],
            next_turn=row["next_turn"],
            head_turn_id=row["thread_id"],
            open_turn=self._open_turn(running[-1]) if running else None,
            last_turn=None if head is None else self._turn_end(head),
            turns=len(own),
            spent=sum_up(own),
            ended_at=row["ended_at"],
        )

    def _open_turn(self, turn: dict[str, Any]) -> TurnState:
        told, taken = ToldTurn(turn["id"]), []
        for row in self._conn.execute(_TOLD, (self._session_id, turn["agent_id"])):
            data = decode(row["data"])
            if row["type"] != "turn_started":
                taken.append((row["seq"], row["type"], row["ts"], data))
            elif data["turn"] == turn["id"]:
                break
        for event in reversed(taken):
            told.take(*event)
        return told.build(turn, self._calls(turn))

    def _calls(self, turn: dict[str, Any]) -> dict[str, CallState]:
        conn, effects = self._conn, defaultdict[str, list["Effect"]](list)
        for row in conn.execute(_EFFECTS, (turn["id"],)):
            effects[row["call_id"]].append(build_effect({**row, **_decoded(row, "data")}))
        return {
            row["id"]: build_call(
                {**row, **_decoded(row, "params")},
                tuple(effects[row["id"]]),
                self._consumed(turn["agent_id"], row["id"]),
            )
            for row in conn.execute(_CALLS, (turn["id"],))
        }

    def _consumed(self, agent_id: str, call_id: str) -> tuple[str, ...]:
        asked = self._session_id, agent_id, call_id
        return tuple(message_id for (message_id,) in self._conn.execute(_CONSUMED, asked))

    def _turn_end(self, turn: dict[str, Any]) -> TurnEnd:
        said = self._conn.execute(_SAID, (turn["id"],))
        return TurnEnd(
            turn_id=turn["id"],
            stop_reason=turn["stop_reason"],
            error=_decoded(turn, "error")["error"],
            last_text=next((text for (text,) in said if text.strip()), ""),
        )

    def _questions(self, agents: Iterable[AgentNow]) -> Iterable[AskedQuestion]:
        asked = asked_by(agents)
        if not asked:
            return
        for *message, is_read in self._conn.execute(_QUESTIONS, (self._session_id,)):
            question = to_message(tuple(message))
            if (question.source, question.correlation_id) in asked:
                yield AskedQuestion(message=question, is_read=bool(is_read))


def read_runs(conn: sqlite3.Connection, session_id: str) -> list[RunNow]:
    """Return the session's runs, oldest first."""
    rows = conn.execute(_RUNS, (session_id,)).fetchall()
    return [build_run({**row, **_decoded(row, "options", "outcome")}) for row in map(dict, rows)]


def build_run(row: Mapping[str, Any]) -> RunNow:
    """Return a run from its columns and those of its engine; JSON decoded."""
    engine = None if row["boot_id"] is None else (row["boot_id"], row["pid"], row["start"])
    return RunNow(
        run_id=row["run_id"],
        task=row["task"],
        workspace=row["workspace"],
        status=row["status"],
        epoch=row["epoch"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        options=row["options"] or {},
        outcome=row["outcome"],
        engine=engine,
    )


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


def sum_up(turns: Iterable[Mapping[str, Any]]) -> Spent | None:
    """Return what the closed ones of some turns used, from their rows; None without any."""
    spent = [read_spent(turn) for turn in turns if turn["closed_by"] is not None]
    return total(one for one in spent if one is not None) if spent else None


def _decoded(row: Mapping[str, Any] | sqlite3.Row, *names: str) -> dict[str, Any]:
    return {name: None if row[name] is None else decode(row[name]) for name in names}
