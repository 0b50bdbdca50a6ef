"""Scenario files: what is understood, and how mistakes are told."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_demo.script.reading import MODEL_KEYS, SCRIPT_KEYS
from prsm_demo.script.scenario import Scenario
from prsm_demo.script.steps import FOREVER, Call, Failure, HttpError, StreamError

from prsm_core.domain.turns import ErrorKind
from prsm_core.errors import ConfigError


def steps(*told, keys=MODEL_KEYS):
    return Scenario.from_mapping({"lanes": {"a": {"steps": list(told)}}}, keys=keys).lanes[0].steps


def test_a_lane_has_the_marker_of_its_name_unless_given():
    lanes = {"a": {"steps": []}, "b": {"marker": "find me", "steps": []}}
    assert [lane.marker for lane in Scenario.from_mapping({"lanes": lanes}).lanes] == [
        "[[lane:a]]",
        "find me",
    ]


def test_lanes_can_be_a_list_with_names():
    scenario = Scenario.from_mapping({"lanes": [{"name": "a"}, {"name": "b"}]})
    assert [lane.name for lane in scenario.lanes] == ["a", "b"]


def test_calls_of_all_kinds_can_stand_in_one_step():
    (step,) = steps(
        {
            "call": [{"tool": "x", "arguments": {"n": 1}, "id": "one"}, {"tool": "y"}],
            "shell": ["ls", {"cmd": "pwd", "id": "where"}],
            "patch": "*** Begin Patch",
        }
    )
    assert step.calls == (
        Call(tool="x", arguments={"n": 1}, id="one"),
        Call(tool="y"),
        Call(kind="shell", arguments={"cmd": "ls"}),
        Call(kind="shell", arguments={"cmd": "pwd"}, id="where"),
        Call(kind="patch", arguments={"patch": "*** Begin Patch"}),
    )


def test_the_short_forms_of_failures_are_understood():
    error, stream, hang, pause, cut = steps(
        {"error": {"status": 429, "times": "always"}},
        {"stream_error": {"code": "c", "message": "m"}},
        {"hang": True},
        {"hang": 2, "delay": 0.5},
        {"incomplete": True, "cut": True},
    )
    assert error.error == HttpError(status=429, times=FOREVER)
    assert stream.stream_error == StreamError(code="c", message="m")
    assert hang.hang == FOREVER
    assert (pause.hang, pause.delay) == (2.0, 0.5)
    assert (cut.incomplete, cut.cut) == ("max_output_tokens", True)


def test_usage_that_is_not_given_has_its_default():
    (step,) = steps({"say": "x", "usage": {"output_tokens": 7}})
    assert dict(step.usage) == {
        "input_tokens": 100,
        "cached_input_tokens": 0,
        "output_tokens": 7,
        "reasoning_tokens": 0,
    }


@pytest.mark.parametrize(
    ("scenario", "message", "hint"),
    [
        ({"lane": {}}, "scenario: unknown key 'lane'", "Did you mean `lanes`?"),
        ({"lanes": {"a": {"step": []}}}, "lane a: unknown key 'step'", "Did you mean `steps`?"),
        (
            {"lanes": {"a": {"steps": [{"sya": "x"}]}}},
            "lane a step 0: unknown key 'sya'",
            "Did you mean `say`?",
        ),
        (
            {"lanes": {"a": {"steps": [{"say": "x"}, {"call": {"arguments": {}}}]}}},
            "lane a step 1 call: `tool` is missing",
            None,
        ),
        (
            {"lanes": {"a": {"steps": [{"error": {"state": 500}}]}}},
            "lane a step 0 error: unknown key 'state'",
            "Did you mean `status`?",
        ),
        ({"lanes": {"a": {"steps": ["say"]}}}, "lane a step 0: a mapping is needed", None),
        ({"lanes": [{"steps": []}]}, r"lanes\[0\]: `name` is missing", None),
        ({"lanes": {"a": {"steps": [{"shell": 5}]}}}, "step 0 shell: `cmd` is missing", None),
    ],
)
def test_a_mistake_names_its_place_and_the_nearest_key(scenario, message, hint):
    with pytest.raises(ConfigError, match=message) as caught:
        Scenario.from_mapping(scenario)
    if hint is not None:
        assert caught.value.hint == hint


def test_a_file_is_read_as_yaml(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text("lanes:\n  a:\n    steps:\n      - say: hello\n")
    assert Scenario.load(path).lanes[0].steps[0].say == "hello"


@pytest.mark.parametrize("text", ["- 1\n", "lanes: [", ""])
def test_a_file_that_is_no_scenario_is_named(tmp_path, text):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"scenario\.yaml"):
        Scenario.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        Scenario.load(tmp_path / "none.yaml")


def test_the_steps_of_the_script_provider_have_short_forms():
    fail, write, ask, crash = steps(
        {"fail": "broken"},
        {"edit": {"path": "a", "content": "b", "id": "one"}, "on_denied": "fail"},
        {"ask_user": ["Why?", {"question": "Which?", "options": ["x", "y"]}]},
        {"crash": "boom", "delay": 1},
        keys=SCRIPT_KEYS,
    )
    assert fail.fail == Failure(message="broken", kind=ErrorKind.UNKNOWN)
    assert write.calls == (Call(kind="edit", arguments={"path": "a", "content": "b"}, id="one"),)
    assert (write.on_denied, write.on_error) == ("fail", "continue")
    assert ask.calls == (
        Call(kind="ask_user", arguments={"question": "Why?"}),
        Call(kind="ask_user", arguments={"question": "Which?", "options": ("x", "y")}),
    )
    assert (crash.crash, crash.delay) == ("boom", 1.0)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"say": 5}, "step 0: 5 is no text"),
        ({"edit": {"path": "a"}}, "edit: either `content` or `old` and `new` are needed"),
        ({"edit": {"path": "a", "content": "b", "old": "c"}}, "edit: either"),
        ({"fail": {"kind": "rate-limit"}}, "fail kind: unknown kind 'rate-limit'"),
        ({"fail": {"times": True}}, "fail times: True is no number"),
        ({"hang": "long"}, "'long' is no number of seconds"),
        ({"delay": True}, "True is no number of seconds"),
        ({"call": {"tool": "x", "arguments": [1]}}, "call arguments: a mapping is needed"),
        ({"usage": {"input_tokens": "many"}}, "usage input_tokens: 'many' is no number"),
        ({"on_denied": "stop"}, "'stop' is no reaction"),
        ({"incomplete": True}, "unknown key 'incomplete'"),
    ],
)
def test_a_step_that_cannot_be_played_is_refused_when_it_is_read(step, message):
    with pytest.raises(ConfigError, match=message):
        steps(step, keys=SCRIPT_KEYS)


WORDS = st.sampled_from(
    sorted(MODEL_KEYS | SCRIPT_KEYS | {"tool", "path", "content", "id", "times", "kind", "status"})
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES | st.builds(lambda value: {"lanes": {"a": {"steps": value}}}, VALUES))
def test_whatever_is_given_is_a_scenario_or_a_configuration_error(data):
    with suppress(ConfigError):
        Scenario.from_mapping(data, keys=SCRIPT_KEYS)
