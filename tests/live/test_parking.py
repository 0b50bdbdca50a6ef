"""A chain of real agents with fewer processes than agents: who only waits gives its process away.

Nothing is asked, told or done twice, and nothing is lost, however often a session is closed and
another one is opened for the same turn.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from prsm_testing.model_server import ModelServer
from prsm_testing.playback import Call

from tests.live.family import command_line
from tests.live.minds import Known, Minds, answers_in

pytestmark = pytest.mark.live
pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

TASK = "Paint the house"
CHAIN = ("master", "middle", "leaf")
CHILD = {"master": "middle", "middle": "leaf"}
SUMMARY = "master: middle heard middle-7431: leaf heard leaf-7431"


def call(tool, **arguments):
    """Return a call of one of the engine's tools."""
    return Call(id=tool, tool=tool, arguments=arguments)


def of_the_chain(name):
    """Return a mind: have a child work, answer what it asks, ask the parent, and tell all."""

    def mind(known: Known):
        got = known.of("wait_for_message")
        questions = [message for message in got if message["type"] == "question"]
        results = [message["summary"] for message in got if message["type"] == "task_result"]
        child, parent = CHILD.get(name), name != "master"
        if child and not known.of("spawn_child"):
            return [call("spawn_child", name=child, prompt=f"[[lane:{child}]] Work.")]
        if len(questions) > len(known.of("respond_to_child")):
            about = {"child_id": questions[0]["from"]}
            about["correlation_id"] = questions[0]["correlation_id"]
            return [call("respond_to_child", response=f"{child}-7431", **about)]
        if child and not results:
            return [call("wait_for_message")]
        if parent and not known.of("ask_parent"):
            return [call("ask_parent", question=f"What is {name} to hear?")]
        heard = [f"{name} heard {reply['answer']}" for reply in known.of("ask_parent")]
        return [call("task_complete", summary=": ".join([*(heard or [name]), *results]))]

    return mind


MINDS = {
    "master": (TASK, of_the_chain("master")),
    **{name: (f"[[lane:{name}]]", of_the_chain(name)) for name in CHAIN[1:]},
}


class CountingMinds(Minds):
    """Minds that look, as each is asked, how many CLIs there are."""

    def __init__(self, prsm) -> None:
        super().__init__(MINDS)
        self._prsm = prsm
        self.crowd = 0

    def answer(self, conversation):
        """Answer a request; see Minds."""
        clis = [pid for pid in self._prsm.processes() if is_cli(pid)]
        self.crowd = max(self.crowd, len(clis))
        return super().answer(conversation)


def is_cli(pid):
    """Return whether a process is Claude Code itself, and not the shim above it."""
    program, *_ = command_line(pid).split(b"\0")
    return Path(program.decode()).name == "claude"


@pytest.mark.parametrize(("limit", "parked"), [(1, {*CHAIN}), (2, {"master"})])
async def test_a_chain_goes_through_with_fewer_processes_than_agents(bare_prsm, limit, parked):
    prsm, minds = bare_prsm, CountingMinds(bare_prsm)
    async with ModelServer(minds) as server:
        prsm.write(
            {
                "engine": {"max_resident_processes": limit},
                "defaults": {"provider": "claude", "model": "claude-scripted-1"},
                "providers": {
                    "claude": {"base_url": server.root_url, "api_key_env": "LIVE_TEST_KEY"}
                },
            }
        )
        code, out, err = await prsm.run_async("run", TASK, "--ui", "json")
        assert code == 0, err
        await prsm.until_gone()
    assert (server.failures, minds.crowd) == ([], limit)
    told = [json.loads(line) for line in out.splitlines()]
    assert (told[-1]["type"], told[-1]["summary"]) == ("run_finished", SUMMARY)
    names = {event["agent"]: event["name"] for event in told if event["type"] == "agent_spawned"}
    waited = {
        names[event["agent"]]
        for event in told
        if event["type"] == "notice" and "max_resident_processes" in event["text"]
    }
    assert waited >= parked
    kinds = Counter(event["type"] for event in told)
    assert kinds["turn_started"] == kinds["turn_finished"] == kinds["agent_spawned"] == len(CHAIN)
    for agent, name in names.items():
        own = [event for event in told if event.get("agent") == agent]
        check_requests(name, [one for one in server.requests if one.lane == name], own)


def check_requests(name, requests, told):
    """Each request holds the prompt, and each answer that there was by then, exactly once."""
    begun = {e["call"]: e["tool"] for e in told if e["type"] == "tool_call_started"}
    results = {e["call"]: e["result"] for e in told if e["type"] == "tool_call_finished"}
    own = [[tool, json.loads(results[one])] for one, tool in begun.items()]
    marker, known = MINDS[name][0], 0
    for request in requests:
        asked = request.conversation
        assert sum(text.count(marker) for text in asked.user) == 1
        held = [[one.tool, one.data] for one in answers_in(asked) if one.data is not None]
        assert sorted(held, key=str) == sorted(own[: len(held)], key=str)
        assert len(held) >= known
        known = len(held)
    assert known >= len(own) - 1, "all but the answer of task_complete was heard"
