"""A struct at an edge: its schema says what is checked, an error says where and why."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import UNSET, Meta, Struct, UnsetType

from prsm_core.domain.structs import find_fault, fits, json_schema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


class Point(Struct, forbid_unknown_fields=True):
    """A point; what is said here is for people."""

    x: Annotated[int, Meta(ge=0)]
    title: str = "none"


class Path(Struct):
    """A path."""

    points: Annotated[list[Point], Meta(min_length=1, description="at least one")]
    colour: Literal["red", "green"] | UnsetType = UNSET
    width: Annotated[float, Meta(gt=0, title="Width")] | None = None
    notes: dict[str, str | list[str]] | UnsetType = UNSET
    first: Point | None = None
    extra: Any = None


def test_the_schema_has_no_references_and_no_titles():
    schema = json_schema(Path)
    Draft202012Validator.check_schema(schema)
    point = {
        "type": "object",
        "properties": {
            "x": {"type": "integer", "minimum": 0},
            "title": {"type": "string", "default": "none"},
        },
        "required": ["x"],
        "additionalProperties": False,
    }
    assert schema["properties"]["points"] == {
        "type": "array",
        "minItems": 1,
        "description": "at least one",
        "items": point,
    }
    assert schema["properties"]["first"] == {
        **point,
        "type": ["object", "null"],
        "default": None,
    }
    width = {"type": ["number", "null"], "exclusiveMinimum": 0, "default": None}
    assert schema["properties"]["width"] == width
    assert "$" not in json.dumps(schema)
    assert "for people" not in json.dumps(schema)


POINTS = {"points": [{"x": 1}]}


@pytest.mark.parametrize(
    ("value", "where", "why"),
    [
        ({}, "", "`points` is missing"),
        ([], "", "expected object, got []"),
        ({"points": []}, "points", "expected array of length >= 1, got []"),
        ({"points": [{"x": 1}, {}]}, "points.1", "`x` is missing"),
        ({"points": [{"x": 1, "y": 2}]}, "points.0", "`y` is unknown"),
        ({"points": [{"x": -1}]}, "points.0.x", "expected integer >= 0, got -1"),
        ({"points": [{"x": "1"}]}, "points.0.x", 'expected integer, got "1"'),
        ({**POINTS, "colour": "blue"}, "colour", 'expected one of "green", "red", got "blue"'),
        ({**POINTS, "colour": None}, "colour", 'expected one of "green", "red", got null'),
        ({**POINTS, "width": 0}, "width", "expected number > 0, got 0"),
        ({**POINTS, "width": "x"}, "width", 'expected number | null, got "x"'),
        ({**POINTS, "width": float("nan")}, "width", "expected number > 0, got NaN"),
        ({**POINTS, "notes": {"a": "b", "c": 1}}, "notes.c", "expected string | array, got 1"),
        ({**POINTS, "notes": {"a": ["b", 1]}}, "notes.a.1", "expected string, got 1"),
        ({**POINTS, "notes": {1: "b"}}, "notes", "a name in it: expected string"),
        ({**POINTS, "first": {"x": None}}, "first.x", "expected integer, got null"),
    ],
)
def test_an_error_says_where_what_and_why(value, where, why):
    assert find_fault(Path, value) == (where, why)


def test_a_long_value_is_shown_in_part():
    where, why = find_fault(Path, {"points": "x" * 5000}) or ("", "")
    assert where == "points"
    assert why.startswith('expected array, got "xxx')
    assert len(why) < 120


@given(JSON | st.fixed_dictionaries({"points": JSON}, optional={"colour": JSON, "notes": JSON}))
def test_whatever_is_given_it_fits_or_is_explained(value):
    fault = find_fault(Path, value)
    assert fits(Path, value) == (fault is None)
    assert fault is None or fault[1]


class Tree(Struct):
    """A tree of trees."""

    inner: list[Tree]


def test_what_holds_itself_has_no_schema_but_is_checked():
    with pytest.raises(TypeError, match="Tree holds itself"):
        json_schema(Tree)
    assert fits(Tree, {"inner": [{"inner": []}]})
