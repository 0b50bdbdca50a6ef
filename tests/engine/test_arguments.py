"""What is taken of a tool's arguments is what its schema says, and one class is both."""

from __future__ import annotations

from functools import cache
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from prsm_core.catalog.selection import FITTING
from prsm_core.domain.structs import find_fault, fits, json_schema
from prsm_core.engine.tools.arguments import ARGUMENTS, PROGRAM_ARGUMENTS, Complexity
from tests.engine.test_tools_table import VALID

KINDS = [kind for _, kind in ARGUMENTS.values()]
NAMES = sorted({name for kind in KINDS for name in kind.__struct_fields__})
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 200)
    | st.floats()
    | st.text(max_size=2)
    | st.sampled_from(["worker", "reviewer", "full", "summary"])
)
LABELS = st.dictionaries(st.text(max_size=2), LEAVES, max_size=2)
CHILD = st.dictionaries(
    st.sampled_from(["prompt", "tools", "role", "wait", "labels", "x"]), LEAVES | LABELS
)
VALUES = LEAVES | st.lists(LEAVES | CHILD, max_size=3) | CHILD
GIVEN = st.dictionaries(st.sampled_from([*NAMES, "labels", "bogus"]), VALUES, max_size=5)
ALL = [
    *(pytest.param(kind, id=name) for name, (_, kind) in ARGUMENTS.items()),
    *(pytest.param(kind, id=f"{name} of programs") for name, kind in PROGRAM_ARGUMENTS.items()),
]
ASKED = {
    "get_child_history": {"child_id": "x", "detail_level": "calls"},
    "recommend_model": {"task_description": "x", "regions": True},
    "spawn_child": {"prompt": "x", "labels": {"a": "b", "c": None}, "continues": "y"},
    "spawn_children_parallel": {"children": [{"prompt": "x", "labels": {"a": None}}]},
}


def is_odd(value):
    """Whether JSON Schema takes it for a number that it is not: nan, or 1.0 where 1 belongs."""
    if isinstance(value, dict | list):
        return any(map(is_odd, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and (value != value or value.is_integer())


@cache
def validator(kind):
    return Draft202012Validator(json_schema(kind))


@pytest.mark.parametrize("kind", ALL)
@given(given_arguments=GIVEN)
def test_what_fits_is_what_is_valid(kind, given_arguments):
    names = {*kind.__struct_fields__, "bogus"}
    arguments = {name: value for name, value in given_arguments.items() if name in names}
    is_valid = validator(kind).is_valid(arguments)
    assert fits(kind, arguments) == (find_fault(kind, arguments) is None)
    assert fits(kind, arguments) <= is_valid
    assert is_valid <= (fits(kind, arguments) or is_odd(arguments))


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_what_is_right_is_taken(tool):
    assert fits(ARGUMENTS[tool][1], VALID[tool])


@pytest.mark.parametrize("tool", PROGRAM_ARGUMENTS)
def test_what_a_program_asks_rightly_is_taken(tool):
    assert fits(PROGRAM_ARGUMENTS[tool], VALID[tool])
    assert fits(PROGRAM_ARGUMENTS[tool], ASKED[tool])


def test_a_program_may_say_all_that_a_model_may():
    for tool, kind in PROGRAM_ARGUMENTS.items():
        assert set(kind.__struct_fields__) >= set(ARGUMENTS[tool][1].__struct_fields__)


def test_the_complexities_are_those_that_models_are_chosen_by():
    assert get_args(Complexity) == tuple(FITTING)
