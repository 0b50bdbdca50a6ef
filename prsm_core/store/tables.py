"""Writes the rows of a step into SQLite's tables: the same text of SQL for the same columns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from prsm_core.domain.rows import (
    BEGINS,
    ENDS,
    Advance,
    Amend,
    Count,
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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.domain.rows import Computed, Given, Ledger, Row, Values
    from prsm_core.store.connection import WritingConnection

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
    "tool_calls": frozenset({"params"}),
}
_NONE: frozenset[str] = frozenset()
_NAMES = (tuple, frozenset)  # few lists of names come again and again
_COUNT = "(SELECT count(*) FROM tool_calls WHERE turn_id = ?)"
_COUNT_OF_ROW = "(SELECT count(*) FROM tool_calls WHERE turn_id = turns.id)"
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
Conditions = tuple[tuple[str, bool], ...]  # columns, and whether they hold nothing
Columns = tuple[tuple[str, str], ...]  # with what stands for their values
Plan = tuple[str, tuple[int, ...]]  # a statement, and which of its values are JSON
Many: TypeAlias = "Sequence[Sequence[Any]]"  # the values of each row
# A row that may be refused is the only one of its statement.
Statement: TypeAlias = "tuple[str, Many, Insert | Update | None]"


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
    if None in where.values():
        asked, values = _conditions(where)
        cursor = conn.execute(_select(table, columns, asked), values)
    else:
        cursor = conn.execute(_look_sql(table, columns, tuple(where)), (*where.values(),))
    found: tuple[Any, ...] | None = cursor.fetchone()
    return found


def _update(row: Update) -> Statement:
    values, where = row.values, row.where
    asked: Sequence[Any] = ()
    last = _ended(row) if row.table in ENDS else ()
    wanted = where.values()
    if row.given is not None or None in wanted:
        return _update_where(row, last)
    if row.computed is not None:
        more, asked = _computed(row.computed)
        last = more + last
    sql, json = _update_plan(row.table, tuple(values), last, tuple(where))
    kept = _kept(values, json) if json else values.values()
    return sql, ((*kept, *asked, *wanted),), None if row.refusal is None else row


def _update_where(row: Update, last: Columns) -> Statement:
    """Return how a row is written that needs more than columns and values: few are."""
    columns, values = _columns(row.table, row.values, row.computed)
    where, asked = _conditions(row.where)
    given, needed = _given(row.given)
    sql = _update_sql(row.table, columns + last, where, given)
    return sql, ((*values, *asked, *needed),), None if row.refusal is None else row


def _ended(row: Update) -> Columns:
    by = ENDS[row.table]
    if by not in row.values:
        return ()
    return _NOT_ENDED if row.values[by] is None else _ENDED


def _advance(row: Advance) -> Statement:
    sql = _advance_sql(row.table, row.column, row.key, row.empty)
    return sql, ((encode(row.numbers),),), None


def _insert(row: Insert) -> Statement:
    new, asked = row.row, None if row.refusal is None else row
    if row.given is not None or row.computed is not None:
        columns, values = _columns(row.table, new, row.computed)
        given, needed = _given(row.given)
        sql = _insert_sql(row.table, columns, given, keep=row.keep)
        return sql, ((*values, *needed),), asked
    sql, json = _insert_plan(row.table, tuple(new), row.keep)
    return sql, (_kept(new, json) if json else tuple(new.values()),), asked


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
        return _insert_sql(form.table, columns, None, keep=False)
    if form.counted is not None:
        columns += ((form.counted, _COUNT_OF_ROW),)
    if ENDS.get(form.table) in form.columns:
        columns += _ENDED
    return _update_sql(form.table, columns, _no_nulls(form.key), None)


def _amend(row: Amend) -> Statement:
    sql, json = _PLANS[row.form]
    return sql, (_with_json(row.values, json) if json else row.values,), None


def _several(row: Several | Merge) -> Statement:
    sql, json = _PLANS[row.form]
    rows = row.rows
    for place in json:
        rows = [values if values[place] is None else _with_text(values, place) for values in rows]
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


def _columns(table: str, values: Values, computed: Computed | None) -> tuple[Columns, list[Any]]:
    """Return the columns that are written, and what they hold as SQLite keeps it."""
    columns, json = _plan(table, tuple(values))
    kept = _kept(values, json)
    if computed is not None:
        more, asked = _computed(computed)
        return columns + more, kept + asked
    return columns, kept


def _kept(values: Values, json: Sequence[int]) -> list[Any]:
    """Return what the columns hold as SQLite keeps it; `json` are the places of JSON."""
    return _with_json(values.values(), json)


def _with_json(values: Iterable[Any], json: Sequence[int]) -> list[Any]:
    kept = [*values]
    for place in json:
        value = kept[place]
        if value is not None:
            kept[place] = _text_of(value)
    return kept


def _with_text(values: Sequence[Any], place: int) -> list[Any]:
    kept = [*values]
    kept[place] = _text_of(kept[place])
    return kept


def _text_of(value: Any) -> str:
    return encode_names(value) if isinstance(value, _NAMES) else encode(value)


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


def _merge_sql(form: MergeForm, columns: Columns) -> str:
    assigned = [
        *(f"{name} = excluded.{name}" for name in form.newer),
        *(f"{name} = iif({form.until} IS NULL, excluded.{name}, {name})" for name in form.open),
        *(f"{name} = coalesce(excluded.{name}, {name})" for name in form.known),
    ]
    insert = _insert_sql(form.table, columns, None, keep=False)
    return f"{insert} ON CONFLICT ({', '.join(form.key)}) DO UPDATE SET {', '.join(assigned)}"
