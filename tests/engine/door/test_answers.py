"""Answers go back to whoever asked: by pieces to who streams, in blocks to who does not."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from msgspec.structs import replace
from prsm_console.streams import Token, open_execution
from prsm_testing import until

from prsm_core.builtin.json_frontend import JsonFrontend
from prsm_core.engine.control.remote import open_remote
from tests.engine.control_peers import SESSION, serving
from tests.engine.door.scenes import local_scene
from tests.engine.harness import DEADLINE


async def tell(agent):
    """Answer in three pieces, once somebody hears."""
    await until(lambda: agent.session.provider.memory["heard"])
    whole = f"this is for {agent.text}"
    for piece in ("this ", "is for ", str(agent.text)):
        await agent.begin_to_say(piece)
    await agent.say(whole)
    await agent.complete(whole)


def pieces_in(events):
    return [event.text for event in events if isinstance(event, Token)]


@pytest.mark.requirement("D26")
async def test_of_two_clients_each_gets_the_answer_to_its_own_task_in_its_own_form(tmp_path):
    """Both are processes of their own, beside the owner of the session."""
    state = tmp_path / "owner" / "state"
    streamed: list[Any] = []
    async with asyncio.timeout(DEADLINE), local_scene(tmp_path / "owner") as scene:
        scene.team.provider.behaviours.update(master=tell, m1=tell)
        async with (
            serving(state, scene.app),
            open_remote(state, SESSION) as one,
            open_remote(state, SESSION) as other,
            open_execution(one, "one") as execution,
        ):
            execution.stream.on_event(streamed.append)
            await until(lambda: scene.team.engine.feed._readers)
            scene.team.provider.memory["heard"]["by"] = "the test"
            await until(lambda: not scene.team.engine.is_running)
            printed, other.options = io.StringIO(), replace(other.options, task="two")
            assert await JsonFrontend({}, out=printed).run(other) == 0
            first = await execution.result()
    assert first.summary == "this is for one"
    assert pieces_in(streamed) == ["this ", "is for ", "one"]
    told = [json.loads(line) for line in printed.getvalue().splitlines()]
    assert {event["run"] for event in told} != {execution.run.run_id}
    assert [event["text"] for event in told if event["type"] == "message_completed"] == [
        "two",
        "this is for two",
    ]
    assert told[-1]["summary"] == "this is for two"
    assert all(event["seq"] for event in told), "no piece is among them"
