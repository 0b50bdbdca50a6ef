"""A real Codex that was answered is forked at the question, and answered otherwise."""

from __future__ import annotations

import json

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

QUESTION = {"question": "Which colour?", "options": ["red-5310", "blue-7431"]}
DONE = {"tool": "task_complete", "arguments": {"summary": "painted in ${/((?:red|blue)-[0-9]+)/}"}}


def lane(*steps):
    """Return the scenario of a master that is alone."""
    return {"lanes": {"master": {"marker": "Paint the house", "steps": list(steps)}}}


def events(prsm, session):
    """Return all events of a session."""
    return [json.loads(line) for line in prsm.run("events", session, "--json").stdout.splitlines()]


async def answered(prsm, *words, answer):
    """Run or resume in a process of its own, answer the person's question; return the session."""
    code, out, err = await prsm.run_async(*words, "--detach")
    assert code == 0, err
    session = out.strip()
    follower = await prsm.start("attach", "--ui", "json", session)
    asked = None
    while asked is None:
        event = json.loads(await follower.stdout.readline())
        asked = event["request"] if event["type"] == "question_asked" else None
    follower.kill()
    await follower.wait()
    assert (await prsm.run_async("answer", asked, answer))[0] == 0
    await prsm.until_gone()
    return session


async def test_a_fork_of_a_real_codex_at_a_question_ends_otherwise(prsm):
    ask = {"call": {"tool": "ask_user", "arguments": QUESTION}}
    async with ModelServer(lane(ask, {"expect": ["red-5310"], "call": DONE})) as server:
        prsm.configure(server.base_url)
        origin = await answered(prsm, "run", "Paint the house", answer="red-5310")
        assert server.failures == []
        assert server.unplayed == {}
    told = events(prsm, origin)
    [asked] = [event["seq"] for event in told if event["type"] == "question_asked"]
    forked = json.loads(prsm.run("fork", origin, "--at", str(asked), "--json").stdout)["session"]
    async with ModelServer(
        lane({"expect": ["Paint the house", "ask_user"], "call": DONE})
    ) as server:
        prsm.configure(server.base_url)
        assert await answered(prsm, "resume", forked, answer="blue-7431") == forked
        assert server.failures == []
        assert server.unplayed == {}
    assert prsm.processes() == []
    ends = [events(prsm, session)[-1] for session in (origin, forked)]
    assert [end["status"] for end in ends] == ["completed", "completed"]
    assert [end["summary"] for end in ends] == ["painted in red-5310", "painted in blue-7431"]
    assert events(prsm, origin) == told
    first = json.loads(prsm.run("diff", origin, forked, "--json").stdout)["first"]
    assert (first["kind"], first["agent"]) == ("decision", "master")
    assert first["what"].startswith("question: Which colour?")
    assert [first[side]["answer"]["choices"] for side in "ab"] == [["red-5310"], ["blue-7431"]]
