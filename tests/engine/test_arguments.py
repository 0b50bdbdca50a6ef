"""What the plain look accepts, jsonschema accepts; what is right needs no jsonschema."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from prsm_core.engine.tools.arguments import compiled, explain
from prsm_core.engine.tools.schemas import PROGRAM_SCHEMAS, SCHEMAS
from tests.engine.test_tools_table import VALID

NAMES = sorted({name for _, schema in SCHEMAS.values() for name in schema["properties"]})
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
ARGUMENTS = st.dictionaries(st.sampled_from([*NAMES, "labels", "bogus"]), VALUES, max_size=5)
ALL = [
    *(pytest.param(schema, id=name) for name, (_, schema) in SCHEMAS.items()),
    *(pytest.param(schema, id=f"{name} of programs") for name, schema in PROGRAM_SCHEMAS.items()),
]
OPEN = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
ASKED = {
    "get_child_history": {"child_id": "x", "detail_level": "calls"},
    "recommend_model": {"task_description": "x", "regions": True},
    "spawn_child": {"prompt": "x", "labels": {"a": "b", "c": None}, "continues": "y"},
    "spawn_children_parallel": {"children": [{"prompt": "x", "labels": {"a": None}}]},
}


@pytest.mark.parametrize("schema", ALL)
@given(given_arguments=ARGUMENTS)
def test_what_fits_is_valid(schema, given_arguments):
    arguments = {k: v for k, v in given_arguments.items() if k in {*schema["properties"], "bogus"}}
    if compiled(schema)(arguments):
        assert Draft202012Validator(schema).is_valid(arguments)
        assert explain(schema, arguments) is None


@pytest.mark.parametrize("tool", SCHEMAS)
def test_what_is_right_is_accepted_at_once(tool):
    assert compiled(SCHEMAS[tool][1])(VALID[tool])


@pytest.mark.parametrize("tool", PROGRAM_SCHEMAS)
def test_what_a_program_asks_rightly_is_accepted_at_once(tool):
    assert compiled(PROGRAM_SCHEMAS[tool])(VALID[tool])
    assert compiled(PROGRAM_SCHEMAS[tool])(ASKED[tool])


@given(value=VALUES | LABELS)
def test_an_open_object_takes_what_its_schema_of_others_says(value):
    assert compiled(OPEN)(value) == Draft202012Validator(OPEN).is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "a"},
        {"type": ["number", "string"], "pattern": "a"},
        {"type": ["date"]},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "patternProperties": {"a": {}}},
        {"enum": [1]},
        {"minLength": 1},
    ],
)
@pytest.mark.parametrize("value", ["a", 1, None, ["a"], {"a": 1}])
def test_a_schema_that_says_more_is_left_to_jsonschema(schema, value):
    assert not compiled(schema)(value)


@pytest.mark.parametrize("schema", [{}, {"description": "anything"}])
@pytest.mark.parametrize("value", ["a", 1, None, ["a"], {"a": 1}])
def test_a_schema_that_says_nothing_fits_whatever_is_given(schema, value):
    assert compiled(schema)(value)
    assert compiled({"type": "array"})([value])
    assert compiled({"type": "object", "properties": {"a": schema}})({"a": value})
    assert not compiled({"type": "array"})("a")


def test_a_call_that_is_right_imports_no_jsonschema():
    code = (
        "import sys; from prsm_core.engine.tools.table import TOOLS\n"
        "{t.spec.name: t for t in TOOLS}['spawn_child'].check({'prompt': 'x', 'wait': True})\n"
        "assert 'jsonschema' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
