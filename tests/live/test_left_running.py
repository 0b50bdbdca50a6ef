"""What a dead engine has left running for a while does nothing by itself, and nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from prsm_testing.model_server import ModelServer

from tests.engine.hostile import state_of, until
from tests.live.test_images import asked, configured
from tests.live.test_resume import detached

pytestmark = pytest.mark.live

__all__ = ["configured"]  # a fixture

TASK = "Paint the house"
ANSWER = "ultramarine-7431"
ASK = {"tool": "ask_user", "arguments": {"question": "Which colour?", "options": ["blue", "red"]}}
COMPLETE = {"tool": "task_complete", "arguments": {"summary": "painted"}}
LANE = {"marker": TASK, "steps": [{"call": ASK}, {"expect": [ANSWER], "call": COMPLETE}]}


def shims(prsm):
    """Return the processes that end the vendor's once their engine is dead."""
    return [
        pid
        for pid in prsm.processes()
        if b"reaper_shim" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@pytest.mark.requirement("F2", "N4")
@pytest.mark.parametrize("configured", ["codex", "claude"], indirect=True)
async def test_a_program_whose_engine_is_dead_asks_its_model_nothing_until_it_is_killed(
    prsm, configured
):
    async with ModelServer({"lanes": {"master": LANE}}) as server:
        configured(server)
        session, pid = await detached(prsm, "run", TASK)
        request = await asked(prsm, session)
        for shim in shims(prsm):  # as on a machine that is too busy to run them
            os.kill(shim, signal.SIGSTOP)
            await until(lambda shim=shim: state_of(shim) == "T", "the shim has stopped")
        os.kill(pid, signal.SIGKILL)
        await detached(prsm, "resume")  # it kills what is left
        assert await asked(prsm, session) == request
        assert len(server.requests) == 1
        assert (await prsm.run_async("answer", request, ANSWER))[0] == 0
        await prsm.until_gone()
        assert (server.failures, server.unplayed) == ([], {})
        # A busy machine may ask once more before the turn that has completed its task is ended.
        assert all(ANSWER in later.conversation.text for later in server.requests[1:])
    [done] = [event for event in await prsm.ledger() if event["type"] == "run_finished"]
    assert done["summary"] == "painted"
