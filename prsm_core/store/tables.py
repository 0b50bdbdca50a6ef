"""Writes the rows of a step into SQLite's tables: the same text of SQL for the same columns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from prsm_core.domain.rows import Insert, Merge, Of, Place, Total, Update
from prsm_core.store.codec import encode, encode_canonical, encode_names, hash_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.rows import Computed, Count, Given, Ledger, Row, Values

_JSON = {
    "runs": frozenset({"outcome"}),
    "agents": frozenset({"result"}),
    "agent_specs": frozenset({"tools", "grant_tools", "mcp_servers", "grant_limits"}),
    "inbox": frozenset({"payload"}),
    "requests": frozenset({"payload", "answer"}),
    "grants": frozenset({"data"}),
    "turns": frozenset(
        {
            "tools_available",
            "permissions_granted",
            "permissions_used",
            "query_message_ids",
            "error",
        }
    ),
    "messages": frozenset({"context_json"}),
}
_NONE: frozenset[str] = frozenset()
_COUNT = (  # of those that the ledger knows, and of these
    "(SELECT ? + count(*) FROM tool_calls AS c WHERE c.turn_id = ?"
    " AND c.id NOT IN (SELECT value FROM json_each(?)))"
)
Conditions = tuple[tuple[str, bool], ...]  # columns, and whether they hold nothing
Columns = tuple[tuple[str, str], ...]  # with what stands for their values
Plan = tuple[str, tuple[int, ...]]  # a statement, and which of its values are JSON


def write_rows(conn: sqlite3.Connection, rows: Iterable[Row], ledger: Ledger) -> None:
    """Write rows in order. Raises what a row's refusal says."""
    alike = _Alike(conn)
    for row in rows:
        if isinstance(row, Merge) or (isinstance(row, Insert) and row.refusal is None):
            alike.add(*(_merge(row) if isinstance(row, Merge) else _insert(row)))
            continue
        alike.write()
        match row:
            case Update():
                _require(row, _update(conn, row), ledger)
            case Insert():
                _require(row, conn.execute(*_insert(row)).rowcount, ledger)
            case Place():
                _place(conn, row)
            case Total():
                _total(conn, row)
    alike.write()


class _Alike:
    """Rows that follow each other and are written by the same SQL: once for all of them."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._sql = ""
        self._rows: list[Sequence[Any]] = []

    def add(self, sql: str, values: Sequence[Any]) -> None:
        """Take one row more; what was taken before and is written otherwise is written first."""
        if sql != self._sql:
            self.write()
            self._sql = sql
        self._rows.append(values)

    def write(self) -> None:
        """Write what was taken."""
        if len(self._rows) == 1:
            self._conn.execute(self._sql, self._rows[0])
        elif self._rows:
            self._conn.executemany(self._sql, self._rows)
        self._rows = []


def _require(row: Insert | Update, done: int, ledger: Ledger) -> None:
    error = row.refusal(ledger) if not done and row.refusal is not None else None
    if error is not None:
        raise error


def look_up(
    conn: sqlite3.Connection, table: str, where: Values, columns: tuple[str, ...]
) -> tuple[Any, ...] | None:
    """Return columns of a row, None where there is none."""
    if None in where.values():
        asked, values = _conditions(where)
        cursor = conn.execute(_select(table, columns, asked), values)
    else:
        cursor = conn.execute(_look_sql(table, columns, tuple(where)), (*where.values(),))
    found: tuple[Any, ...] | None = cursor.fetchone()
    return found


def _update(conn: sqlite3.Connection, row: Update) -> int:
    wanted = row.where.values()
    if row.given is None and row.computed is None and None not in wanted:
        new = _hashed(row.table, row.values)
        sql, json = _update_plan(row.table, tuple(new), tuple(row.where))
        return conn.execute(sql, (*_kept(new, json), *wanted)).rowcount
    columns, values = _columns(row.table, row.values, row.computed)
    where, asked = _conditions(row.where)
    given, needed = _given(row.given)
    sql = _update_sql(row.table, columns, where, given)
    return conn.execute(sql, (*values, *asked, *needed)).rowcount


def _insert(row: Insert) -> tuple[str, Sequence[Any]]:
    if row.given is None and row.computed is None:
        new = _hashed(row.table, row.row)
        sql, json = _insert_plan(row.table, tuple(new), keep=row.keep)
        return sql, _kept(new, json)
    columns, values = _columns(row.table, row.row, row.computed)
    if row.given is None:
        return _insert_sql(row.table, columns, None, keep=row.keep), values
    given, needed = _given(row.given)
    return _insert_sql(row.table, columns, given, keep=row.keep), (*values, *needed)


def _merge(row: Merge) -> tuple[str, Sequence[Any]]:
    new = _hashed(row.table, row.row)
    sql, json = _merge_plan(
        row.table, tuple(new), row.key, row.newer, row.until, row.open, row.known
    )
    return sql, _kept(new, json)


def _place(conn: sqlite3.Connection, row: Place) -> None:
    """Insert the thread row of a new turn with its jump target (a skew-binary jump pointer)."""
    depth, far_turn_id, far_depth = 0, row.turn_id, 0
    if row.parent_turn_id is not None:
        above, skip_depth, skip_turn_id, beyond = conn.execute(
            "SELECT p.depth, p.skip_depth, s.skip_turn_id, s.skip_depth FROM threads AS p"
            " JOIN threads AS s ON s.turn_id = p.skip_turn_id WHERE p.turn_id = ?",
            (row.parent_turn_id,),
        ).fetchone()
        depth, far_turn_id, far_depth = above + 1, row.parent_turn_id, above
        if above - skip_depth == skip_depth - beyond:
            far_turn_id, far_depth = skip_turn_id, beyond
    conn.execute(
        "INSERT INTO threads (turn_id, parent_turn_id, depth, skip_turn_id, skip_depth)"
        " VALUES (?, ?, ?, ?, ?)",
        (row.turn_id, row.parent_turn_id, depth, far_turn_id, far_depth),
    )


def _total(conn: sqlite3.Connection, row: Total) -> None:
    """Set the tokens of the whole line up to this turn, as far as they are known."""
    conn.execute(
        "UPDATE threads SET total_tokens = (SELECT sum(n) FROM (SELECT ? AS n UNION ALL"
        " SELECT total_tokens FROM threads WHERE turn_id = ?)) WHERE turn_id = ?",
        (row.tokens, row.parent_turn_id, row.turn_id),
    )


def _columns(
    table: str, values: Values, computed: Computed | None = None
) -> tuple[Columns, list[Any]]:
    """Return the columns that are written, and what they hold as SQLite keeps it."""
    values = _hashed(table, values)
    columns, json = _plan(table, tuple(values))
    kept = _kept(values, json)
    if computed is not None:
        columns += tuple([(column, _compute(value, kept)) for column, value in computed.items()])
    return columns, kept


def _hashed(table: str, values: Values) -> Values:
    """Return values with the arguments of a call as they are kept, and their hash."""
    if table != "tool_calls" or "params" not in values:
        return values
    params = encode_canonical(values["params"])
    return {**values, "params": params, "arguments_hash": hash_text(params)}


def _kept(values: Values, json: Sequence[int]) -> list[Any]:
    """Return what the columns hold as SQLite keeps it; `json` are the places of JSON."""
    kept = list(values.values())
    for place in json:
        kept[place] = _encoded(kept[place])
    return kept


@lru_cache(maxsize=256)
def _plan(table: str, names: tuple[str, ...]) -> tuple[Columns, tuple[int, ...]]:
    """Return columns for values that are given, and the places of those that are JSON."""
    json = _JSON.get(table, _NONE)
    places = tuple(place for place, name in enumerate(names) if name in json)
    return tuple((name, "?") for name in names), places


def _compute(value: Of | Count, kept: list[Any]) -> str:
    """Return the SQL of what the ledger itself must tell; what it asks by is added to `kept`."""
    if isinstance(value, Of):
        asked, wanted = _conditions(value.where)
        kept.extend(wanted)
        return f"({_select(value.table, (value.column,), asked)})"
    kept.extend((len(value.calls), value.turn_id, encode(value.calls)))
    return _COUNT


def _encoded(value: Any) -> str | None:
    if value is None:
        return None
    return encode_names(value) if isinstance(value, tuple | frozenset) else encode(value)


def _conditions(where: Values) -> tuple[Conditions, list[Any]]:
    asked = tuple([(column, value is None) for column, value in where.items()])
    return asked, [value for value in where.values() if value is not None]


def _given(given: Given | None) -> tuple[tuple[str, Conditions] | None, list[Any]]:
    if given is None:
        return None, []
    asked, values = _conditions(given.where)
    return (given.table, asked), values


def _where(asked: Conditions) -> str:
    return " AND ".join(f"{column} IS NULL" if none else f"{column} = ?" for column, none in asked)


@lru_cache(maxsize=256)
def _select(table: str, columns: tuple[str, ...], asked: Conditions) -> str:
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {_where(asked)}"  # noqa: S608 - names


# Nearly every row names its columns and nothing else. Its text is found by these names alone: a
# key that tells more is built and hashed for each row, which costs more than the row.


def _no_nulls(names: tuple[str, ...]) -> Conditions:
    return tuple((name, False) for name in names)


@lru_cache(maxsize=256)
def _look_sql(table: str, columns: tuple[str, ...], where: tuple[str, ...]) -> str:
    return _select(table, columns, _no_nulls(where))


@lru_cache(maxsize=256)
def _update_plan(table: str, names: tuple[str, ...], where: tuple[str, ...]) -> Plan:
    columns, json = _plan(table, names)
    return _update_sql(table, columns, _no_nulls(where), None), json


@lru_cache(maxsize=256)
def _insert_plan(table: str, names: tuple[str, ...], *, keep: bool) -> Plan:
    columns, json = _plan(table, names)
    return _insert_sql(table, columns, None, keep=keep), json


@lru_cache(maxsize=64)
def _merge_plan(
    table: str,
    names: tuple[str, ...],
    key: tuple[str, ...],
    newer: tuple[str, ...],
    until: str,
    open_: tuple[str, ...],
    known: tuple[str, ...],
) -> Plan:
    columns, json = _plan(table, names)
    return _merge_sql(table, columns, key, newer, until, open_, known), json


@lru_cache(maxsize=256)
def _update_sql(
    table: str, columns: Columns, where: Conditions, given: tuple[str, Conditions] | None
) -> str:
    assigned = ", ".join(f"{column} = {value}" for column, value in columns)
    needed = "" if given is None else f" AND EXISTS ({_select(given[0], ('1',), given[1])})"
    return f"UPDATE {table} SET {assigned} WHERE {_where(where)}{needed}"  # noqa: S608 - names


@lru_cache(maxsize=256)
def _insert_sql(
    table: str, columns: Columns, given: tuple[str, Conditions] | None, *, keep: bool
) -> str:
    names = ", ".join(f'"{column}"' for column, _ in columns)
    values = ", ".join(value for _, value in columns)
    source = f"VALUES ({values})"
    if given is not None:
        source = f"SELECT {values} FROM {given[0]} WHERE {_where(given[1])}"  # noqa: S608 - names
    conflict = " ON CONFLICT DO NOTHING" if keep else ""
    return f"INSERT INTO {table} ({names}) {source}{conflict}"


def _merge_sql(
    table: str,
    columns: Columns,
    key: tuple[str, ...],
    newer: tuple[str, ...],
    until: str,
    open_: tuple[str, ...],
    known: tuple[str, ...],
) -> str:
    assigned = [
        *(f"{name} = excluded.{name}" for name in newer),
        *(f"{name} = iif({until} IS NULL, excluded.{name}, {name})" for name in open_),
        *(f"{name} = coalesce(excluded.{name}, {name})" for name in known),
    ]
    insert = _insert_sql(table, columns, None, keep=False)
    return f"{insert} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(assigned)}"
