"""Tables of rows in memory: what a ledger's steps, written one after the other, amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.domain.rows import (
    BEGINS,
    ENDS,
    Advance,
    Amend,
    Insert,
    Merge,
    Now,
    Several,
    Update,
)
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.rows import Computed, Ledger, Of, Row

Values = Mapping[str, Any]
Rows = dict[Any, dict[str, Any]]
KeyOf = Callable[[Any], Any]  # of a row's values, what tells it from others

# What tells the rows of a table apart; those of the others are only ever added.
KEYS = {
    "meta": ("session_id",),
    "engines": ("boot_id", "pid", "start"),
    "runs": ("run_id",),
    "agents": ("agent_id",),
    "agent_specs": ("agent_id",),
    "sessions": ("label",),
    "turns": ("id",),
    "tool_calls": ("turn_id", "id"),
    "messages": ("turn_id", "id"),
    "compactions": ("turn_id",),
    "inbox": ("message_id",),
    "requests": ("request_id",),
    "effects": ("turn_id", "call_id", "name"),
    "snapshots": ("session_id", "snapshot_id", "last_commit"),
    "file_changes": ("session_id", "id"),
    "forks": ("session_id", "origin_id"),
    "aliases": ("session_id", "old_id"),
}
# The column that rows are looked for by without their key; it never changes.
INDEXES = {"sessions": "agent_id", "tool_calls": "turn_id", "inbox": "target"}
_NUMBERS = {"engines": "engine_id"}  # columns that a ledger counts by itself
# A row of another table, as SQLite would ask for.
_NEEDS = {"requests": ("agent_id", "agents"), "effects": ("turn_id", "turns")}


class _Way(Record, frozen=True):
    """How the rows of a table are found by conditions on some columns."""

    key_of: KeyOf | None  # if this tells the one row
    index: str | None  # else if this narrows them down
    rest: tuple[str, ...]  # what is to be looked at in each row


class Table:
    """The rows of one table, by their key or their number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = KEYS.get(name, ())
        # Returns what tells a row from others, of its values.
        self.key_of: KeyOf = itemgetter(*self.key) if self.key else self._next_number
        self.index = INDEXES.get(name)
        self.begins = name in BEGINS
        self.ends_by = ENDS.get(name)
        self.number = _NUMBERS.get(name)
        self.needs = _NEEDS.get(name)
        self.rows: Rows = {}
        self.indexed: dict[Any, Rows] = {}
        self._ways: dict[tuple[str, ...], _Way] = {}

    def _next_number(self, _values: Values) -> int:
        return len(self.rows)

    def find(self, where: Values) -> list[dict[str, Any]]:
        """Return the rows that `where` tells."""
        asked = tuple(where)
        way = self._ways.get(asked) or self._find_way(asked)
        if way.key_of is not None:
            row = self._one(way.key_of(where), way.rest, where)
            return [] if row is None else [row]
        if way.index is not None:
            found = list(self.indexed.get(where[way.index], {}).values())
        else:
            found = list(self.rows.values())
        for name in way.rest:
            value = where[name]
            found = [row for row in found if row.get(name) == value]
        return found

    def _one(self, key: Any, rest: Sequence[str], where: Values) -> dict[str, Any] | None:
        """Return the row of a key, if the rest of `where` fits it."""
        row = self.rows.get(key)
        if row is not None:
            for name in rest:
                if row.get(name) != where[name]:
                    return None
        return row

    def _find_way(self, asked: tuple[str, ...]) -> _Way:
        if self.key and set(self.key) <= set(asked):
            key_of, index, told = self.key_of, None, self.key
        else:
            key_of, index = None, self.index if self.index in asked else None
            told = (str(index),)
        rest = tuple(name for name in asked if name not in told)
        self._ways[asked] = way = _Way(key_of, index, rest)
        return way


class _ByName(dict[str, Table]):
    """Tables by their names; each is there once somebody asks for it."""

    def __missing__(self, name: str) -> Table:
        table = self[name] = Table(name)
        return table


class Tables:
    """Owns the tables, and applies rows to them. Rows that fail leave them in pieces."""

    def __init__(self) -> None:
        self._tables = _ByName()
        self._position = 0  # of the commit that is written

    def __getitem__(self, name: str) -> Rows:
        return self._tables[name].rows

    def find(self, table: str, where: Values) -> list[dict[str, Any]]:
        """Return the rows of a table that `where` tells."""
        return self._tables[table].find(where)

    def write(self, position: int, rows: Iterable[Row], ledger: Ledger | None = None) -> None:
        """Write the rows of a commit in order. Raises what a row's refusal says.

        Without a ledger none is refused: they were written once, into other tables.
        """
        self._position = position
        for row in rows:
            if type(row) is Insert:
                self._insert(row)
            elif type(row) is not Update:
                self._write_many(row)
            elif not self._update(row) and row.refusal is not None and ledger is not None:
                error = row.refusal(ledger)
                if error is not None:
                    raise error

    def _write_many(self, row: Row) -> None:
        """Write what stands for many rows; lines of turns are none of a store in memory."""
        if type(row) is Merge:
            self._merge(row)
        elif type(row) is Several:
            for values in row.rows:
                new = dict(zip(row.form.columns, values, strict=True))
                self._insert(Insert(row.form.table, new))
        elif type(row) is Amend:
            self._amend(row)
        elif type(row) is Advance:
            nothing = dict.fromkeys(row.empty)
            for key, number in row.numbers.items():
                where = {row.key: key, row.column: number - 1, **nothing}
                self._update(Update(row.table, where, {row.column: number}))

    def _insert(self, row: Insert) -> None:
        table, new = self._tables[row.table], row.row
        key = table.key_of(new)
        if key in table.rows:
            if row.keep:
                return
            raise StoreError(f"{key} is used already", code="conflict")
        if table.needs is not None:
            self._require(new, *table.needs)
        if row.computed is not None:
            new.update(self._compute(row.computed))
        if table.begins and "began" not in new:
            new["began"] = self._position
        if table.number is not None:
            new[table.number] = len(table.rows) + 1
        table.rows[key] = new
        if table.index is not None:
            table.indexed.setdefault(new[table.index], {})[key] = new

    def _require(self, row: Values, column: str, there: str) -> None:
        if row[column] not in self[there]:
            raise StoreError(f"{row[column]} is not in {there}", code="conflict")

    def _update(self, row: Update) -> bool:
        table = self._tables[row.table]
        found, values, by = table.find(row.where), row.values, table.ends_by
        if row.computed is not None:
            values = {**values, **self._compute(row.computed)}
        if by is not None and by in values:
            values = {**values, "ended": None if values[by] is None else self._position}
        for one in found:
            one.update(values)
        return bool(found)

    def _amend(self, row: Amend) -> None:
        form = row.form
        values = dict(zip((*form.columns, *form.key), row.values, strict=True))
        where = {name: values.pop(name) for name in form.key}
        if form.counted is not None:
            values[form.counted] = len(self.find("tool_calls", {"turn_id": where["id"]}))
        self._update(Update(form.table, where, values))

    def _merge(self, row: Merge) -> None:
        form = row.form
        table = self._tables[form.table]
        for values in row.rows:
            new = dict(zip(form.columns, values, strict=True))
            there = table.rows.get(table.key_of(new))
            if there is None:
                self._insert(Insert(form.table, new))
                continue
            news = {name: new[name] for name in form.newer}
            if there[form.until] is None:
                news |= {name: new[name] for name in form.open}
            news |= {name: new[name] for name in form.known if new[name] is not None}
            there.update(news)

    def _compute(self, computed: Computed) -> dict[str, Any]:
        return {name: self._value(value) for name, value in computed.items()}

    def _value(self, value: Of | Now) -> Any:
        if isinstance(value, Now):
            return self._position
        found = self.find(value.table, value.where)
        return found[0].get(value.column) if found else None
