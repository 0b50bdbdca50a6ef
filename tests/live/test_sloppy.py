"""Sloppy models behind the real CLIs: empty and cut answers, arguments as text, ids used twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.real_clis import PROVIDERS, configuration, find_clis

pytestmark = pytest.mark.live
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "well"}}}
NAMES = [name for name in PROVIDERS if name != "acp"]  # that one is Gemini too
ENOUGH = 20  # answers: vendors ask again by themselves, too


class Runs:
    """Runs a master on a provider: its exit code, stdout, stderr and events."""

    def __init__(self, vendor, prsm):
        self.vendor = vendor
        self.requests: Any = ()  # of the last run's models
        self._prsm, self._clis = prsm, find_clis(vendor)

    async def __call__(self, *steps, **lanes):
        lanes = {"master": {"marker": "", "steps": steps}, **lanes}
        async with ModelServer({"lanes": lanes}) as server:
            home = self._prsm.home
            self._prsm.write(configuration(self.vendor, self._clis, home, server))
            code, out, err = await self._prsm.run_async("run", "Do it.")
            assert server.failures == [], err
            self.requests = server.requests
        return code, out, err, await self._prsm.ledger()


@pytest.fixture(params=NAMES)
def runs(request, bare_prsm):
    return Runs(request.param, bare_prsm)


def asked_again(events):
    """Return how often agents were asked again, as it was told."""
    notices = [one["text"] for one in events if one["type"] == "notice"]
    return [text[-8:] for text in notices if "asked again" in text]


TWICE = ["(1 of 2)", "(2 of 2)"]


@pytest.mark.parametrize("empty", [{"say": ""}, {"think": "Hm."}], ids=["empty", "thoughts"])
async def test_a_model_that_answers_nothing_is_asked_again_twice(runs, empty):
    code, _, err, events = await runs(*[empty] * ENOUGH)
    assert (code, "no result" in err) == (1, True), err
    assert asked_again(events) == TWICE
    assert len([one for one in events if one["type"] == "turn_finished"]) == 3


async def test_an_answer_that_was_cut_is_asked_again_twice(runs):
    if runs.vendor.startswith("gemini"):
        pytest.skip("Gemini CLI tells a cut answer as a whole one, where it has text")
    cut = [{"say": f"part {n} of", "incomplete": True} for n in range(ENOUGH)]
    code, _, err, events = await runs(*cut)
    assert code == 1, err
    assert asked_again(events) == TWICE
    assert len([one for one in events if one["type"] == "turn_finished"]) == 3


def call(tool, call_id, **arguments):
    return {"tool": tool, "id": call_id, "arguments": arguments}


async def test_of_two_calls_with_one_id_both_are_made_and_recorded(runs):
    """Codex shows the answer of the first as that of the second, Claude Code leaves one out.

    tests/engine/test_calls.py proves what the model is told of that: on a busy machine a vendor may
    tell the end of the response before it makes the second call, and then nothing is told.
    """
    previous = {"wait_for_previous": True} if runs.vendor.startswith("gemini") else {}
    twice = [call("get_children_status", "=one"), call("get_budget", "=one", **previous)]
    later = {"call": call("recommend_model", "then", task_description="x")}
    code, _, err, events = await runs({"call": twice}, later, DONE, {"hang": True})
    assert code == 0, err
    ended = [one for one in events if one["type"] == "tool_call_finished"]
    assert [one["status"] for one in ended] == ["completed"] * 4
    assert len({one["call"] for one in ended}) == 4
    assert not any("left out" in str(one["result"]) for one in ended)


@pytest.mark.parametrize("many", [False, True])
async def test_what_is_written_as_text_reaches_a_child_as_it_was_meant(runs, many):
    child = {"description": "[[lane:w]] Go.", "tools": '["Read"]', "emoji": "!"}
    spawn = (
        call("spawn_children_parallel", "s", children=json.dumps([child]))
        if many
        else call("spawn_child", "s", **child, wait="true")
    )
    if runs.vendor.startswith("gemini"):
        pytest.skip("Gemini CLI checks arguments itself, and tells its model what is wrong")
    wait = {"call": call("wait_for_message", "w", timeout="30")}
    steps = [{"call": spawn}, *([wait] if many else []), DONE, {"hang": True}]
    code, _, err, events = await runs(*steps, w={"steps": [{"say": "gone"}]})
    assert code == 0, err
    made = next(one["arguments"] for one in events if one["type"] == "tool_call_started")
    (spawned,) = made["children"] if many else (made,)
    wanted = {"prompt": "[[lane:w]] Go.", "tools": ["Read"]}
    assert spawned == (wanted if many else {**wanted, "wait": True})
    assert "was left out" in json.dumps(runs.requests[-1].body)
