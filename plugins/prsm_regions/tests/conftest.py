"""`prsm` as a process, in a small repository, with a planner and agents that are scripted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

import pytest
import yaml
from prsm_regions.lifecycle import TaskState

from tests.live.conftest import ScriptedPrsm

AUTH = """class AuthValidator:
    def validate(self, token: str) -> bool:
        return bool(token)
"""
PLAN: dict[str, Any] = {
    "subtasks": [
        {"name": "ui", "description": "the page", "region": "ui"},
        {"name": "core", "description": "the parser", "region": "core"},
        {"name": "lib", "description": "the helpers", "region": "lib", "depends_on": ["core"]},
    ]
}


def done(summary):
    return {"call": {"tool": "task_complete", "arguments": {"summary": summary}}}


def asks(question):
    return {"call": {"tool": "ask_parent", "arguments": {"question": question}}}


def lane(region, *steps):
    return {"marker": f"You are working in /{region}/**", "steps": list(steps)}


def planner(*answers):
    return {"marker": "Split a task into subtasks", "steps": [done(text) for text in answers]}


FAILS_ONCE = ({"fail": {"kind": "model_error", "message": "type mismatch in handler"}},)
STORY = {
    "planner": planner(f"Here it is: {json.dumps(PLAN)}", "blue"),
    "ui": lane(
        "ui",
        asks("I need the type signature of AuthValidator from /core/auth"),
        {"expect": ["def validate(self, token: str) -> bool"], **asks("Which colour do you like?")},
        {"expect": ["blue"], **done("page made")},
    ),
    "core": lane(
        "core", *FAILS_ONCE, {"expect": ["type mismatch in handler"], **done("parser made")}
    ),
    "lib": lane("lib", done("helpers made")),
}


class Regions(ScriptedPrsm):
    """Runs `prsm run --provider regions` with scripted agents."""

    def play(self, lanes, **section):
        """Have these lanes played."""
        scenario = self.home / "scenario.yaml"
        scenario.write_text(yaml.safe_dump({"lanes": lanes}))
        self.write(
            {
                "providers": {
                    "script": {"scenario": str(scenario)},
                    "regions": {"planner": "script", **section},
                }
            }
        )

    def regions(self, *args, task="build auth"):
        """Run the provider to its end."""
        return self.run("run", "--provider", "regions", *args, task)

    def events(self):
        """Return the events of the newest session."""
        told = self.run("events", "--json").stdout
        return [json.loads(line) for line in told.splitlines()]

    def killed_at(self, state, on_ask="allow"):
        """Run until the task says that it is in a state, and kill it there.

        One that is born and has said nothing yet is idle.
        """
        argv = self.argv("run", "--provider", "regions", "--json", "--on-ask", on_ask, "build auth")
        with subprocess.Popen(
            argv, cwd=self.workspace, env=self.env, stdout=subprocess.PIPE, text=True
        ) as engine:
            for line in engine.stdout or ():
                event = json.loads(line)
                labels = event.get("labels") or {}
                is_of_task = "regions/role" not in labels
                now = labels.get("regions/state")
                if event["type"] == "agent_spawned" and is_of_task:
                    now = TaskState.IDLE
                if now == state and is_of_task:
                    os.kill(engine.pid, signal.SIGKILL)
                    return


def of_type(events, kind):
    return [event for event in events if event["type"] == kind]


def states_of(events):
    """Return the states that the task went through."""
    labels = [event["labels"] for event in of_type(events, "agent_labels_changed")]
    return [told["regions/state"] for told in labels if "regions/role" not in told]


def changes_of_subtasks(events):
    """Return the states that each subtask was told to be in, one after the other."""
    told: dict[str, list[str]] = {}
    for event in events:
        labels = event.get("labels") or {}
        if labels.get("regions/role") == "subtask":
            states = told.setdefault(labels["regions/subtask"], [])
            if states[-1:] != [labels["regions/state"]]:
                states.append(labels["regions/state"])
    return told


def spawned(events):
    """Return the subtasks that an agent was made for, in order."""
    labels = [event["labels"] for event in of_type(events, "agent_spawned")]
    return [told["regions/subtask"] for told in labels if "regions/subtask" in told]


@pytest.fixture
def prsm(tmp_path):
    runner = Regions(tmp_path / "home")
    (runner.workspace / "core").mkdir()
    (runner.workspace / "core" / "auth.py").write_text(AUTH)
    return runner
