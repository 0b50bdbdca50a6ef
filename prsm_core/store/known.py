"""What the writing connection remembers of the ledger, so that a step need not ask for it again.

The writer looks once a group whether another connection has committed since; if one has, or a
transaction of its own was taken back, everything here is forgotten.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.domain.rows import Fence

BUSY_TIMEOUT_MS = 5000
_MOST = 4096  # entries of each kind; beyond it they are all read again


class Known:
    """Facts of the ledger at this moment of the transaction that is open."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._version = -1  # SQLite's count of foreign commits; never negative
        self.fences: dict[str, Fence] = {}  # by agent
        self.last_seqs: dict[str, int] = {}  # number of the newest event, by session

    def refresh(self, version: int) -> None:
        """Begin a transaction at `version` of the ledger."""
        if version != self._version or len(self.fences) + len(self.last_seqs) > self._most:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Forget everything: what was learnt in this transaction is taken back."""
        self.fences.clear()
        self.last_seqs.clear()


class WritingConnection(sqlite3.Connection):
    """The writer's connection, with what it knows."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as `sqlite3.connect` calls it
        self.known = Known()
        self._waits = True  # for the locks of others, as long as `open_unlocked` has said
        self.own_cursor = self.cursor()  # runs all statements of steps: one for each takes its time

    def begin(self, *, wait: bool = True) -> bool:
        """Begin a transaction that may write; False where another one does, and `wait` is not."""
        if wait != self._waits:
            self.own_cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS if wait else 0}")
            self._waits = wait
        try:
            self.own_cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if wait or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        # Asked inside of it: from here on nobody else can commit.
        (version,) = self.own_cursor.execute("PRAGMA data_version").fetchone()
        self.known.refresh(version)
        return True

    def take_back(self) -> None:
        """Roll back, if SQLite has not done so by itself as where the disk is full."""
        self.known.forget()
        if self.in_transaction:
            self.execute("ROLLBACK")
