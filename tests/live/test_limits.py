"""A real CLI whose login or limit is over: its agent is held, its children work on."""

from __future__ import annotations

import json
import time

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.real_clis import configuration, find_clis

pytestmark = pytest.mark.live

TASK = "Have it counted"
LOGIN = {"status": 401, "message": "bad key"}
LIMIT = {"status": 429, "message": "slow down", "times": "always"}


def call(tool, **arguments):
    return {"call": {"tool": tool, "arguments": arguments}}


def scenario(refusal, *, goes_on):
    """Return what the models do: the master is refused its second request."""
    spawn = call("spawn_child", prompt="[[lane:w1]] Count.", name="w1")
    done = call("task_complete", summary="counted: ${reply.summary}")
    wait = call("wait_for_message")
    wait["call"]["id"] = "reply"
    refused = {"error": refusal, **call("report_progress", status="on")}
    master = [wait, done] if goes_on else [spawn, refused]
    worker = [{"delay": 2.0, **call("task_complete", summary="42")}, {"hang": True}]
    return {
        "lanes": {
            "w1": {"steps": worker},
            "master": {"marker": TASK, "steps": [*master, {"hang": True}]},
        }
    }


def told(out, kind):
    events = [json.loads(line) for line in out.splitlines()]
    return [event for event in events if event["type"] == kind]


@pytest.mark.requirement("U29", "N12")
@pytest.mark.parametrize(
    ("provider", "refusal", "on"),
    [
        *((name, LOGIN, "a login") for name in ("codex", "claude", "gemini", "acp")),
        *((name, LIMIT, "a usage limit") for name in ("codex", "claude", "gemini")),
    ],
)
async def test_a_master_that_is_refused_is_held_and_a_resume_goes_on(
    bare_prsm, provider, refusal, on
):
    prsm, clis = bare_prsm, find_clis(provider)
    settings = "engine.retry_attempts=1"
    async with ModelServer(scenario(refusal, goes_on=False)) as server:
        prsm.write(configuration(provider, clis, prsm.home, server))
        code, out, err = await prsm.run_async("run", "--json", "--set", settings, TASK)
    assert code == 4, (out, err)
    [end] = told(out, "run_finished")
    assert (end["status"], end["exit_code"]) == ("interrupted", 4)
    assert end["error"].startswith(f"master is held by {on}")
    states = {event["agent"]: event["to"] for event in told(out, "agent_state_changed")}
    assert sorted(states.values()) == ["completed", "running"]
    [held] = told(out, "agent_held")
    assert held["waiting_on"].startswith(on)
    async with ModelServer(scenario(refusal, goes_on=True)) as server:
        prsm.write(configuration(provider, clis, prsm.home, server))
        code, out, err = await prsm.run_async("resume")
        asked = [one for one in server.requests if one.lane == "master"]
    assert (code, out) == (0, "counted: 42\n"), err
    assert json.dumps(asked[0].body).count(TASK) == 1


@pytest.mark.requirement("U29")
async def test_a_used_up_plan_of_codex_holds_until_the_time_that_it_tells(bare_prsm):
    prsm, clis = bare_prsm, find_clis("codex")
    refusal = {**LIMIT, "code": "usage_limit_reached", "retry_after": 90_000}
    async with ModelServer(scenario(refusal, goes_on=False)) as server:
        prsm.write(configuration("codex", clis, prsm.home, server))
        code, out, err = await prsm.run_async("run", "--json", TASK)
    assert code == 4, (out, err)
    assert told(out, "retry_scheduled") == []
    [held] = told(out, "agent_held")
    assert held["until"] == pytest.approx(time.time() + 90_000, abs=120)
    assert held["waiting_on"].startswith("a usage limit until 2")


@pytest.mark.requirement("U29", "E27")
@pytest.mark.parametrize("provider", ["codex", "claude"])
async def test_a_429_with_a_retry_after_that_its_cli_keeps_to_itself_is_tried_again_then_holds(
    bare_prsm, provider
):
    prsm, clis = bare_prsm, find_clis(provider)
    async with ModelServer(scenario({**LIMIT, "retry_after": 45}, goes_on=False)) as server:
        prsm.write(configuration(provider, clis, prsm.home, server))
        once = ("--set", "engine.retry_attempts=1")
        code, out, err = await prsm.run_async("run", "--json", *once, TASK)
    assert code == 4, (out, err)
    assert len(told(out, "retry_scheduled")) == 1
    [held] = told(out, "agent_held")
    assert (held["waiting_on"], held["until"]) == ("a usage limit", None)
