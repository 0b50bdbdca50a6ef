"""The raw writer: the rows of a ledger, written again by hand, without a store.

It reads what a store has written and writes the same rows into a ledger of its own: the same
schema, the same pragmas, prepared rows, one transaction where the store makes one, a checkpoint
after as many rows.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from prsm_core.store import StoreLimits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

Row = tuple[Any, ...]
Write = tuple[str, list[Row]]  # a statement and its rows

_CLOSING = (
    "status",
    "completed_at",
    "permissions_used",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "query_message_ids",
    "response_message_id",
    "tool_call_count",
    "stop_reason",
    "duration_ms",
    "closed_by",
    "ended",
    "usage_provenance",
    "cost_provenance",
)
_RUNNING = {
    **dict.fromkeys(_CLOSING),
    "status": "running",
    "permissions_used": "[]",
    "query_message_ids": "[]",
    "has_children": 0,
    "tool_call_count": 0,
}
_CLOSE_TURN = f"UPDATE turns SET {', '.join(f'{name} = ?' for name in _CLOSING)} WHERE id = ?"  # noqa: S608 - names above


class RawLedger:
    """Two connections: one reads a store's ledger, one writes a copy of it."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source = sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)
        self._target = sqlite3.connect(target, isolation_level=None)
        self._source.execute("PRAGMA wal_autocheckpoint = 0")
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "temp_store = MEMORY",
            "wal_autocheckpoint = 0",
        ):
            self._target.execute(f"PRAGMA {pragma}").fetchall()
        self._checkpointed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.close()
        self._target.close()

    def read_turn(self, turn_id: str, step_ids: Sequence[str]) -> tuple[list[Write], list[Write]]:
        """Return what the two transactions of a turn write: at its opening, at its close."""
        (turn,) = self._rows("turns", "id", turn_id)
        columns = [row[1] for row in self._source.execute("PRAGMA table_info(turns)")]
        of = dict(zip(columns, turn, strict=True))
        # As it was at first: an update to what is there already would dirty no page.
        running = tuple((of | _RUNNING).values())
        threads = self._rows("threads", "turn_id", turn_id)
        steps = [self._rows("steps", "step_id", step_id) for step_id in step_ids]
        events = [self._events(row) for ((_position, _step_id, *row),) in steps]
        opening = [
            _insert("turns", [running]),
            _insert("threads", [(*row[:-1], None) for row in threads]),
            (
                "UPDATE agents SET next_turn = ? WHERE agent_id = ?",
                [(of["turn_no"], of["agent_id"])],
            ),
            _insert("events", events[0]),
            _insert("steps", steps[0]),
        ]
        history = self._rows("session_history", "thread_id", turn_id)
        moved = [(turn_id, of["completed_at"], label) for label, _, _ in history]
        total = threads[0][-1]
        closing = [
            (_CLOSE_TURN, [(*(of[name] for name in _CLOSING), turn_id)]),
            _insert("messages", self._rows("messages", "turn_id", turn_id)),
            _insert("tool_calls", self._rows("tool_calls", "turn_id", turn_id)),
            ("UPDATE turns SET has_children = 1 WHERE id = ?", [(of["parent_turn_id"],)]),
            ("UPDATE threads SET total_tokens = ? WHERE turn_id = ?", [(total, turn_id)]),
            ("UPDATE sessions SET thread_id = ?, updated_at = ? WHERE label = ?", moved),
            _insert("session_history", history),
            _insert("events", events[1]),
            _insert("steps", steps[1]),
        ]
        return opening, closing

    def read_events(self, session_id: str, first: int, last: int) -> list[Row]:
        """Return the rows of a stretch of events."""
        query = "SELECT * FROM events WHERE session_id = ? AND seq BETWEEN ? AND ?"
        return self._source.execute(query, (session_id, first, last)).fetchall()

    def write(self, writes: Sequence[Write]) -> None:
        """Write rows in one transaction, durably."""
        if self._target.total_changes - self._checkpointed >= StoreLimits().checkpoint_rows:
            self._target.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._checkpointed = self._target.total_changes
        self._target.execute("BEGIN IMMEDIATE")
        for sql, rows in writes:
            self._target.executemany(sql, rows)
        self._target.execute("COMMIT")

    def write_events(self, rows: list[Row]) -> None:
        """Insert rows of events in one transaction."""
        self.write([_insert("events", rows)])

    def _rows(self, table: str, column: str, value: str) -> list[Row]:
        query = f"SELECT * FROM {table} WHERE {column} = ?"  # noqa: S608 - names above
        return self._source.execute(query, (value,)).fetchall()

    def _events(self, step: Sequence[Any]) -> list[Row]:
        session_id, _kind, first, count = step
        return self.read_events(session_id, first, first + count - 1)


def _insert(table: str, rows: list[Row]) -> Write:
    marks = ", ".join("?" * len(rows[0]))
    return f"INSERT INTO {table} VALUES ({marks})", rows  # noqa: S608 - names above
