"""Copies of a session: all its rows as JSON values, and back into a ledger.

Numbers of this ledger are left out: a copy has its rows in their order, and a copy of a copy equals
it. A copy may be anybody's, so it is checked once, when it is taken in.

Fields of events that have one name hold the same in each, but for those in `_OTHERS`. Any but those
in `_NEEDED` may be lacking.
"""
# ruff: noqa: S608 - all of it is made of names

from __future__ import annotations

import math
import sqlite3
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from prsm_core.domain.agents import AgentState, PermissionMode
from prsm_core.domain.events import EVENT_FIELDS, Event
from prsm_core.domain.record import Record
from prsm_core.domain.renaming import renamed
from prsm_core.domain.structs import find_fault
from prsm_core.domain.usage import Spent
from prsm_core.errors import StoreError
from prsm_core.store.agent_rows import read_agents
from prsm_core.store.codec import decode, encode
from prsm_core.store.connection import STRANGE
from prsm_core.store.event_log import read_names, stretches
from prsm_core.store.picture import Pictures
from prsm_core.store.session_rows import TABLES
from prsm_core.store.state import read_state
from prsm_core.store.tables import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.store.connection import WritingConnection

Rows = dict[str, list[dict[str, Any]]]

_JSON = {
    **JSON,
    "agents_past": {"result", "notes"},
    "agent_specs_past": {"labels"},
    "runs_past": {"outcome", "options"},
    "tool_calls": {"params"},
    "events": {"data"},
}  # which others write by hand

# Where rows tell the positions of commits, which are numbers of this ledger, too.
_POSITIONS = frozenset({"began", "ended", "until", "last_commit", "aside"})
_NUMBERS = {  # of this ledger
    "engines": "engine_id",
    "inbox": "position",
    "grants": "grant_id",
    "meta": "came",
}
_ORDER = {
    "engines": "engine_id",
    "threads": "depth, turn_id",
    "steps": "position",
    "runs_past": "run_id, until",
    "agents_past": "agent_id, until",
    "agent_specs_past": "agent_id, until",
    "turns_past": "turn_id, until",
    "inbox_past": "message_id, until",
    "file_changes_past": "id, until",
    "inbox": "position",
    "aliases": "old_id",
    "forks": "seq",
    "events": "seq",
}
# What is an id of this session alone, by table: all of them get new ones where one is taken.
_IDS = {
    "meta": "session_id",
    "runs": "run_id",
    "agents": "agent_id",
    "turns": "id",
    "inbox": "message_id",
    "requests": "request_id",
    "file_changes": "id",
}
# It comes now, whatever commits it has.
_CAME = "UPDATE meta SET came = (SELECT ifnull(max(position), 0) FROM steps) WHERE session_id = ?"

_AGENT = "IN (SELECT of_id FROM shared WHERE session_id = :fork AND origin_id = :session)"
_UNTIL = "(SELECT position FROM forks WHERE session_id = :fork AND origin_id = :session)"
_TURNS = f"agent_id {_AGENT} AND ended <= {_UNTIL}"
_OF_TURN = f"turn_id IN (SELECT id FROM turns WHERE {_TURNS})"
# What was over by the commit of the fork, and told by the event `:seq`; what was open is its own.
_SHARED = {
    "turns": _TURNS,
    "messages": _OF_TURN,
    "tool_calls": _OF_TURN,
    "effects": _OF_TURN,
    "compactions": _OF_TURN,
    "threads": _OF_TURN,
    "session_history": f"thread_id IN (SELECT id FROM turns WHERE {_TURNS})",
    "inbox": f"target {_AGENT} AND ended <= {_UNTIL}",
    "requests": f"agent_id {_AGENT} AND ended <= {_UNTIL}",
    "events": "session_id = :session AND seq <= :seq",
    "steps": f"session_id = :session AND position <= {_UNTIL}",
}
_READ = ("consumed_by", "ended")

_OWN = (  # tables whose rows all name their session
    *("meta", "runs", "agents", "sessions", "inbox", "requests", "grants", "snapshots"),
    *("file_changes", "file_changes_past", "steps"),
)
_MILLISECONDS = frozenset({"turns", "messages", "tool_calls", "sessions", "session_history"})
_OBJECTS = frozenset(
    {
        *(("runs", "outcome"), ("runs", "options"), ("runs_past", "outcome")),
        *(("runs_past", "options"), ("requests", "payload"), ("inbox", "payload")),
        *(("events", "data"), ("tool_calls", "params")),
    }
)  # columns of JSON
# What is read of events as it is, by type: what each has had since there are any.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "run_started": ("task",),
    "run_finished": ("status",),
    "agent_spawned": ("name", "provider", "model", "prompt", "mode"),
    "agent_state_changed": ("to",),
    "agent_model_changed": ("provider", "model"),
    "agent_mode_changed": ("mode",),
    "turn_started": ("turn", "n"),
    "turn_finished": ("turn",),
    "message_completed": ("role", "text"),
    "tool_call_started": ("call", "tool"),
    "tool_call_finished": ("call", "status"),
    "receives_undone": ("turn",),
    "permission_requested": ("request",),
    "question_asked": ("request",),
    "permission_resolved": ("request",),
    "question_answered": ("request",),
}
_ASKED = {"permission": "permission_requested", "question": "question_asked"}
_Status = Literal["running", "completed", "failed", "killed", "interrupted"]  # of a run

LAST_SECOND = 253_402_214_400  # the last day that a calendar has
_LARGEST = 2**63 - 1  # what a column of the ledger holds
_Texts = list[str]
_Flag = bool | int  # as SQLite has them, too
_Whole = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]
_Number = Annotated[float, Meta(gt=-_LARGEST, lt=_LARGEST)]
_Time = Annotated[float, Meta(ge=0, lt=LAST_SECOND)]
_Counts = dict[str, _Whole | None]


def read_copy(conn: sqlite3.Connection, session_id: str) -> Rows:
    """Return the session's rows by table, JSON decoded."""
    wanted = {"session": session_id}
    copy = {table: _rows(conn, table, condition, wanted) for table, condition in TABLES.items()}
    shared = _add_shared(conn, session_id, copy) if copy["forks"] else 0
    copy["forks"] = []  # all of it is here
    # Runs name their engines by their places, and what numbers rows is left out.
    places = {row["engine_id"]: place for place, row in enumerate(copy["engines"])}
    for run in (*copy["runs"], *copy["runs_past"]):
        run["engine_id"] = places.get(run["engine_id"])
    for table, number in _NUMBERS.items():
        for row in copy[table]:
            del row[number]
    numbered = [row["position"] for row in copy["steps"]]
    # Those of another session, here or where this one was copied from: none can be gone back to.
    older = shared or sum(position <= 0 for position in numbered)
    _move(copy, {position: n - older for n, position in enumerate(numbered, 1)})
    return copy


def _rows(
    conn: sqlite3.Connection, table: str, condition: str, wanted: Mapping[str, Any]
) -> list[dict[str, Any]]:
    json, order = _JSON.get(table, ()), _ORDER.get(table, "rowid")
    rows = conn.execute(f"SELECT * FROM {table} WHERE {condition} ORDER BY {order}", wanted)
    return [
        {
            name: decode(row[name]) if name in json and row[name] is not None else row[name]
            for name in row.keys()  # noqa: SIM118 - a Row yields its values
        }
        for row in rows
    ]


def _move(copy: Rows, places: Mapping[int, int]) -> None:
    """Give commits other positions, wherever rows tell them; others stay what they are."""
    for table, rows in copy.items():
        names = {"position"} if table in {"steps", "events"} else _POSITIONS
        for row in rows:
            for name in names & row.keys():
                row[name] = places.get(row[name], row[name])


def write_copy(conn: WritingConnection, copy: Rows, new_id: Callable[[str], str]) -> str:
    """Write a session's rows, under new ids where taken; return its id or raise `bad_copy`."""
    try:
        ids = [(table, name, row[name]) for table, name in _IDS.items() for row in copy[table]]
        taken = (
            conn.execute(f"SELECT 1 FROM {table} WHERE {name} = ?", (value,)).fetchone()
            for table, name, value in ids
        )
        if any(taken):
            names = {value: new_id(table) for table, _, value in ids}
            copy = {table: renamed(rows, names) for table, rows in copy.items()}
        session = str(copy["meta"][0]["session_id"])
        _move(copy, _places(conn, copy))
        engines = [_engine_id(conn, row) for row in copy["engines"]]
        for table in TABLES:
            if table != "engines":
                _insert(conn, table, copy[table], engines)
        conn.execute(_CAME, (session,))
        check_copy(conn, session, copy)
    except (sqlite3.Error, StoreError, *STRANGE) as error:
        text = f"this is no session that a ledger can hold: {type(error).__name__}: {error}"
        # Its frames would keep a query open, and nothing could be taken back.
        cause = error.with_traceback(None)
        raise StoreError(text, hint="export it again", code="bad_copy") from cause
    return session


def _places(conn: sqlite3.Connection, copy: Rows) -> Mapping[int, int]:
    first, last = conn.execute("SELECT min(position), max(position) FROM steps").fetchone()
    below, above = min(first or 1, 1) - 1, max(last or 0, 0)
    numbers = [row["position"] for row in copy["steps"]]
    return {number: number + (above if number > 0 else below) for number in numbers}


def _engine_id(conn: sqlite3.Connection, row: Mapping[str, Any]) -> int:
    values = (row["pid"], row["start"], row["boot_id"])
    conn.execute(
        "INSERT INTO engines (pid, start, boot_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values
    )
    (number,) = conn.execute(
        "SELECT engine_id FROM engines WHERE pid = ? AND start = ? AND boot_id = ?", values
    ).fetchone()
    return int(number)


def _insert(
    conn: sqlite3.Connection, table: str, rows: Iterable[Mapping[str, Any]], engines: Sequence[int]
) -> None:
    """Insert rows in their order; columns that they do not name have what is usual."""
    known = {row[1] for row in conn.execute(f"PRAGMA table_info({table})")}
    json = _JSON.get(table, ())
    for row in rows:
        kept: dict[str, Any] = {
            name: encode(value) if name in json and value is not None else value
            for name, value in row.items()
        }
        if table in {"runs", "runs_past"} and kept["engine_id"] is not None:
            kept["engine_id"] = engines[kept["engine_id"]]
        if strange := sorted(kept.keys() - known):
            raise ValueError(f"{table} has no column {', '.join(map(repr, strange))}")
        names = ", ".join(f'"{name}"' for name in kept)
        marks = ", ".join("?" * len(kept))
        conn.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(kept.values()))


def _add_shared(conn: sqlite3.Connection, session_id: str, copy: Rows) -> int:
    """Put what a fork shares in front of its own rows; return how many commits that is."""
    shared = _shared_rows(conn, session_id)
    read = {row["message_id"]: row for row in reversed(shared["inbox"])}  # the first one counts
    for row in copy["inbox"]:  # of a question that is open it has a row, which hides who read it
        then = read.pop(row["message_id"], row)
        row |= {name: then[name] for name in _READ}
    shared["inbox"] = [row for row in shared["inbox"] if read.get(row["message_id"]) is row]
    for table, rows in shared.items():
        copy[table][:0] = rows
    # An own turn may be higher up than a shared one of another agent.
    copy["threads"].sort(key=lambda row: (row["depth"], row["turn_id"]))
    return len(shared["steps"])


def _shared_rows(conn: sqlite3.Connection, session_id: str) -> Rows:
    """Return by table what a session shares with its origins, oldest first."""
    found: Rows = {table: [] for table in _SHARED}
    names = read_names(conn, session_id)
    for part in stretches(conn, session_id)[:-1]:
        wanted = {"fork": session_id, "session": part.session_id, "seq": part.last}
        for table, condition in _SHARED.items():
            found[table] += renamed(_rows(conn, table, condition, wanted), names)
    return found


def check_copy(conn: sqlite3.Connection, session: str, copy: Rows) -> None:
    """Raise ValueError unless the rows are all of one session, can be read and can be shown."""
    for table, rows in copy.items():
        for row in rows:
            _check_values(table, row, len(copy["agents"]))
    for table in _OWN:
        if any(row["session_id"] != session for row in copy[table]):
            raise ValueError(f"{table} has rows of another session")
    if len(copy["meta"]) != 1 or not copy["runs"]:
        raise ValueError("it is not one session with a run")
    for seq, row in enumerate(copy["events"], 1):
        if row["session_id"] != session or row["seq"] != seq:
            raise ValueError(f"its event {seq} is missing")
        Event(type=row["type"], session=session, run=row["run_id"], ts=row["ts"], data=row["data"])
        check_told(row["type"], row["data"])
    _check_messages(copy["events"])
    for row in copy["requests"]:
        check_told(_ASKED[row["kind"]], {"request": row["request_id"], **row["payload"]})
    if len(read_agents(conn, session)) != len(copy["agents"]):
        raise ValueError("an agent lacks a part of it")
    _read_back(conn, session)


def _read_back(conn: sqlite3.Connection, session: str) -> None:
    """Read a session as those do who show it, or go on with it; raises what they would."""
    before, conn.row_factory = conn.row_factory, sqlite3.Row
    try:
        state = read_state(conn, session, None)
        Pictures().read(conn, session)
    finally:
        conn.row_factory = before
    for agent in (now.agent for now in state.agents):
        if not all(isinstance(name, str) for name in agent.tools | agent.grant.tools):
            raise ValueError(f"a tool of {agent.name} has no name")
    for result in (now.result for now in state.agents):
        if result is not None and not isinstance(result.evidence, str):
            raise ValueError(f"{result.evidence!r} is no evidence")


def _check_messages(events: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError for two messages of one id: a turn that tells both could not be written."""
    seen: set[tuple[str | None, str | None]] = set()
    for data in (event["data"] for event in events if event["type"] == "message_completed"):
        key = data.get("turn"), data.get("id")
        # Those of a transcript that was imported have no id.
        if None not in key and key in seen:
            raise ValueError(f"message {key[1]} comes twice in turn {key[0]}")
        seen.add(key)


def _check_values(table: str, row: Mapping[str, Any], agents: int) -> None:
    """Raise ValueError for a value that its column could hold, and nobody could show."""
    for name, value in row.items():
        fits = True
        if (table, name) in _OBJECTS:
            fits = value is None or isinstance(value, dict)
        elif name == "ts" or name.endswith("_at"):
            unit = 1000 if table in _MILLISECONDS else 1
            fits = value is None or 0 <= value < LAST_SECOND * unit
        elif name == "status" and table in {"runs", "runs_past"}:
            fits = value in get_args(_Status)
        elif name == "depth" and table == "agents":
            fits = 0 <= value < agents
        elif isinstance(value, float):
            fits = math.isfinite(value)
        if not fits:
            raise ValueError(f"{value!r} is no {name} of {table}")


def check_told(kind: str, data: Mapping[str, Any]) -> None:
    """Raise ValueError for an event that whoever reads the log could not take."""
    fault = find_fault(told(kind), data)
    if fault is not None:
        raise ValueError(f"an event {kind}: {': '.join(filter(None, fault))}")
    if kind in _SPENT:
        # Nobody knows where a number is from that has another source than these.
        Spent.from_dict({**(data.get("usage") or {}), **data})


def _object(**kinds: Any) -> Any:
    """Return what takes objects whose values of these names are of their kinds, or null."""
    return msgspec.defstruct("Told", [(name, kind | None, None) for name, kind in kinds.items()])


def _objects(**kinds: Any) -> Any:
    return GenericAlias(list, _object(**kinds))


_Files = _objects(path=str, why=str)
_Error = _object(kind=str, message=str)


class _Edit(Record, frozen=True):
    added: _Whole
    removed: _Whole | None = None
    lines: _Texts | None = None
    more: _Whole | None = None


def _all(kind: Any, names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), kind)


_KINDS: Mapping[str, Any] = {
    **_all(
        str,
        "act action branch by call change check command commit continues correlation_id "
        "cwd description error evidence folder from gate head how id kind level mid "
        "mode model name origin parent path plugin problem prompt provider question "
        "reason reasoning_effort request result role scope sink snapshot status "
        "stop_reason summary task text thinking to tool tree trigger turn verdict via "
        "victim waiting_on why workspace worktree",
    ),
    **_all(
        _Texts,
        "agents beside calls evidence_by evidence_gaps files options parts paths region unquiet",
    ),
    **_all(
        _Whole,
        "added at attempt bytes_skipped count depth epoch exit_code incarnation kept "
        "message n removed response tokens tokens_after tokens_before tries_left window",
    ),
    **_all(_Number, "cost_usd delay_s duration_s limit pauses_s percent reserved used"),
    **_all(_Flag, "again multiple once orchestration required whole"),
    **_all(_Files, "conflicts left_out outside"),
    **_all(_Counts, "context unknown_turns usage"),
    **_all(dict[str, Any], "arguments data"),
    **_all(_Time, "expires_at until"),
    **_all(dict[str, str], "labels provenance"),
    "rules": dict[str, list[str | _Texts]],
    "waits": _objects(agent=str, name=str, on=str, targets=_Texts),
    "answer": _object(choices=_Texts, text=str),
    "changes": _objects(change=str, path=str, state=str, why=str),
    "entries": _objects(text=str, status=str),
    "problems": _objects(kind=str, agent=str, text=str),
}
_OTHERS: Mapping[tuple[str, str], Any] = {
    ("turn_finished", "error"): _Error,
    **dict.fromkeys((("retry_scheduled", "error"), ("compaction_finished", "error")), str | _Error),
    ("permission_requested", "change"): _Edit,
    ("run_finished", "status"): _Status,
    ("agent_state_changed", "to"): AgentState,
    ("agent_spawned", "mode"): PermissionMode,
    ("agent_mode_changed", "mode"): PermissionMode,
    ("budget_warned", "provenance"): str,
    ("budget_exceeded", "provenance"): str,
}
_SPENT = frozenset({"run_finished", "turn_finished"})  # what tells what was used


@cache
def told(event: str) -> type[msgspec.Struct]:
    """Return the struct of what an event of this type holds."""
    needed = _NEEDED.get(event, ())
    kinds = {name: _OTHERS.get((event, name), _KINDS[name]) for name in EVENT_FIELDS[event]}
    shape = [
        (name, kind) if name in needed else (name, kind | None, None)
        for name, kind in kinds.items()
    ]
    return msgspec.defstruct(event, shape, frozen=True, kw_only=True, forbid_unknown_fields=True)
