"""A tree of real agents whose engine is killed goes on: nothing is asked, told or done twice."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

ANSWER = "ultramarine-7431"
SCENARIO = {
    "lanes": {
        "master": {
            "marker": "Paint the house",
            "steps": [
                {
                    "call": {
                        "id": "child",
                        "tool": "spawn_child",
                        "arguments": {"name": "painter", "prompt": "[[lane:painter]] Paint."},
                    }
                },
                {"call": {"id": "asked", "tool": "wait_for_message", "arguments": {}}},
                {
                    "call": {
                        "id": "said",
                        "tool": "ask_user",
                        "arguments": {"question": "Which colour?", "options": ["blue", "red"]},
                    }
                },
                {
                    "expect": [ANSWER],
                    "call": {
                        "tool": "respond_to_child",
                        "arguments": {
                            "child_id": "${asked.from}",
                            "correlation_id": "${asked.correlation_id}",
                            "response": ANSWER,
                        },
                    },
                },
                {"call": {"id": "done", "tool": "wait_for_message", "arguments": {}}},
                {"call": {"tool": "task_complete", "arguments": {"summary": "${done.summary}"}}},
            ],
        },
        "painter": {
            "steps": [
                {
                    "call": {
                        "id": "reply",
                        "tool": "ask_parent",
                        "arguments": {"question": "Which colour is it to be?"},
                    }
                },
                {
                    "expect": [ANSWER],
                    "call": {"tool": "task_complete", "arguments": {"summary": "painted"}},
                },
            ]
        },
    }
}


async def detached(prsm, *words):
    """Have a process of its own run or resume; return the session and its pid."""
    code, out, err = await prsm.run_async(*words, "--detach")
    assert code == 0, err
    [pid] = re.findall(r"process (\d+) runs it", err)
    return out.strip(), int(pid)


async def until_asked(prsm, session):
    """Wait until both the person and the parent are asked; return the person's request."""
    follower = await prsm.start("attach", "--ui", "json", session)
    request, waiting = None, set()
    while request is None or "waiting_for_parent" not in waiting:
        event = json.loads(await follower.stdout.readline())
        if event["type"] == "question_asked":
            request = event["request"]
        elif event["type"] == "agent_state_changed":
            waiting.add(event["to"])
    follower.kill()
    await follower.wait()
    return request


def outputs(request):
    """Return how often each call of a model request was given an output."""
    return Counter(
        item["call_id"] for item in request.body["input"] if item["type"] == "function_call_output"
    )


@pytest.mark.parametrize(("number", "kills"), [(signal.SIGKILL, 3), (signal.SIGINT, 1)])
async def test_a_tree_of_codex_goes_on(prsm, number, kills):
    async with ModelServer(SCENARIO) as server:
        prsm.configure(server.base_url)
        session, pid = await detached(prsm, "run", "Paint the house")
        request = await until_asked(prsm, session)
        for _ in range(kills):
            os.kill(pid, number)
            await prsm.until_gone()
            again, pid = await detached(prsm, "resume")
            assert again == session
            assert await until_asked(prsm, session) == request
        assert (await prsm.run_async("answer", request, ANSWER))[0] == 0
        await prsm.until_gone()
        assert server.failures == []
        assert server.unplayed == {}
        for request in server.requests:
            assert set(outputs(request).values()) <= {1}
    assert prsm.processes() == []
    events = [
        json.loads(line) for line in prsm.run("events", session, "--json").stdout.splitlines()
    ]
    last = events[-1]
    assert (last["type"], last["status"], last["summary"]) == (
        "run_finished",
        "completed",
        "painted",
    )
    kinds = [event["type"] for event in events]
    assert kinds.count("agent_spawned") == 2
    assert kinds.count("question_asked") == 1
    assert kinds.count("run_resumed") == kills
