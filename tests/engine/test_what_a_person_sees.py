"""What a person must see to decide: of which call, with what arguments, where and until when."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.permissions import PermissionRequest, Question
from prsm_core.engine.requests import ARGUMENT_LIMIT, ARGUMENTS_LIMIT, shown_arguments
from prsm_core.permissions import Redactor

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - what nobody may be shown
REDACT = Redactor([SECRET]).value


def asked_for(agent, **fields):
    return PermissionRequest(agent_id=agent.id, **fields)


@pytest.mark.requirement("D9")
async def test_an_edit_is_approved_by_its_diff_and_tells_its_call(opened):
    diff = {"file_path": "a.py", "old_string": "x = 1", "new_string": f"x = '{SECRET}'"}

    async def master(agent):
        await agent.host.authorize(
            asked_for(agent, tool="Bash", command="make", arguments=diff, cwd="/w", call_id="c7")
        )
        await agent.complete()

    async with opened(interactive=True, redactor=Redactor([SECRET])) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("permission_requested")
        assert (asked.data["call"], asked.data["cwd"]) == ("c7", "/w")
        assert asked.data["arguments"] == {**diff, "new_string": "x = '[redacted]'"}
        assert asked.data["expires_at"] == asked.ts + 3600
        [waiting] = team.engine.requests.waiting()
        assert waiting.payload == asked.data
        team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "once"})
        await running


async def test_a_question_tells_its_call_whether_more_may_be_chosen_and_its_end(opened):
    async def master(agent):
        await agent.host.ask_user(Question(text="a?", options=("x",), multiple=True, call_id="c8"))
        await agent.call("ask_user", question="b?")
        await agent.complete()

    async with opened(interactive=True) as team:
        running = team.start("do it", master=master)
        said = {"choices": [], "text": "so"}
        for text in ("a?", "b?"):
            asked = await team.seen("question_asked", question=text)
            assert asked.data["expires_at"] == asked.ts + 3600
            assert asked.data["multiple"] is (text == "a?")
            calls = team.ledger.events("tool_call_started")
            own = [event["call"] for event in calls if event["tool"] == "ask_user"]
            assert [asked.data["call"]] == (own or ["c8"])
            team.engine.requests.resolve(asked.data["request"], "question", said)
        await running


async def test_an_agent_tells_the_call_that_spawned_it_and_what_it_waits_for(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.call(
            "spawn_children_parallel",
            children=[{"prompt": "x", "name": "b"}, {"prompt": "y", "name": "c"}],
        )
        message = await agent.call("wait_for_message")
        while message["type"] != "question":
            message = await agent.call("wait_for_message")
        answer = {"correlation_id": message["correlation_id"], "response": "so"}
        await agent.call("respond_to_child", child_id="a", **answer)
        while message["type"] != "nothing_left":
            message = await agent.call("wait_for_message")
        await agent.complete()

    async def a(agent):
        await agent.call("ask_parent", question="how?")
        await agent.complete()

    await team.run(master=master, a=a)
    calls = {e["call"]: e["tool"] for e in team.ledger.events("tool_call_started")}
    spawned = {e["name"]: e for e in team.ledger.events("agent_spawned")}
    assert spawned["master"]["call"] is None
    assert calls[spawned["a"]["call"]] == "spawn_child"
    assert {calls[spawned[name]["call"]] for name in "bc"} == {"spawn_children_parallel"}
    assert spawned["a"]["cwd"] == str(team.workspace)
    assert (spawned["a"]["mode"], spawned["a"]["incarnation"]) == (team["a"].descriptor.mode, 1)
    changes = team.ledger.events("agent_state_changed", "a")
    waits = [event["waiting_on"] for event in changes if event["to"] == "waiting_for_parent"]
    assert waits == ["parent"]


TEXTS = st.builds(
    lambda before, after, doubled: "x" * before + SECRET * (1 + doubled) + "y" * after,
    st.one_of(
        st.integers(0, 40), st.integers(ARGUMENT_LIMIT - 2 * len(SECRET), ARGUMENT_LIMIT + 5)
    ),
    st.integers(0, 2 * ARGUMENT_LIMIT),
    st.booleans(),
)
VALUES: Any = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=20,
)


@pytest.mark.requirement("U19")
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_no_part_of_a_secret_is_among_the_arguments_that_are_shown(arguments):
    shown = json.dumps(shown_arguments(arguments, REDACT))
    assert "hunter" not in shown
    assert len(shown) <= 2 * ARGUMENTS_LIMIT


def test_arguments_that_are_short_are_shown_whole_and_long_ones_say_what_is_left_out():
    small = {"file_path": "a", "edits": [{"old": "x", "new": "ü"}], "n": 1, "all": True}
    assert shown_arguments(small, REDACT) == small
    shown = shown_arguments({"content": "z" * (ARGUMENT_LIMIT + 3)}, REDACT)["content"]
    assert shown == "z" * ARGUMENT_LIMIT + "… [3 more characters]"
