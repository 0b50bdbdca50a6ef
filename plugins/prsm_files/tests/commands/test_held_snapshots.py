"""Snapshots and restores while agents run in the folder: they wait for each other."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from tests.cli.conftest import DEADLINE

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

COMMAND = "echo by-agent > a; touch started; until [ -e go ]; do sleep 0.05; done"
LANES = {
    "master": [
        {"call": {"tool": "spawn_child", "arguments": {"prompt": "[[lane:w1]] change it"}}},
        {"call": {"tool": "wait_for_message", "arguments": {}}},
        {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}},
    ],
    "w1": [
        {"shell": COMMAND},
        {"call": {"tool": "task_complete", "arguments": {"summary": "changed"}}},
    ],
}


@pytest.fixture
def running(workspace, tmp_path, start_prsm):
    """A run whose agent is in the midst of a command that writes."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(json.dumps({"lanes": {name: {"steps": s} for name, s in LANES.items()}}))
    given = ("--provider", "script", "--set", f"providers.script.scenario={scenario}")
    process = start_prsm("run", "change it", "--json", "--on-ask", "allow", *given)
    until = time.monotonic() + DEADLINE
    while not (workspace / "started").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
    yield process
    (workspace / "go").touch()
    process.communicate(timeout=DEADLINE)


@pytest.mark.long
def test_nothing_is_restored_while_an_agent_writes_and_a_snapshot_names_it(
    workspace, prsm_process, running
):
    listed = json.loads(prsm_process("snapshot", "list", "--json").out)
    [before] = [one for one in listed if one["kind"] == "run"]
    refused = prsm_process("snapshot", "restore", before["id"], "--yes")
    assert refused.code == 2
    assert "nothing was changed, because an agent writes here: w1: echo by-agent" in refused.err
    assert (workspace / "a").read_text() == "by-agent\n"

    taken = json.loads(prsm_process("snapshot", "create", "--json").out)
    assert [one.startswith("w1: echo by-agent") for one in taken["unquiet"]] == [True]
    told = [json.loads(one) for one in prsm_process("events", "--json").out.splitlines()]
    [named] = [one for one in told if one["type"] == "snapshot_taken" and one["kind"] == "manual"]
    assert (named["snapshot"], named["unquiet"]) == (taken["id"], taken["unquiet"])
    refused = prsm_process("undo", "--prompt", "--yes")
    assert refused.code != 0
    assert "a run is open in session" in refused.err
    assert "prsm kill master" in refused.err
    shown = prsm_process("snapshot", "show", taken["id"])
    assert "unquiet: an agent wrote meanwhile: w1: echo by-agent" in shown.out

    (workspace / "go").touch()
    assert running.wait(DEADLINE) == 0
    restored = prsm_process("snapshot", "restore", before["id"], "--yes")
    assert restored.code == 0, restored.err
    assert not (workspace / "a").exists()
