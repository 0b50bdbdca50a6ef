"""Owners that are asked in whole runs: by one that continues them, at a cost that is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from prsm_regions.notes import Notes
from prsm_regions.provider import Owners
from prsm_regions.team import Team
from prsm_testing import RecordingHost

from plugins.prsm_regions.tests.conftest import asks, done, lane, of_type, planner, spawned
from prsm_core import AgentResult, AgentRole, AgentState, ChildNow, Spent, TokenUsage

if TYPE_CHECKING:
    from prsm_core import ProviderEvent

TWO = [
    {"name": "ui", "description": "the page", "region": "ui"},
    {"name": "core", "description": "the parser", "region": "core"},
]
SIGNATURE = "def open_store(path: str, mode: int) -> Store"
NEVER_WRITTEN = "from core.store import open_store"


def at_work(*steps: dict[str, Any]) -> dict[str, Any]:
    """Have the owner be at work until the other one has ended."""
    wait = {"shell": f"touch core/begun; {until('ui/over')}"}
    played: dict[str, Any] = lane("core", {"say": "I will write open_store.", **wait}, *steps)
    return played


def until(path: str) -> str:
    return f"for i in $(seq 400); do [ -e {path} ] && break; sleep 0.05; done"


def asker(*expected: str) -> dict[str, Any]:
    over = {"edit": {"path": "ui/over", "content": "x"}, "expect": list(expected)}
    begun = {"shell": until("core/begun")}  # so that who answers does not play the owner's steps
    asked = asks(f"What is the signature of open_store? {NEVER_WRITTEN}")
    played: dict[str, Any] = lane("ui", begun, asked, over, done("page made"))
    return played


@pytest.mark.requirement("R11", "R26", "R29")
def test_what_is_in_no_file_yet_one_that_continues_the_owner_answers(prsm):
    answer = {"expect": ["I will write open_store.", "signature"], **done(SIGNATURE)}
    answer["usage"] = {"input_tokens": 40, "output_tokens": 2}
    lanes = {
        "planner": planner(json.dumps(TWO)),
        "ui": asker(SIGNATURE),
        "core": at_work(answer, done("parser made")),  # one lane: it begins with core's prompt
    }
    (prsm.workspace / "ui").mkdir()
    prsm.play(lanes)
    told = prsm.regions("--on-ask", "allow")
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("COMPLETED") == 2
    events = prsm.events()
    assert spawned(events) == ["0", "1"]
    born = of_type(events, "agent_spawned")
    (core,) = [one["agent"] for one in born if one["labels"].get("regions/subtask") == "1"]
    (owner,) = [one for one in born if one["labels"].get("regions/role") == "owner"]
    assert (owner["continues"], owner["mode"]) == (core, "plan")
    assert "  question r2: 42 tokens" in told.stdout


def child(agent: str, **changes: Any) -> ChildNow:
    given: dict[str, Any] = {
        "agent_id": agent, "name": agent, "role": AgentRole.REVIEWER, "state": AgentState.RUNNING,
        "incarnation": 1, "provider": "codex", "model": "m", "cwd": "/", "region": None,
        "labels": {"regions/role": "owner", "regions/answers_for": "core"},
        "spent": Spent(usage=TokenUsage(total_tokens=42)),
    }  # fmt: skip
    return ChildNow(**{**given, **changes})


@pytest.mark.requirement("R11", "R29")
async def test_who_answers_too_late_is_killed_and_what_it_used_is_told(tmp_path):
    over = AgentResult(agent_id="before", success=True, summary="x")
    known = [
        child("before", state=AgentState.COMPLETED, result=over),
        child("late"),
        child("other", labels={"regions/role": "owner", "regions/answers_for": "ui"}),
        child("core", labels={"regions/role": "subtask"}),
    ]
    host = RecordingHost(known=known)

    async def tell(event: ProviderEvent) -> None:
        pytest.fail(f"nothing is told: {event}")

    owners = Owners(Team(host, Notes(tmp_path / "notes.json", lambda value: value), tell))
    assert await owners.give_up("core") == 42
    states = {one.agent_id: one.state for one in host.children()}
    assert states == {
        "before": AgentState.COMPLETED,
        "late": AgentState.KILLED,
        "other": AgentState.RUNNING,
        "core": AgentState.RUNNING,
    }
    assert await owners.give_up("core") is None, "nobody was left to end: nobody knows its tokens"
