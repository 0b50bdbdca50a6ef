"""Tables of rows in memory, and how changes to them are taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.rows import Count, Insert, Merge, Of, Update
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prsm_core.domain.rows import Given, Ledger, Row, Values

Table = dict[Any, dict[str, Any]]

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
}
_INDEXED = ("agent_id", "turn_id")  # of a row they never change
_NEEDS = {"requests": ("agent_id", "agents")}  # a row of another table, as SQLite would ask for


class Tables:
    """Owns the tables, and applies rows to them; a step's changes can be taken back."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._indexed: dict[tuple[str, str, Any], Table] = {}  # by table, column and value
        self._done: list[tuple[dict[Any, Any], Any, Any]] = []

    def __getitem__(self, name: str) -> Table:
        return self._tables.setdefault(name, {})

    def begin(self) -> None:
        """Begin a step: what came before stays."""
        self._done = []

    def roll_back(self) -> None:
        """Take the step back, the last change first."""
        for target, key, old in reversed(self._done):
            if old is _ABSENT:
                del target[key]
            else:
                target[key] = old

    def write(self, rows: Iterable[Row], ledger: Ledger) -> None:
        """Write rows in order. Raises what a row's refusal says."""
        for row in rows:
            if isinstance(row, Merge):
                self._merge(row)
            elif isinstance(row, Insert | Update):
                done = self._insert(row) if isinstance(row, Insert) else self._update(row)
                error = row.refusal(ledger) if not done and row.refusal is not None else None
                if error is not None:
                    raise error

    def find(self, table: str, where: Values) -> Iterator[dict[str, Any]]:
        """Yield the rows that `where` tells."""
        rows, key = self[table], KEYS.get(table, ())
        if key and all(name in where for name in key):
            row = rows.get(_key(key, where))
            candidates: Iterable[dict[str, Any]] = () if row is None else (row,)
        else:
            index = next((name for name in _INDEXED if name in where), None)
            if index is not None:
                rows = self._indexed.get((table, index, where[index]), {})
            candidates = rows.values()
        for row in candidates:
            if all(row.get(name) == value for name, value in where.items()):
                yield row

    def _insert(self, row: Insert) -> bool:
        if not self._is_given(row.given):
            return False
        table, key = self[row.table], KEYS.get(row.table)
        number = len(table) if key is None else _key(key, row.row)
        if number in table:
            if row.keep:
                return True
            raise StoreError(f"{number} is used already", code="conflict")
        needed, there = _NEEDS.get(row.table, ("", ""))
        if there and row.row[needed] not in self[there]:
            raise StoreError(f"{row.row[needed]} is not in {there}", code="conflict")
        self._done.append((table, number, _ABSENT))
        table[number] = new = {name: self._value(value) for name, value in row.row.items()}
        for name in _INDEXED:
            if name in new:
                index = self._indexed.setdefault((row.table, name, new[name]), {})
                self._done.append((index, number, _ABSENT))
                index[number] = new
        return True

    def _update(self, row: Update) -> bool:
        found = list(self.find(row.table, row.where)) if self._is_given(row.given) else []
        for one in found:
            self._set(one, row.values)
        return bool(found)

    def _merge(self, row: Merge) -> None:
        there = self[row.table].get(_key(row.key, row.row))
        if there is None:
            self._insert(Insert(row.table, row.row))
            return
        news = {name: row.row[name] for name in row.newer}
        if there[row.until] is None:
            news |= {name: row.row[name] for name in row.open}
        news |= {name: row.row[name] for name in row.known if row.row[name] is not None}
        self._set(there, news)

    def _set(self, row: dict[str, Any], values: Values) -> None:
        for name, value in values.items():
            self._done.append((row, name, row.get(name, _ABSENT)))
            row[name] = self._value(value)

    def _is_given(self, given: Given | None) -> bool:
        return given is None or any(True for _ in self.find(given.table, given.where))

    def _value(self, value: Any) -> Any:
        if isinstance(value, Of):
            return next(
                (one.get(value.column) for one in self.find(value.table, value.where)), None
            )
        if isinstance(value, Count):
            known = {one["id"] for one in self.find("tool_calls", {"turn_id": value.turn_id})}
            return len(known.union(value.calls))
        return value


_ABSENT = object()


def _key(names: tuple[str, ...], values: Values) -> Any:
    return values[names[0]] if len(names) == 1 else tuple([values[name] for name in names])
