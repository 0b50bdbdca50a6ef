"""The phases of a turn: none is closed twice, and each can be closed."""

from __future__ import annotations

from itertools import product

import pytest

from prsm_core.engine.turns.run import LIVE, TURN_MACHINE, TurnPhase
from prsm_core.errors import InvalidTransitionError


def _reachable(start):
    found, open_phases = {start}, [start]
    while open_phases:
        new = TURN_MACHINE.targets(open_phases.pop()) - found
        found |= new
        open_phases += new
    return found


@pytest.mark.parametrize("phase", TurnPhase)
def test_every_phase_leads_to_the_one_end(phase):
    assert TurnPhase.CLOSED in _reachable(phase)


@pytest.mark.parametrize("target", TurnPhase)
def test_what_is_closed_is_never_closed_again_nor_goes_on(target):
    with pytest.raises(InvalidTransitionError):
        TURN_MACHINE.validate(TurnPhase.CLOSED, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [*product((TurnPhase.CLOSING, TurnPhase.VOID), [p for p in TurnPhase if p != "closed"])],
)
def test_a_turn_that_is_being_closed_does_nothing_else(source, target):
    with pytest.raises(InvalidTransitionError):
        TURN_MACHINE.validate(source, target)


def test_only_what_streams_or_rests_is_live():
    assert {
        TurnPhase.STREAMING,
        TurnPhase.RESTING,
    } == LIVE
