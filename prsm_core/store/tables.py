"""Writes the rows of a step into SQLite's tables: the same text of SQL for the same columns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from prsm_core.domain.rows import (
    BEGINS,
    ENDS,
    Advance,
    Amend,
    Form,
    Insert,
    Merge,
    MergeForm,
    Of,
    Place,
    Several,
    Total,
    Update,
)
from prsm_core.store.codec import encode, encode_names

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from prsm_core.domain.rows import Computed, Ledger, Row, Values
    from prsm_core.store.connection import WritingConnection

JSON: Mapping[str, Collection[str]] = {
    "runs": ("outcome", "options"),
    "effects": ("data",),
    "agents": ("result", "notes"),
    "agent_specs": ("tools", "grant_tools", "mcp_servers", "grant_limits", "labels"),
    "inbox": ("payload",),
    "requests": ("payload", "answer"),
    "grants": ("data",),
    "snapshots": ("unquiet",),
    "file_changes": ("authors", "beside"),
    "turns": (
        *("tools_available", "permissions_granted", "permissions_used"),
        *("query_message_ids", "error"),
    ),
    "messages": ("context_json",),
    "tool_calls": ("params",),
}
_NAMES = (tuple, frozenset)  # few lists of names come again and again
_COUNT = "(SELECT count(*) FROM tool_calls WHERE turn_id = turns.id)"
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
_BEFORE = "(SELECT total_tokens FROM threads WHERE turn_id = ?2)"
_TOTAL = (  # of the whole line up to this turn, as far as it is known
    f"UPDATE threads SET total_tokens = coalesce(?1 + {_BEFORE}, ?1, {_BEFORE})"  # noqa: S608
    " WHERE turn_id = ?3"
)
_NOW = "(SELECT max(position) FROM steps)"  # the commit that is written
_BEGAN = (("began", _NOW),)
_ENDED = (("ended", _NOW),)
_NOT_ENDED = (("ended", "NULL"),)
Names = tuple[str, ...]  # of columns
Columns = tuple[tuple[str, str], ...]  # with what stands for their values
Plan = tuple[str, tuple[int, ...]]  # a statement, and which of its values are JSON
Many: TypeAlias = "Sequence[Sequence[Any]]"  # the values of each row
# A row that may be refused is the only one of its statement.
Statement: TypeAlias = "tuple[str, Many, Update | None]"


def run(conn: WritingConnection, statements: Iterable[Statement], ledger: Ledger) -> None:
    """Run statements in order. Raises what a row's refusal says."""
    cursor = conn.own_cursor
    run_many = cursor.executemany
    for sql, values, row in statements:
        if row is None:
            run_many(sql, values)
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
    alike: list[Sequence[Any]] | None = None  # the values of the last statement, if it was joined
    for row in rows:
        one = _WRITTEN[type(row)](row)
        if one[0] != last:
            made.append(one)
            alike, last = None, one[0] if one[2] is None else ""
        elif alike is None:
            alike = [*made[-1][1], *one[1]]
            made[-1] = last, alike, None
        else:
            alike += one[1]
    return made


def look_up(
    conn: sqlite3.Connection, table: str, where: Values, columns: tuple[str, ...]
) -> tuple[Any, ...] | None:
    """Return columns of a row, None where there is none."""
    names, nulls, values = _asked(where)
    cursor = conn.execute(_select(table, columns, names, nulls), (*values,))
    found: tuple[Any, ...] | None = cursor.fetchone()
    return found


def _update(row: Update) -> Statement:
    names, nulls, wanted = _asked(row.where)
    more, asked = _computed(row.computed)
    last = more + _ended(row) if row.table in ENDS else more
    sql, json = _update_plan(row.table, tuple(row.values), last, names, nulls)
    kept = _with_json(row.values.values(), json) if json else row.values.values()
    return sql, ((*kept, *asked, *wanted),), None if row.refusal is None else row


def _ended(row: Update) -> Columns:
    by = ENDS[row.table]
    if by not in row.values:
        return ()
    return _NOT_ENDED if row.values[by] is None else _ENDED


def _advance(row: Advance) -> Statement:
    sql = _advance_sql(row.table, row.column, row.key, row.empty)
    return sql, ((encode(row.numbers),),), None


def _insert(row: Insert) -> Statement:
    new = row.row
    more, asked = _computed(row.computed)
    sql, json = _insert_plan(row.table, tuple(new), more, row.keep)
    kept = _with_json(new.values(), json) if json else new.values()
    return sql, ((*kept, *asked),), None


class _Plans(dict[Form, Plan]):
    """How rows are written, by their forms; each is made with the first one."""

    def __missing__(self, form: Form) -> Plan:
        columns, json = _plan(form.table, form.columns)
        plan = self[form] = _form_sql(form, columns), json
        return plan


_PLANS = _Plans()


def _form_sql(form: Form, columns: Columns) -> str:
    if isinstance(form, MergeForm):
        return _merge_sql(form, columns)
    if not form.key:
        return _insert_sql(form.table, columns)
    if form.counted is not None:
        columns += ((form.counted, _COUNT),)
    if ENDS.get(form.table) in form.columns:
        columns += _ENDED
    return _update_sql(form.table, columns, form.key, ())


def _amend(row: Amend) -> Statement:
    sql, json = _PLANS[row.form]
    return sql, (_with_json(row.values, json) if json else row.values,), None


def _several(row: Several | Merge) -> Statement:
    sql, json = _PLANS[row.form]
    rows = row.rows
    for place in json:
        rows = [
            values if values[place] is None else _with_json(values, (place,)) for values in rows
        ]
    return sql, rows, None


def _place(row: Place) -> Statement:
    if row.parent_turn_id is None:
        return _ROOT, ((row.turn_id, row.turn_id),), None
    return _PLACE, ((row.turn_id, row.parent_turn_id),), None


def _total(row: Total) -> Statement:
    return _TOTAL, ((row.tokens, row.parent_turn_id, row.turn_id),), None


# How a row, or several, become a statement and the values of each.
_WRITTEN: Mapping[type[Row], Callable[[Any], Statement]] = {
    Insert: _insert,
    Update: _update,
    Advance: _advance,
    Several: _several,
    Merge: _several,
    Amend: _amend,
    Place: _place,
    Total: _total,
}


def _with_json(values: Iterable[Any], json: Sequence[int]) -> list[Any]:
    kept = [*values]
    for place in json:
        value = kept[place]
        if value is not None:
            is_names = isinstance(value, _NAMES)
            kept[place] = encode_names(value) if is_names else encode(value)
    return kept


def _plan(table: str, names: Names) -> tuple[Columns, tuple[int, ...]]:
    json = JSON.get(table, ())
    places = tuple(place for place, name in enumerate(names) if name in json)
    return tuple((name, "?") for name in names), places


def _computed(computed: Computed | None) -> tuple[Columns, Sequence[Any]]:
    """Return the SQL of what the ledger itself must tell, by column, and what it asks by."""
    if computed is None:
        return (), ()
    columns, wanted = [], list[Any]()
    for column, value in computed.items():
        sql = _NOW
        if isinstance(value, Of):
            names, nulls, values = _asked(value.where)
            sql = f"({_select(value.table, (value.column,), names, nulls)})"
            wanted += values
        columns.append((column, sql))
    return tuple(columns), wanted


def _asked(where: Values) -> tuple[Names, Names, Collection[Any]]:
    """Return the columns of a condition, those of them that hold nothing, and what others hold."""
    values = where.values()
    if None not in values:
        return tuple(where), (), values
    nulls = tuple(name for name, value in where.items() if value is None)
    return tuple(where), nulls, [value for value in values if value is not None]


def _where(names: Names, nulls: Names) -> str:
    return " AND ".join(f"{name} IS NULL" if name in nulls else f"{name} = ?" for name in names)


# Nearly every row names its columns and nothing else, so that its text is found by these alone: a
# key that tells more is built and hashed for each row, which costs more than the row.


@lru_cache(maxsize=256)
def _select(table: str, columns: Names, names: Names, nulls: Names) -> str:
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {_where(names, nulls)}"  # noqa: S608 - names


@lru_cache(maxsize=256)
def _update_plan(table: str, names: Names, last: Columns, where: Names, nulls: Names) -> Plan:
    columns, json = _plan(table, names)
    return _update_sql(table, columns + last, where, nulls), json


@lru_cache(maxsize=256)
def _insert_plan(table: str, names: Names, more: Columns, keep: bool) -> Plan:
    columns, json = _plan(table, names)
    return _insert_sql(table, columns + more, keep=keep), json


@lru_cache(maxsize=64)
def _advance_sql(table: str, column: str, key: str, empty: Names) -> str:
    """Return one statement for all rows: a call for each would cost as much again as its row."""
    is_next = f"{table}.{column} = given.value - 1"
    meant = [f"{table}.{key} = given.key", is_next, *(f"{name} IS NULL" for name in empty)]
    found = f"FROM json_each(?) AS given WHERE {' AND '.join(meant)}"
    return f"UPDATE {table} SET {column} = given.value {found}"  # noqa: S608 - names


def _update_sql(table: str, columns: Columns, where: Names, nulls: Names) -> str:
    assigned = ", ".join(f"{column} = {value}" for column, value in columns)
    return f"UPDATE {table} SET {assigned} WHERE {_where(where, nulls)}"  # noqa: S608 - names


def _insert_sql(table: str, columns: Columns, *, keep: bool = False) -> str:
    if table in BEGINS and all(column != "began" for column, _ in columns):
        columns += _BEGAN
    names = ", ".join(f'"{column}"' for column, _ in columns)
    values = ", ".join(value for _, value in columns)
    conflict = " ON CONFLICT DO NOTHING" if keep else ""
    return f"INSERT INTO {table} ({names}) VALUES ({values}){conflict}"  # noqa: S608 - names


def _merge_sql(form: MergeForm, columns: Columns) -> str:
    assigned = [
        *(f"{name} = excluded.{name}" for name in form.newer),
        *(f"{name} = iif({form.until} IS NULL, excluded.{name}, {name})" for name in form.open),
        *(f"{name} = coalesce(excluded.{name}, {name})" for name in form.known),
    ]
    insert = _insert_sql(form.table, columns)
    return f"{insert} ON CONFLICT ({', '.join(form.key)}) DO UPDATE SET {', '.join(assigned)}"
