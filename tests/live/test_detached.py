"""A run on the real Codex that nobody's terminal owns, and two frontends that follow it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

QUESTION = {"question": "Which colour?", "options": ["red", "blue"]}
SCENARIO = {
    "lanes": {
        "master": {
            "marker": "Paint it",
            "steps": [
                {"call": {"id": "said", "tool": "ask_user", "arguments": QUESTION}},
                {
                    "expect": ["blue"],
                    "call": {"tool": "task_complete", "arguments": {"summary": "painted blue"}},
                },
                {"say": "done"},
            ],
        }
    }
}


async def until(process, kind):
    """Read an attached frontend's events up to the first of a kind; return them."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != kind:
        events.append(json.loads(await process.stdout.readline()))
    return events


@pytest.mark.requirement("D3")
async def test_two_frontends_follow_a_detached_run_and_the_kill_of_one_changes_nothing(prsm):
    follow = ("attach", "--ui", "json")
    async with ModelServer(SCENARIO) as server:
        prsm.configure(server.base_url)
        code, out, err = await prsm.run_async("run", "Paint it", "--detach", "--json")
        assert code == 0, err
        told = json.loads(out)
        first, second = [await prsm.start(*follow, told["session"]) for _ in range(2)]
        heads = [await until(each, "question_asked") for each in (first, second)]
        assert heads[0] == heads[1]
        first.kill()
        await first.wait()
        again = await prsm.start(*follow)
        assert await until(again, "question_asked") == heads[1]
        request = heads[1][-1]["request"]
        assert (await prsm.run_async("answer", request, "blue"))[0] == 0
        rests = [(await each.communicate())[0].splitlines() for each in (second, again)]
        assert server.failures == []
    shown = [[json.loads(line) for line in rest] for rest in rests]
    assert shown[0] == shown[1]
    assert (second.returncode, again.returncode) == (0, 0)
    last = shown[0][-1]
    assert (last["type"], last["run"]) == ("run_finished", told["run"])
    assert (last["status"], last["summary"]) == ("completed", "painted blue")
    await prsm.until_gone()
    assert prsm.processes() == []
