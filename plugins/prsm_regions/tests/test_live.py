"""The real Codex and Claude, at once, each in its region, before a loopback model server."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from contextlib import suppress
from typing import Any

import pytest

from plugins.prsm_regions.tests.conftest import (
    AUTH,
    PLAN,
    Regions,
    asks,
    done,
    lane,
    of_type,
    planner,
    spawned,
    states_of,
)
from tests.live.conftest import codex  # noqa: F401 - a fixture
from tests.live.test_tree import play
from tests.person import room

pytestmark = pytest.mark.live

THREE: dict[str, Any] = {
    "subtasks": [{**one, "depends_on": []} for one in PLAN["subtasks"]],
}


@pytest.fixture
def live(codex):  # noqa: F811
    runner = Regions(room())
    runner.codex = codex
    (runner.workspace / "core").mkdir()
    (runner.workspace / "core" / "auth.py").write_text(AUTH)
    try:
        yield runner
    finally:
        for pid in runner.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def configure(runner, server, **more):
    """Have Codex plan and work, asking this server, and others of `more`."""
    section = {
        "command": [runner.codex],
        "base_url": server.base_url,
        "api_key_env": "LIVE_TEST_KEY",
    }
    runner.write(
        {
            "defaults": {"model": "scripted-1"},
            "providers": {"codex": section, "regions": {"planner": "codex/scripted-1"}, **more},
        }
    )


@pytest.mark.requirement("R2", "R7")
async def test_codex_plans_and_the_batches_are_printed(live):
    async with play({"lanes": {"planner": planner(json.dumps(PLAN))}}) as server:
        configure(live, server)
        code, out, err = await live.run_async(
            "run", "--provider", "regions", "--mode", "plan", "build auth"
        )
    assert code == 0, err
    assert "Batch 2:\n  3. lib [lib] by codex/scripted-1, after 2" in out


TYPE = "I need the type signature of AuthValidator from /core/auth"


def asked_about(server, text):
    """Return the lanes whose model was sent a text, as part of a request."""
    return {one.lane for one in server.requests if text in json.dumps(one.body)}


@pytest.mark.requirement("R1", "R8", "R20")
async def test_three_regions_at_once_one_asks_a_type_and_one_fails_once(live):
    refused = {"error": {"status": 400, "message": "type mismatch in handler"}}
    lanes = {
        "planner": planner(json.dumps(THREE)),
        "ui": lane(
            "ui",
            asks(TYPE),
            {"expect": ["def validate(self, token: str) -> bool"], **done("page made")},
        ),
        "core": lane("core", refused, done("parser made")),
        "lib": lane("lib", done("helpers made")),
    }
    async with play({"lanes": lanes}) as server:
        configure(live, server)
        code, out, err = await live.run_async(
            "run", "--provider", "regions", "--on-ask", "allow", "build auth"
        )
        # The planner was asked once: whoever wanted a type was answered without a model.
        planned = [one for one in server.requests if "Split a task into subtasks" in str(one.body)]
        knew = asked_about(server, TYPE)
        lanes_asked = {one.lane for one in server.requests}
    assert code == 0, err
    assert out.count("COMPLETED") == 3
    events = live.events()
    assert sorted(spawned(events)) == ["0", "1", "2"]
    assert states_of(events)[-4:] == ["done", "retrying", "running", "completed"]
    asked = of_type(events, "question_asked")
    assert "FAILED" in asked[-1]["question"]
    assert 1 <= len(planned) <= 2  # Codex may ask once more before the turn's end reaches it
    assert knew == {"ui"}  # 0 tokens: no model but the asker's own ever saw the question
    assert lanes_asked == {"planner", "ui", "core", "lib"}


@pytest.mark.requirement("R1", "R8")
async def test_a_person_has_claude_work_beside_codex_and_its_question_reaches_no_model(live):
    if importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed")
    lanes = {
        "planner": planner(json.dumps(THREE)),
        "ui": lane(
            "ui",
            asks(TYPE),
            {"expect": ["def validate(self, token: str) -> bool"], **done("page made")},
        ),
        "core": lane("core", done("parser made")),
        "lib": lane("lib", done("helpers made")),
    }
    async with play({"lanes": lanes}) as server:
        claude = {"base_url": server.root_url, "api_key_env": "LIVE_TEST_KEY"}
        configure(live, server, claude=claude)
        code, out, err = await live.run_async(
            "run", "--provider", "regions", "--on-ask", "allow", "build auth, use claude for /ui"
        )
        knew = asked_about(server, TYPE)
    assert code == 0, err
    assert out.count("COMPLETED") == 3, out + err
    vendors = {
        one["labels"]["regions/name"]: one["provider"]
        for one in of_type(live.events(), "agent_spawned")
        if "regions/name" in one["labels"]
    }
    assert vendors == {"ui": "claude", "core": "codex", "lib": "codex"}
    assert knew == {"ui"}
