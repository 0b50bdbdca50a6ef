"""A real Codex child whose gate or tests stay red: the run says so in its code and last lines."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.persons_git import git

pytestmark = [
    pytest.mark.live,
    pytest.mark.requirement("U28", "U13", "F9"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

TESTS = "python3 -m unittest -q"
FAILS = "class T(unittest.TestCase):\n    def test(self):\n        self.fail()\n"
BROKEN = f"import unittest\n\n{FAILS}"
ADVICE = {"style": {"command": "false", "required": False}}
PATCH = "*** Begin Patch\n*** Update File: kept\n@@\n-text\n+patched\n*** End Patch\n"
LEADS: list[Any] = [
    {
        "call": {
            "tool": "spawn_child",
            "arguments": {"prompt": "[[lane:w1]] Work.", "name": "w1", "wait": True},
        }
    },
    *[{"call": {"tool": "task_complete", "arguments": {"summary": "all of it"}}}] * 2,
    {"hang": True},
]
DONE: Any = {"call": {"tool": "task_complete", "arguments": {"summary": "patched it"}}}


@pytest.fixture
def runs(prsm):
    """Run a master and a child, each a real Codex; return its code, its stdout and its stderr."""
    (prsm.workspace / "kept").write_text("text\n")
    (prsm.workspace / "test_broken.py").write_text(BROKEN)
    git(prsm.workspace, "init", "-q")
    git(prsm.workspace, "add", "-A")
    git(prsm.workspace, "commit", "-q", "-m", "first")

    async def run(*args, gates=None, steps):
        lanes = {"master": {"marker": "", "steps": LEADS}, "w1": {"steps": steps}}
        async with ModelServer({"lanes": lanes}) as server:
            codex = {"command": [prsm.codex], "base_url": server.base_url}
            codex["api_key_env"] = "LIVE_TEST_KEY"
            config = {
                "defaults": {"model": "scripted-1", "mode": "accept_edits"},
                "providers": {"codex": codex},
                "permissions": {"allow": [TESTS]},
                "engine": {"gate_refusals": 1},
                "gates": gates or {},
            }
            prsm.write(config)
            found = await prsm.run_async("run", "Have it patched", *args)
            assert server.failures == []
        return found

    return run


@pytest.mark.parametrize("says", [True, False])
async def test_a_child_whose_gate_stays_red_ends_the_run_with_5_and_says_why(prsm, runs, says):
    last: Any = DONE if says else {"say": "I have patched it."}
    steps = [{"patch": PATCH}, last, last, {"hang": True}]
    code, out, err = await runs(gates={"tests": {"command": TESTS}, **ADVICE}, steps=steps)
    assert (code, out) == (5, "all of it\n"), err
    assert (prsm.workspace / "kept").read_text() == "patched\n"
    tail = err.splitlines()[-6:]
    assert any("gate tests failed with exit code 1" in line for line in tail), err
    events = await prsm.ledger()
    gates = [one for one in events if one["type"] == "gate_finished" and one["gate"] == "tests"]
    assert [one["problem"] is None for one in gates[:2]] == [False, False]
    again = await prsm.run_async("resume")
    assert (again[0], "gate tests failed" in again[2]) == (5, True)


async def test_a_child_whose_tests_fail_without_a_gate_is_claimed_and_named(prsm, runs):
    steps = [{"patch": PATCH}, {"shell": TESTS}, DONE, {"hang": True}]
    code, out, err = await runs(steps=steps)
    assert (code, out) == (0, "all of it\n"), err
    tail = err.splitlines()[-6:]
    assert any("w1" in line and f"`{TESTS}` did not succeed" in line for line in tail), err
    ends = [one for one in await prsm.ledger() if one.get("to") == "completed"]
    assert ends[0]["evidence"] == "claimed"


async def test_a_child_whose_tests_pass_behind_its_edit_is_checked(prsm, runs):
    (prsm.workspace / "test_broken.py").write_text(BROKEN.replace("self.fail()", "pass"))
    steps = [{"patch": PATCH}, {"shell": TESTS}, DONE, {"hang": True}]
    code, _, err = await runs("--json", steps=steps)
    assert code == 0, err
    ends = [one for one in await prsm.ledger() if one.get("to") == "completed"]
    assert [one["evidence"] for one in ends] == ["checked", "checked"]
