"""A run on the screen of `prsm-tui`: beside what a person does there, and named by a model.

The real program on a terminal, over the scripted provider; what it has kept is read by another
process, as anybody would.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

pytest.importorskip("prsm_tui", reason="prsm-tui is not installed")
pytest.importorskip("pyte", reason="pyte is not installed")

from plugins.prsm_tui.tests.terminals import CTRL_C, F2, PRSM, SEEN_SECONDS, Terminal, world

QUESTION = {"id": "x", "question": "Which files count?", "options": ["all", "sources"]}


def done(summary):
    return {"call": {"tool": "task_complete", "arguments": {"summary": summary}}}


LANES = {
    "master": {
        "steps": [
            {"say": "I look first.", "ask_user": QUESTION},
            done("There are three."),
            {"say": "I look once more.", **done("Now there are four.")},
        ]
    },
    "master-name": {"steps": [{"say": "The counting of files"}]},
}


@pytest.fixture
def place(tmp_path):
    """A folder to work in, and the environment of a person who has nothing configured."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    (tmp_path / "scenario.json").write_text(json.dumps({"lanes": LANES}))
    return workspace, world(tmp_path)


def told(place, *words):
    """Return what a command prints in another process."""
    workspace, env = place
    argv = [sys.executable, str(PRSM), *words, "--json"]
    return subprocess.run(argv, cwd=workspace, env=env, capture_output=True, check=True).stdout


def sessions(place):
    return json.loads(told(place, "sessions", "list"))


@pytest.mark.requirement("D2")
def test_a_run_goes_on_beside_the_person_and_is_named_by_a_model_and_the_next_is_seen_alone(place):
    workspace, env = place
    scenario = f"providers.script.scenario={workspace.parent / 'scenario.json'}"
    argv = [
        *(str(PRSM), "run", "Count what there is", "--ui", "tui", "--provider", "script"),
        *("--set", scenario, "--set", "sessions.auto_name=model"),
    ]
    terminal = Terminal(argv, env, 30, 120, cwd=workspace)
    try:
        terminal.sees("I look first.", "NEEDS YOU: 1")
        terminal.type("half a thought")  # the run waits, the screen does not
        terminal.sees("half a thought")
        end = time.monotonic() + SEEN_SECONDS
        while sessions(place)[0]["name"] != "The counting of files":
            assert time.monotonic() < end, sessions(place)
        assert sessions(place)[0]["status"] == "running"
        terminal.type(F2)
        terminal.sees("Which files count?", "a number or a text")
        terminal.type("2\r")
        terminal.sees("Nothing waits for you")
        terminal.type(F2)
        terminal.sees("the run is completed", "There are three.", "half a thought")
        terminal.type(" is enough\r")
        terminal.sees("I look once more.", "Now there are four.", "the run is completed")
        terminal.type(CTRL_C)
        terminal.sees("Ctrl+C again leaves: no run is open")
        terminal.type(CTRL_C)
        assert terminal.ends() == 0
    finally:
        terminal.close()
    [row] = sessions(place)  # a further run of the one session, whose name stays
    assert (row["name"], row["status"]) == ("The counting of files", "completed")
    events = [json.loads(line) for line in told(place, "events").splitlines()]
    begun = [event["task"] for event in events if event["type"] == "run_started"]
    assert begun == ["Count what there is", "half a thought is enough"]
