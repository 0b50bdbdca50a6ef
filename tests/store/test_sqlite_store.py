from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.store import SqliteStore
from prsm_core.testing.store_contract import StoreContract

if TYPE_CHECKING:
    from pathlib import Path


class TestSqliteStore(StoreContract):
    async def open_store(self, tmp_path: Path) -> SqliteStore:
        return await SqliteStore.open(tmp_path / "ledger.db")
