"""The four judgements as records: schemas, prompts, answers, and what rules make of them."""

from __future__ import annotations

import json
from typing import Any, Literal

import jsonschema
import msgspec
import pytest
from prsm_regions import judging
from prsm_regions.drafts import Draft, PlanError
from prsm_regions.signatures import (
    AgentSelect,
    ProgressEval,
    PromptBuild,
    TaskDecompose,
    read_answer,
    schema_of,
)

from prsm_core.files import UNCHECKED

SUBTASK = Draft(name="ui", description="the page", region="ui", checks=("pytest ui",))
GIVEN = (
    TaskDecompose(intent="build auth", tree="ui/", models=("codex",)),
    AgentSelect(subtask=SUBTASK, models=("codex",), wanted="claude", default="codex"),
    PromptBuild(intent="build auth", subtask=SUBTASK, outline="class A", failure="it broke"),
    ProgressEval(subtask=SUBTASK, success=True, summary="made"),
)


@pytest.mark.requirement("R28")
@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
def test_each_says_what_it_wants_with_a_schema_that_its_inputs_fit(given):
    jsonschema.validate(json.loads(msgspec.json.encode(given)), schema_of(type(given)))
    assert given.prompt().startswith(given.instructions)
    assert json.dumps(schema_of(given.output), ensure_ascii=False) in given.prompt()


def test_an_answer_that_is_none_is_refused_with_the_cure():
    assert read_answer(ProgressEval, 'Well: {"state": "failed"}').state == "failed"
    for text in ("fine", '{"state": "great"}', "{" * 9999):
        with pytest.raises(PlanError, match="one JSON object of the schema"):
            read_answer(ProgressEval, text)


@pytest.mark.requirement("R3", "R15")
def test_a_prompt_says_where_the_region_ends_and_holds_what_it_is_given():
    prompt = judging.build_prompt(GIVEN[2]).prompt
    assert (
        "You are working in /ui/**. If you need types or signatures from outside your region, "
        "describe what you need instead of reading the file directly." in prompt
    )
    assert all(text in prompt for text in ("the page", "class A", "it broke", "pytest ui"))
    assert (
        judging.shown_region(Draft(name="a", description="b", region="ui/app.py")) == "/ui/app.py"
    )
    for region, shown in (
        *((".", "/**"), ("./", "/**"), ("Makefile", "/Makefile"), ("src", "/src/**")),
        *(("conf.d/", "/conf.d/**"), ("conf.d", "/conf.d"), (".github", "/.github/**")),
    ):
        assert judging.shown_region(Draft(name="a", description="b", region=region)) == shown


@pytest.mark.requirement("R31")
@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({}, "completed"),
        ({"gaps": ("tests were not run",)}, "partial"),
        ({"gaps": (UNCHECKED,)}, "completed"),
        ({"gaps": (UNCHECKED, "tests were not run")}, "partial"),
        ({"outside": ("core/x.py",)}, "partial"),
        ({"conflicts": ("ui/x.py",)}, "partial"),
        ({"asks": ("AuthValidator",)}, "partial"),
        ({"success": False, "error": "type mismatch"}, "failed"),
    ],
)
def test_evidence_judges_and_not_the_claim(told, state):
    given = msgspec.structs.replace(GIVEN[3], **told)
    found = judging.judge(given)
    assert found.state == state
    assert bool(found.reason) is (state != "completed")


KINDS = {"string": str, "array": list, "object": dict, "boolean": bool}
ANSWERS: dict[str, dict[str, Any]] = {
    "TaskDecompose": {"subtasks": [{"name": "ui", "description": "the page", "region": "ui"}]},
    "AgentSelect": {"model": "codex", "reason": "it is quick"},
    "PromptBuild": {"prompt": "Make the page."},
    "ProgressEval": {"state": "partial", "reason": "no test"},
}


def kind_of(schema: dict[str, Any]) -> Any:
    """Return the Python type that a part of a schema stands for."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        (kind,) = [kind_of(one) for one in schema["anyOf"] if one["type"] != "null"]
        return kind | None
    return KINDS[schema["type"]]


@pytest.mark.requirement("R28")
@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("way", ["Predict", "ChainOfThought"])
def test_dspy_takes_each_as_a_signature_of_its_own_and_its_answer_is_ours(given, way):
    dspy = pytest.importorskip("dspy", reason="dspy is not installed")
    utils = pytest.importorskip("dspy.utils")
    signature = type(given)
    ins, outs = (schema_of(kind)["properties"] for kind in (signature, signature.output))
    fields = {name: (kind_of(each), dspy.InputField()) for name, each in ins.items()}
    fields |= {name: (kind_of(each), dspy.OutputField()) for name, each in outs.items()}
    built = dspy.Signature(fields, signature.instructions)
    assert (set(built.input_fields), set(built.output_fields)) == (set(ins), set(outs))
    answer = ANSWERS[signature.__name__]
    said = {"reasoning": "so it is"} | {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in answer.items()
    }
    with dspy.context(lm=utils.DummyLM([said])):
        found = getattr(dspy, way)(built)(**msgspec.to_builtins(given))
    text = json.dumps({name: found[name] for name in outs})
    assert read_answer(signature, text) == msgspec.convert(answer, signature.output)
