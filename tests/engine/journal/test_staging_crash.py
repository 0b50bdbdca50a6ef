"""Kill -9 while acts are staged: an acknowledged step is there with all that came before it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from prsm_testing.store_contract import read_events

from prsm_core.store import SqliteStore
from tests.store.dumps import query
from tests.store.killed import run_until_killed

WORKER = Path(__file__).with_name("crash_worker.py")
ROUNDS = 5


@pytest.mark.requirement("N18")
async def test_what_is_durable_has_all_before_it_and_what_is_lost_is_the_end(tmp_path):
    path, dice = tmp_path / "ledger.db", random.Random()
    names = [f"w{number}" for number in range(ROUNDS)]
    acknowledged = {
        name: int((await run_until_killed(WORKER, path, name, dice.randint(1, 150)))[-1])
        for name in names
    }
    async with await SqliteStore.open(path) as store:
        events = await read_events(store, "s1")
        rows = {row.descriptor.name: row for row in await store.agents("s1")}
        for name, last in acknowledged.items():
            own = [e for e in events if e.type == "notice" and e.agent == f"s1-{name}"]
            numbers = [int(event.data["text"]) for event in own]
            assert numbers == list(range(1, len(numbers) + 1)), "in order, none left out"
            assert numbers[-1] >= last, "what was acknowledged is there"
            moved = [
                e for e in events if e.type == "agent_state_changed" and e.agent == own[0].agent
            ]
            assert rows[name].descriptor.state == moved[-1].data["to"], (
                "rows are as the events tell"
            )
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
