"""Blocks as rows: nothing is lost, or wider than the screen, or gets into the gutter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_testing import ScriptedApp
from prsm_tui.model.blocks import Call, Note, Plan, Prompt, Said, Thought
from prsm_tui.model.session import Session
from prsm_tui.model.spoken import MOST
from prsm_tui.model.transcript import KEPT
from prsm_tui.screen.drawing import GUTTER, LEVELS, Look, draw, markdown
from prsm_tui.screen.wrapping import cut, wrap, wrap_all
from rich.cells import cell_len

from plugins.prsm_tui.tests.scenes import EMPTY, Told, watching

TEXTS = st.text(st.sampled_from("ab  .文字é́👍\t*_`#->|[]()1"), max_size=60)
WIDTHS = st.integers(2, 40)


@settings(deadline=None, max_examples=60)
@given(TEXTS, WIDTHS)
def test_a_line_is_broken_without_a_loss_and_fits(line, width):
    rows = wrap(line, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(line.split())


@settings(deadline=None, max_examples=60)
@given(TEXTS, WIDTHS)
def test_the_beginning_of_a_line_fits(line, width):
    line = line.replace("\t", " ")
    assert cell_len(cut(line, width)) <= width
    if cell_len(line) <= width:
        assert cut(line, width) == line


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, max_size=6), st.integers(8, 60), st.booleans())
def test_no_text_gets_into_the_gutter_or_over_the_edge(lines, width, is_open):
    text = "\n".join(lines) or "x"
    session = Session.of_view(EMPTY)
    look = Look(width=width, is_open=is_open)
    blocks = [
        Said(text=text),
        Said(text=text, is_whole=False),
        Thought(text=text),
        Thought(text=text, is_whole=False),
        Prompt(text=text),
        Note(text=text, level="warning"),
        Plan(entries=(("completed", "x"),)),
        Call(call="c", tool="Bash", subject="make", arguments=text, result=text, status="failed"),
    ]
    for block in blocks:
        for number, row in enumerate(draw(block, look, session)):
            whole = "".join(segment.text for segment in row)
            assert "\n" not in whole
            assert cell_len(whole) <= max(width, GUTTER + 4), type(block)
            if number:
                assert whole[:GUTTER] == " " * GUTTER


@pytest.mark.parametrize("text", ["&#27;[31mred", "a &#x202e; b", "`&#27;`", "&lt;b&gt;"])
def test_entities_of_markdown_bring_no_signs(text):
    shown = "\n".join("".join(segment.text for segment in row) for row in markdown(text, 60))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert text.strip("`") in shown


def test_a_line_of_twenty_megabytes_is_cut_and_drawn():
    told = Told()
    told.spawn("a", "one")
    text = "x" * 20_000_000
    told.say("message_completed", "a", turn="t", role="assistant", text=text, message=1)
    [block] = told.model.agents["a"].transcript.blocks
    rows = draw(block, Look(width=80), told.model)
    assert len(rows) < MOST / 78 + 10
    assert "more characters" in "".join(segment.text for segment in rows[-1])


def test_what_wrapping_breaks_at_is_kept_within_a_line():
    assert wrap("a  b", 10) == ("a  b",)
    assert wrap_all("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefgh", 3) == ("abc", "def", "gh")


async def test_ten_thousand_calls_are_there_and_the_last_are_laid_out():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        for number in range(10_000):
            call: dict[str, Any] = {
                "call": f"c{number}",
                "tool": "Bash",
                "arguments": {"command": f"echo {number}"},
            }
            app.say("tool_call_started", "m", **call)
        await eyes.sees("echo 9999")
        assert len(eyes.session.agents["m"].transcript.blocks) <= 2 * KEPT
        assert len(eyes.tui.panes.transcript._items) <= 1_100


@pytest.mark.parametrize("size", [(20, 5), (200, 60), (1, 1)])
async def test_any_size_is_drawn(size):
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        told: dict[str, Any] = {"turn": "t", "role": "assistant", "message": 1}
        app.say(
            "message_completed", "m", **told, text="# Head\n\n- 文字 **x**\n\n| a | b |\n|--|--|"
        )
        app.say("question_asked", "m", request="q", question="Which?", options=["x"])
        await eyes.sees("NEEDS YOU")
        await eyes.pilot.resize_terminal(*size)
        for key in ("tab", "tab", "tab", "f2", "f2", "f1", "escape"):
            await eyes.press(key)
        await eyes.pilot.resize_terminal(100, 30)
        await eyes.sees("NEEDS YOU", "to master")


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_thought_that_is_blank_so_far_is_drawn(is_whole):
    look, session = Look(width=40, is_open=False), Session.of_view(EMPTY)
    [row] = draw(Thought(text=" \n", is_whole=is_whole), look, session)
    assert "(0 characters)" in "".join(segment.text for segment in row)


def test_a_call_whose_end_nobody_told_is_no_error_and_one_that_failed_shows_what_it_wrote():
    told = Told()
    told.spawn("a", "one")
    for call, status, result, error in (
        ("c1", "unknown", None, "nobody told how it ended"),
        ("c2", "failed", "1 failed", "exit code 1"),
    ):
        told.say("tool_call_started", "a", call=call, tool="Bash", arguments={"command": "make"})
        told.say("tool_call_finished", "a", call=call, status=status, result=result, error=error)
    session = told.model
    unknown, failed = [b for b in session.agents["a"].transcript.blocks if isinstance(b, Call)]
    assert (unknown.status, unknown.is_open) == ("unknown", False)
    assert failed.result == "exit code 1\n1 failed"
    look = Look(width=80, is_open=True)
    styles = [
        {segment.style for row in draw(one, look, session) for segment in row}
        for one in (unknown, failed)
    ]
    assert LEVELS["warning"] in styles[0]
    assert LEVELS["error"] not in styles[0]
    assert LEVELS["error"] in styles[1]
