"""Comments of several lines, on several lines, and several of them sent at once."""

from __future__ import annotations

import pytest
from prsm_tui.screen.diff import Diff

from plugins.prsm_tui.tests.scenes import watching
from plugins.prsm_tui.tests.test_changes import SIZES, open_changes, states, team
from plugins.prsm_tui.tests.test_editor import APPENDS, editor

pytestmark = pytest.mark.requirement("D22")


async def test_a_comment_has_several_lines_and_goes_on_in_an_editor(tmp_path, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor(tmp_path, APPENDS))
    app = await team()
    async with watching(app, size=(80, 24)) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "down", "c")
        await eyes.sees("a comment on line 5 to fixer", "Ctrl+J: a new line")
        await eyes.type("one, @a/x")
        await eyes.press("ctrl+j")
        await eyes.type("another")
        await eyes.press("ctrl+g")
        await eyes.until(lambda: eyes.tui.screen.comment.prompt.text.endswith("another and more"))
        assert eyes.tui.panes.prompt.text == ""
        await eyes.press("enter")
        await eyes.until(lambda: bool(app.prompts))
        assert app.prompts[0][1].endswith("\n```\none, @a/x\nanother and more")


@SIZES
async def test_a_comment_is_about_all_lines_that_are_chosen(size):
    app = await team()
    async with watching(app, size=size) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "up", "J", "J", "J", "K")
        await eyes.press("c")
        await eyes.sees("a comment on lines 4 to 5 to fixer")
        assert eyes.tui.screen.query_one(Diff).has_region, "what is commented on stays to be seen"
        await eyes.type("both\n")
        await eyes.until(lambda: bool(app.prompts))
        text = app.prompts[0][1].split("\n")
        removed = [] if size[0] >= 120 else ["-old = 1"]
        assert text == [
            "A comment on your change of `a.py`, lines 4 to 5:",
            "```",
            " same",
            *removed,
            "+new = 1",
            "```",
            "both",
        ]
        assert not eyes.tui.screen.query_one(Diff).has_region


async def test_esc_lets_go_of_lines_that_are_chosen_before_it_leaves_them():
    app = await team()
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "J")
        lines = eyes.tui.screen.query_one(Diff)
        assert len(lines.chosen) == 2
        await eyes.press("escape")
        assert (len(lines.chosen), lines.has_focus) == (1, True)
        await eyes.press("J", "j")
        assert len(lines.chosen) == 1, "to go on without choosing lets go, too"
        await eyes.press("escape")
        await eyes.until(lambda: not lines.has_focus)


async def test_what_is_dragged_over_is_chosen():
    app = await team()
    async with watching(app, size=(80, 24)) as eyes:
        await open_changes(eyes)
        await eyes.press("enter")
        row = next(n for n, line in enumerate(eyes.text.splitlines()) if "old = 1" in line)
        await eyes.pilot.mouse_down(offset=(10, row))
        await eyes.pilot.hover(offset=(12, row + 1))
        await eyes.pilot.mouse_up(offset=(12, row + 1))
        chosen = eyes.tui.screen.query_one(Diff).chosen
        assert [line.text for line in chosen] == ["old = 1", "new = 1"]
        await eyes.pilot.click(offset=(10, row))
        await eyes.until(lambda: len(eyes.tui.screen.query_one(Diff).chosen) == 1)


async def keep(eyes, text):
    """Say something about the line of the cursor, and keep it."""
    await eyes.press("c")
    await eyes.sees("a comment on line")
    await eyes.type(text)
    await eyes.press("escape")
    await eyes.sees("kept, not sent: line")


async def test_comments_that_are_kept_are_sent_at_once_to_each_agent_its_own():
    app = await team()
    async with watching(app, size=(80, 24)) as eyes:
        await open_changes(eyes)
        await eyes.press("S")
        await eyes.sees("no comment is kept: c begins one")
        await eyes.press("enter", "down")
        await keep(eyes, "why 1?")
        await eyes.press("down")
        await keep(eyes, "and the end?")
        await eyes.press("escape", "down")
        await keep(eyes, "for the writer")
        await eyes.sees("comments not sent: 3 (S)", "+*", "not sent: line 1: for the writer")
        assert app.prompts == []
        await eyes.press("f3", "f3")  # leave, and come back
        await eyes.sees("comments not sent: 3 (S)")
        await eyes.press("S")
        await eyes.sees("Send 3 comments", "2 to fixer, 1 to writer.")
        await eyes.press("n")
        await eyes.sees("comments not sent: 3 (S)")
        assert app.prompts == []
        await eyes.press("S")
        await eyes.sees("Send 3 comments")
        await eyes.press("y")
        await eyes.until(lambda: len(app.prompts) == 2)
        texts = {agent: text for agent, text, _ in app.prompts}
        assert texts["w"].startswith("A comment on your change of `b.md`, line 1:")
        parts = texts["f"].split("\n\n")
        assert parts[0] == "A review, of 2 comments."
        assert parts[1].endswith("`a.py`, line 5:\n```\n+new = 1\n```\nwhy 1?")
        assert parts[2].endswith("`a.py`, line 6:\n```\n end\n```\nand the end?")
        await eyes.until(lambda: "comments not sent" not in eyes.text)
        assert set(states(app).values()) == {"pending"}


async def test_a_kept_comment_is_gone_on_with_and_a_blank_one_is_none():
    app = await team()
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "down")
        await keep(eyes, "half")
        await eyes.press("c")
        await eyes.type(" a thought")
        await eyes.press("f3")  # leaves by another way
        await eyes.until(lambda: eyes.tui.screen is eyes.tui.panes)
        assert list(eyes.tui.drafts()) == ["half a thought"]
        await eyes.press("f3", "enter", "down", "c")
        await eyes.until(lambda: eyes.tui.screen.comment.prompt.text == "half a thought")
        await eyes.press(*["backspace"] * len("half a thought"))
        await eyes.press("escape")
        await eyes.until(lambda: "comments not sent" not in eyes.text)
        assert list(eyes.tui.drafts()) == []
