"""Real programs show their models the image of a prompt, also once they were killed."""

from __future__ import annotations

import base64
import json
import os
import signal

import pytest

from prsm_core.testing.model_server import ModelServer
from tests.live.test_resume import detached

pytestmark = pytest.mark.live

PIXELS = (
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAF0lEQVR4nGP4z8BAEiJN9aiGUQ1DSgMAkPn/Afnh+"
    "ngAAAAASUVORK5CYII="
)
ASK = {"tool": "ask_user", "arguments": {"question": "Is it blue?", "options": ["yes", "no"]}}
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


@pytest.fixture(params=["codex", "claude"])
def configured(request, prsm):
    """Configure a provider; return where its models are served."""

    def configure(server):
        if request.param == "codex":
            prsm.configure(server.base_url)
            return
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
        section = {"base_url": server.root_url, "api_key_env": "LIVE_TEST_KEY"}
        prsm.write(
            {
                "defaults": {"provider": "claude", "model": "claude-scripted-1"},
                "providers": {"claude": section},
            }
        )

    return configure


async def asked(prsm, session):
    """Wait until the person is asked; return the request."""
    follower = await prsm.start("attach", "--ui", "json", session)
    while (event := json.loads(await follower.stdout.readline()))["type"] != "question_asked":
        pass
    follower.kill()
    await follower.wait()
    return event["request"]


async def test_the_image_of_a_task_is_in_each_request_to_its_model_once(prsm, configured):
    file = prsm.workspace / "screen.png"
    file.write_bytes(base64.b64decode(PIXELS))
    async with ModelServer(LANES) as server:
        configured(server)
        words = ("run", "--image", str(file), "What is on it?")
        session, pid = await detached(prsm, *words)
        request = await asked(prsm, session)
        file.unlink()  # what is shown is kept
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
    assert "a red square" in out
    assert PIXELS not in out
