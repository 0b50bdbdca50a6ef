"""The extension mode: what an editor says and is told, on a session that a test plays."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prsm_regions.extension.frontend import Leader, Wire
from prsm_regions.extension.messages import LINE_LIMIT
from prsm_testing import ScriptedHub

from prsm_core import Answer, RunResult

DEADLINE = 10.0  # seconds; a test that needs them has failed
YES_NO = ["yes", "no"]  # as its program asks about a plan and a retry
PLAN = {
    "type": "plan",
    "subtasks": [{"name": "ui"}, {"name": "core"}],
    "assignments": [{"subtask_index": 0}, {"subtask_index": 1}],
    "estimated_cost": 15000,
}


class Editor(Wire):
    """The other end: says lines, reads messages."""

    def __init__(self, hub):
        self.hub = hub
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.leader = Leader(hub, self)

    async def tell(self, message):
        await self.told.put(json.loads(json.dumps(message)))

    def say(self, **command):
        self.lines.put_nowait(json.dumps(command).encode())

    async def next(self, kind):
        """The next message, which is of this type."""
        async with asyncio.timeout(DEADLINE):
            message = await self.told.get()
        assert message["type"] == kind, message
        return message

    async def begin(self, **effort):
        self.say(type="run", intent="build it", **effort)
        assert (await self.next("state"))["state"] == "idle"
        app = self.hub.apps[-1]
        app.say("agent_spawned", "m", name="master", parent=None, provider="regions", labels={})
        return app

    async def read(self):
        while (line := await self.lines.get()) is not None:
            yield line


@asynccontextmanager
async def leading():
    editor = Editor(ScriptedHub())
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        task = group.create_task(editor.leader.lead(editor.read()))
        yield editor
        editor.lines.put_nowait(None)
        await task
    assert editor.hub.owned == []


def spawn(app, agent, index, name="w"):
    labels = {"regions/subtask": str(index), "regions/state": "running", "regions/region": "src"}
    app.say("agent_spawned", agent, name=name, parent="m", cwd="/work", labels=labels)


def label(app, agent, state, **more):
    labels = {"regions/state": state, **more}
    app.say("agent_labels_changed", agent, labels=labels)


@pytest.mark.requirement("R22")
async def test_a_run_without_an_effort_has_no_label_that_would_hide_the_configured_one():
    async with leading() as editor:
        app = await editor.begin()
        assert app.options.labels == {}
        finish(app)
        await editor.next("result")


def finish(app, status="completed", error=None):
    code = 0 if status == "completed" else 1
    app.finish(RunResult(status=status, summary="", exit_code=code), error=error)


@pytest.mark.requirement("R21", "R22", "R23")
async def test_a_run_from_its_plan_to_its_result():
    async with leading() as editor:
        app = await editor.begin(effort="high")
        assert (app.options.provider, app.options.labels) == ("regions", {"effort": "high"})
        label(app, "m", "decomposing")
        assert (await editor.next("state"))["state"] == "decomposing"
        app.say("question_asked", "m", request="q1", question="Right?", options=YES_NO, data=PLAN)
        plan = await editor.next("plan")
        assert {name: plan[name] for name in PLAN if name != "type"} == {
            name: PLAN[name] for name in PLAN if name != "type"
        }
        editor.say(type="approve", approved=True)
        label(app, "m", "running")
        assert (await editor.next("state"))["state"] == "running"
        assert app.answers == [("q1", Answer(choices=("yes",)))]

        spawn(app, "a", 0)
        progress = await editor.next("progress")
        assert progress == {
            "type": "progress",
            "subtask_index": 0,
            "agent_id": "a",
            "status": "running",
        }
        port = await editor.next("agent_tcp")
        reader, writer = await asyncio.open_connection("127.0.0.1", port["tcp_port"])
        writer.write(port["token"].encode() + b"\n")
        assert json.loads(await reader.readline())["region"] == "src"
        usage = {"input_tokens": 10, "output_tokens": 5}
        app.say("turn_finished", "a", turn="t", usage=usage, cost_usd=None)
        assert json.loads(await reader.readline())["usage"]["total_tokens"] == 15
        writer.close()
        said = {"summary": "made it"}
        app.say("tool_call_started", "a", call="c", tool="task_complete", arguments=said)
        label(app, "a", "completed", **{"regions/subtask": "0"})
        assert (await editor.next("progress"))["status"] == "completed"
        label(app, "m", "done")
        assert (await editor.next("state"))["state"] == "done"
        finish(app)
        result = await editor.next("result")
        assert result["status"] == "done"
        one, other = result["subtask_results"]
        assert (one["status"], one["summary"], one["cost"]["total_tokens"]) == (
            "completed",
            "made it",
            15,
        )
        assert (other["status"], other["agent_id"]) == ("pending", "")
        assert result["cost"]["total_tokens"] == 15


@pytest.mark.requirement("R22")
async def test_failed_subtasks_are_tried_again_by_their_index():
    async with leading() as editor:
        app = await editor.begin()
        spawn(app, "a", 1)
        await editor.next("progress")
        await editor.next("agent_tcp")
        label(app, "a", "failed", **{"regions/subtask": "1"})
        await editor.next("progress")
        label(app, "m", "done")
        await editor.next("state")
        app.say(
            "question_asked",
            "m",
            request="q",
            question="Retry?",
            options=YES_NO,
            data={"type": "retry"},
        )
        result = await editor.next("result")
        assert [one["status"] for one in result["subtask_results"]] == ["failed"]
        app.say("question_asked", "a", request="own", question="Which?", options=["x"])
        assert (await editor.next("question"))["request"] == "own"
        editor.say(type="answer", request="own", text="x")
        editor.say(type="retry", subtask_indices=[1])
        label(app, "m", "retrying")
        assert (await editor.next("state"))["state"] == "retrying"
        assert app.answers == [("own", Answer(text="x")), ("q", Answer(text="yes 2"))]
        spawn(app, "b", 1)
        assert (await editor.next("progress"))["agent_id"] == "b"
        await editor.next("agent_tcp")
        finish(app, "failed", {"message": "it broke"})
        assert (await editor.next("error"))["message"] == "it broke"
        assert (await editor.next("result"))["status"] == "failed"


@pytest.mark.requirement("R22")
async def test_cancel_refuses_an_open_plan_and_else_ends_the_run():
    async with leading() as editor:
        app = await editor.begin()
        app.say("question_asked", "m", request="q1", question="Right?", options=YES_NO, data=PLAN)
        await editor.next("plan")
        editor.say(type="cancel")
        label(app, "m", "spawning")
        await editor.next("state")
        assert app.answers == [("q1", Answer(choices=("no",)))]
        editor.say(type="cancel")
        label(app, "m", "running")
        await editor.next("state")
        assert app.killed == ["m"]
        finish(app, "killed")
        assert (await editor.next("state"))["state"] == "cancelled"
        assert (await editor.next("result"))["status"] == "cancelled"


async def test_a_permission_is_asked_and_answered():
    async with leading() as editor:
        app = await editor.begin()
        app.say(
            "permission_requested",
            "m",
            request="p",
            tool="Bash",
            command="x",
            options=["once", "deny"],
        )
        asked = await editor.next("permission")
        assert (asked["request"], asked["command"]) == ("p", "x")
        editor.say(type="approve", approved=False, request="p")
        editor.say(type="approve", approved=True, request="p")
        assert (await editor.next("error"))["message"] == "that is answered already"
        assert app.answers == [("p", "deny")]
        finish(app)
        await editor.next("result")


@pytest.mark.requirement("R23")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense", "this line is no command"),
        (b'{"type":"run"}', "this line is no command"),
        (b'{"type":"run","intent":"  "}', "run has no intent"),
        (b'{"type":"run","intent":"x","effort":"huge"}', "this line is no command"),
        (b'{"type":"fly"}', "this line is no command"),
        (b"[" * 10_000, "this line is no command"),
        (b"\xff\xfe", "this line is no command"),
        (b'{"type":"approve","approved":true}', "nothing runs"),
        (b'{"type":"retry","subtask_indices":[0]}', "nothing runs"),
        (b'{"type":"cancel"}', "nothing runs"),
    ],
)
async def test_what_cannot_be_done_is_an_error_and_the_next_line_is_read(line, message):
    async with leading() as editor:
        editor.lines.put_nowait(line)
        error = await editor.next("error")
        assert error["message"].startswith(message)
        assert error["hint"]
        finish(await editor.begin())
        await editor.next("result")


async def test_approving_twice_and_a_second_run_are_refused():
    async with leading() as editor:
        app = await editor.begin()
        app.say("question_asked", "m", request="q1", question="Right?", options=YES_NO, data=PLAN)
        await editor.next("plan")
        editor.say(type="approve", approved=True)
        editor.say(type="approve", approved=True)
        assert (await editor.next("error"))["message"] in {
            "no plan waits",
            "that is answered already",
        }
        editor.say(type="run", intent="another")
        assert (await editor.next("error"))["message"] == "a run goes on"
        editor.say(type="retry", subtask_indices=[0])
        assert (await editor.next("error"))["message"] == "no subtask can be tried again"
        finish(app)
        await editor.next("result")


async def test_when_the_editor_leaves_what_runs_is_interrupted():
    async with leading() as editor:
        app = await editor.begin()
        label(app, "m", "running")
        await editor.next("state")
        assert app.attended > 0
    assert app.readers == 0


async def test_an_editor_that_reads_no_more_has_left():
    async with leading() as editor:
        app = await editor.begin()

        async def gone(_message):
            raise BrokenPipeError

        editor.tell = gone
        label(app, "m", "running")
    assert app.readers == 0


async def test_a_line_that_is_too_long_is_one_error():
    from prsm_regions.extension.frontend import _lines

    reader = asyncio.StreamReader()
    reader.feed_data(b"one\n" + b"x" * (2 * LINE_LIMIT + 5) + b"\n\n  \ntwo\nrest")
    reader.feed_eof()
    assert [line async for line in _lines(reader)] == [b"one", b"a line that is too long", b"two"]
