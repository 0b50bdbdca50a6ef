"""A lead takes the results of its whole team by one call, on the real CLIs."""

from __future__ import annotations

import json

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

LANES = [f"child{number}" for number in range(8)]
TASK = "Lead the team"


def summary_of(lane: str, size: int) -> str:
    """Return a summary whose middle and end can be looked for."""
    return f"{lane} begins {'x' * (size // 2)} {lane} is half way {'y' * (size // 2)} {lane} ends"


def words_of(lane: str) -> list[str]:
    return [f"{lane} begins", f"{lane} is half way", f"{lane} ends"]


def scenario(size: int, waits: int) -> dict:
    """Return eight children with summaries of this size, and a lead that waits for all."""

    def call(tool, **arguments):
        return {"call": {"tool": tool, "arguments": arguments}}

    children = [{"prompt": f"[[lane:{lane}]] Do your part."} for lane in LANES]
    took_all = {"expect": [word for lane in LANES for word in words_of(lane)]}
    return {
        "lanes": {
            "lead": {
                "marker": TASK,
                "steps": [
                    call("spawn_children_parallel", children=children),
                    *[call("wait_for_message", all=True)] * waits,
                    {**took_all, **call("task_complete", summary="all of it")},
                    {"hang": True},
                ],
            },
            **{
                lane: {
                    "steps": [
                        call("task_complete", summary=summary_of(lane, size)),
                        {"hang": True},
                    ]
                }
                for lane in LANES
            },
        }
    }


def sections(prsm, server, gemini) -> dict[str, dict]:
    """Return how each vendor's CLI comes to the model server."""
    key = {"api_key_env": "LIVE_TEST_KEY"}
    return {
        "claude/claude-scripted-1": {"claude": {"base_url": server.root_url, **key}},
        "codex/scripted-1": {
            "codex": {"command": [prsm.codex], "base_url": server.base_url, **key}
        },
        "gemini/gemini-2.5-pro": {
            "gemini": {"command": [gemini], "base_url": server.root_url, **key}
        },
    }


# Codex cuts the middle out of an answer that is too long: two of the long ones are not.
@pytest.mark.requirement("U32")
@pytest.mark.parametrize(("size", "waits"), [(40, 1), (3_800, 4)])
@pytest.mark.parametrize(
    "model", ["codex/scripted-1", "claude/claude-scripted-1", "gemini/gemini-2.5-pro"]
)
async def test_a_lead_has_the_results_of_eight_children_whole_by_as_few_calls_as_can_be(
    prsm, gemini, model, size, waits
):
    async with ModelServer(scenario(size, waits)) as server:
        provider, name = model.split("/")
        config = {"defaults": {"provider": provider, "model": name}}
        prsm.write({**config, "providers": sections(prsm, server, gemini)[model]})
        code, out, err = await prsm.run_async("run", "--json", TASK)
        assert server.failures == []
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0, (events[-1:], err)
    results = [event["result"] or "{}" for event in events if event["type"] == "tool_call_finished"]
    answers = [one for one in map(json.loads, results) if one.get("type") == "task_result"]
    messages = [message for answer in answers for message in (answer, *answer.get("others", ()))]
    assert len({message["from"] for message in messages}) == len(messages) == len(LANES)
    led = [request for request in server.requests if request.lane == "lead"]
    # Gemini asks once more after its end, and gets no answer.
    assert waits + 2 <= len(led) <= waits + 3
