"""Tables of rows in memory, and how changes to them are taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.domain.rows import BEGINS, ENDS, Count, Insert, Merge, Several, Update
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_core.domain.rows import Computed, Given, Ledger, Of, Row

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
    "file_changes": ("session_id", "id"),
    "forks": ("session_id", "origin_id"),
    "aliases": ("session_id", "old_id"),
}
# The column that rows are looked for by without their key; it never changes.
INDEXES = {"sessions": "agent_id", "tool_calls": "turn_id", "inbox": "target"}
_NUMBERS = {"engines": "engine_id"}  # columns that a ledger counts by itself
# A row of another table, as SQLite would ask for.
_NEEDS = {"requests": ("agent_id", "agents"), "effects": ("turn_id", "turns")}


Change = tuple[dict[str, Any], Values]  # a row, and what it said before
# Of one commit: what it has added to which rows, and what it has changed, in order.
Changes = tuple[list[tuple[Rows, Any]], list[Change]]


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
        self.rows: Rows = {}
        self.indexed: dict[Any, Rows] = {}
        self._ways: dict[tuple[str, ...], _Way] = {}

    def _next_number(self, _values: Values) -> int:
        return len(self.rows)

    def find(self, where: Values) -> list[dict[str, Any]]:
        """Return the rows that `where` tells."""
        asked = tuple(where)
        way = self._ways.get(asked) or self._find_way(asked)
        if way.key_of is not None:  # what most look for, hence by hand
            row = self.rows.get(way.key_of(where))
            if row is None:
                return []
            for name in way.rest:
                if row.get(name) != where[name]:
                    return []
            return [row]
        if way.index is not None:
            found = list(self.indexed.get(where[way.index], {}).values())
        else:
            found = list(self.rows.values())
        for name in way.rest:
            value = where[name]
            found = [row for row in found if row.get(name) == value]
        return found

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
    """Owns the tables, and applies rows to them; a step's changes can be taken back."""

    def __init__(self) -> None:
        self._tables = _ByName()
        self._position = 0  # of the commit that is written
        self._added: list[tuple[Rows, Any]] = []
        self._changed: list[Change] = []

    def __getitem__(self, name: str) -> Rows:
        return self._tables[name].rows

    def find(self, table: str, where: Values) -> list[dict[str, Any]]:
        """Return the rows of a table that `where` tells."""
        return self._tables[table].find(where)

    def begin(self, position: int) -> Changes:
        """Begin a commit; return what takes it back."""
        self._position = position
        self._added, self._changed = [], []
        return self._added, self._changed

    def write(self, rows: Iterable[Row], ledger: Ledger) -> None:
        """Write rows in order. Raises what a row's refusal says."""
        for row in rows:
            if type(row) is Update:
                done = self._update(row)
            elif type(row) is Insert:
                done = self._insert(row)
            else:
                if type(row) is Merge:
                    self._merge(row)
                elif type(row) is Several:
                    for values in row.rows:
                        self._insert(Insert(row.table, dict(zip(row.columns, values, strict=True))))
                continue  # lines of turns are SQLite's: nobody asks a store in memory for them
            error = row.refusal(ledger) if not done and row.refusal is not None else None
            if error is not None:
                raise error

    def _insert(self, row: Insert) -> bool:
        if row.given is not None and not self._is_given(row.given):
            return False
        table, new = self._tables[row.table], row.row
        key = table.key_of(new)
        if key in table.rows:
            if row.keep:
                return True
            raise StoreError(f"{key} is used already", code="conflict")
        if row.table in _NEEDS:
            self._require(row)
        if row.computed is not None:
            new.update(self._compute(row.computed))
        if row.table in BEGINS and "began" not in new:
            new["began"] = self._position
        if row.table in _NUMBERS:
            new[_NUMBERS[row.table]] = len(table.rows) + 1
        table.rows[key] = new
        self._added.append((table.rows, key))
        if table.index is not None:
            indexed = table.indexed.setdefault(new[table.index], {})
            indexed[key] = new
            self._added.append((indexed, key))
        return True

    def _require(self, row: Insert) -> None:
        column, there = _NEEDS[row.table]
        if row.row[column] not in self[there]:
            raise StoreError(f"{row.row[column]} is not in {there}", code="conflict")

    def _update(self, row: Update) -> bool:
        if row.given is not None and not self._is_given(row.given):
            return False
        found = self._tables[row.table].find(row.where)
        values, by = row.values, ENDS.get(row.table)
        if row.computed is not None:
            values = {**values, **self._compute(row.computed)}
        if by is not None and by in values:
            values = {**values, "ended": None if values[by] is None else self._position}
        for one in found:
            self._set(one, values)
        return bool(found)

    def _merge(self, row: Merge) -> None:
        table = self._tables[row.table]
        for values in row.rows:
            new = dict(zip(row.columns, values, strict=True))
            there = table.rows.get(table.key_of(new))
            if there is None:
                self._insert(Insert(row.table, new))
                continue
            news = {name: new[name] for name in row.newer}
            if there[row.until] is None:
                news |= {name: new[name] for name in row.open}
            news |= {name: new[name] for name in row.known if new[name] is not None}
            self._set(there, news)

    def _set(self, row: dict[str, Any], values: Values) -> None:
        self._changed.append((row, _as_it_is(row, values)))
        row.update(values)

    def _is_given(self, given: Given) -> bool:
        return bool(self._tables[given.table].find(given.where))

    def _compute(self, computed: Computed) -> dict[str, Any]:
        return {name: self._value(value) for name, value in computed.items()}

    def _value(self, value: Of | Count) -> Any:
        if isinstance(value, Count):
            calls = self.find("tool_calls", {"turn_id": value.turn_id})
            return len({one["id"] for one in calls}.union(value.calls))
        found = self.find(value.table, value.where)
        return found[0].get(value.column) if found else None


@contextmanager
def taken_back(commits: Sequence[Changes]) -> Iterator[None]:
    """Take commits back, the last one first, and make them again at the end."""
    made = [_take_back(changes) for changes in reversed(commits)]
    try:
        yield
    finally:
        for added, changed in reversed(made):
            for rows, key, row in added:
                rows[key] = row
            for row, after in changed:
                row.update(after)


def _take_back(changes: Changes) -> tuple[list[tuple[Rows, Any, Any]], list[Change]]:
    """Take a commit back; return what makes it again."""
    added, changed = changes
    made: list[Change] = []
    for row, before in reversed(changed):
        made.append((row, _as_it_is(row, before)))
        row.update(before)
    taken = [(rows, key, rows.pop(key)) for rows, key in reversed(added)]
    return taken[::-1], made[::-1]


def roll_back(changes: Changes) -> None:
    """Take a commit back that failed."""
    _take_back(changes)


def _as_it_is(row: Values, columns: Values) -> dict[str, Any]:
    """Return what a row says in some columns."""
    return dict(zip(columns, map(row.get, columns), strict=True))
