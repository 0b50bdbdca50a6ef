"""Pages of what a session has around it, the palette of commands, and the choice of a model."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_testing import ScriptedApp
from prsm_tui.commands import COMMANDS
from prsm_tui.model.boards import budget_board, failed, models_board, policy_board, providers_board
from prsm_tui.model.session import Session
from prsm_tui.screen.app import fitting
from prsm_tui.screen.palette import found, needs_words
from rich.cells import cell_len

from plugins.prsm_tui.tests.scenes import EMPTY, watching
from prsm_core.door import (
    BudgetReport,
    ModelRow,
    PolicyGrant,
    PolicyReport,
    PolicyRule,
    ProviderReport,
)
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions

HERE = RunOptions(task=None)
EVIL = "\x1b[2J[bold]\u202e"
MODELS = [
    ModelRow(provider="claude", model="opus", aliases=("best",), tier="high"),
    ModelRow(provider="claude", model="old", hidden=True),
    ModelRow(provider="codex", model="small", aliases=(EVIL,), context_window=200_000),
    ModelRow(provider="codex", model="opus", cost_factor=0.5),
]
PROVIDERS = [
    ProviderReport(name="codex", available=False, reason="it is not there", hint="install it"),
    ProviderReport(name="claude", available=True, version="2.1", logged_in=True, gaps=(EVIL,)),
]
POLICY = PolicyReport(
    rules=(
        PolicyRule(verdict="allow", words=("make",), layer="workspace"),
        PolicyRule(verdict="deny", words=("curl", EVIL)),
    ),
    tools={"WebFetch": "deny"},
    grants=(PolicyGrant(agent_id="w", tool="Bash", command="make all"),),
)


def text_of(board):
    return "\n".join([board.title, *(line.text for line in board.lines)])


def empty():
    return Session.of_view(EMPTY)


def test_models_are_told_by_provider_and_each_can_be_picked_but_hidden_ones():
    board = models_board(MODELS, empty())
    assert [line.pick for line in board.lines if line.pick] == [
        "claude/opus",
        "codex/small",
        "codex/opus",
    ]
    assert "and 1 that their providers hide" in text_of(board)
    assert "window 200k" in text_of(board)
    assert "no model is known" in text_of(models_board([], empty()))


def test_who_is_ready_comes_first_and_who_is_not_says_why():
    lines = text_of(providers_board(PROVIDERS)).splitlines()
    assert lines[0] == "providers: 1 of 2 ready"
    assert lines[1].startswith("x claude       ready · version 2.1 · logged in")
    assert lines[3:] == ["! codex        not ready", "    it is not there", "    install it"]


def test_what_was_granted_and_what_is_denied_is_told_before_what_is_allowed():
    text = text_of(policy_board(POLICY, empty()))
    places = [text.index(one) for one in ("make all", "deny: comm", "allow: comm", "WebFetch")]
    assert places == sorted(places)
    assert "make  (of the workspace)" in text
    assert "rules on commands" in text_of(policy_board(PolicyReport(), empty()))


@given(
    st.dictionaries(
        st.sampled_from(["tokens", "usd", "turns", "spawns"]),
        st.fixed_dictionaries(
            {"used": st.none() | st.integers(0, 10**12), "reserved": st.integers(0, 10)},
            optional={"limit": st.integers(0, 10**9), "left": st.integers(0, 10**9)},
        ),
    )
)
def test_any_budget_can_be_told(kinds):
    report = msgspec.convert({"run": kinds, "spent": EVIL}, BudgetReport)
    text = text_of(budget_board(report, empty()))
    assert "used:" in text
    assert text.replace("\n", "").isprintable()
    for bar in [line for line in text.splitlines() if "[" in line and "%" in line]:
        assert bar.index("]") - bar.index("[") == 21


@pytest.mark.parametrize(
    "board",
    [
        models_board(MODELS, empty()),
        providers_board(PROVIDERS),
        policy_board(POLICY, Session.of_view(EMPTY)),
        failed("x", "it is not there"),
    ],
    ids=lambda board: board.title,
)
def test_what_others_wrote_on_a_page_is_text(board):
    assert text_of(board).replace("\n", "").isprintable()


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["small", "large"])
async def test_each_page_opens_by_its_command_and_esc_goes_back(size):
    app = ScriptedApp(HERE)
    app.model_rows, app.provider_rows, app.policy_told = MODELS, PROVIDERS, POLICY
    told = {
        "models": ("models: 3", "codex", "small"),
        "providers": ("1 of 2 ready", "it is not there"),
        "policy": ("make all", "deny: commands that begin so"),
        "budget": ("budget of the newest run", "no agent has begun"),
        "settings": ("workspace", "prsm config show"),
    }
    async with watching(app, size=size) as eyes:
        for name, texts in told.items():
            await eyes.type(f"/{name}\n")
            await eyes.sees(*texts)
            await eyes.press("escape")
            await eyes.until(lambda: eyes.tui.screen is eyes.tui.panes)
        await eyes.type("/export\n")
        await eyes.sees("prsm export session-1")


async def test_a_page_that_cannot_be_told_says_why_and_is_made_again():
    app = ScriptedApp(HERE)
    async with watching(app) as eyes:

        async def refuse() -> None:
            raise ConfigError("this is a replay", hint="resume it")

        kept, app.policy = app.policy, refuse  # type: ignore[method-assign,assignment]
        await eyes.type("/policy\n")
        await eyes.sees("this is a replay; resume it")
        app.policy = kept  # type: ignore[method-assign]
        await eyes.press("R")
        await eyes.sees("granted always in this session")


async def test_a_model_is_picked_and_the_next_task_begins_with_a_new_master_of_it():
    app = ScriptedApp(HERE)
    app.model_rows = MODELS
    async with watching(app) as eyes:
        await eyes.type("/model\n")
        await eyes.sees("models: 3")
        await eyes.press("down", "enter")
        await eyes.sees("a master of codex/small; /model default takes it back")
        await eyes.press("escape")
        await eyes.sees("a task for a master of codex/small")
        await eyes.type("do it\n")
        await eyes.until(lambda: app.run is not None)
        assert app.overrides == {"provider": "codex", "model": "small"}
        app.spawn()
        app.say("agent_state_changed", "m", to="completed")
        app.finish()
        await eyes.sees("as a further task")
        await eyes.type("more\n")
        await eyes.until(lambda: app.continued == ["more"])
        assert app.overrides == {}


async def test_a_model_is_named_by_its_alias_and_one_of_several_is_not():
    app = ScriptedApp(HERE)
    app.model_rows = MODELS
    async with watching(app) as eyes:
        await eyes.type("/model opus\n")
        await eyes.sees("several models are called opus")
        await eyes.type("/model nothing\n")
        await eyes.sees("no model is called nothing")
        await eyes.type("/model best\n")
        await eyes.sees("a task for a master of claude/opus")
        await eyes.type("/model default\n")
        await eyes.until(lambda: "for a master" not in eyes.text)


async def test_which_model_is_in_force_and_which_comes_is_said_where_one_types():
    app = ScriptedApp(RunOptions(task=None, model="best"))
    app.model_rows = MODELS
    async with watching(app, size=(120, 30)) as eyes:
        await eyes.sees("a task, with which a run begins · model: best (/model) · Enter sends")
        await eyes.type("do it\n")
        await eyes.until(lambda: app.run is not None)
        app.spawn()
        await eyes.sees("to master (echo/default) · inject (Ctrl+T) · Enter sends")
        await eyes.type("/model codex/small\n")
        await eyes.sees("master goes on with codex/small from its next turn on")
        await eyes.sees("to master (echo/default, then codex/small) · inject (Ctrl+T)")
        await eyes.type("/model codax/small\n")
        await eyes.sees("there is no model", "the nearest names: ", "codex")
        await eyes.type("/models\n")
        await eyes.sees("now: master has echo/default, then codex/small")
        await eyes.press("escape")
        app.switch_models()
        await eyes.sees("to master (codex/small) · inject (Ctrl+T)")
        app.say("agent_state_changed", "m", to="completed")
        app.finish()
        await eyes.sees("to master (codex/small) · as a further task")
        await eyes.type("/model claude/opus\n")
        await eyes.sees("master goes on with claude/opus in its next life")
        await eyes.sees("to master (codex/small, then claude/opus) · as a further task")
        await eyes.type("more\n")
        await eyes.until(lambda: app.continued == ["more"])


async def test_a_model_is_picked_for_the_agent_that_is_chosen():
    """By Enter on the page of models, and by the command; the others keep theirs."""
    app = ScriptedApp()
    app.model_rows = MODELS
    async with watching(app, size=(120, 30)) as eyes:
        await app.started()
        app.spawn()
        app.spawn("w", "writer", "m")
        await eyes.sees("writer")
        await eyes.type("/open writer\n")
        await eyes.sees("to writer (echo/default)")
        await eyes.type("/model\n")
        await eyes.sees("models: 3")
        await eyes.press("down", "enter", "escape")
        await eyes.sees("to writer (echo/default, then codex/small)")
        assert app.models_set == {"w": "codex/small"}


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=6), st.integers(1, 80))
def test_of_what_is_said_above_the_prompt_as_much_is_shown_as_fits(parts, width):
    line = fitting(parts, width)
    assert line == parts[0] or cell_len(line) <= width
    count = next(n for n in range(1, len(parts) + 1) if line == " · ".join(parts[:n]))
    assert count == len(parts) or cell_len(" · ".join(parts[: count + 1])) > width


async def test_the_palette_finds_does_and_begins_commands():
    app = ScriptedApp(HERE)
    app.policy_told = POLICY
    async with watching(app, size=(80, 24)) as eyes:
        await eyes.sees("no run yet")
        await eyes.type("a draft that stays")
        await eyes.press("ctrl+p")
        await eyes.sees("commands", "/open AGENT", "/new [FOLDER]")
        await eyes.type("granted")
        await eyes.sees("/policy")
        await eyes.until(lambda: "/new [FOLDER]" not in eyes.text)
        await eyes.press("enter")
        await eyes.sees("make all")
        await eyes.press("ctrl+p")
        await eyes.type("zzz")
        await eyes.press("enter", "escape")
        await eyes.sees("a draft that stays")
        await eyes.press("ctrl+p")
        await eyes.type("mode m")
        await eyes.press(*["backspace"] * 2, "down")
        await eyes.pilot.click("#commands", offset=(4, 0))
        await eyes.until(lambda: eyes.tui.panes.prompt.text.startswith("/mode "))


def test_all_commands_are_found_by_their_names_and_those_that_need_words_are_known():
    assert list(found("")) == list(COMMANDS)
    assert all(found(name)[0] == name for name in COMMANDS)
    assert {name for name, one in COMMANDS.items() if needs_words(one)} == {
        "open",
        "restart",
        "mode",
        "rename",
    }


async def test_what_takes_long_to_look_up_keeps_no_answer_waiting():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        await eyes.sees("to master")
        ready = asyncio.Event()

        async def slowly() -> list[ProviderReport]:
            await ready.wait()
            return PROVIDERS

        app.providers = slowly  # type: ignore[method-assign]
        await eyes.type("/providers\n")
        await eyes.sees("providers: on its way, which may take seconds")
        app.say("permission_requested", "m", request="r", tool="Bash", options=["once"])
        await eyes.press("f2")
        await eyes.sees("[o]nce")
        await eyes.type("o\n")
        await eyes.until(lambda: app.answers == [("r", "once")], "the answer")
        await eyes.press("escape")
        ready.set()
        await eyes.sees("1 of 2 ready")


async def test_what_changes_while_changes_are_read_is_read_too():
    app = ScriptedApp(HERE)
    read, told_of = [], asyncio.Event()
    async with watching(app) as eyes:
        app.spawn()
        kept = app.changes.list

        async def slowly() -> Any:
            told = await kept()
            read.append(len(told))
            await told_of.wait()
            return told

        app.changes.list = slowly  # type: ignore[method-assign]
        await eyes.press("f3")
        await eyes.until(lambda: read == [0], "the first reading")
        app.find_change("c9", "late.py", "m")
        await eyes.until(lambda: eyes.session.seq == app._seq, "the change")
        told_of.set()
        await eyes.sees("late.py", "pending: 1")
        assert read == [0, 1]


async def test_pages_and_changes_are_read_by_the_handle_that_is_there_now():
    before, now = ScriptedApp(HERE), ScriptedApp(HERE)
    now.model_rows = [ModelRow(provider="codex", model="the-newest")]
    now.find_change("c1", "a.py", None, diff="@@ -0,0 +1 @@\n+hello")
    async with watching(before) as eyes:
        eyes.tui.acts.turn_to(now)
        await eyes.type("/models\n")
        await eyes.sees("the-newest")
        await eyes.press("f3")
        await eyes.sees("pending: 1", "a.py")
