"""What waits for a person never takes the keyboard, and is answered only where it was seen."""

from __future__ import annotations

from typing import Any

import pytest
from prsm_testing import ScriptedApp
from prsm_tui.screen.needs_you import NeedsYou
from textual.widgets import Input

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.domain.permissions import Answer
from prsm_core.interfaces.frontend import RunOptions

SENTENCE = "yo do it, o yo: you do\n"


def permission(app, request="r1", agent="m", **more):
    app.say(
        "permission_requested",
        agent,
        request=request,
        tool="Bash",
        command=f"make {request}",
        paths=[],
        **{"reason": "not known to be harmless", "options": ["once", "always", "deny"], **more},
    )


def question(app, request="q1", **more):
    asked = {"request": request, "question": "Which colour?", "options": ["red", "blue"], **more}
    app.say("question_asked", "m", **asked)


async def test_a_sentence_that_is_typed_while_ten_permissions_arrive_answers_none():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("to master")
        for number in range(10):
            await eyes.type(SENTENCE[: 2 * number])
            permission(app, f"r{number}")
            await eyes.type(SENTENCE[2 * number :])
        await eyes.sees("NEEDS YOU: 10")
        await eyes.type(SENTENCE)
        await eyes.until(lambda: len(app.prompts) == 11)
        assert app.answers == []
        assert [text for _, text, _ in app.prompts] == [SENTENCE.strip("\n")] * 11
        assert eyes.tui.panes.pane == "prompt"
        assert not isinstance(eyes.tui.screen, NeedsYou)


async def test_a_request_is_shown_whole_and_answered_by_letter():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn(prompt="mend it")
        lines = {"added": 1, "removed": 1, "lines": ["-old", "+new"], "more": 0}
        rules = {"allow": ["make *"]}
        permission(app, change=lines, rules=rules, cwd="/work", expires_at=2e9)
        await eyes.sees("NEEDS YOU: 1")
        await eyes.press("f2")
        await eyes.sees("echo/default", "task: mend it", "make r1", "+new", "-old", "/work")
        await eyes.sees("reason: not known", "to allow: make *", "time left", "[a]lways")
        await eyes.type("a\n")
        assert await app.answered("r1") == "always"
        await eyes.sees("Nothing waits")
        await eyes.press("escape")
        await eyes.sees("to master")


@pytest.mark.parametrize("width", [100, 80, 40])
async def test_a_command_that_is_broken_at_the_edge_looks_like_no_line_of_the_request(width):
    app = ScriptedApp()
    async with watching(app, size=(width, 40)) as eyes:
        app.spawn()
        told: dict[str, Any] = {
            "tool": "Bash",
            "paths": [],
            "reason": "not known",
            "options": ["once", "deny"],
        }
        command = "curl evil " + "x " * width + "reason: harmless " * 20
        app.say("permission_requested", "m", request="r1", command=command, **told)
        await eyes.press("f2")
        await eyes.sees("reason: not known")
        lines = eyes.text.splitlines()
        assert any("reason: harmless" in line for line in lines)
        assert [line for line in lines if line.startswith(("reason: harmless", "x "))] == []


async def test_the_oldest_comes_first_and_another_can_be_shown():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        for number in (1, 2, 3):
            permission(app, f"r{number}")
        await eyes.press("f2")
        await eyes.sees("  make r1")
        await eyes.press("down")
        await eyes.sees("  make r2")
        await eyes.type("d\n")
        assert await app.answered("r2") == "deny"
        await eyes.sees("  make r1", "[o]nce")
        await eyes.type("o\n")
        await app.answered("r1")
        assert app.answers == [("r2", "deny"), ("r1", "once")]


async def test_all_alike_are_answered_at_once_and_a_question_among_them_is_not():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        permission(app, "r1")
        question(app)
        permission(app, "r2", options=["deny"])
        permission(app, "r3")
        await eyes.press("f2")
        await eyes.sees("all 3: [oo] once")
        await eyes.type("oo\n")
        await app.answered("r3")
        assert app.answers == [("r1", "once"), ("r3", "once")]


async def test_what_is_typed_for_a_request_that_ends_answers_no_other():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        permission(app, "r1")
        permission(app, "r2")
        await eyes.press("f2")
        await eyes.sees("  make r1", "[o]nce")
        await eyes.type("o")
        app.say("permission_resolved", "m", request="r1", verdict="deny", by="control")
        await eyes.sees("  make r2", "not used: 'o'")
        await eyes.press("enter")
        await eyes.pilot.pause()
        assert app.answers == []
        await eyes.type("d\n")
        assert await app.answered("r2") == "deny"


async def test_what_was_typed_before_the_request_was_drawn_answers_nothing():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        permission(app, "r1")
        await eyes.press("f2")
        await eyes.sees("  make r1")
        place = eyes.tui.screen
        place._is_drawn = False  # as between a request's coming and its drawing
        await eyes.type("o\n")
        assert app.answers == []
        await eyes.sees("not used: 'o'")


async def test_a_click_answers_nothing():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        permission(app, "r1")
        await eyes.press("f2")
        await eyes.sees("  make r1")
        for name in ("#waiting", "#asked", "#offers", "#answer"):
            await eyes.pilot.click(name)
        assert app.answers == []
        assert isinstance(eyes.tui.screen, NeedsYou)
        await eyes.type("o\n")
        assert await app.answered("r1") == "once"


async def test_what_is_no_answer_is_said_to_be_and_stays():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        permission(app, "r1")
        await eyes.press("f2")
        await eyes.sees("  make r1", "[o]nce")
        await eyes.type("perhaps\n")
        await eyes.sees("that is none of the answers", "perhaps")
        assert app.answers == []


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("2", Answer(choices=("blue",))),
        ("red", Answer(choices=("red",))),
        ("green, please", Answer(text="green, please")),
    ],
)
async def test_a_question_is_answered_by_number_by_name_or_by_a_text(typed, answer):
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        question(app)
        await eyes.press("f2")
        await eyes.sees("1. red", "2. blue", "a number or a text")
        await eyes.type("7\n")
        await eyes.sees("none of the answers")
        await eyes.press("backspace")
        await eyes.type(f"{typed}\n")
        assert await app.answered("q1") == answer


async def test_where_nobody_is_asked_nothing_is_answered():
    app = ScriptedApp()
    async with watching(app, answers=False) as eyes:
        app.spawn()
        permission(app, "r1")
        await eyes.press("f2")
        await eyes.sees("nobody is asked here")
        assert eyes.tui.screen.query_one("#answer", Input).disabled
        await eyes.type("o\n")
        assert app.answers == []
        await eyes.press("f2")
        await eyes.sees("to master")


async def test_a_draft_is_there_after_an_answer():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("to master")
        await eyes.type("half a tho")
        permission(app, "r1")
        await eyes.press("f2")
        await eyes.sees("  make r1", "[o]nce")
        await eyes.type("o\n")
        await app.answered("r1")
        await eyes.press("escape")
        await eyes.type("ught")
        assert eyes.tui.panes.prompt.text == "half a thought"


async def test_in_a_session_without_a_run_it_is_said_at_once_that_nothing_waits():
    async with watching(ScriptedApp(RunOptions(task=None))) as eyes:
        await eyes.sees("no run yet")
        await eyes.press("f2")
        await eyes.sees("Nothing waits for you")
