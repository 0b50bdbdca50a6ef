"""A program has a real Codex, which is at work, answered for by one that continues it."""

from __future__ import annotations

import json

import pytest
from prsm_testing.model_server import ModelServer

from tests.site_folder import Site

pytestmark = pytest.mark.live

PROGRAM = """
from contextlib import asynccontextmanager


class Session(ProviderSession):
    def __init__(self, host):
        self.host = host

    async def call(self, tool, **arguments):
        outcome = await self.host.call_tool(tool, arguments)
        assert not outcome.is_error, outcome.text
        return outcome.data

    async def run_turn(self, context):
        codex = {"model": "codex/scripted-1"}
        await self.call("spawn_child", prompt="[[lane:owner]] Read src/core.", name="owner",
                        labels={"planner/task": "0"}, **codex)
        asked = await self.call("wait_for_message")
        await self.call("spawn_child", prompt="Signature of parse, only.", name="asked",
                        continues="owner", labels={"planner/task": None}, **codex)
        answer = await self.call("wait_for_message")
        await self.call("respond_to_child", child_id="owner", response="go on",
                        correlation_id=asked["correlation_id"])
        done = await self.call("wait_for_message")
        await self.host.relabel({"planner/state": "done"})
        await self.call("task_complete", summary=f"{answer['summary']}; {done['summary']}")
        yield TurnEnded(StopReason.END_TURN)


class Planner(Provider):
    def __init__(self, settings, services):
        pass

    @asynccontextmanager
    async def open_session(self, request, host):
        yield Session(host)


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="planner", summary="A program.", factory=Planner, program=True,
                       selectable=False)
"""
SCENARIO = {
    "lanes": {
        "owner": {
            "steps": [
                {
                    "say": "I have read parse-4711.",
                    "call": {"tool": "ask_parent", "arguments": {"question": "Go on?"}},
                },
                {
                    "expect": ["go on"],
                    "call": {
                        "tool": "task_complete",
                        "arguments": {"summary": "core is written"},
                    },
                },
                {"hang": True},
            ]
        },
        "asked": {
            "marker": "<conversation_so_far>",
            "steps": [
                {
                    "expect": ["I have read parse-4711.", "ask_parent", "Signature of parse"],
                    "call": {
                        "tool": "task_complete",
                        "arguments": {"summary": "it is ${/(parse-[0-9]+)/}"},
                    },
                },
                {"hang": True},
            ],
        },
    }
}


@pytest.fixture
def planner(prsm, tmp_path):
    """Let `prsm` have the program."""
    folder = tmp_path / "site"
    folder.mkdir()
    Site(folder).add("planner", PROGRAM)
    prsm.env["PYTHONPATH"] = str(folder)
    return prsm


async def test_one_that_continues_a_real_codex_knows_what_that_has_read(planner):
    async with ModelServer(SCENARIO) as server:
        planner.configure(server.base_url)
        words = ("run", "Plan it", "--provider", "planner", "--model", "default", "--json")
        code, out, err = await planner.run_async(*words, "--label", "team=core")
        assert code == 0, out + err
        assert server.failures == []
    events = [json.loads(line) for line in out.splitlines()]
    assert events[-1]["summary"] == "it is parse-4711; core is written"
    born = {event["name"]: event for event in events if event["type"] == "agent_spawned"}
    assert born["owner"]["labels"] == {"planner/task": "0", "team": "core"}
    assert born["asked"]["labels"] == {"team": "core"}
    assert born["asked"]["continues"] == born["owner"]["agent"]
    said = [event["labels"] for event in events if event["type"] == "agent_labels_changed"]
    assert said == [{"planner/state": "done", "team": "core"}]
