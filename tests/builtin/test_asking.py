"""What a person types, and what it means."""

import pytest

from prsm_core.builtin.asking import parse_answer, parse_verdict
from prsm_core.domain.permissions import ASK_OPTIONS, Answer


@pytest.mark.parametrize(
    ("typed", "verdict"),
    [
        (" O ", "once"),
        ("a", "always"),
        ("r", "allow_rule"),
        ("x", "deny_rule"),
        ("d", "deny"),
        ("deny_rule", "deny_rule"),
        ("YES", "once"),
        ("n", "deny"),
        ("", None),
        ("maybe", None),
    ],
)
def test_a_verdict_is_a_letter_a_name_or_yes_or_no(typed, verdict):
    assert parse_verdict(typed, ASK_OPTIONS) == verdict


def test_an_option_that_was_not_offered_cannot_be_chosen():
    assert parse_verdict("a", ("once", "deny")) is None
    assert parse_verdict("always", ("once", "deny")) is None


@pytest.mark.parametrize(
    ("typed", "options", "answer"),
    [
        ("2", ("a", "b"), Answer(choices=("b",))),
        ("1, 2 1", ("a", "b"), Answer(choices=("a", "b"))),
        ("b", ("a", "b"), Answer(choices=("b",))),
        ("7", ("a", "7"), Answer(choices=("7",))),
        ("neither", ("a", "b"), Answer(text="neither")),
        ("3", ("a", "b"), None),
        ("0", ("a", "b"), None),
        ("3", (), Answer(text="3")),
        ("  ", (), None),
    ],
)
def test_an_answer_is_numbers_an_option_or_text(typed, options, answer):
    assert parse_answer(typed, options) == answer
