"""The json frontend prints committed events of its run, one a line."""

import asyncio
import io
import json

import pytest

from prsm_core.builtin.json_frontend import JsonFrontend
from prsm_core.domain.events import Event


@pytest.mark.requirement("D4")
async def test_each_committed_event_is_a_line_and_run_finished_is_the_last(app, settled):
    out = io.StringIO()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(JsonFrontend({}, out=out).run(app))
        await settled()
        app.say("notice", run="run-0", level="info", text="of another run")
        app.spawn()
        app.say("text_delta", "m", live=True, text="not committed")
        app.say("message_completed", "m", turn="t", role="assistant", text="a\u2028b\x1b")
        app.finish()
    lines = out.getvalue().split("\n")
    assert lines.pop() == ""
    assert out.getvalue().isascii()
    events = [json.loads(line) for line in lines]
    assert [event["type"] for event in events] == [
        "run_started",
        "agent_spawned",
        "message_completed",
        "run_finished",
    ]
    assert list(events[0]) == ["seq", "ts", "session", "run", "agent", "type", "task", "workspace"]
    assert [Event.from_dict(event).to_dict() for event in events] == events
    assert task.result() == 0


async def test_an_end_of_a_process_before_the_one_that_goes_on_is_not_the_last_line(app, settled):
    out = io.StringIO()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(JsonFrontend({}, out=out).run(app))
        run = await app.started()
        run.since = 3
        app.say("run_finished", status="interrupted")
        app.say("run_resumed", epoch=2)
        await settled()
        assert not task.done()
        app.finish()
    types = [json.loads(line)["type"] for line in out.getvalue().splitlines()]
    assert types == ["run_started", "run_finished", "run_resumed", "run_finished"]
    assert task.result() == 0
