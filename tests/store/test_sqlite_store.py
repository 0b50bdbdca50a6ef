from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_testing.store_contract import StoreContract

from prsm_core.store import SqliteStore, StoreLimits

if TYPE_CHECKING:
    from pathlib import Path


class TestSqliteStore(StoreContract):
    async def open_store(self, tmp_path: Path) -> SqliteStore:
        limits = StoreLimits(at_once_s=3600)
        return await SqliteStore.open(tmp_path / "ledger.db", limits=limits)


class TestOnASlowDisk(StoreContract):
    """The writer thread writes everything but the first step."""

    async def open_store(self, tmp_path: Path) -> SqliteStore:
        return await SqliteStore.open(tmp_path / "ledger.db", limits=StoreLimits(at_once_s=0))
