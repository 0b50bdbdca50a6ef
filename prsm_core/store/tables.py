"""Writes the rows of a step into SQLite's tables: the same text of SQL for the same columns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from prsm_core.domain.rows import (
    BEGINS,
    ENDS,
    Advance,
    Count,
    Insert,
    Merge,
    Of,
    Place,
    Several,
    Total,
    Update,
)
from prsm_core.store.codec import encode, encode_canonical, encode_names, hash_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.domain.rows import Computed, Given, Ledger, Row, Values
    from prsm_core.store.known import WritingConnection

JSON = {
    "runs": frozenset({"outcome", "options"}),
    "effects": frozenset({"data"}),
    "agents": frozenset({"result", "notes"}),
    "agent_specs": frozenset({"tools", "grant_tools", "mcp_servers", "grant_limits", "labels"}),
    "inbox": frozenset({"payload"}),
    "requests": frozenset({"payload", "answer"}),
    "grants": frozenset({"data"}),
    "snapshots": frozenset({"unquiet"}),
    "file_changes": frozenset({"authors", "beside"}),
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
_HASH = "arguments_hash"
_COUNT = "(SELECT count(*) FROM tool_calls WHERE turn_id = ?)"
_ROOT = (
    "INSERT INTO threads (turn_id, parent_turn_id, depth, skip_turn_id, skip_depth)"
    " VALUES (?, NULL, 0, ?, 0)"
)
_PLACE = (  # a skew-binary jump pointer: beyond that of the parent if its last two are as long
    "INSERT INTO threads (turn_id, parent_turn_id, depth, skip_turn_id, skip_depth)"
    " SELECT ?, p.turn_id, p.depth + 1,"
    " iif(p.depth - p.skip_depth = p.skip_depth - s.skip_depth, s.skip_turn_id, p.turn_id),"
    " iif(p.depth - p.skip_depth = p.skip_depth - s.skip_depth, s.skip_depth, p.depth)"
    " FROM threads AS p JOIN threads AS s ON s.turn_id = p.skip_turn_id WHERE p.turn_id = ?"
)
_TOTAL = (  # of the whole line up to this turn, as far as it is known
    "UPDATE threads SET total_tokens = (SELECT sum(n) FROM (SELECT ? AS n UNION ALL"
    " SELECT total_tokens FROM threads WHERE turn_id = ?)) WHERE turn_id = ?"
)
_NOW = "(SELECT max(position) FROM steps)"  # the commit that is written
_BEGAN = (("began", _NOW),)
_ENDED = (("ended", _NOW),)
_NOT_ENDED = (("ended", "NULL"),)
Conditions = tuple[tuple[str, bool], ...]  # columns, and whether they hold nothing
Columns = tuple[tuple[str, str], ...]  # with what stands for their values
Plan = tuple[str, tuple[int, ...]]  # a statement, and which of its values are JSON
Many: TypeAlias = "Sequence[Sequence[Any]]"  # the values of each row
# A row that may be refused is the only one of its statement.
Statement: TypeAlias = "tuple[str, Many, Insert | Update | None]"


def run(conn: WritingConnection, statements: Iterable[Statement], ledger: Ledger) -> None:
    """Run statements in order. Raises what a row's refusal says."""
    cursor = conn.own_cursor
    for sql, values, row in statements:
        if row is None:
            cursor.executemany(sql, values)
            continue
        done = cursor.execute(sql, *values).rowcount
        error = row.refusal(ledger) if not done and row.refusal is not None else None
        if error is not None:
            raise error


def statements_of(rows: Iterable[Row]) -> list[Statement]:
    """Return how rows are written, in order; those alike that follow each other by one.

    No ledger is asked. Raises TypeError or ValueError for a value that is no JSON.
    """
    made: list[Statement] = []
    last = ""
    alike: list[Sequence[Any]] = []
    for row in rows:
        written: Callable[[Any], tuple[str, Many]] = _WRITTEN[type(row)]
        sql, many = written(row)
        if (type(row) is Insert or type(row) is Update) and row.refusal is not None:
            made.append((sql, many, row))
            last = ""
        elif sql == last:
            alike.extend(many)
        else:
            last, alike = sql, list(many)
            made.append((sql, alike, None))
    return made


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


def _update(row: Update) -> tuple[str, Many]:
    wanted = row.where.values()
    last: Columns = ()
    by = ENDS.get(row.table)
    if by is not None and by in row.values:
        last = _NOT_ENDED if row.values[by] is None else _ENDED
    if row.given is None and None not in wanted:
        new = _hashed(row.table, row.values)
        if row.computed is None:
            sql, json = _update_plan(row.table, tuple(new), last, tuple(row.where))
            return sql, ((*_kept(new, json), *wanted),)
        more, asked = _computed(row.computed)
        sql, json = _update_plan(row.table, tuple(new), more + last, tuple(row.where))
        return sql, ((*_kept(new, json), *asked, *wanted),)
    columns, values = _columns(row.table, row.values, row.computed)
    where, asked = _conditions(row.where)
    given, needed = _given(row.given)
    sql = _update_sql(row.table, columns + last, where, given)
    return sql, ((*values, *asked, *needed),)


def _advance(row: Advance) -> tuple[str, Many]:
    return _advance_sql(row.table, row.column, row.key, row.empty), ((encode(row.numbers),),)


def _insert(row: Insert) -> tuple[str, Many]:
    if row.given is None and row.computed is None:
        new = _hashed(row.table, row.row)
        sql, json = _insert_plan(row.table, tuple(new), row.keep)
        return sql, (_kept(new, json),)
    columns, values = _columns(row.table, row.row, row.computed)
    if row.given is None:
        return _insert_sql(row.table, columns, None, keep=row.keep), (values,)
    given, needed = _given(row.given)
    return _insert_sql(row.table, columns, given, keep=row.keep), ((*values, *needed),)


def _several(row: Several) -> tuple[str, Many]:
    names, rows = _all_hashed(row)
    sql, json = _insert_plan(row.table, names, False)
    return sql, _all_kept(rows, json)


def _merge(row: Merge) -> tuple[str, Many]:
    names, rows = _all_hashed(row)
    sql, json = _merge_plan(row.table, names, row.key, row.newer, row.until, row.open, row.known)
    return sql, _all_kept(rows, json)


def _place(row: Place) -> tuple[str, Many]:
    if row.parent_turn_id is None:
        return _ROOT, ((row.turn_id, row.turn_id),)
    return _PLACE, ((row.turn_id, row.parent_turn_id),)


def _total(row: Total) -> tuple[str, Many]:
    return _TOTAL, ((row.tokens, row.parent_turn_id, row.turn_id),)


# How a row, or several, become a statement and the values of each.
_WRITTEN: Mapping[type[Row], Callable[[Any], tuple[str, Many]]] = {
    Insert: _insert,
    Update: _update,
    Advance: _advance,
    Several: _several,
    Merge: _merge,
    Place: _place,
    Total: _total,
}


def _columns(
    table: str, values: Values, computed: Computed | None = None
) -> tuple[Columns, list[Any]]:
    """Return the columns that are written, and what they hold as SQLite keeps it."""
    values = _hashed(table, values)
    columns, json = _plan(table, tuple(values))
    kept = _kept(values, json)
    if computed is not None:
        more, asked = _computed(computed)
        return columns + more, kept + asked
    return columns, kept


def _hashed(table: str, values: Values) -> Values:
    """Return values with the arguments of a call as they are kept, and their hash."""
    if table != "tool_calls" or "params" not in values:
        return values
    params = encode_canonical(values["params"])
    return {**values, "params": params, _HASH: hash_text(params)}


def _all_hashed(row: Several | Merge) -> tuple[tuple[str, ...], Many]:
    """Return columns and rows as `_hashed` would."""
    names = row.columns
    if row.table != "tool_calls" or "params" not in names:
        return names, row.rows
    place = names.index("params")
    hashed = [[*values, None] for values in row.rows]
    for values in hashed:
        values[place] = params = encode_canonical(values[place])
        values[-1] = hash_text(params)
    return (*names, _HASH), hashed


def _kept(values: Values, json: Sequence[int]) -> list[Any]:
    """Return what the columns hold as SQLite keeps it; `json` are the places of JSON."""
    kept = list(values.values())
    for place in json:
        kept[place] = _encoded(kept[place])
    return kept


def _all_kept(rows: Many, json: Sequence[int]) -> Many:
    if not json:
        return rows
    kept = []
    for values in rows:
        for place in json:
            if values[place] is not None:
                values = (*values[:place], _encoded(values[place]), *values[place + 1 :])
        kept.append(values)
    return kept


@lru_cache(maxsize=256)
def _plan(table: str, names: tuple[str, ...]) -> tuple[Columns, tuple[int, ...]]:
    """Return columns for values that are given, and the places of those that are JSON."""
    json = JSON.get(table, _NONE)
    places = tuple(place for place, name in enumerate(names) if name in json)
    return tuple((name, "?") for name in names), places


def _computed(computed: Computed) -> tuple[Columns, list[Any]]:
    """Return the SQL of what the ledger itself must tell, by column, and what it asks by."""
    columns, wanted = [], []
    for column, value in computed.items():
        if isinstance(value, Of):
            conditions, values = _conditions(value.where)
            columns.append((column, f"({_select(value.table, (value.column,), conditions)})"))
            wanted.extend(values)
        elif isinstance(value, Count):
            columns.append((column, _COUNT))
            wanted.append(value.turn_id)
        else:
            columns.append((column, _NOW))
    return tuple(columns), wanted


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
def _update_plan(
    table: str, names: tuple[str, ...], computed: Columns, where: tuple[str, ...]
) -> Plan:
    columns, json = _plan(table, names)
    return _update_sql(table, columns + computed, _no_nulls(where), None), json


@lru_cache(maxsize=64)
def _advance_sql(table: str, column: str, key: str, empty: tuple[str, ...]) -> str:
    """Return one statement for all rows: a call for each would cost as much again as its row."""
    is_next = f"{table}.{column} = given.value - 1"
    meant = [f"{table}.{key} = given.key", is_next, *(f"{name} IS NULL" for name in empty)]
    found = f"FROM json_each(?) AS given WHERE {' AND '.join(meant)}"
    return f"UPDATE {table} SET {column} = given.value {found}"  # noqa: S608 - names


@lru_cache(maxsize=256)
def _insert_plan(table: str, names: tuple[str, ...], keep: bool) -> Plan:
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
    if table in BEGINS and all(column != "began" for column, _ in columns):
        columns += _BEGAN
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
