"""A session is read as it was after any commit: equal to a copy that was taken there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from prsm_core.store import SqliteStore
from prsm_core.testing.memory_store import MemoryStore
from tests.store.ledger_walk import Walk


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_any_commit_of_a_session_can_be_read_later(seed):
    async def go(folder: str) -> None:
        path = Path(folder) / "ledger.db"
        async with await SqliteStore.open(path) as store, MemoryStore() as memory:
            walk = Walk([store, memory], Random(seed))
            await walk.go(120)
            for copy in walk.copies:
                assert await store.state("s1", copy.position) == copy
                assert await memory.state("s1", copy.position) == copy
            assert await store.state("s1") == walk.copies[-1]  # nothing has changed by looking
            assert await memory.state("s1") == walk.copies[-1]

    with TemporaryDirectory() as folder:
        asyncio.run(go(folder))
