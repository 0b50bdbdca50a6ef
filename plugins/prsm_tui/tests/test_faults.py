"""What goes wrong around a person who types: each fault is one line, and nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pytest
from prsm_testing import ScriptedApp
from textual import events

from plugins.prsm_tui.tests.scenes import watching
from prsm_core import ConfigError, RunOptions, StoreError
from prsm_core.errors import ModelNotAvailableError

FAULTS = [
    StoreError("the ledger cannot be written: No space left on device", hint="free some"),
    ModelNotAvailableError("there is no model opus-1 any more", hint="/models shows them"),
    ConfigError("the folder is gone"),
]


def in_one_line(eyes, text):
    """Return whether a text is told, in the row or two that it takes and no more."""
    told = eyes.tui.panes.told
    return text in " ".join(str(told.render()).split()) and told.size.height <= 2


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["small", "large"])
async def test_a_task_that_cannot_begin_is_typed_on_and_the_reason_is_one_line(fault, size):
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app, size=size) as eyes:
        app.refusal = fault
        await eyes.type("mend the door\n")
        await eyes.until(lambda: in_one_line(eyes, f"error: not sent: {fault.message}"))
        assert eyes.tui.panes.prompt.text == "mend the door"
        app.refusal = None
        await eyes.press("enter")
        await eyes.until(lambda: app.run is not None, "the run")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_a_prompt_that_reaches_nobody_is_typed_on(fault):
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("to master")

        async def refuse(*_: object, **__: object) -> str:
            raise fault

        app.agents.prompt = refuse  # type: ignore[method-assign]
        await eyes.type("go on\n")
        await eyes.until(lambda: in_one_line(eyes, f"error: not sent: {fault.message}"))
        assert eyes.tui.panes.prompt.text == "go on"


async def test_who_is_killed_while_one_types_to_them_gets_nothing_and_the_text_stays():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        app.spawn("w", "writer", "m")
        await eyes.type("/open writer\n")
        await eyes.sees("to writer")
        await eyes.type("half a thought")
        app.say("agent_state_changed", "w", to="killed", reason="a person")
        await eyes.sees("writer has ended: /restart TEXT starts it again")
        assert eyes.tui.panes.prompt.text == "half a thought"
        await eyes.press("enter")
        await eyes.until(lambda: in_one_line(eyes, "warning: writer has ended"))
        assert eyes.tui.panes.prompt.text == "half a thought"
        assert app.prompts == []


async def test_a_request_that_is_answered_elsewhere_is_told_in_one_line():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        told: dict[str, Any] = {"tool": "Bash", "options": ["once", "deny"], "arguments": {}}
        app.say("permission_requested", "m", request="r", **told)
        await eyes.press("f2")
        await eyes.sees("[o]nce")
        app.say("permission_resolved", "m", request="r", verdict="deny", by="user", via="prsm")
        eyes.tui.acts.resolve(["r"], "once")  # as one that was on its way
        await eyes.until(lambda: in_one_line(eyes, "it was answered already, not by this"))
        assert app.answers == []


async def test_a_clipboard_that_cannot_be_read_is_told_in_one_line_and_the_draft_stays():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("to master")
        await eyes.type("half a thought")
        await eyes.press("ctrl+v")
        await eyes.until(lambda: in_one_line(eyes, "warning: nothing was cut here: paste by"))
        assert eyes.tui.panes.prompt.text == "half a thought"
        await eyes.press("ctrl+a", "shift+end", "ctrl+x", "ctrl+v", "ctrl+v")
        await eyes.until(lambda: eyes.tui.panes.prompt.text == 2 * "half a thought", "both")


HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold]\u202egnp.exe\x1b[200~\x00 文字 e\u0301\ttab\r\nnext"


async def test_what_a_terminal_pastes_is_text_whatever_it_is_and_sends_nothing():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("to master")
        await eyes.type("so: ")
        eyes.tui._driver.process_message(events.Paste(HOSTILE))
        await eyes.sees("so: ", "文字", "next")
        assert app.prompts == []
        eyes.tui.edited("m", HOSTILE)  # as an editor gives it back
        await eyes.sees("[bold]", "next")
        drawn = "".join(strip.text for strip in eyes.tui.screen._compositor.render_strips())
        assert not {"\x1b", "\x07", "\u202e", "\x00"} & set(drawn)
        await eyes.press("f2")
        app.say("question_asked", "m", request="q", question="Which?", options=[])
        await eyes.sees("Which?")
        eyes.tui._driver.process_message(events.Paste(HOSTILE))
        await eyes.sees("[bold]")
        drawn = "".join(strip.text for strip in eyes.tui.screen._compositor.render_strips())
        assert not {"\x1b", "\x07", "\u202e", "\x00"} & set(drawn)
