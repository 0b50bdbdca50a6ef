"""The guard against running the same command over and over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prsm_core.permissions import BashRepeatGuard

DATA = Path(__file__).parent / "data" / "repeat_guard_sample.jsonl"
ROWS = [json.loads(line) for line in DATA.read_text().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_the_recorded_calls_are_blocked_where_they_should_be(row):
    guard = BashRepeatGuard()
    blocked = [
        n for n, (agent, command) in enumerate(row["calls"]) if guard.is_repeated(agent, command)
    ]
    assert blocked == row["blocked"]


def test_agents_and_commands_are_counted_apart_and_space_around_does_not_count():
    guard = BashRepeatGuard(limit=1)
    assert not guard.is_repeated("a", "ls")
    assert not guard.is_repeated("b", "ls")
    assert not guard.is_repeated("a", "ls -l")
    assert guard.is_repeated("a", "  ls\n")


def test_an_ended_agent_is_forgotten():
    guard = BashRepeatGuard(limit=1)
    assert not guard.is_repeated("a", "ls")
    guard.forget("a")
    guard.forget("nobody")
    assert not guard.is_repeated("a", "ls")


def test_the_memory_of_commands_is_bounded_and_keeps_what_is_repeated():
    guard = BashRepeatGuard()
    for n in range(30_000):
        guard.is_repeated("a", f"echo {n}")
        if n % 5_000 == 0:
            guard.is_repeated("a", "again")
    assert guard.is_repeated("a", "again")
    assert not guard.is_repeated("a", "echo 0")
