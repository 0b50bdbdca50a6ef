"""`prsm policy replay` and `suggest`: recorded runs, read from the ledger of a real store."""

from __future__ import annotations

import asyncio
import json

import pytest
from prsm_testing.store_contract import Steps

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.events import Event
from prsm_core.domain.writes import RunStarted
from prsm_core.store import SqliteStore


class Told:
    """The events of one agent's commands."""

    def __init__(self, steps):
        self.steps = steps
        self.events = []
        self.n = 0

    def say(self, kind, **data):
        self.events.append(
            Event(
                type=kind,
                session=self.steps.session,
                run=self.steps.run,
                ts=1000.0,
                agent=self.steps.agent("w1"),
                data=data,
            )
        )

    def ran(self, command, *, status="completed", error=None):
        self.n += 1
        self.say(
            "tool_call_started", call=f"c{self.n}", tool="Bash", arguments={"command": command}
        )
        self.say("tool_call_finished", call=f"c{self.n}", status=status, error=error)

    def asked(self, command, verdict, by="user", *, asked_first=False):
        self.n += 1
        call, request = f"c{self.n}", f"r{self.n}"
        start = {"call": call, "tool": "Bash", "arguments": {"command": command}}
        if not asked_first:
            self.say("tool_call_started", **start)
        self.say("permission_requested", request=request, tool="Bash", command=command)
        self.say("permission_resolved", request=request, verdict=verdict, by=by)
        if asked_first:
            self.say("tool_call_started", **start)
        self.say("tool_call_finished", call=call, status="completed")


@pytest.fixture
def run_of(ledger, workspace):
    def record(session, tell, **fields):
        async def write():
            steps = Steps(session)
            told = Told(steps)
            tell(told)
            started = RunStarted(task="a task", workspace=str(workspace))
            async with await SqliteStore.open(ledger) as store:
                await store.commit(steps.step(None, started))
                await store.commit(steps.spawn("w1", cwd=str(workspace), **fields))
                await store.append(told.events)

        asyncio.run(write())

    return record


def day(told):
    told.ran("ls -la")
    told.ran("make all", status="denied", error="plan mode runs safe commands only")
    told.ran("make any", status="failed", error="not permitted: plan mode")
    told.ran("make some", status="failed", error="exit code 2")
    told.asked("npm run build", "once")
    told.asked("npm run build -- --prod", "always", asked_first=True)
    told.asked("npm run build", "allow_global")
    told.asked("rm -rf dist", "once")
    told.asked("frob", "deny", by="headless")
    told.asked("yes | sh", "deny")


@pytest.mark.requirement("F14")
def test_recorded_commands_are_judged_by_the_rules_in_force(prsm, run_of):
    run_of("s1", day)
    done = prsm("policy", "replay", "--json")
    found = json.loads(done.out)
    assert found["counts"] == {
        "then": {"ran": 2, "denied": 2, "approved": 4, "refused": 2},
        "now": {"runs": 1, "asks": 9},
    }
    assert [(row["command"], row["then"], row["now"]) for row in found["rows"]] == [
        ("make all", "denied", "asks"),
        ("make any", "denied", "asks"),
        ("make some", "ran", "asks"),
    ]


@pytest.mark.requirement("F14")
def test_a_policy_is_tried_before_it_holds(prsm, run_of, tmp_path):
    run_of("s1", day)
    other = tmp_path / "other.yaml"
    other.write_text("allow: [npm run build]\ndeny: [ls]\n")
    done = prsm("policy", "replay", "--with", str(other))
    assert done.code == 0
    rows = [line.split()[:3] for line in done.out.splitlines()]
    assert ["1", "ran", "denied"] in rows
    assert ["2", "approved", "runs"] in rows
    assert "now:  1 asks" not in done.err
    assert not (tmp_path / "home" / "policy.yaml").exists()
    assert prsm("policy", "replay", "--with", str(other), "s1").out == done.out


def test_a_policy_file_that_cannot_be_read_is_not_tried(prsm, run_of, tmp_path):
    run_of("s1", day)
    other = tmp_path / "other.yaml"
    other.write_text("allow: [npm run build\n")
    done = prsm("policy", "replay", "--with", str(other))
    assert done.code == 2
    assert "other.yaml" in done.err


def test_sessions_are_chosen_by_the_beginning_of_their_ids(prsm, run_of):
    run_of("s1", day)
    run_of("t1", lambda told: told.ran("frob it"))
    assert [
        row["command"] for row in json.loads(prsm("policy", "replay", "t", "--json").out)["rows"]
    ]
    both = json.loads(prsm("policy", "replay", "--json").out)["counts"]["then"]
    assert both["ran"] == 3
    assert prsm("policy", "replay", "x").code != 0


@pytest.mark.requirement("F14")
def test_rules_are_suggested_with_what_they_would_have_covered(prsm, run_of):
    run_of("s1", day)
    done = prsm("policy", "suggest")
    assert done.out.splitlines() == [
        "npm run build: approved 3 times; it would have covered",
        "     2  npm run build",
        "     1  npm run build -- --prod",
        "  to add it: prsm policy add allow npm run build",
    ]
    [found] = json.loads(prsm("policy", "suggest", "--json").out)
    assert (found["rule"], found["approved"]) == (["npm", "run", "build"], 3)
    assert "nothing harmless was approved 9 times" in prsm("policy", "suggest", "--min", "9").err


def test_a_command_is_judged_in_the_mode_of_its_agent(prsm, run_of):
    run_of("s1", lambda told: told.ran("frob it"), mode=PermissionMode.BYPASS)
    assert "nothing would change" in prsm("policy", "replay").err
