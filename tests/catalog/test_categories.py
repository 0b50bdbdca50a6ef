"""The category of a task, by the words that it is written in."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.catalog.categories import CATEGORIES, GENERAL, categorize
from prsm_core.config import Settings
from prsm_core.config.values import TaskCategory

TASKS = {
    "architecture": "Design the boundaries between the store and the engine.",
    "complex-reasoning": "Prove that the algorithm ends, and name the root cause of the deadlock.",
    "coding": "Implement the parser and add a test.",
    "code-review": "Review this pull request.",
    "planning": "Break down the move into milestones and estimate them.",
    "tool-use": "Install the dependencies and run the command.",
    "exploration": "Get to know this repository and give an overview.",
    "simple-tasks": "Bump the version and mend the typo.",
    "general": "What do you think?",
    "agentic": "Coordinate the team and delegate the parts.",
    "search": "Where is the timeout set? Search for it.",
    "documentation": "Write the tutorial and the README.",
}


@pytest.mark.requirement("E88")
@pytest.mark.parametrize("category", CATEGORIES)
def test_each_category_has_its_words(category):
    assert categorize(TASKS[category]) == category
    assert categorize(TASKS[category].upper()) == category


@pytest.mark.requirement("E88")
def test_they_are_the_twelve_that_the_configuration_knows_affinities_of():
    assert sorted(CATEGORIES) == sorted(get_args(TaskCategory))
    assert len(CATEGORIES) == 12
    for category in CATEGORIES:
        known = {"m": {"provider": "p", "tier": "fast", "affinities": {category: 0.5}}}
        Settings.of({"model_registry": known})


def test_a_word_counts_at_its_beginning_and_only_once():
    assert categorize("Prefix suffix debug") == GENERAL
    assert categorize("run, run, run: implement and fix it") == "coding"
    assert categorize("Fixes and refactoring") == "coding"


def test_where_two_have_as_many_words_the_rarer_kind_of_work_counts():
    assert categorize("Review the code") == "code-review"


@given(text=st.text())
def test_every_text_has_one_of_the_categories(text):
    assert categorize(text) in CATEGORIES
