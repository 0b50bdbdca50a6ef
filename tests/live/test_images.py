"""Real programs show their models the image of a prompt, also once they were killed."""

from __future__ import annotations

import base64
import json
import os
import signal

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.test_resume import detached

pytestmark = pytest.mark.live

PIXELS = (
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAF0lEQVR4nGP4z8BAEiJN9aiGUQ1DSgMAkPn/Afnh+"
    "ngAAAAASUVORK5CYII="
)
ASK = {"tool": "ask_user", "arguments": {"question": "Is it blue?", "options": ["yes", "no"]}}
MODELS = {"claude": "claude-scripted-1", "gemini": "gemini-3-flash-preview"}
LANES = {
    "lanes": {
        "master": {
            "marker": "What is on it?",
            "steps": [
                {"call": ASK},
                {
                    "expect": ["no"],
                    "call": {"tool": "task_complete", "arguments": {"summary": "a red square"}},
                },
            ],
        }
    }
}


@pytest.fixture
def configured(request, prsm):
    """Configure the provider of the test's parameter."""

    def configure(server):
        if request.param == "codex":
            prsm.configure(server.base_url)
            return
        section = {"base_url": server.root_url, "api_key_env": "LIVE_TEST_KEY"}
        if request.param == "gemini":
            section["command"] = [request.getfixturevalue("gemini")]
        else:
            pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
        defaults = {"provider": request.param, "model": MODELS[request.param]}
        prsm.write({"defaults": defaults, "providers": {request.param: section}})

    return configure


async def asked(prsm, session):
    """Wait until the person is asked; return the request."""
    follower = await prsm.start("attach", "--ui", "json", session)
    while (event := json.loads(await follower.stdout.readline()))["type"] != "question_asked":
        pass
    follower.kill()
    await follower.wait()
    return event["request"]


@pytest.fixture
def screen(prsm):
    file = prsm.workspace / "screen.png"
    file.write_bytes(base64.b64decode(PIXELS))
    return file


@pytest.mark.parametrize("configured", ["codex", "claude", "gemini"], indirect=True)
async def test_the_image_of_a_task_is_shown_to_its_model(prsm, configured, screen):
    steps = [{"call": {"tool": "task_complete", "arguments": {"summary": "a red square"}}}]
    lane = {"marker": "What is on it?", "steps": steps}
    async with ModelServer({"lanes": {"master": lane}}) as server:
        configured(server)
        code, out, err = await prsm.run_async("run", "--image", str(screen), "What is on it?")
        assert (code, out) == (0, "a red square\n"), err
        of_master = [one for one in server.requests if one.lane == "master"]
    assert [json.dumps(one.body).count(PIXELS) for one in of_master] == [1] * len(of_master)


@pytest.mark.parametrize("configured", ["codex", "claude"], indirect=True)
async def test_an_image_is_shown_once_also_after_a_kill(prsm, configured, screen):
    async with ModelServer(LANES) as server:
        configured(server)
        words = ("run", "--image", str(screen), "What is on it?")
        session, pid = await detached(prsm, *words)
        request = await asked(prsm, session)
        screen.unlink()  # what is shown is kept
        os.kill(pid, signal.SIGKILL)
        await prsm.until_gone()
        await detached(prsm, "resume")
        assert await asked(prsm, session) == request
        assert (await prsm.run_async("answer", request, "no"))[0] == 0
        await prsm.until_gone()
        assert server.failures == []
        assert server.unplayed == {}
        of_master = [one for one in server.requests if one.lane == "master"]
    assert len(of_master) >= 2
    assert [json.dumps(one.body).count(PIXELS) for one in of_master] == [1] * len(of_master)
    code, out, err = await prsm.run_async("events", session)
    assert code == 0, err
    told = [(one.lane, json.dumps(one.body)[-2000:]) for one in server.requests]
    assert "a red square" in out, f"{out}\n{told}"
    assert PIXELS not in out


def lane(*steps):
    return {"lanes": {"master": {"marker": "What is on it?", "steps": list(steps)}}}


COMPLETE = {"tool": "task_complete", "arguments": {"summary": "a red square"}}
WAIT = {"tool": "wait_for_message", "arguments": {}}


async def prompted(prsm, screen, delivery):
    words = ("prompt", "--delivery", delivery, "--image", str(screen), "master", "Look at this.")
    code, out, err = await prsm.run_async(*words)
    assert code == 0, err
    screen.unlink()  # what is shown is kept
    return out


def times_shown(server):
    """Return how often each request of the master has the image."""
    of_master = [one for one in server.requests if one.lane == "master"]
    return [json.dumps(one.body).count(PIXELS) for one in of_master]


@pytest.mark.parametrize("configured", ["codex", "claude"], indirect=True)
async def test_an_image_goes_with_a_prompt_into_the_turn_that_runs(prsm, configured, screen):
    steps = ({"call": ASK}, {"expect": ["no", "Look at this."], "call": COMPLETE})
    async with ModelServer(lane(*steps)) as server:
        configured(server)
        session, _ = await detached(prsm, "run", "What is on it?")
        request = await asked(prsm, session)
        assert await prompted(prsm, screen, "inject") == "injected\n"
        assert (await prsm.run_async("answer", request, "no"))[0] == 0
        await prsm.until_gone()
        assert server.failures == []
        assert server.unplayed == {}
    shown = times_shown(server)
    assert (shown[0], shown[-1], max(shown)) == (0, 1, 1)


@pytest.mark.parametrize(
    ("configured", "kills"),
    [("codex", False), ("codex", True), ("claude", True)],
    indirect=["configured"],
)
async def test_a_call_that_takes_a_prompt_is_answered_with_its_image(
    prsm, configured, screen, kills
):
    """The prompt waits for it, also while its engine is dead."""
    steps = (
        {"call": ASK},
        {"expect": ["no"], "call": WAIT},
        {"expect": ["Look at this."], "call": COMPLETE},
    )
    async with ModelServer(lane(*steps)) as server:
        configured(server)
        session, pid = await detached(prsm, "run", "What is on it?")
        request = await asked(prsm, session)
        assert await prompted(prsm, screen, "queue") == "queued\n"
        if kills:
            os.kill(pid, signal.SIGKILL)
            await prsm.until_gone()
            await detached(prsm, "resume")
            assert await asked(prsm, session) == request
        assert (await prsm.run_async("answer", request, "no"))[0] == 0
        await prsm.until_gone()
        assert server.failures == []
        assert server.unplayed == {}
    shown = times_shown(server)
    assert (shown[0], shown[-1], max(shown)) == (0, 1, 1)
    code, out, err = await prsm.run_async("events", session)
    assert code == 0, err
    assert "prsm-image:" in out
    assert PIXELS not in out
