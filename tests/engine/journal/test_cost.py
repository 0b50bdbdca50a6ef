"""What writing a step costs, counted in calls of functions: no clock is asked."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from prsm_core.domain.writes import CallOpened
from prsm_core.engine.journal.redaction import without_secrets
from prsm_core.permissions import Redactor
from prsm_core.testing.memory_store import MemoryStore
from prsm_core.testing.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.steps import Step


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions, Python's and C's, an act calls."""
    count = -1  # of what ends the counting

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture
async def team():
    return Steps()


@pytest.fixture
async def store(team):
    """A store with an agent whose turn runs."""
    store = MemoryStore()
    for step in (team.run_started(), team.spawn("w1")):
        await store.commit(step)
    return store


def calls_opened(team: Steps, turn_id: str, count: int) -> list[Step]:
    return [
        team.step("w1", CallOpened(turn_id=turn_id, call=team.call(f"c{n}", params={"id": n})))
        for n in range(count)
    ]


async def test_a_step_is_committed_by_few_calls(store, team):
    turn = team.turn("w1")
    await store.commit(team.step("w1", turn))
    first, *steps = calls_opened(team, turn.turn_id, 20)
    await store.commit(first)  # what is planned once for a kind of step is planned now

    def commit_all() -> None:
        for step in steps:
            store.ledger.commit(step)

    assert calls_of(commit_all) / len(steps) <= 65


@pytest.mark.requirement("U19")
def test_texts_that_were_found_clean_are_not_searched_again(team):
    class Counting(Redactor):
        searched = 0

        def _redacted(self, text):
            self.searched += 1
            return super()._redacted(text)

    redactor = Counting(["hunter2-hunter2-"])
    steps = calls_opened(team, "t1", 20)
    for step in steps:
        assert without_secrets(step.writes, redactor) is step.writes
    assert redactor.searched == 1
    assert calls_of(lambda: without_secrets(steps[0].writes, redactor)) <= 15


def test_more_texts_cost_no_call_each(team):
    redactor = Redactor(())
    few, many = (
        (CallOpened(turn_id="t", call=team.call("c", params={"all": ["word"] * count})),)
        for count in (1, 1000)
    )
    for writes in (few, many):
        without_secrets(writes, redactor)
    costs = [calls_of(partial(without_secrets, writes, redactor)) for writes in (few, many)]
    assert costs[0] == costs[1]
