"""Copies of a session: all its rows as JSON values, and back into a ledger.

What numbers rows of the whole ledger is left out: a copy has them in their order, and whoever
takes it in numbers them anew. So a copy of a copy equals it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from prsm_core.domain.renaming import renamed
from prsm_core.errors import StoreError
from prsm_core.store.codec import decode, encode
from prsm_core.store.connection import STRANGE
from prsm_core.store.copy_checks import check_copy
from prsm_core.store.session_rows import TABLES
from prsm_core.store.shared_rows import add_shared
from prsm_core.store.tables import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.store.known import WritingConnection

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
    "meta": ("session_id",),
    "runs": ("run_id",),
    "agents": ("agent_id",),
    "turns": ("id",),
    "inbox": ("message_id",),
    "requests": ("request_id",),
    "file_changes": ("id",),
}
# It comes now, whatever commits it has.
_CAME = "UPDATE meta SET came = (SELECT ifnull(max(position), 0) FROM steps) WHERE session_id = ?"


def read_copy(conn: sqlite3.Connection, session_id: str) -> list[Rows]:
    """Return the session's rows by table, JSON decoded; a list of one, as all queries give."""
    wanted = {"session": session_id}
    copy: Rows = {}
    for table, condition in TABLES.items():
        order = _ORDER.get(table, "rowid")
        sql = f"SELECT * FROM {table} WHERE {condition} ORDER BY {order}"  # noqa: S608 - ours
        copy[table] = [_told(table, dict(row)) for row in conn.execute(sql, wanted)]
    is_fork = bool(copy["forks"])
    shared = add_shared(conn, session_id, copy, _ORDER, _told) if is_fork else 0
    copy["forks"] = []  # all of it is here
    _refer_by_place(copy)
    numbered = [row["position"] for row in copy["steps"]]
    # Those of another session, here or where this one was copied from: none can be gone back to.
    older = shared or sum(position <= 0 for position in numbered)
    _move(copy, {position: n - older for n, position in enumerate(numbered, 1)})
    return [copy]


def _move(copy: Rows, places: Mapping[int, int]) -> None:
    """Give commits other positions, wherever rows tell them; others stay what they are."""
    for table, rows in copy.items():
        names = {"position"} if table in {"steps", "events"} else _POSITIONS
        for row in rows:
            for name in names & row.keys():
                row[name] = places.get(row[name], row[name])


def _told(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON values."""
    for name, value in row.items():
        if value is not None and name in _JSON.get(table, ()):
            row[name] = decode(value)
    return row


def _refer_by_place(copy: Rows) -> None:
    """Let runs name their engines by their places, and leave out what numbers rows."""
    places = {row["engine_id"]: place for place, row in enumerate(copy["engines"])}
    for run in (*copy["runs"], *copy["runs_past"]):
        run["engine_id"] = places.get(run["engine_id"])
    for table, number in _NUMBERS.items():
        for row in copy[table]:
            del row[number]


def write_copy(conn: WritingConnection, copy: Rows, new_id: Callable[[str], str]) -> str:
    """Write a session's rows, and return its id; ids that are taken are new ones.

    Raises StoreError (code `bad_copy`) where the rows are no session that this ledger could have.
    """
    try:
        if _is_taken(conn, copy):
            copy = _renamed(copy, new_id)
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
    """Return the positions that the commits of a copy get in this ledger."""
    first, last = conn.execute("SELECT min(position), max(position) FROM steps").fetchone()
    below, above = min(first or 1, 1) - 1, max(last or 0, 0)
    numbers = [row["position"] for row in copy["steps"]]
    return {number: number + (above if number > 0 else below) for number in numbers}


def _is_taken(conn: sqlite3.Connection, copy: Rows) -> bool:
    """Return whether the ledger has one of the ids already."""
    for table, columns in _IDS.items():
        for column in columns:
            sql = f"SELECT 1 FROM {table} WHERE {column} = ?"  # noqa: S608 - names of ours
            for row in copy[table]:
                if conn.execute(sql, (row[column],)).fetchone():
                    return True
    return False


def _renamed(copy: Rows, new_id: Callable[[str], str]) -> Rows:
    """Return the rows with a new id for each of the session's own, wherever it stands."""
    names = {
        row[column]: new_id(table)
        for table, columns in _IDS.items()
        for column in columns
        for row in copy[table]
    }

    return {table: [renamed(row, names) for row in rows] for table, rows in copy.items()}


def _engine_id(conn: sqlite3.Connection, row: Mapping[str, Any]) -> int:
    """Return the number of an engine in this ledger."""
    values = (row["pid"], row["start"], row["boot_id"])
    conn.execute(
        "INSERT INTO engines (pid, start, boot_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values
    )
    (number,) = conn.execute(
        "SELECT engine_id FROM engines WHERE pid = ? AND start = ? AND boot_id = ?", values
    ).fetchone()
    return int(number)


def _insert(
    conn: sqlite3.Connection,
    table: str,
    rows: Iterable[Mapping[str, Any]],
    engines: Sequence[int],
) -> None:
    """Insert rows in their order; columns that they do not name have what is usual."""
    known = {row[1] for row in conn.execute(f"PRAGMA table_info({table})")}
    for row in rows:
        kept = {name: _kept(table, name, value) for name, value in row.items()}
        if table in {"runs", "runs_past"} and kept["engine_id"] is not None:
            kept["engine_id"] = engines[kept["engine_id"]]
        if strange := sorted(kept.keys() - known):
            raise ValueError(f"{table} has no column {', '.join(map(repr, strange))}")
        names = ", ".join(f'"{name}"' for name in kept)
        marks = ", ".join("?" * len(kept))
        conn.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 - names of ours
            tuple(kept.values()),
        )


def _kept(table: str, name: str, value: Any) -> Any:
    """Return a value as its column keeps it."""
    if value is None or name not in _JSON.get(table, ()):
        return value
    return encode(value)
