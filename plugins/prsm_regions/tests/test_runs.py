"""Whole runs, as a person types them, with scripted agents on the real engine."""

from __future__ import annotations

import json

import pytest
from prsm_regions.lifecycle import TaskState

from plugins.prsm_regions.tests.conftest import (
    FAILS_ONCE,
    PLAN,
    STORY,
    changes_of_subtasks,
    done,
    lane,
    of_type,
    planner,
    spawned,
    states_of,
)


@pytest.mark.requirement("R2", "R4", "R7")
def test_mode_plan_prints_the_plan_with_its_batches_and_begins_nothing(prsm):
    prsm.play(STORY)
    told = prsm.regions("--mode", "plan", task="build auth, use script/other for /ui")
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[:5] == [
        "Batch 1:",
        "  1. ui [ui] by script/other",
        "  2. core [core] by script",
        "Batch 2:",
        "  3. lib [lib] by script, after 2",
    ]
    assert "tokens (estimated)" in told.stdout
    assert spawned(prsm.events()) == []


@pytest.mark.requirement("R2")
def test_where_nobody_is_there_to_confirm_nothing_is_spawned(prsm):
    prsm.play(STORY)
    told = prsm.regions()
    assert "nothing was begun" in told.stdout
    events = prsm.events()
    assert spawned(events) == []
    assert states_of(events) == ["decomposing", "confirming", "cancelled"]


@pytest.mark.requirement("R1", "R8", "R15", "R19", "R20", "R26", "R31")
def test_a_run_answers_reports_and_tries_again_what_failed_alone(prsm):
    prsm.play(STORY, effort="high")
    told = prsm.regions("--on-ask", "allow")
    assert told.returncode == 0, told.stderr
    assert [line.split(")")[1].strip(": ") for line in told.stdout.splitlines()[1:4]] == [
        "COMPLETED"
    ] * 3
    events = prsm.events()
    assert spawned(events) == ["0", "1", "2"]
    assert states_of(events) == [
        *("decomposing", "confirming", "spawning", "running", "done"),
        *("retrying", "running", "completed"),
    ]
    assert changes_of_subtasks(events) == {
        "0": ["running", "completed"],
        "1": ["running", "failed", "running", "completed"],
        "2": ["running", "completed"],
    }
    plan, retry = of_type(events, "question_asked")
    assert [one["name"] for one in plan["data"]["subtasks"]] == ["ui", "core", "lib"]
    assert plan["data"]["batches"] == [[0, 1], [2]]
    assert plan["data"]["estimated_cost"] > 0
    assert retry["data"]["subtask_indices"] == [1]
    assert retry["question"].endswith("Retry failed subtask(s)? [y/n]")
    assert "FAILED - type mismatch in handler" in retry["question"]
    master = of_type(events, "agent_spawned")[0]["agent"]
    (usage,) = [one for one in of_type(events, "turn_finished") if one["agent"] == master]
    assert usage["usage"]["total_tokens"] == 0


@pytest.mark.requirement("R5")
def test_a_planner_is_sent_back_twice_with_what_is_wrong_then_the_run_fails(prsm):
    bad = json.dumps({"subtasks": [{"name": "a", "description": "b", "region": "../x"}]})
    prsm.play({"planner": planner(bad, json.dumps(PLAN))})
    told = prsm.regions("--mode", "plan")
    assert "Batch 2:" in told.stdout
    prsm.play({"planner": planner("I would begin.", "With the parser.", "Then the pages.")})
    told = prsm.regions()
    assert told.returncode != 0
    assert "no plan was found" in told.stderr
    assert states_of(prsm.events()) == ["decomposing", "cancelled"]


@pytest.mark.requirement("R6")
def test_of_six_subtasks_five_are_at_work_and_the_sixth_waits_for_its_place(prsm):
    names = ("a", "b", "c", "d", "e", "f")
    rows = [{"name": name, "description": "it", "region": name} for name in names]
    five = "for i in $(seq 600); do set -- */begun; [ $# -ge 5 ] && break; sleep 0.05; done"
    lanes = {
        name: lane(name, {"shell": f"mkdir -p {name} && touch {name}/begun; {five}"}, done("made"))
        for name in names
    }
    prsm.play({"planner": planner(json.dumps(rows)), **lanes})
    assert prsm.regions("--on-ask", "allow").returncode == 0
    at_work, most = set(), 0
    for event in prsm.events():
        if event["type"] == "agent_spawned" and "regions/subtask" in event["labels"]:
            at_work.add(event["agent"])
        elif event["type"] == "agent_state_changed" and event["to"] == "completed":
            at_work.discard(event["agent"])
        most = max(most, len(at_work))
    assert most == 5


@pytest.mark.requirement("R15", "R31")
def test_what_the_last_words_of_an_agent_ask_for_is_in_its_next_prompt(prsm):
    rows = [{"name": "ui", "description": "the page", "region": "ui"}]
    steps = (
        done("Half is done. I need the type signature of AuthValidator from /core/auth."),
        {
            "expect": ["Here is the information you requested", "def validate(self"],
            **done("page made"),
        },
    )
    prsm.play({"planner": planner(json.dumps(rows)), "ui": lane("ui", *steps)})
    assert "COMPLETED" in prsm.regions("--on-ask", "allow").stdout
    assert spawned(prsm.events()) == ["0"]


AT = [state.value for state in TaskState if state is not TaskState.CANCELLED]


@pytest.mark.requirement("R17")
@pytest.mark.parametrize(
    "state",
    [
        pytest.param(state, marks=() if state in {"spawning", "retrying"} else pytest.mark.long)
        for state in AT
    ],
)
def test_killed_in_any_state_a_resume_spawns_no_subtask_twice(prsm, state):
    # A step that fails may be played and lost in the kill: what follows goes by no count of it.
    steady = lane("core", *FAILS_ONCE, done("parser made"), done("parser made"))
    prsm.play({**STORY, "core": steady})
    prsm.killed_at(state)
    told = prsm.run("resume", "--on-ask", "allow")
    assert told.returncode == 0, told.stderr
    events = prsm.events()
    assert sorted(spawned(events)) == ["0", "1", "2"]
    states = states_of(events)
    assert states[-1] == "completed"
    assert len(states) - len(set(states)) == states.count("running") - 1


@pytest.mark.requirement("R17")
def test_killed_when_it_was_cancelled_a_resume_spawns_nothing_and_asks_nothing_again(prsm):
    prsm.play(STORY)
    prsm.killed_at("cancelled", on_ask="deny")
    told = prsm.run("resume", "--on-ask", "allow")
    assert told.returncode == 0, told.stderr
    assert "nothing was begun" in told.stdout
    events = prsm.events()
    assert spawned(events) == []
    assert states_of(events) == ["decomposing", "confirming", "cancelled"]
    assert len(of_type(events, "question_asked")) == 1


@pytest.mark.requirement("R28")
def test_a_model_judges_where_a_setting_names_one_and_the_rules_where_it_says_nothing_of_use(prsm):
    rows = [{"name": "ui", "description": "the page", "region": "ui"}]
    judge = {
        "marker": "Say how a subtask ended",
        "steps": [done('{"state": "partial", "reason": "no test"}'), done("all is well")],
    }
    lanes = {"planner": planner(json.dumps(rows)), "judge": judge}
    lanes["ui"] = lane("ui", done("page made"), done("page made, with a test"))
    prsm.play(lanes, judge="script")
    told = prsm.regions("--on-ask", "allow")
    assert "COMPLETED" in told.stdout
    assert "Costs:\n  Subtask 1: 0 tokens" in told.stdout
    events = prsm.events()
    assert "PARTIAL - no test" in of_type(events, "question_asked")[1]["question"]
    assert any("the rules decide" in one["text"] for one in of_type(events, "notice"))


@pytest.mark.requirement("R2", "R5")
@pytest.mark.parametrize("worktrees", [False, True])
def test_a_vendor_that_no_region_holds_is_told_with_the_plan(prsm, worktrees):
    prsm.play(STORY, worktrees=worktrees)  # the script asks for what is dangerous alone
    told = prsm.regions()
    (asked,) = of_type(prsm.events(), "question_asked")
    notes = [line for line in asked["question"].splitlines() if line.startswith("Note: ")]
    if worktrees:
        assert notes == asked["data"]["warnings"] == []
        return
    assert notes == [
        "Note: ui, core, lib: nobody is asked when an agent of script writes beside its region: it "
        "asks for what it takes for dangerous, and the rest runs unasked; set "
        "providers.regions.worktrees, so that its region alone lands"
    ]
    assert spawned(prsm.events()) == []
    assert "nothing was begun" in told.stdout
