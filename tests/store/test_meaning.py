"""Any step, legal or not, does to every store what the model of a ledger says it means.

The stores share the projection of steps, so that they may be wrong alike: the model is made of the
rules alone. That it finds mistakes is shown by some that are planted between it and the stores.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from prsm_core.domain import writes
from tests.store.ledger_machine import Ledgers
from tests.store.ledger_mistakes import MISTAKES
from tests.store.ledger_model import knows

# Hundreds of examples come before one that shows it.
RARE = {"a state changes from anywhere"}

TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("kind", writes.__all__)
def test_the_model_says_what_every_kind_of_write_means(kind):
    assert knows(kind)
    assert not knows(f"{kind}Not")


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(one, marks=pytest.mark.long if one in RARE else ()) for one in MISTAKES],
)
def test_a_mistake_in_what_stores_apply_is_found(mistake):
    class Mistaken(Ledgers):
        planted = staticmethod(MISTAKES[mistake])

    few = settings(
        max_examples=1000,
        stateful_step_count=30,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Mistaken, settings=few)
