"""A run that is alive is seen to be, and one that says nothing more is warned of."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
from prsm_testing import ScriptedApp

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.interfaces.frontend import RunOptions

WARNING = "warning: nothing was heard from the agents for "
ASKED: dict[str, Any] = {"request": "r1", "question": "Which?", "options": ["red", "blue"]}

DONE: dict[str, Any] = {"status": "completed", "summary": "mended", "duration_s": 74.0}


@asynccontextmanager
async def at_work(**options):
    """Show a session whose master works, under a clock that a test sets by `at(seconds)`."""
    app, now = ScriptedApp(RunOptions(task=None)), [4.0]
    async with watching(app, size=(220, 30), clock=lambda: now[0], **options) as eyes:

        async def at(seconds):
            await eyes.until(lambda: eyes.session.seq == app._seq, "all events")
            now[0] = seconds
            eyes.tui._tick()  # as every second
            await eyes.pilot.pause()

        app.say("run_started", task="mend it", workspace="/shop")
        app.spawn()
        app.say("agent_state_changed", "m", to="running", reason="turn started")
        app.say("turn_started", "m", turn="t", n=1)
        await at(4.0)
        yield app, eyes, at


def now_of(app):
    """Return when the newest event was, by the clock of the events."""
    return float(app._seq)


@pytest.mark.requirement("E81")
async def test_an_agent_thinks_for_as_long_as_it_is_seen_to_do_nothing_else():
    async with at_work() as (app, eyes, at):
        await at(now_of(app) + 29)
        app.spawn("w", "writer", "m")
        began = now_of(app) - 1
        await at(began + 32)
        await eyes.sees("Thinking... (32s)")  # others are heard of
        app.say("tool_call_started", "m", call="c", tool="Bash", arguments={"command": "make"})
        await at(now_of(app) + 45)
        await eyes.sees("Bash since 45s")
        await eyes.until(lambda: "Thinking" not in eyes.text, "a command that runs is no thinking")
        app.say("tool_call_finished", "m", call="c", status="completed", result="ok")
        await at(now_of(app) + 5)
        await eyes.sees("Thinking... (5s)")
        app.say("text_delta", "m", live=True, turn="t", message=1, at=0, text="so it")
        await eyes.sees("so it")
        await at(now_of(app) + 9)
        await eyes.until(lambda: "Thinking" not in eyes.text, "it writes")
        app.say("message_completed", "m", turn="t", message=1, role="assistant", text="so it is")
        await at(now_of(app) + 3)
        await eyes.sees("Thinking... (3s)")
        app.say("question_asked", "m", **ASKED)
        await at(now_of(app) + 8)
        await eyes.until(lambda: "Thinking" not in eyes.text, "it waits for a person")


@pytest.mark.requirement("E82")
async def test_the_line_at_the_bottom_tells_for_how_long_the_run_goes_on():
    async with at_work() as (app, eyes, at):
        app.say("text_delta", "m", live=True, turn="t", message=1, at=0, text="so it")
        begun = eyes.session.run.started_at
        await at(begun + 74)
        await eyes.sees("run running (1m 14s)")
        app.say("run_finished", None, **DONE)
        await at(begun + 200)
        await eyes.sees("run completed")
        assert "run completed (" not in eyes.text


@pytest.mark.requirement("E83")
async def test_half_a_minute_without_any_event_is_warned_of_once_and_told_with_the_agent():
    async with at_work() as (app, eyes, at):
        await at(33.9)
        assert WARNING not in eyes.text
        await at(34.0)  # thirty seconds after the last event came
        await eyes.sees(WARNING + "30s", ", no events)")
        eyes.tui.told("info", "")
        await at(90.0)
        assert not eyes.tui.panes.told.display, "it was told"
        app.say("thinking_delta", "m", live=True, turn="t", message=1, at=0, text="hm")
        await eyes.sees("hm")
        await at(90.0)
        await at(120.0)
        await eyes.sees(WARNING + "30s")


@pytest.mark.requirement("E83")
async def test_nothing_is_missed_while_somebody_is_asked_or_no_run_is_open():
    async with at_work() as (app, eyes, at):
        app.say("question_asked", "m", **ASKED)
        for seconds in (10.0, 500.0):
            await at(seconds)
        assert WARNING not in eyes.text
        app.say("question_answered", "m", request="r1", answer={"choices": ["red"]}, by="user")
        await at(529.0)
        assert WARNING not in eyes.text, "it was asked until just now"
        app.say("run_finished", None, **DONE)
        for seconds in (530.0, 900.0):
            await at(seconds)
        assert WARNING not in eyes.text
