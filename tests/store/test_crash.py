"""Kill -9 at random moments: what was acknowledged is there, once, and nothing is torn."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from prsm_testing.store_contract import read_events

from prsm_core.store import SqliteStore
from tests.store.dumps import query
from tests.store.killed import run_until_killed

WORKER = Path(__file__).with_name("crash_worker.py")
PROCESSES, ROUNDS = 4, 2


@pytest.mark.requirement("N18")
async def test_four_processes_killed_again_and_again_lose_and_double_nothing(path: Path):
    rng = random.Random()
    acknowledged: list[str] = []
    for number in range(ROUNDS):
        runs = [
            run_until_killed(WORKER, path, f"p{process}r{number}", rng.randint(1, 200))
            for process in range(PROCESSES)
        ]
        for acks in await asyncio.gather(*runs):
            acknowledged += acks

    async with await SqliteStore.open(path) as store:
        events = await read_events(store, "s1")
        unread = {message.message_id for message in await store.inbox("s1")}
        committed = {step_id for (step_id,) in query(path, "SELECT step_id FROM steps")}
        sent = {mid for (mid,) in query(path, "SELECT message_id FROM inbox")}

        assert query(path, "PRAGMA integrity_check") == [("ok",)]
        assert query(path, "PRAGMA foreign_key_check") == []
        assert len(acknowledged) == len(set(acknowledged))
        assert set(acknowledged) <= committed
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        marks = Counter(event.data["text"] for event in events if event.type == "notice")
        assert marks == dict.fromkeys(committed, 2)
        assert sent == {f"m:{step_id}" for step_id in committed if ":notice:" in step_id}
        assert unread == last_of_each_chain(sent)
        assert turns(path) == expected_turns(committed)
        await store.append([events[0]])


def last_of_each_chain(sent: set[str]) -> set[str]:
    last: dict[str, int] = {}
    for message_id in sent:
        chain, _, number = message_id.rpartition(":")
        last[chain] = max(int(number), last.get(chain, 0))
    return {f"{chain}:{number}" for chain, number in last.items()}


def turns(path: Path) -> dict[str, tuple[str, int]]:
    rows = query(
        path,
        "SELECT id, status, (SELECT count(*) FROM messages WHERE turn_id = turns.id) FROM turns",
    )
    return {turn_id: (status, messages) for turn_id, status, messages in rows}


def expected_turns(committed: set[str]) -> dict[str, tuple[str, int]]:
    opened = {step_id for step_id in committed if ":open:" in step_id}
    return {
        step_id.replace(":open:", ":turn:"): ("completed", 2)
        if step_id.replace(":open:", ":close:") in committed
        else ("running", 0)
        for step_id in opened
    }
