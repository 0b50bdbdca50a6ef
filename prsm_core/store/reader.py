"""The reader thread: one read-only connection, so that no query ever blocks the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from prsm_core.store.connection import (
    STRANGE,
    LedgerLock,
    open_reader,
    require_file,
    strange_rows,
    to_store_error,
)
from prsm_core.store.writer import closed_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prsm_core.store.limits import StoreLimits

P = ParamSpec("P")
T = TypeVar("T")


class Reader:
    """Runs queries, each in one snapshot of the ledger."""

    def __init__(self, path: Path, limits: StoreLimits) -> None:
        self._path = path
        self._limits = limits
        self._conn: sqlite3.Connection | None = None
        self._lock: LedgerLock | None = None
        self._abandoned = threading.Event()
        self._closed = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="prsm-ledger-read")

    async def start(self) -> None:
        """Open the connection; raises StoreError."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._open)
        except asyncio.CancelledError:
            self._abandoned.set()
            raise

    async def run(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return `query(connection, *args)`, run in the thread."""
        if self._closed:
            raise closed_error()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._executor, lambda: self._query(lambda conn: query(conn, *args, **kwargs))
        )

    async def aclose(self) -> None:
        """Close the connection after the queries that were asked before."""
        if self._closed:
            return
        self._closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._executor, self._close)
        self._executor.shutdown(wait=False)
        await asyncio.shield(closing)

    def _open(self) -> None:
        try:
            require_file(self._path)
            self._lock = LedgerLock(self._path, self._abandoned, self._limits.lock_timeout_s)
            self._conn = open_reader(self._path, self._lock)
        except (sqlite3.Error, OSError) as exc:
            raise to_store_error(exc, f"cannot read the ledger {self._path}") from exc

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        conn = self._conn
        if conn is None:
            raise closed_error()
        try:
            conn.execute("BEGIN")
            try:
                return query(conn)
            finally:
                conn.execute("ROLLBACK")
        except sqlite3.Error as exc:
            raise to_store_error(exc, f"cannot read the ledger {self._path}") from exc
        except STRANGE as exc:
            raise strange_rows(exc, f"cannot read the ledger {self._path}") from exc

    def _close(self) -> None:
        if self._lock is None:
            return
        self._abandoned.clear()  # opening was, if at all; closing takes its time
        with self._lock as lock:
            if self._conn is not None:
                with lock.held():
                    self._conn.close()
