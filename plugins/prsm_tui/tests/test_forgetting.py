"""What is far up is let go, and comes again as pages: the transcript is the whole one then."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from prsm_testing import ScriptedApp
from prsm_tui.model.blocks import Call, Prompt, Said, Thought
from prsm_tui.model.session import Session
from prsm_tui.model.transcript import KEPT

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.interfaces.frontend import RunOptions

DEADLINE = 60.0


def talk_much(app, seed, count):
    """Let an agent say and call things, several calls at a time, and notes between."""
    choice = random.Random(seed)
    open_calls = []
    for number in range(count):
        act = choice.choice(["say", "call", "call", "end", "note"])
        if act == "say":
            text = {"text": f"text {number}", "thinking": choice.choice([None, f"why {number}"])}
            told: dict[str, Any] = {"turn": "t", "role": "assistant", **text}
            app.say("message_completed", "m", message=number + 1, **told)
        elif act == "call":
            arguments = {"command": f"n{number}"}
            app.say("tool_call_started", "m", call=f"c{number}", tool="Bash", arguments=arguments)
            open_calls.append(f"c{number}")
        elif act == "end" and open_calls:
            call = open_calls.pop(choice.randrange(len(open_calls)))
            app.say("tool_call_finished", "m", call=call, status="completed", result=f"of {call}")
        else:
            app.say("notice", "m", level="info", text=f"note {number}")


def talk(transcript):
    return [
        (b.tool, b.subject, b.status, b.result) if isinstance(b, Call) else (type(b), b.text)
        for b in transcript.blocks
        if isinstance(b, Prompt | Said | Thought | Call)
    ]


async def watched(app, *, is_held):
    session = Session.of_view(await ScriptedApp(RunOptions(task=None)).view())
    for event in app._log:
        session.apply(event)
        if event.type == "agent_spawned":
            session.agents["m"].transcript.is_held = is_held
        elif not is_held:
            assert len(session.agents["m"].transcript.blocks) <= 2 * KEPT
    return session


@pytest.mark.parametrize("seed", range(12))
async def test_pages_bring_back_exactly_what_was_let_go(seed):
    app = ScriptedApp(RunOptions(task=None))
    app.spawn()
    talk_much(app, seed, 1500)
    whole = (await watched(app, is_held=True)).agents["m"].transcript
    session = await watched(app, is_held=False)
    transcript = session.agents["m"].transcript
    assert not transcript.is_whole
    async with asyncio.timeout(DEADLINE):
        while not transcript.is_whole:
            session.take_page("m", await app.agents.history("m", before=transcript.since))
    assert talk(transcript) == talk(whole)


async def test_somebody_who_reads_far_up_keeps_it():
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app) as eyes:
        app.spawn()
        talk_much(app, 1, 200)
        await eyes.sees("to master")
        await eyes.press("shift+tab", "pageup")
        await eyes.until(lambda: not eyes.tui.panes.transcript.follows)
        first = eyes.session.agents["m"].transcript.blocks[0]
        talk_much(app, 2, 1000)
        await eyes.until(lambda: eyes.session.seq == app._seq)
        assert eyes.session.agents["m"].transcript.blocks[0] is first
        await eyes.press("end")
        talk_much(app, 3, 50)
        await eyes.until(lambda: len(eyes.session.agents["m"].transcript.blocks) <= 2 * KEPT)
        app.say("notice", "m", level="info", text="the last note")
        await eyes.sees("the last note")


async def test_what_was_let_go_comes_as_somebody_scrolls_up():
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app) as eyes:
        app.spawn()
        for number in range(1000):
            told: dict[str, Any] = {"turn": "t", "role": "assistant", "message": number + 1}
            app.say("message_completed", "m", text=f"line {number}.", **told)
        await eyes.sees("line 999.")
        assert len(eyes.session.agents["m"].transcript.blocks) <= 2 * KEPT
        await eyes.press("shift+tab")
        async with asyncio.timeout(DEADLINE):
            while "line 0." not in eyes.text:
                await eyes.press("home")
                await eyes.pilot.pause(0.01)
