"""What a person types, and what it means."""

import pytest
from prsm_console.asking import parse_for_all

from prsm_core.domain.permissions import Answer
from prsm_core.engine.requests import ANSWERS
from prsm_core.terminal import parse_answer, parse_verdict


@pytest.mark.parametrize(
    ("typed", "verdict"),
    [
        (" O ", "once"),
        ("a", "always"),
        ("p", "allow_project"),
        ("g", "allow_global"),
        ("d", "deny"),
        ("dp", "deny_project"),
        ("DG", "deny_global"),
        ("deny_project", "deny_project"),
        ("allow", "once"),
        ("YES", "once"),
        ("n", "deny"),
        ("", None),
        ("maybe", None),
    ],
)
def test_a_verdict_is_a_letter_a_name_or_yes_or_no(typed, verdict):
    assert parse_verdict(typed, ANSWERS) == verdict


@pytest.mark.parametrize(
    ("typed", "verdict"),
    [("oo", "once"), (" Allow  all ", "once"), ("dd", "deny"), ("deny all", "deny"), ("o", None)],
)
def test_an_answer_for_all_is_told_from_an_answer_for_one(typed, verdict):
    assert parse_for_all(typed) == verdict
    assert verdict is None or parse_verdict(typed, ANSWERS) is None


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
