"""An editor in plain Node leads real runs: plan, approval, a retry, and one that it cancels."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.prsm_regions.tests.conftest import AUTH, STORY, done, lane, planner, spawned

CLIENT = Path(__file__).with_name("client.mjs")
DEADLINE = 100.0  # seconds; a test that needs them has failed

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def led(prsm, *options):
    """What the editor was told in two runs, and what it read of the agents."""
    argv = ("-m", "prsm_regions", "--mode", "extension", "--workspace", str(prsm.workspace))
    told = subprocess.run(
        ["node", str(CLIENT), sys.executable, *argv, *options],
        env=prsm.env,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert told.returncode == 0, told.stderr.decode()
    return json.loads(told.stdout), told.stderr.decode()


def of_type(told, kind):
    return [message for message in told if message["type"] == kind]


@needs_node
@pytest.mark.requirement("R21", "R22", "R23", "R24", "R25")
def test_an_editor_leads_a_run_through_a_retry_and_cancels_another(prsm):
    prsm.play({**STORY, "planner": {**STORY["planner"], "steps": STORY["planner"]["steps"] * 2}})
    seen, complaints = led(prsm)
    told = seen["told"]
    assert of_type(told, "error") == [], complaints
    states = [message["state"] for message in of_type(told, "state")]
    assert states == [
        *("idle", "decomposing", "confirming", "spawning", "running", "done"),
        *("retrying", "running", "completed"),
        *("idle", "decomposing", "confirming", "cancelled"),
    ]
    plan, other = of_type(told, "plan")
    assert [one["name"] for one in plan["subtasks"]] == ["ui", "core", "lib"]
    assert [one["subtask_index"] for one in plan["assignments"]] == [0, 1, 2]
    assert plan["estimated_cost"] > 0
    assert other["subtasks"] == plan["subtasks"]
    assert [
        [one["status"] for one in result["subtask_results"]] for result in of_type(told, "result")
    ] == [
        ["completed", "failed", "pending"],
        ["completed", "completed", "completed"],
        ["pending", "pending", "pending"],
    ]
    assert [one["status"] for one in of_type(told, "result")] == ["done", "completed", "cancelled"]
    assert seen["retries"] == 1
    ports = of_type(told, "agent_tcp")
    assert set(seen["feeds"]) == {one["agent_id"] for one in ports}
    assert len(ports) >= 3
    assert all(feed[0]["type"] == "snapshot" for feed in seen["feeds"].values())


@pytest.mark.requirement("R21", "R24")
def test_a_person_says_the_intent_in_a_terminal_or_on_the_command_line(prsm):
    prsm.play({**STORY, "planner": {**STORY["planner"], "steps": STORY["planner"]["steps"] * 2}})
    argv = [sys.executable, "-m", "prsm_regions", "--workspace", str(prsm.workspace)]

    def run(*args, stdin=""):
        options = {"env": prsm.env, "input": stdin, "timeout": DEADLINE, "check": False}
        return subprocess.run([*argv, *args], capture_output=True, text=True, **options)

    told = run("build auth")
    assert "nothing was begun" in told.stdout, told.stderr
    told = run("--effort", "high", stdin="\nbuild auth\n")
    assert "What is to be done? " in told.stdout
    assert "nothing was begun" in told.stdout, told.stderr
    core = (sys.executable, "-m", "prsm_core", "--mode", "extension")
    alone = subprocess.run(
        core, cwd=prsm.workspace, env=prsm.env, capture_output=True, input=b"oh\n", check=False
    )
    assert (alone.returncode, json.loads(alone.stdout)["type"]) == (0, "error"), alone.stderr
    wrong = run("--mode", "extension", "build auth")
    assert (wrong.returncode, "leave it out" in wrong.stderr) == (2, True)
    assert run("--mode", "fly").returncode == 2


def lead(prsm, *options, **run):
    """Lead a run to its result, approving its plan; return what its one subtask was told."""
    argv = ("-m", "prsm_regions", "--mode", "extension", "--workspace", str(prsm.workspace))
    with subprocess.Popen(
        [sys.executable, *argv, *options],
        env=prsm.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        print(json.dumps({"type": "run", "intent": "build", **run}), file=editor.stdin, flush=True)
        for line in editor.stdout:
            message = json.loads(line)
            assert message["type"] != "error", message
            if message["type"] == "plan":
                print('{"type": "approve", "approved": true}', file=editor.stdin, flush=True)
            if message["type"] == "result":
                assert message["status"] == "completed"
                break
        editor.stdin.close()
        assert editor.wait(DEADLINE) == 0
    events = prsm.events()
    assert spawned(events) == ["0"]
    (prompt,) = [
        event["prompt"]
        for event in of_type(events, "agent_spawned")
        if "regions/subtask" in event["labels"]
    ]
    return prompt


@pytest.mark.requirement("R3", "R22", "R31")
def test_the_effort_is_that_of_a_run_else_of_the_command_line_else_of_the_configuration(prsm):
    (prsm.workspace / "core" / "auth.py").write_text(AUTH + "#" * 500)
    rows = [{"name": "core", "description": "it", "region": "core", "checks": ["pytest core"]}]
    prsm.play(
        {"planner": planner(json.dumps(rows)), "core": lane("core", done("made"))}, effort="high"
    )
    parts = ("What your region holds now:", "It is done when these pass:")
    told = [
        [part in prompt for part in parts]
        for prompt in (
            *(lead(prsm), lead(prsm, "--effort", "medium")),
            lead(prsm, "--effort", "medium", effort="low"),
        )
    ]
    assert told == [[True, True], [True, False], [False, False]]


@needs_node
def test_a_model_that_there_is_not_is_an_error_that_says_so(prsm):
    prsm.play({"planner": {"marker": "no", "steps": [done("x")]}})
    seen, _ = led(prsm, "--model", "nowhere/none")
    assert seen["code"] != 0
    errors = [one["message"] for one in of_type(seen["told"], "error")]
    why = "nothing can plan: there is no model 'nowhere/none': there are script"
    assert errors == [f"{why} (name another: providers.regions.planner)"] * 2
