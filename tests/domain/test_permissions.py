"""Permission values: verdicts are distinct and what a person is offered is known."""

from __future__ import annotations

from prsm_core import Allow, Answer, Ask, Deny
from prsm_core.domain.permissions import ASK_OPTIONS


def test_what_a_person_is_offered_by_default_is_offered_at_all():
    assert set(Ask("unknown command").options) <= set(ASK_OPTIONS)


def test_verdicts_with_the_same_reason_are_not_the_same():
    assert len({Allow("r"), Ask("r"), Deny("r")}) == 3


def test_an_empty_answer_is_neither_a_choice_nor_a_text():
    assert (Answer().choices, Answer().text) == ((), None)
