"""What writing a step costs, counted in calls of functions: no clock is asked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest
from prsm_testing.fake_clock import FakeClock
from prsm_testing.memory_store import MemoryStore
from prsm_testing.steps import Steps

from prsm_core.domain.turns import AgentMessage, TextDelta
from prsm_core.domain.writes import CallOpened, Told
from prsm_core.engine.journal.feed import Feed, _Reader
from prsm_core.engine.journal.redaction import without_secrets
from prsm_core.engine.journal.unit import Journal
from prsm_core.engine.turns.fold import TurnFold
from prsm_core.engine.turns.vendor_calls import LiveTexts
from prsm_core.permissions import Redactor
from prsm_core.permissions.redaction import MIN_SECRET
from tests.counting import calls_of

if TYPE_CHECKING:
    from prsm_core.domain.steps import Step


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


class Counting(Redactor):
    """Counts how often it searches a text."""

    searched = 0

    def _holds_known(self, texts):
        self.searched += any(len(text) >= MIN_SECRET for text in texts)
        return super()._holds_known(texts)


@pytest.mark.requirement("U19")
def test_texts_that_were_found_clean_are_not_searched_again(team):
    redactor = Counting(["hunter2-hunter2-"])
    steps = calls_opened(team, "t1", 20)
    for step in steps:
        assert without_secrets(step.writes, redactor) is step.writes
    assert redactor.searched == 1
    assert calls_of(lambda: without_secrets(steps[0].writes, redactor)) <= 15


@pytest.mark.requirement("U19")
def test_a_turns_end_does_not_search_what_was_told_before(team):
    redactor, said = Counting(["hunter2-hunter2-"]), "what the model says at length, " * 500
    turn = team.turn("w1")
    message = AgentMessage(id="m1", role="assistant", content=said, sequence=1, created_at=0)
    closed = team.close(turn, result=team.result(messages=(message,)))
    without_secrets((Told(kind="message_completed", data={"text": said}),), redactor)
    searched, redactor.searched = redactor.searched, 0
    assert without_secrets((closed,), redactor) == (closed,)
    assert (searched, redactor.searched) == (1, 0)


@pytest.mark.requirement("U19")
def test_lines_that_were_found_plain_are_not_searched_again():
    """A sign that may belong to a key costs a search of its own."""
    redactor, rest = Redactor(()), "a well-known line_of words, e.g. A1, that everybody gets\n" * 20
    costs = [
        calls_of(partial(redactor.finds, [f"You are {name}\n{rest}"])) for name in ("c1", "c2")
    ]
    assert costs[1] < costs[0]


def test_a_text_too_short_to_hold_a_secret_is_not_searched():
    redactor = Counting(["hunter2-hunter2-"])
    without_secrets((Told(kind="notice", data={"level": "info", "text": "short"}),), redactor)
    assert redactor.searched == 0


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


async def test_a_piece_of_text_costs_few_calls(team, store):
    """From the provider's event to the queue of a reader; the store is not asked."""
    feed = Feed(store, cast("Any", None))
    agent = team.agent("w1")
    journal = Journal(
        store,
        FakeClock(autojump=False),
        cast("Any", None),
        session_id=team.session,
        on_events=feed.publish,
        on_live=feed.offer,
        spoken=feed.spoken,
        redactor=Redactor(["hunter2-hunter2-"]),
    )
    texts = LiveTexts(journal, agent, TurnFold("t", 1, 0, new_id=str, now_ms=int))
    reader = _Reader(0, feed.spoken.waiting)
    feed._readers.add(reader)
    pieces = [TextDelta(f"word {n} ") for n in range(100)]
    texts.heed(pieces[0])  # what a text needs is made now

    def heed_all() -> None:
        for piece in pieces:
            texts.heed(piece)

    def redact_all() -> None:
        for piece in pieces:
            stream.feed(piece.text)

    stream = journal.redactor.stream()
    costs = [calls_of(act) / len(pieces) for act in (heed_all, redact_all)]
    assert costs[0] - costs[1] <= 40, costs
    assert reader.queue.qsize() >= 100
