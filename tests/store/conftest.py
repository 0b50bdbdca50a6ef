from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prsm_testing.store_contract import Steps

    from prsm_core.store import SqliteStore

# Before the contract is imported: a failing assert there shall show its values too.
pytest.register_assert_rewrite("prsm_testing.store_contract", "prsm_testing.state_rules")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    from prsm_core.store import SqliteStore

    async with await SqliteStore.open(path) as store:
        yield store


@pytest.fixture
async def team(store: SqliteStore) -> Steps:
    """A run with a master and two workers; nothing else."""
    from prsm_testing.store_contract import Steps

    steps = Steps()
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("master"))
    await store.commit(steps.spawn("w1", "master"))
    await store.commit(steps.spawn("w2", "master"))
    return steps
