"""Playback: lanes, steps, templates, expectations."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_demo.script.playback import Conversation, Player, pieces
from prsm_demo.script.scenario import Scenario


def player(**lanes):
    return Player(Scenario.from_mapping({"lanes": lanes}))


def asks(*user, system=(), outputs=()):
    texts = [*user, *system, *(text for _, _, text in outputs)]
    return Conversation(
        user=user, system=tuple(system), outputs=tuple(outputs), text="\n".join(texts)
    )


def says(*texts):
    return {"steps": [{"say": text} for text in texts]}


def test_each_lane_plays_its_own_steps_in_order():
    play = player(a=says("a1", "a2"), b=says("b1"))
    answers = [play.answer(asks(f"x [[lane:{name}]]")) for name in "aba"]
    assert [(a.lane, a.step.say) for a in answers] == [("a", "a1"), ("b", "b1"), ("a", "a2")]
    assert len({answer.number for answer in answers}) == 3
    assert play.unplayed == {}
    assert play.failures == []


def test_an_agent_keeps_the_lane_of_its_first_prompt():
    play = player(a=says("a1"), b=says("b1"))
    reply = play.answer(asks("[[lane:b]] begin", "a child wrote [[lane:a]]"))
    assert reply.lane == "b"


def test_the_first_of_two_markers_in_one_prompt_counts():
    play = player(a=says("a1"), b=says("b1"))
    assert play.answer(asks("[[lane:b]] spawn [[lane:a]]")).lane == "b"


def test_a_prompt_comes_before_the_system_text():
    play = player(a=says("a1", "a2"), b=says("b1"))
    assert play.answer(asks("[[lane:b]]", system=["[[lane:a]]"])).lane == "b"
    assert play.answer(asks("no marker", system=["[[lane:a]]"])).lane == "a"


def test_a_lane_without_a_marker_takes_the_rest():
    play = player(a=says("a1"), rest={"marker": "", "steps": [{"say": "r"}]})
    assert play.answer(asks("anything")).lane == "rest"
    assert play.answer(asks("[[lane:a]]")).lane == "a"


def test_a_request_of_no_lane_is_refused_and_recorded():
    play = player(a=says("a1"))
    reply = play.answer(asks("who?"))
    assert (reply.lane, reply.error.status) == (None, 400)
    assert "marker" in play.failures[0]


def test_a_request_after_the_last_step_gets_done_and_is_recorded():
    play = player(a=says())
    assert play.answer(asks("[[lane:a]]")).step.say == "done"
    assert play.failures == ["lane a: a request after the last step"]


@pytest.mark.parametrize(
    ("step", "failures"), [({"call": {"tool": "task_complete"}}, [0, 1]), ({"say": "a1"}, [1, 2])]
)
def test_one_request_may_be_late_where_the_last_step_ends_the_agent(step, failures):
    scenario = Scenario.from_mapping({"lanes": {"a": {"steps": [step]}}})
    late, strict = Player(scenario, may_be_late=True), Player(scenario)
    for play in (late, strict):
        play.answer(asks("[[lane:a]]"))
    counted = []
    for n in (1, 2):
        assert late.answer(asks("[[lane:a]]")).step.say == "done"
        strict.answer(asks("[[lane:a]]"))
        counted.append(len(late.failures))
        assert len(strict.failures) == n
    assert counted == failures


def test_an_error_is_given_as_often_as_asked_then_the_next_step_comes():
    play = player(a={"steps": [{"error": {"status": 429, "times": 2}}, {"say": "fine"}]})
    replies = [play.answer(asks("[[lane:a]]")) for _ in range(3)]
    assert [r.error.status if r.error else r.step.say for r in replies] == [429, 429, "fine"]


def test_a_step_can_answer_after_its_own_error():
    play = player(a={"steps": [{"error": {"status": 500}, "say": "fine"}]})
    first, second = (play.answer(asks("[[lane:a]]")) for _ in range(2))
    assert (first.error.status, second.error, second.step.say) == (500, None, "fine")
    assert play.unplayed == {}


def test_an_error_can_last_for_ever():
    play = player(a={"steps": [{"error": {"status": 500, "times": "always"}}]})
    assert all(play.answer(asks("[[lane:a]]")).error for _ in range(50))


def test_what_was_expected_and_is_missing_is_refused_and_recorded():
    play = player(a={"steps": [{"say": "x", "expect": ["begin", "nowhere"]}]})
    reply = play.answer(asks("[[lane:a]] begin"))
    assert reply.error.status == 400
    assert "['nowhere']" in play.failures[0]


def test_an_argument_is_copied_from_the_output_of_a_call_with_its_type():
    call = {"tool": "answer", "arguments": {"to": "${spawn.children.1.id}", "n": "${spawn.n}"}}
    play = player(a={"steps": [{"call": {"id": "spawn", "tool": "spawn"}}, {"call": call}]})
    first = play.answer(asks("[[lane:a]]"))
    output = json.dumps({"children": [{"id": "c0"}, {"id": "c1"}], "n": 7})
    second = play.answer(asks("[[lane:a]]", outputs=[(first.call_ids[0], "spawn", output)]))
    assert second.step.calls[0].arguments == {"to": "c1", "n": 7}


def test_the_latest_output_counts_and_a_tool_is_found_by_its_name():
    play = player(a={"steps": [{"say": "got ${wait.text} and ${wait}"}]})
    outputs = [("call-1", "wait", '{"text":"old"}'), ("call-2", "wait", '{"text":"new"}')]
    assert play.answer(asks("[[lane:a]]", outputs=outputs)).step.say == 'got new and {"text":"new"}'


def test_an_output_is_remembered_when_a_rebuilt_conversation_lacks_it():
    play = player(a={"steps": [{"say": "one"}, {"say": "${w.text}"}]})
    play.answer(asks("[[lane:a]]", outputs=[("call_w__1", "wait", '{"text":"kept"}')]))
    assert play.answer(asks("[[lane:a]]")).step.say == "kept"


def test_two_lanes_do_not_see_each_others_outputs():
    play = player(a={"steps": [{"say": "one"}]}, b={"steps": [{"say": "${w.text}"}]})
    play.answer(asks("[[lane:a]]", outputs=[("call_w__1", "wait", '{"text":"a"}')]))
    assert play.answer(asks("[[lane:b]]")).error.status == 400


@pytest.mark.parametrize(
    "template", ["${nobody}", "${w.no}", "${w.list.7}", "${w.list.x}", "${/z/}"]
)
def test_a_template_without_a_value_is_refused_and_recorded(template):
    play = player(a={"steps": [{"say": template}]})
    reply = play.answer(asks("[[lane:a]]", outputs=[("call_w__1", "w", '{"list":[1]}')]))
    assert reply.error.status == 400
    assert template in play.failures[0]


@given(st.text())
def test_the_pieces_of_a_text_are_few_and_join_to_it(text):
    assert "".join(pieces(text)) == text
    assert len(pieces(text)) <= 32
