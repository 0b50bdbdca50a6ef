"""Answers as models read them: cut where they are too long, and whole JSON all the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.tools import ToolOutcome
from prsm_core.kit.outcomes import within
from prsm_core.store.codec import decode

LIMIT = 2000
NUMBERS = st.sampled_from([1, 2, 700])
TEXTS = st.text(max_size=40) | st.builds(str.__mul__, st.text('ab"\\é\n', min_size=1), NUMBERS)
PLAIN = st.none() | st.booleans() | st.integers() | TEXTS
VALUES = (
    PLAIN
    | st.builds(list.__mul__, st.lists(PLAIN, max_size=2), NUMBERS)
    | st.lists(st.dictionaries(st.text(max_size=8), PLAIN, max_size=3), max_size=5)
)
ANSWERS = st.dictionaries(st.text(max_size=8), VALUES, max_size=3)


@given(data=ANSWERS)
def test_an_answer_within_a_limit_is_json_and_is_what_its_data_say(data):
    outcome = within(ToolOutcome.of(data), LIMIT)
    assert len(outcome.text) <= LIMIT
    assert decode(outcome.text) == outcome.data


@given(data=ANSWERS)
def test_an_answer_that_is_short_enough_stays_as_it_is(data):
    outcome = ToolOutcome.of(data)
    assert within(outcome, len(outcome.text)) is outcome


def test_the_longest_texts_are_cut_first_and_it_is_told():
    data = {"type": "task_result", "summary": "x" * 5000, "children": [1, 2, 3]}
    cut = within(ToolOutcome.of(data, ends_turn=True), LIMIT)
    assert cut.ends_turn
    assert cut.data["children"] == [1, 2, 3]
    assert cut.data["summary"] == "x" * 1024 + "… [cut by prsm]"
    assert "cut at 2000 characters" in cut.data["cut"]


def test_an_answer_of_countless_names_is_an_error_that_says_what_to_do():
    outcome = within(ToolOutcome.of({str(number): number for number in range(5000)}), LIMIT)
    assert outcome.is_error
    assert outcome.data["error"]["code"] == "too_long"
    assert outcome.data["error"]["hint"]


@given(data=ANSWERS.filter(lambda data: "notice" not in data))
def test_an_answer_without_its_notice_is_what_it_was(data):
    outcome = ToolOutcome.of(data)
    assert outcome.with_notice("look out").without_notice() == outcome
