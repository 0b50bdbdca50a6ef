"""The screen of changes, driven by keys and clicks over an application that a test plays."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prsm_testing import ScriptedApp
from prsm_tui.screen.changes import Changes
from prsm_tui.screen.diff import Diff

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions

HERE = RunOptions(task=None)
DIFF = "--- a/a.py\n+++ b/a.py\n@@ -4,3 +4,3 @@ def f():\n same\n-old = 1\n+new = 1\n end"
SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["small", "large"])


async def team():
    """Return a run with a writer and a fixer below it, who have changed files."""
    app = ScriptedApp(HERE)
    await app.runs.start("do it")
    app.spawn()
    app.spawn("w", "writer", "m")
    app.spawn("f", "fixer", "m")
    for agent in "mwf":
        app.say("agent_state_changed", agent, to="running")
    app.say("tool_call_started", "f", call="c9", tool="Edit", arguments={"file_path": "a.py"})
    app.find_change("c1", "b.md", "w", diff="@@ -0,0 +1 @@\n+[red]hello", call="c8", turn="t1")
    app.find_change("c2", "a.py", "f", diff=DIFF, call="c9", turn="t2", beside=("",))
    return app


def states(app):
    return {one.change.id: one.state for one in app.change_rows}


@asynccontextmanager
async def held_lines(app):
    """Let the lines of changes come once the event is set that is yielded."""
    told, come = app.changes.show, asyncio.Event()

    async def tell_later(change):
        await come.wait()
        return await told(change)

    app.changes.show = tell_later
    try:
        yield come
    finally:
        come.set()
        app.changes.show = told


async def open_changes(eyes):
    await eyes.press("f3")
    await eyes.sees("changes by file", "a.py", "b.md")


@pytest.mark.requirement("D22")
@SIZES
async def test_conflicts_come_first_and_a_change_shows_its_lines(size):
    app = await team()
    async with watching(app, size=size) as eyes:
        await eyes.sees("to master")
        await eyes.type("/changes\n")
        await eyes.sees("pending: 2 · +2 -1 · conflicts: 1", "! ~ a.py", "~ b.md")
        rows = [line for line in eyes.text.splitlines() if "pending  " in f"{line}  "]
        assert [row.split()[:3] for row in rows[:2]] == [["!", "~", "a.py"], ["~", "b.md", "+1"]]
        await eyes.press("enter")
        await eyes.sees("old = 1", "new = 1", "conflict: somebody outside changed the file, too")
        assert ("old = 1" in next(r for r in eyes.text.splitlines() if "new = 1" in r)) == (
            size[0] >= 120
        )
        await eyes.press("escape", "down", "enter")
        await eyes.sees("[red]hello")
        await eyes.press("escape", "escape")
        await eyes.until(lambda: eyes.tui.screen is eyes.tui.panes)


@SIZES
async def test_by_agent_and_by_turn(size):
    app = await team()
    async with watching(app, size=size) as eyes:
        await open_changes(eyes)
        await eyes.press("b")
        await eyes.sees("changes by agent", "fixer · 1 change +1 -1", "writer · 1 change +1 -0")
        await eyes.press("b")
        await eyes.sees("changes by turn", "fixer, the turn of")
        await eyes.press("down", "a")
        await eyes.until(lambda: states(app)["c1"] == "accepted")
        await eyes.press("b")
        await eyes.sees("changes by file · pending: 1")


async def test_a_change_is_accepted_at_once_and_rejected_after_a_question():
    app = await team()
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("x")
        await eyes.sees("Take back the change of a.py by fixer?")
        await eyes.press("n")
        await eyes.until(lambda: isinstance(eyes.tui.screen, Changes))
        assert set(states(app).values()) == {"pending"}
        await eyes.press("x", "y")
        await eyes.sees("rejected: a.py", "pending: 1")
        await eyes.press("a")
        await eyes.sees("accepted: b.md", "nothing is pending")
        assert states(app) == {"c1": "accepted", "c2": "rejected"}
        await eyes.press("o")
        await eyes.sees("with what is decided", "a.py", "rejected")
        await eyes.press("a")
        await eyes.sees("there is nothing here to decide")


@pytest.mark.requirement("U27")
async def test_what_the_person_may_have_made_is_marked_and_taken_back_alone():
    app = await team()
    app.find_change("c3", "c.py", "f", diff=DIFF, how="possible", turn="t3")
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.sees("fixer?", "c.py")
        await eyes.press("b", "X")
        await eyes.sees("Take back the change of a.py by fixer?", "you may have made them (?): 1")
        await eyes.press("y")
        await eyes.until(lambda: states(app)["c2"] == "rejected")
        assert states(app)["c3"] == "pending"
        await eyes.press("G", "X")
        await eyes.sees("you may have made them (?): 1; take them back one by one")
        await eyes.press("x")
        await eyes.sees("Take back the change of c.py by fixer??")
        await eyes.press("y")
        await eyes.until(lambda: states(app)["c3"] == "rejected")


@pytest.mark.requirement("U6")
async def test_all_of_an_agent_is_decided_after_a_question():
    app = await team()
    app.find_change("c3", "c.py", "f", diff=DIFF)
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("b", "A")
        await eyes.sees("Accept 2 changes of 2 files?")
        await eyes.press("y")
        await eyes.until(lambda: states(app)["c3"] == "accepted")
        assert states(app) == {"c1": "pending", "c2": "accepted", "c3": "accepted"}


@pytest.mark.parametrize("delivery", ["inject", "queue"])
async def test_a_comment_on_a_line_goes_to_the_agent_that_wrote_it(delivery):
    app = await team()
    async with watching(app) as eyes:
        await eyes.sees("to master")
        await eyes.press(*["ctrl+t"] * (delivery == "queue"))
        await open_changes(eyes)
        await eyes.press("enter", "down", "c")
        await eyes.sees(f"a comment on line 5 to fixer, who made it · {delivery}")
        await eyes.type("a and x are no keys here\n")
        await eyes.until(lambda: bool(app.prompts))
        [(agent, text, how)] = app.prompts
        assert (agent, how) == ("f", delivery)
        assert text.split("\n") == [
            "A comment on your change of `a.py`, line 5:",
            "```",
            "+new = 1",
            "```",
            "a and x are no keys here",
        ]
        await eyes.sees("sent to fixer, who made it")
        assert set(states(app).values()) == {"pending"}


async def test_a_comment_begun_in_the_list_is_on_the_first_line_that_differs():
    app = await team()
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("c")
        await eyes.sees("a comment on line ", "to fixer, who made it")
        await eyes.type("a and x decide nothing\n")
        await eyes.until(lambda: bool(app.prompts))
        assert app.prompts[0][1].endswith("a and x decide nothing")
        assert set(states(app).values()) == {"pending"}


@pytest.mark.parametrize("keys", [(), ("enter", "down", "end")], ids=["list", "lines"])
async def test_a_comment_begun_before_the_lines_came_is_on_them(keys):
    app = await team()
    async with watching(app) as eyes, held_lines(app) as come:
        await open_changes(eyes)
        await eyes.press(*keys, "c")
        await eyes.sees("a comment on all of the change to fixer, who made it")
        await eyes.type("a and x ")
        come.set()
        await eyes.sees("a comment on line 5 to fixer")
        await eyes.type("decide nothing\n")
        await eyes.until(lambda: bool(app.prompts))
        assert app.prompts[0][1].split("\n")[-1] == "a and x decide nothing"
        assert "line 5, which was removed:" in app.prompts[0][1]
        assert set(states(app).values()) == {"pending"}


async def test_a_comment_begun_early_goes_on_with_what_is_kept_on_the_line():
    app = await team()
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "c")
        await eyes.sees("a comment on line 5")
        await eyes.type("kept")
        await eyes.press("escape", "escape")
        await eyes.sees("kept, not sent: line 5: kept")
        del eyes.session.review.details["c2"]
        await eyes.press("escape")  # as if this screen were opened for the first time
        async with held_lines(app) as come:
            await open_changes(eyes)
            await eyes.press("c")
            await eyes.sees("a comment on all of the change")
            await eyes.type("typed")
            come.set()
            await eyes.until(lambda: eyes.tui.screen.comment.prompt.text == "kept\ntyped")


async def test_a_change_without_lines_is_commented_on_as_a_whole():
    app = await team()
    app.find_change("c3", "0.png", "f", diff="", beside=("w",))
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("down", "enter")
        await eyes.sees("0.png", "it has no lines to show")
        await eyes.press("down", "up", "end", "c")
        await eyes.sees("a comment on all of the change to fixer, who made it")
        await eyes.type("a")
        await eyes.press("escape", "escape")
        await eyes.sees("kept, not sent: all of the change: a")
        await eyes.press("c")
        await eyes.until(lambda: eyes.tui.screen.comment.prompt.text == "a")
        await eyes.type(" bigger one\n")
        await eyes.until(lambda: bool(app.prompts))
        assert app.prompts[0][1] == "A comment on your change of `0.png`:\na bigger one"
        assert eyes.session.review.kept == {}


async def test_keys_that_decide_say_so_where_the_changes_are_on_their_way():
    app = await team()
    told, come = app.changes.list, asyncio.Event()

    async def tell_later():
        await come.wait()
        return await told()

    app.changes.list = tell_later
    async with watching(app) as eyes:
        await eyes.press("f3", "c")
        await eyes.sees("the changes are on their way")
        await eyes.press("a", "x")
        assert "nothing here" not in eyes.text
        come.set()
        await eyes.sees("a.py", "b.md")
        assert set(states(app).values()) == {"pending"}


async def test_a_comment_goes_to_who_works_above_an_author_that_has_ended():
    app = await team()
    app.say("agent_state_changed", "f", to="completed")
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "c")
        await eyes.sees("on line 5 to master: fixer has ended")
        await eyes.type("why?\n")
        await eyes.until(lambda: bool(app.prompts))
        assert app.prompts[0][0] == "m"
        assert "the change of fixer of `a.py`, line 5, which was removed" in app.prompts[0][1]


async def test_once_all_have_ended_a_comment_is_a_further_task():
    app = await team()
    for agent in "fwm":
        app.say("agent_state_changed", agent, to="completed")
    app.finish()
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "c")
        await eyes.sees("as a further task: fixer has ended, and all above it")
        await eyes.type("why?\n")
        await eyes.until(lambda: bool(app.continued))
        assert app.continued[0].endswith("why?")


async def test_a_comment_that_reached_nobody_is_kept_and_typed_on():
    app = await team()
    async with watching(app) as eyes:
        await open_changes(eyes)
        await eyes.press("enter", "c")
        await eyes.sees("a comment on line 5")

        async def refuse(*_: object, **__: object) -> str:
            raise ConfigError("it has ended just now")

        app.agents.prompt = refuse
        await eyes.type("not lost\n")
        await eyes.sees("not sent: it has ended just now; the comment is kept", "not lost")
        await eyes.press("c")
        await eyes.until(lambda: eyes.tui.screen.comment.prompt.text == "not lost")


@pytest.mark.requirement("D23", "D24")
async def test_why_it_was_made_and_the_call_that_made_it():
    said: dict[str, Any] = {"turn": "t2", "role": "assistant", "message": 1}
    app = ScriptedApp(HERE)
    await app.runs.start("do it")
    app.spawn()
    app.say("message_completed", "m", **said, text="I fix the bug, because the limit is wrong.")
    app.say("tool_call_started", "m", call="c9", tool="Edit", arguments={"file_path": "a.py"})
    app.say("tool_call_finished", "m", call="c9", status="completed", result="done")
    app.find_change("c2", "a.py", "m", diff=DIFF, call="c9")
    for number in range(60):
        more = {**said, "message": number + 2}
        app.say("message_completed", "m", **more, text=f"line {number}")
    async with watching(app) as eyes:
        await eyes.press("f3")
        await eyes.sees("why, as it said before: I fix the bug, because the limit is wrong.")
        await eyes.press("v")
        await eyes.sees("why, as master said before: I fix the bug")
        await eyes.press("enter", "down", "v")
        await eyes.sees("line 5 as it is now is of master: I fix the bug")
        await eyes.press("t")
        await eyes.sees("Edit  a.py", "I fix the bug", ">>")
        assert eyes.tui.screen is eyes.tui.panes
        assert eyes.tui.panes.pane == "transcript"


async def test_what_changes_meanwhile_is_read_again_and_a_request_moves_nothing():
    app = await team()
    async with watching(app, size=(80, 24)) as eyes:
        await open_changes(eyes)
        await eyes.press("down")
        await eyes.sees("by writer (named)")
        app.find_change("c3", "new.py", "f", diff=DIFF)
        app.say(
            "permission_requested", "f", request="r", tool="Bash", options=["once"], arguments={}
        )
        await eyes.sees("new.py", "pending: 3", "by writer (named)")
        await eyes.press("f2")
        await eyes.sees("master / fixer", "[o]nce")
        await eyes.press("escape")
        await eyes.sees("by writer (named)")


async def test_a_click_chooses_and_opens_and_the_hints_are_buttons():
    app = await team()
    async with watching(app, size=(80, 24)) as eyes:
        await open_changes(eyes)
        await eyes.pilot.click("#list", offset=(4, 1))
        await eyes.sees("by writer (named)")
        await eyes.pilot.click("#list", offset=(4, 1), times=2)
        await eyes.sees("[red]hello")
        await eyes.press("escape")
        place = eyes.text.splitlines()[-1].index("a accept")
        await eyes.pilot.click(".hint", offset=(place + 1, 0))
        await eyes.until(lambda: states(app)["c1"] == "accepted")


async def test_a_question_is_answered_by_two_clicks_since_one_may_bring_the_window_back():
    app = await team()
    async with watching(app, size=(80, 24)) as eyes:

        async def click(text):
            rows = enumerate(eyes.text.splitlines())
            row, line = next((row, line) for row, line in rows if text in line)
            await eyes.pilot.click(offset=(line.index(text) + 1, row))

        await open_changes(eyes)
        await click("x reject")
        await eyes.sees("Take back the change of a.py", "y yes · any other key: no")
        await click("any other key: no")
        await eyes.until(lambda: isinstance(eyes.tui.screen, Changes))
        await click("x reject")
        await eyes.sees("y yes")
        await click("y yes")
        await eyes.sees("click once more: yes")
        assert states(app)["c2"] == "pending"
        await click("click once more")
        await eyes.sees("rejected: a.py")


async def test_where_changes_cannot_be_told_the_reason_is():
    app = ScriptedApp()
    async with watching(app) as eyes:

        async def refuse() -> None:
            raise ConfigError("this is a replay", hint="resume it")

        app.changes.list = refuse  # type: ignore[method-assign,assignment]
        await eyes.press("f3")
        await eyes.sees("this is a replay; resume it")
        await eyes.press("enter", "x", "a", "c", "v", "t", "b", "o", "down", "end", "escape")
        await eyes.until(lambda: eyes.tui.screen is eyes.tui.panes)


async def test_what_agents_name_files_and_write_in_them_is_text():
    app = await team()
    evil = "@@ -0,0 +1,2 @@\n+\x1b[2J\x1b]0;own\x07[bold]\u202egnp\n+日本語日本語"
    app.find_change("c4", "x\x1b[31m[red]\u202e.py", "f", diff=evil)
    async with watching(app, size=(80, 24)) as eyes:
        await open_changes(eyes)
        await eyes.press("end")
        await eyes.sees(r"x\x1b[31m[red]\u202e.py")
        await eyes.press("enter")
        await eyes.sees(r"\x1b[2J\x1b]0;own\x07[bold]\u202egnp", "日本語日本語")
        assert eyes.text.replace("\n", "").isprintable()


@pytest.mark.parametrize("size", [(8, 2), (300, 8)], ids=str)
async def test_in_a_tiny_terminal_nothing_breaks_and_resizing_keeps_the_line(size):
    app = await team()
    async with watching(app, size=size) as eyes:
        for place in ("f3", "f4", "ctrl+p"):
            await eyes.press(place, "down", "enter", "pagedown", "up")
            await eyes.press("escape", "escape")
        await eyes.pilot.resize_terminal(80, 24)
        await open_changes(eyes)
        await eyes.press("enter", "down")
        await eyes.sees("old = 1")
        before = eyes.tui.screen.query_one(Diff).current
        for width in (200, 30, 119, 120, 81):
            await eyes.pilot.resize_terminal(width, 24)
            await eyes.pilot.pause()
        await eyes.sees("new = 1")
        assert eyes.tui.screen.query_one(Diff).current == before
