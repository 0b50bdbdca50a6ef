"""Real programs show their models what a person refers to by `@path`, and it is read once."""

from __future__ import annotations

import base64
import json
import os
import signal

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.test_images import ASK, COMPLETE, PIXELS, WAIT, asked, configured, lane
from tests.live.test_resume import detached

__all__ = ["configured"]  # the fixture
pytestmark = pytest.mark.live


@pytest.mark.parametrize("configured", ["codex", "claude"], indirect=True)
async def test_what_a_person_refers_to_is_shown_also_after_a_kill(prsm, configured):
    notes, shot = prsm.workspace / "notes.md", prsm.workspace / "shot.png"
    notes.write_text("one\ntwo: the blue heron\nthree\n")
    shot.write_bytes(base64.b64decode(PIXELS))
    steps = (
        {"call": ASK},
        {"expect": ["no"], "call": WAIT},
        {"expect": ["Look at", "the blue heron"], "call": COMPLETE},
    )
    async with ModelServer(lane(*steps)) as server:
        configured(server)
        session, pid = await detached(prsm, "run", "What is on it? See @notes.md:2, not @you.")
        request = await asked(prsm, session)
        words = ("prompt", "--delivery", "queue", "master", "Look at @shot.png and @gone.md.")
        assert (await prsm.run_async(*words))[:2] == (0, "queued\n")
        notes.unlink()
        shot.unlink()
        os.kill(pid, signal.SIGKILL)
        await prsm.until_gone()
        await detached(prsm, "resume")
        assert await asked(prsm, session) == request
        assert (await prsm.run_async("answer", request, "no"))[0] == 0
        await prsm.until_gone()
        assert server.failures == []
        bodies = [json.dumps(one.body) for one in server.requests if one.lane == "master"]
    assert [body.count("the blue heron") for body in bodies] == [1] * len(bodies)
    assert (bodies[0].count(PIXELS), bodies[-1].count(PIXELS)) == (0, 1)
    code, out, err = await prsm.run_async("history", "master", "--session", session)
    assert code == 0, err
    assert "What is on it? See @notes.md:2, not @you." in out
    assert "heron" not in out
    code, out, err = await prsm.run_async("events", session)
    assert "@gone.md is not shown: there is no such file in the workspace" in out, err
