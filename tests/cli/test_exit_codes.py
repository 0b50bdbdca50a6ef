"""One exit code for one run, whichever command tells it, and why it is not 0."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.requirement("U28")

SET = "providers.script.scenario={}"
LEADS = [
    {"call": {"tool": "spawn_child", "arguments": {"prompt": "[[lane:w1]] work", "wait": True}}},
    {"call": {"tool": "task_complete", "arguments": {"summary": "all of it"}}},
]
WRITES = {"edit": {"path": "made.py", "content": "x = 1\n"}}
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}}


@pytest.fixture
def run(prsm_process, tmp_path):
    """Run a script; return the process and what its last event said."""

    def run(*args, gate=None, json_out=True, on_ask="allow", **lanes):
        path = tmp_path / "scenario.yaml"
        path.write_text(json.dumps({"lanes": {n: {"steps": s} for n, s in lanes.items()}}))
        sets = ["--set", SET.format(path), "--set", "engine.gate_refusals=0"]
        if gate is not None:
            sets += ["--set", f"gates.tests.command={gate}"]
        out = ("--json",) if json_out else ()
        asked = ("--on-ask", on_ask) if on_ask else ()
        return prsm_process("run", "do it", "--provider", "script", *out, *asked, *sets, *args)

    return run


def end_of(done):
    return json.loads(done.out.splitlines()[-1])


def test_a_red_gate_of_a_child_is_5_and_said_by_run_resume_and_json(run, prsm_process):
    done = run(gate="exit 3", master=LEADS, w1=[WRITES, DONE])
    end = end_of(done)
    assert (done.code, end["type"], end["status"], end["exit_code"]) == (
        5,
        "run_finished",
        "completed",
        5,
    ), done.err
    kinds = [problem["kind"] for problem in end["problems"]]
    assert kinds[0] == "gate"
    again = prsm_process("resume", end["session"])
    assert again.code == 5
    assert "gate tests failed with exit code 3" in again.err
    assert again.out == "all of it\n"


def test_the_console_names_a_red_gate_in_its_last_lines(run):
    done = run(gate="exit 3", json_out=False, master=LEADS, w1=[WRITES, DONE])
    assert done.code == 5
    last = done.err.splitlines()[-4:]
    assert any("gate tests failed with exit code 3" in line for line in last), done.err


def test_a_green_gate_is_0(run):
    done = run(gate="test -f made.py", master=LEADS, w1=[WRITES, DONE])
    assert (done.code, end_of(done)["problems"]) == (0, [])


def test_tests_that_fail_without_a_gate_sink_the_evidence_and_are_named(run):
    fails = {"shell": "false && pytest -q"}
    done = run(json_out=False, master=LEADS, w1=[WRITES, fails, DONE])
    assert done.code == 0
    last = done.err.splitlines()[-4:]
    assert any("`pytest -q` did not succeed" in line for line in last), done.err
    assert "w1 completed (claimed)" in done.err


def test_all_refused_for_lack_of_a_person_and_nothing_changed_is_4(run):
    asks = {"shell": "make everything"}
    done = run(on_ask=None, master=LEADS, w1=[asks, DONE])
    end = end_of(done)
    assert (done.code, end["status"], end["exit_code"]) == (4, "completed", 4)
    assert [problem["kind"] for problem in end["problems"]] == ["refused"]


def test_a_master_that_says_that_it_failed_is_1(run):
    fails = {"call": {"tool": "task_complete", "arguments": {"summary": "no", "success": False}}}
    done = run(master=[fails])
    end = end_of(done)
    assert (done.code, end["status"], end["error"]) == (1, "failed", "no")
