"""The generic machine: a table of transitions, and triggers that unlock others."""

from __future__ import annotations

from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.errors import InvalidTransitionError
from prsm_core.lifecycle import Machine


class Light(Enum):
    RED = "red"
    GREEN = "green"
    OFF = "off"


LIGHT = Machine(
    "light",
    {Light.RED: {Light.GREEN, Light.OFF}, Light.GREEN: {Light.RED}},
    triggers={"repair": {(Light.OFF, Light.RED)}},
)
PAIRS = st.sets(st.tuples(st.sampled_from(Light), st.sampled_from(Light)))


def test_a_transition_of_the_table_is_valid():
    LIGHT.validate(Light.RED, Light.GREEN)


@pytest.mark.parametrize(
    ("source", "target", "trigger"),
    [
        (Light.GREEN, Light.OFF, None),
        (Light.RED, Light.RED, None),
        (Light.OFF, Light.RED, None),
        (Light.RED, Light.GREEN, "repair"),
        (Light.OFF, Light.RED, "magic"),
    ],
)
def test_any_other_is_refused_with_its_names(source, target, trigger):
    with pytest.raises(InvalidTransitionError, match=f"light: no transition from {source.value}"):
        LIGHT.validate(source, target, trigger=trigger)


def test_a_trigger_unlocks_its_own_transitions():
    LIGHT.validate(Light.OFF, Light.RED, trigger="repair")
    assert LIGHT.targets(Light.OFF) == frozenset()
    assert LIGHT.targets(Light.OFF, trigger="repair") == {Light.RED}
    assert LIGHT.targets(Light.RED, trigger="repair") == frozenset()


@given(table=PAIRS, unlocked=PAIRS)
def test_a_machine_allows_exactly_what_its_table_and_triggers_say(table, unlocked):
    by_source = {source: {t for s, t in table if s is source} for source in Light}
    machine = Machine("any", by_source, triggers={"go": unlocked})
    for source in Light:
        for target in Light:
            assert (target in machine.targets(source)) == ((source, target) in table)
            allowed = (source, target) in unlocked
            assert (target in machine.targets(source, trigger="go")) == allowed


def test_states_may_be_texts():
    door = Machine(
        "door", {"open": {"shut"}, "shut": ["open"]}, triggers={"kick": [("shut", "gone")]}
    )
    door.validate("open", "shut")
    assert door.targets("shut", trigger="kick") == {"gone"}
    with pytest.raises(InvalidTransitionError, match="door: no transition from open to gone"):
        door.validate("open", "gone")
