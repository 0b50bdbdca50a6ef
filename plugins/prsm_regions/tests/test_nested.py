"""A run of regions among others: led by a master, within a budget, and ended before its time."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from plugins.prsm_regions.tests.conftest import (
    PLAN,
    STORY,
    done,
    lane,
    of_type,
    planner,
    spawned,
    states_of,
)

TWO = [
    {"name": "ui", "description": "the page", "region": "ui"},
    {"name": "core", "description": "the parser", "region": "core"},
]


@pytest.mark.long
@pytest.mark.requirement("R1")
def test_a_master_of_any_vendor_leads_one_as_it_leads_any_child(prsm):
    begin = {"tool": "spawn_child", "arguments": {"model": "regions/script", "wait": True,
             "prompt": "build auth"}}  # fmt: skip
    steps = [{"call": begin}, {"expect": ["COMPLETED"], **done("led")}]
    lanes = {
        "planner": planner(json.dumps(TWO)),
        "ui": lane("ui", done("page made")),
        "core": lane("core", done("parser made")),
        "master": {"marker": "Lead a team", "steps": steps},
    }
    prsm.play(lanes)
    told = prsm.run("run", "--provider", "script", "--on-ask", "allow", "Lead a team")
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.strip() == "led"
    events = prsm.events()
    born = {one["name"]: one for one in of_type(events, "agent_spawned")}
    (leader,) = [one for one in born.values() if one["provider"] == "regions"]
    subtasks = [one for one in born.values() if "regions/subtask" in one["labels"]]
    assert leader["parent"] == born["master"]["agent"]
    assert [one["parent"] for one in subtasks] == [leader["agent"]] * 2
    assert [one["depth"] for one in subtasks] == [2, 2]


@pytest.mark.long
@pytest.mark.requirement("R2")
def test_a_plan_beyond_the_budget_of_the_run_goes_back_to_the_planner(prsm):
    less = [TWO[0]]
    prsm.play({"planner": planner(json.dumps(TWO), json.dumps(less)),
               "ui": lane("ui", done("page made"))})  # fmt: skip
    told = prsm.regions("--on-ask", "allow", "--budget-tokens", "20000")
    assert told.stdout.count("COMPLETED") == 1, told.stdout + told.stderr
    sent = [one["arguments"]["prompt"] for one in of_type(prsm.events(), "tool_call_started")
            if one["tool"] == "restart_child"]  # fmt: skip
    assert "budget" in sent[0] or "tokens" in sent[0]


@pytest.mark.long
@pytest.mark.requirement("R17")
def test_one_that_is_interrupted_leaves_nobody_and_goes_on(prsm):
    wait = {"shell": "until [ -e core/go ]; do sleep 0.05; done"}
    prsm.play({**STORY, "core": lane("core", wait, done("parser made"))})
    argv = prsm.argv("run", "--provider", "regions", "--json", "--on-ask", "allow", "build auth")
    with subprocess.Popen(
        argv, cwd=prsm.workspace, env=prsm.env, stdout=subprocess.PIPE, text=True
    ) as engine:
        begun = (json.loads(line) for line in engine.stdout or ())
        for event in begun:
            if event["type"] == "agent_spawned" and event["labels"].get("regions/subtask") == "1":
                os.kill(engine.pid, signal.SIGINT)
                break
        for _ in begun:
            pass
    assert prsm.processes() == []
    (prsm.workspace / "core" / "go").touch()
    told = prsm.run("resume", "--on-ask", "allow")
    assert told.returncode == 0, told.stdout + told.stderr
    events = prsm.events()
    assert sorted(spawned(events)) == ["0", "1", "2"]
    assert states_of(events)[-1] == "completed"
    assert prsm.processes() == []


@pytest.mark.long
@pytest.mark.requirement("R17")
def test_a_kill_of_the_master_ends_all_that_it_leads(prsm):
    hangs = {"planner": planner(json.dumps(PLAN)), "ui": lane("ui", {"hang": True}),
             "core": lane("core", {"hang": True}), "lib": lane("lib")}  # fmt: skip
    prsm.play(hangs)
    argv = prsm.argv("run", "--provider", "regions", "--json", "--on-ask", "allow", "build auth")
    with subprocess.Popen(
        argv, cwd=prsm.workspace, env=prsm.env, stdout=subprocess.PIPE, text=True
    ) as engine:
        for line in engine.stdout or ():
            event = json.loads(line)
            if event["type"] == "agent_spawned" and event["labels"].get("regions/subtask") == "1":
                told = prsm.run("kill", "master")
                assert told.returncode == 0, told.stderr
    ends = of_type(prsm.events(), "agent_state_changed")
    last = {one["agent"]: one["to"] for one in ends}
    assert set(last.values()) <= {"killed", "completed"}
    assert list(last.values()).count("killed") == 3  # the master, and the two that it led
    assert prsm.processes() == []
