"""Whole runs of `prsm` whose scripted agents are held to a protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml
from prsm_protocols.places import PAGES

from plugins.prsm_protocols.tests.conftest import IDLE, INBOX
from tests.live.conftest import ScriptedPrsm


class Protocols(ScriptedPrsm):
    """Runs `prsm run` under a protocol, with a scripted master."""

    def play(self, *steps, **lanes):
        """Have the master and others play these steps."""
        told = {"master": {"marker": "work through", "steps": list(steps)}}
        told |= {name: {"marker": f"task of {name}", "steps": lane} for name, lane in lanes.items()}
        scenario = self.home / "scenario.yaml"
        scenario.write_text(yaml.safe_dump({"lanes": told}))
        script = {"script": {"scenario": str(scenario)}}
        self.write({"defaults": {"provider": "script"}, "providers": script})

    def pages(self, **pages):
        """Write pages."""
        folder = self.workspace / PAGES
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (folder / f"{name}.md").write_text(text, encoding="utf-8")

    def under(self, protocol, *args):
        """Run the task under a protocol, in a workspace that is trusted."""
        options = ("--trust", "--label", f"protocol={protocol}", "--on-ask", "deny", *args)
        return self.run("run", "--provider", "script", *options, "work through the mail")

    def events(self, *kinds):
        """Return the events of the newest session, of these kinds."""
        told = self.run("events", "--json").stdout
        events = [json.loads(line) for line in told.splitlines()]
        return [event for event in events if event["type"] in kinds]

    def states(self):
        """Return the states that agents came to, in order."""
        labels = [event["labels"] for event in self.events("agent_labels_changed")]
        return [told["protocols/state"] for told in labels]


@pytest.fixture
def prsm(tmp_path):
    runner = Protocols(tmp_path / "home")
    runner.pages(inbox=INBOX, idle=IDLE)
    return runner


def call(tool, **arguments) -> dict[str, Any]:
    return {"call": {"tool": tool, "arguments": arguments}}


DONE = call("task_complete", summary="done")
MOVE = call("state_transition", to="deep_work", context={"why": "a task"})


READ = {"shell": "cat note.txt"}
NOT_HERE = ["is not for the state 'inbox'", "leads to a state that allows it"]


@pytest.mark.requirement("A2", "A4", "F8")
def test_a_tool_that_a_state_does_not_list_is_denied_and_the_transition_opens_it(prsm):
    prsm.play(
        READ,
        {"expect": NOT_HERE, **call("spawn_child", prompt="task of w1", name="w1", wait=True)},
        {"expect": NOT_HERE, **MOVE},
        {"expect": ["Focused task execution"], **READ},
        {"expect": ["hello"], **call("state_transition", to="gone")},
        {"expect": ["no transition leads from deep_work"],
         **call("spawn_child", prompt="task of w1", name="w1", wait=True)},
        DONE,
        # a child begins at the beginning, and is in its own state
        w1=[READ, {"expect": NOT_HERE, **call("state_transition", to="idle")}, DONE],
    )  # fmt: skip
    (prsm.workspace / "note.txt").write_text("hello")
    done = prsm.under("inbox")
    assert done.returncode == 0, done.stdout + done.stderr
    assert prsm.states() == ["deep_work", "idle"]
    denied = [(one["check"], one["tool"]) for one in prsm.events("check_denied")]
    assert denied == [("protocol-states", tool) for tool in ("Bash", "spawn_child", "Bash")]
    records = [
        json.loads(line)
        for path in (prsm.home / "prsm" / "state" / "_measurements").glob("*/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    kinds = {record["kind"] for record in records}
    assert kinds == {"began", "moved", "refused", "denied", "turn", "ended"}


@pytest.mark.requirement("A8")
def test_no_agent_of_a_run_reads_the_state_of_prsm_or_what_is_measured(prsm):
    state = prsm.home / "prsm" / "state"
    kept, measured = state / "runs" / "x.key", state / "_measurements" / "2026-01-01" / "r.jsonl"
    for file in (kept, measured):
        file.parent.mkdir(parents=True)
        file.write_text("fourth wall")
    looks = [
        f"cat {measured}",
        f"cat {kept}",
        f"cd {state} && cat _measurements/2026-01-01/r.jsonl",
        f"grep -r wall {state.parent}",
    ]
    prsm.play(
        call("spawn_child", prompt="task of w1", name="w1", wait=True),
        DONE,
        w1=[*({"shell": look} for look in looks), DONE],
    )
    options = ("--provider", "script", "--mode", "bypass", "--on-ask", "deny")
    done = prsm.run("run", *options, "work through the mail")
    assert done.returncode in {0, 4}, done.stdout + done.stderr
    begun = {one["call"] for one in prsm.events("tool_call_started") if one["tool"] == "Bash"}
    ended = [one for one in prsm.events("tool_call_finished") if one["call"] in begun]
    assert [one["status"] for one in ended] == ["denied"] * len(looks)
    assert "fourth wall" not in json.dumps(prsm.events("tool_call_finished", "message_completed"))
    asked = [one["command"] for one in prsm.events("permission_requested")]
    assert looks[0] not in asked  # nobody is asked about what no agent may see
    assert looks[1] in asked


@pytest.mark.requirement("A8")
def test_measurements_are_refused_where_a_setting_has_them_too(prsm, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    prsm.write({"sinks": {"measurements": {"path": str(elsewhere)}}})
    usual = prsm.home / "prsm" / "state"
    for path, code in ((elsewhere / "d" / "r.jsonl", 1), (usual / "runs" / "x", 4)):
        done = prsm.run("policy", "check", "--mode", "bypass", f"cat {path}")
        assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.requirement("A14")
def test_a_run_is_exported_from_its_ledger(prsm, tmp_path):
    prsm.play(MOVE, {"expect": ["deep_work"], **call("state_transition", to="inbox")}, DONE)
    assert prsm.under("inbox").returncode == 0
    audit = tmp_path / "audit"
    subprocess.run(["git", "init", "-q", "--bare", str(audit)], check=True)
    argv = [sys.executable, "-m", "prsm_protocols", "export"]
    stream = subprocess.run(
        argv, cwd=prsm.workspace, env=prsm.env, capture_output=True, check=True
    ).stdout
    git = ["git", "-C", str(audit)]
    subprocess.run([*git, "fast-import", "--quiet"], input=stream, check=True)
    log = [*git, "log", "--reverse", "--format=%s", "protocols"]
    told = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told == [
        "master: begins", "master: is in deep_work", "master: deep_work -> inbox",
    ]  # fmt: skip
    page = subprocess.run(
        [*git, "show", "protocols:protocols/inbox.md"], capture_output=True, text=True, check=True
    )
    assert page.stdout == INBOX
