"""The screen of one session: the tree, the transcript, and where one types."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from prsm_testing import ScriptedApp
from prsm_tui.hub_frontend import compose

from plugins.prsm_tui.tests.scenes import Eyes, watching
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions, RunResult

HERE = RunOptions(task=None)


def family(app):
    app.spawn()
    app.spawn("w", "writer", "m")
    app.spawn("f", "fixer", "m")


def says(app, text, agent="m", message=1):
    app.say("message_completed", agent, turn="t", role="assistant", text=text, message=message)


async def test_the_tree_tells_of_each_agent_and_its_cursor_stays_on_one():
    app = ScriptedApp()
    async with watching(app, size=(140, 30)) as eyes:
        app.spawn()
        app.spawn("w", "writer", "m")
        app.say("agent_state_changed", "w", to="running", reason="turn started")
        app.say("tool_call_started", "w", call="c", tool="Bash", arguments={"command": "make"})
        await eyes.sees("> writer", "Bash", "to master")
        await eyes.press("tab", "down")
        await eyes.sees("to writer")
        app.spawn("x", "deeper", "m")
        app.say("agent_state_changed", "w", to="waiting_for_parent", waiting_on="parent")
        app.say("agent_state_changed", "m", to="failed", reason="boom")
        await eyes.sees("waits for parent", "! master", "deeper")
        assert eyes.tui.panes.agents.chosen == "w"
        rows = [line.split("│")[0] for line in eyes.text.splitlines()]
        order = [next(n for n, row in enumerate(rows) if name in row) for name in _NAMES]
        assert order == sorted(order)


_NAMES = ("session", "master", "writer", "deeper")


async def test_a_filter_shows_the_agents_that_fit_and_esc_shows_all():
    app = ScriptedApp()
    async with watching(app) as eyes:
        family(app)
        await eyes.sees("writer", "fixer")
        await eyes.press("tab")
        await eyes.type("/fix")
        await eyes.sees("filter: fix")
        await eyes.until(lambda: "writer" not in eyes.text)
        await eyes.press("enter", "end")
        await eyes.sees("to fixer")
        await eyes.press("escape")
        await eyes.sees("writer")


async def test_kill_asks_and_only_y_kills():
    app = ScriptedApp()
    async with watching(app) as eyes:
        family(app)
        await eyes.sees("to master", "fixer")
        await eyes.press("tab", "K")
        await eyes.sees("Kill master and the 2 below it?")
        await eyes.press("n")
        await eyes.until(lambda: eyes.tui.screen is eyes.tui.panes)
        await eyes.press("end", "K")
        await eyes.sees("Kill fixer?")
        await eyes.press("y")
        await eyes.until(lambda: app.killed == ["f"], "the kill")


async def test_text_streams_and_markup_is_text():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn("m", "[bold]boss")
        app.say("turn_started", "m", turn="t", n=1)
        app.say("text_delta", "m", live=True, turn="t", message=1, at=0, text="[red]half")
        await eyes.sees("[bold]boss", "* [red]half")
        app.say("text_delta", "m", live=True, turn="t", message=1, at=9, text=" of it")
        await eyes.sees("* [red]half of it")
        says(app, "[red]half of it and **more** &#27;[31m &#8238;x")
        await eyes.sees("* [red]half of it and more &#27;[31m &#8238;x")


async def test_scrolled_up_it_stays_and_says_how_much_is_new():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        for number in range(40):
            says(app, f"line {number}", message=number + 1)
        await eyes.sees("line 39")
        await eyes.press("shift+tab")
        await eyes.press("pageup", "pageup")
        await eyes.until(lambda: "line 39" not in eyes.text)
        before = re.findall(r"line \d+", eyes.text)
        for number in range(40, 50):
            says(app, f"line {number}", message=number + 1)
        await eyes.sees("10 new rows below")
        assert re.findall(r"line \d+", eyes.text) == before
        await eyes.press("end")
        await eyes.sees("line 49")
        await eyes.until(lambda: "new rows" not in eyes.text)


async def test_the_pages_of_a_history_come_as_somebody_scrolls_up():
    app = ScriptedApp(HERE)
    await app.runs.start("count")
    app.spawn()
    for number in range(450):
        says(app, f"line {number}.", message=number + 1)
    async with watching(app) as eyes:
        await eyes.sees("line 449.")
        await eyes.press("shift+tab")
        model = eyes.session.agents["m"].transcript
        assert len(model.blocks) == 200
        while not model.is_whole:
            await eyes.press("home", "up")
        for _ in range(10):
            await eyes.press("home", "up")
        await eyes.sees("line 0.", "line 1.")
        texts = [block.text for block in model.blocks]
        assert texts == [f"line {number}." for number in range(450)]


async def test_a_session_that_goes_on_while_it_is_opened_has_its_history_too():
    app = ScriptedApp(HERE)
    await app.runs.start("count")
    app.spawn()
    says(app, "said early")
    async with asyncio.TaskGroup() as group:
        tui, beside = await compose(app)
        says(app, "said late", message=2)
        tui.session.apply(await anext(app.events(after=tui.session.seq)))
        helpers = [group.create_task(work()) for work in beside]
        async with tui.run_test(size=(100, 30)) as pilot:
            await Eyes(pilot).sees("said early", "said late")
        for helper in helpers:
            helper.cancel()


async def test_a_call_unfolds_and_a_card_opens_its_child():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        bash: dict[str, Any] = {"call": "c1", "tool": "Bash", "arguments": {"command": "make all"}}
        app.say("tool_call_started", "m", **bash)
        app.say("tool_output_delta", "m", live=True, call="c1", at=0, text="compiling\n")
        await eyes.sees("Bash  make all", "[runs]", "  compiling")
        done: dict[str, Any] = {
            "status": "failed",
            "result": "no rule\nat all",
            "duration_s": 2,
            "exit_code": 2,
        }
        app.say("tool_call_finished", "m", call="c1", **done)
        await eyes.sees("[failed 2.0s, exit code 2, 2 lines]")
        await eyes.until(lambda: "compiling" not in eyes.text)
        spawn: dict[str, Any] = {"call": "c2", "tool": "spawn_child", "arguments": {"name": "w"}}
        app.say("tool_call_started", "m", **spawn)
        born: dict[str, Any] = {
            "role": "worker",
            "provider": "echo",
            "model": "default",
            "prompt": "do it",
        }
        app.say("agent_spawned", "w", name="w", parent="m", depth=1, call="c2", **born)
        await eyes.sees("waits for a slot, Enter opens it")
        await eyes.press("shift+tab", "N", "N", "enter")
        await eyes.sees("arguments:", "command: make all", "no rule", "at all")
        await eyes.press("n", "enter")
        await eyes.sees("to w ")


async def test_each_agent_has_a_draft_and_what_was_sent_comes_back():
    app = ScriptedApp()
    async with watching(app) as eyes:
        family(app)
        await eyes.sees("to master", "fixer")
        await eyes.type("first\nsecond\nfor the master")
        await eyes.until(lambda: len(app.prompts) == 2)
        eyes.tui.panes.go_to("tree")
        await eyes.press("end")
        await eyes.sees("to fixer")
        await eyes.press("i")
        await eyes.type("for the fixer")
        eyes.tui.panes.go_to("tree")
        await eyes.press("home", "down")
        await eyes.press("i")
        assert eyes.tui.panes.prompt.text == "for the master"
        await eyes.press("up")
        assert eyes.tui.panes.prompt.text == "second"
        await eyes.press("up")
        assert eyes.tui.panes.prompt.text == "first"
        await eyes.press("down", "down")
        assert eyes.tui.panes.prompt.text == "for the master"


async def test_how_a_prompt_is_delivered_is_written_beside_it():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        for delivery in ("inject", "queue", "interrupt"):
            await eyes.sees(f"to master (echo/default) · {delivery}")
            await eyes.type("go on\n")
            await eyes.until(lambda d=delivery: bool(app.prompts) and app.prompts[-1][2] == d)
            await eyes.press("ctrl+t")
        await eyes.sees("you: go on", "(it has it now)")


async def test_several_lines_are_one_prompt():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("to master")
        await eyes.type("one")
        await eyes.press("ctrl+j")
        await eyes.type("two\n")
        await eyes.until(lambda: bool(app.prompts))
        assert app.prompts[0][1] == "one\ntwo"


async def test_a_text_that_reaches_nobody_comes_back():
    app = ScriptedApp(HERE)
    app.refusal = ConfigError("no provider is installed", hint="install one")
    async with watching(app) as eyes:
        await eyes.sees("a task, with which a run begins")
        await eyes.type("do it\n")
        await eyes.sees("no provider is installed", "install one")
        assert eyes.tui.panes.prompt.text == "do it"


async def test_a_task_begins_a_run_and_another_one_continues_it():
    app = ScriptedApp(HERE)
    async with watching(app) as eyes:
        await eyes.type("do it\n")
        await app.started()
        app.spawn()
        await eyes.sees("to master")
        app.say("agent_state_changed", "m", to="completed", reason="done")
        app.finish(RunResult(status="completed", summary="All done.", exit_code=0))
        await eyes.sees("All done.", "to master (echo/default) · as a further task")
        await eyes.type("and more\n")
        await eyes.until(lambda: app.continued == ["and more"])


async def test_who_has_ended_is_started_again_and_not_talked_to():
    app = ScriptedApp()
    async with watching(app) as eyes:
        family(app)
        app.say("agent_state_changed", "f", to="failed", reason="boom")
        await eyes.sees("! fixer")
        await eyes.type("/open fixer\n")
        await eyes.sees("fixer has ended: /restart TEXT")
        await eyes.type("hello\n")
        await eyes.sees("warning: fixer has ended")
        assert eyes.tui.panes.prompt.text == "hello"
        for _ in "hello":
            await eyes.press("backspace")
        await eyes.type("/restart try again\n")
        await eyes.until(lambda: app.restarted == [("f", "try again")])


@pytest.mark.requirement("U4")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/kil", "there is no command /kil: did you mean /kill?"),
        ("/xyzzy", "there are /help, /open"),
        ("/open nobody", "there is no agent nobody"),
        ("/mode carefree", "the modes are: "),
        ("/budget", "used: tokens: unknown"),
        ("/fork", "forked as session session-1-fork-1"),
        ("/mode plan", "runs that begin from now on have the mode plan"),
    ],
)
async def test_a_command_does_what_it_says_or_says_why_not(typed, said):
    app = ScriptedApp()
    async with watching(app, size=(120, 30)) as eyes:
        app.spawn()
        await eyes.sees("to master")
        await eyes.type(f"{typed}\n")
        await eyes.sees(said)


@pytest.mark.requirement("U4")
async def test_words_are_completed(tmp_path):
    (tmp_path / "basket.py").touch()
    app = ScriptedApp(RunOptions(task="do it", workspace=str(tmp_path)))
    async with watching(app) as eyes:
        family(app)
        await eyes.sees("to master", "fixer")
        prompt = eyes.tui.panes.prompt
        await eyes.type("look at @bas")
        await eyes.press("tab")
        await eyes.until(lambda: prompt.text == "look at @basket.py ")
        await eyes.type("fix")
        await eyes.press("tab")
        await eyes.until(lambda: prompt.text == "look at @basket.py fixer ")
        await eyes.press("tab")
        assert eyes.tui.panes.pane != "prompt"


async def test_a_narrow_screen_has_one_pane_and_tab_goes_round():
    app = ScriptedApp()
    async with watching(app, size=(80, 24)) as eyes:
        family(app)
        says(app, "hello there")
        await eyes.sees("hello there", "to master")
        assert "# session" not in eyes.text
        await eyes.press("tab")
        await eyes.sees("# session", "fixer")
        assert "hello there" not in eyes.text
        await eyes.press("tab")
        await eyes.sees("hello there")
        await eyes.press("tab")
        assert eyes.tui.panes.pane == "prompt"
        await eyes.pilot.resize_terminal(140, 30)
        await eyes.sees("# session", "hello there")


async def test_leaving_says_what_follows_and_needs_a_second_time():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("run running")
        await eyes.press("f1")
        await eyes.sees("where you type:", "/kill [AGENT]")
        await eyes.press("ctrl+c")
        await eyes.sees("Ctrl+C again leaves: the run stops here as interrupted")
        await eyes.press("escape")
        assert eyes.tui.is_running
        await eyes.press("ctrl+c")
        await eyes.until(lambda: not eyes.tui.is_running)


async def test_no_meaning_is_in_a_colour_alone(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = ScriptedApp()
    async with watching(app, size=(140, 30)) as eyes:
        family(app)
        app.say("agent_state_changed", "w", to="failed", reason="boom")
        app.say("question_asked", "f", request="q1", question="Which?", options=[])
        await eyes.sees("! writer", "failed", "? fixer", "needs you", "NEEDS YOU: 1")
        assert eyes.tui.no_color
