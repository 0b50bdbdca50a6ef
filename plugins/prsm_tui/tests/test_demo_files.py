"""Changes and snapshots of the demo's team on its real engine, and real files, by keys alone."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from plugins.prsm_tui.tests.scenes import engine, watching
from plugins.prsm_tui.tests.test_demo import DEADLINE, SHOP, TASK

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

PATIENCE = """import pathlib
import time

pathlib.Path("began").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""


async def choose(eyes, told, key="down"):
    """Go down until a change or a snapshot is told of."""
    await eyes.press("home")
    while told not in eyes.text:
        await eyes.press(key)


async def comment_on_the_fix(eyes):
    """Open the fixer's change, ask why, and comment on the line that it wrote."""
    await eyes.press("f3")
    await eyes.sees("changes by file · pending: 2", "CHANGES.md", "basket.py")
    await choose(eyes, "by fixer (named)")
    await eyes.press("enter")
    await eyes.sees("subtotal > FREE_SHIPPING_FROM", "subtotal >= FREE_SHIPPING_FROM")
    await eyes.press(*["down"] * (eyes.tui.size.width < 120))
    await eyes.press("v")
    await eyes.sees("line 11 as it is now is of fixer: ")
    await eyes.press("c")
    await eyes.sees("a comment on line 11 to fixer, who made it")
    await eyes.type("Name the limit in the docstring, too.\n")
    await eyes.sees("sent to fixer, who made it")
    await eyes.press("t")
    await eyes.sees(">>Edit  basket.py", "master / fixer")


@pytest.mark.requirement("E42")
@pytest.mark.parametrize(
    "size",
    [
        pytest.param((80, 24), id="small"),
        pytest.param((160, 48), id="large", marks=pytest.mark.long),
    ],
)
async def test_a_line_is_commented_on_and_changes_are_accepted_and_taken_back(tmp_path, size):
    async with (
        asyncio.timeout(DEADLINE),
        engine(tmp_path, "builtin:demo", TASK, files=SHOP) as app,
        watching(app, size=size) as eyes,
    ):
        await eyes.sees("NEEDS YOU: 1")
        await comment_on_the_fix(eyes)
        await eyes.press("end", "i")
        await eyes.sees("you: A comment on your change of `basket.py`, line 11:")
        await eyes.press("f2")
        await eyes.sees("[o]nce")
        await eyes.type("o\n")
        await eyes.press("f2")
        await eyes.until(lambda: not eyes.session.run.is_open, "the end of the run")
        notes = tmp_path / "workspace" / "CHANGES.md"
        assert notes.exists()
        await eyes.press("f3")
        await eyes.sees("changes by file")
        await choose(eyes, "by writer (named)")
        await eyes.press("x", "y")
        await eyes.sees("rejected: CHANGES.md")
        assert not notes.exists()
        await choose(eyes, "by fixer (named)")
        await eyes.press("a")
        await eyes.sees("accepted: basket.py")


@pytest.mark.requirement("U2")
async def test_the_files_go_back_to_a_snapshot_and_forth_again(tmp_path):
    async with (
        asyncio.timeout(DEADLINE),
        engine(tmp_path, "builtin:demo", TASK, files=SHOP) as app,
        watching(app, size=(80, 24)) as eyes,
    ):
        await eyes.sees("NEEDS YOU: 1")
        await eyes.press("f2")
        await eyes.sees("[o]nce")
        await eyes.type("o\n")
        await eyes.until(lambda: not eyes.session.run.is_open, "the end of the run")
        await eyes.press("f2", "f4")
        await eyes.sees("snapshots of this session:", "run", TASK[:20])
        await eyes.press("n")
        await eyes.type("as the team left it\n")
        await eyes.sees("as the team left it", "manual", "is taken")
        for _ in range(len(eyes.session.shelf.snapshots)):
            await eyes.press("down")
        await eyes.press("enter")
        await eyes.sees("- CHANGES.md", "~ basket.py", "a restore: ", "1 change")
        await eyes.press("r", "y")
        await eyes.sees("restored", "files changed: ")
        basket = tmp_path / "workspace" / "basket.py"
        assert "subtotal > FREE_SHIPPING_FROM" in basket.read_text()
        await eyes.press("u", "y")
        await eyes.until(lambda: "subtotal >= FREE" in basket.read_text(), "the undo")


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    "size",
    [
        pytest.param((80, 24), id="small"),
        pytest.param((160, 48), id="large", marks=pytest.mark.long),
    ],
)
async def test_from_the_prompt_over_an_engine_that_ends_to_the_summary(tmp_path, size):
    """Prompt, inject into a child, comment, View Context, View Agent, kill, answer, resume.

    The tests that the answer allows wait for what never comes, and the agent that lives again for
    a message: so the engine ends in the midst of both.
    """
    async with asyncio.timeout(DEADLINE):
        async with (
            engine(tmp_path, "builtin:demo", None, files=SHOP) as app,
            watching(app, size=size) as eyes,
        ):
            (tmp_path / "workspace" / "test_patience.py").write_text(PATIENCE)
            await eyes.sees("a task, with which a run begins")
            await eyes.type(f"{TASK}\n")
            await eyes.sees("NEEDS YOU: 1")
            await eyes.type("/open fixer\n")
            await eyes.sees("master / fixer")
            await eyes.type("Use the limit of the README.\n")
            await eyes.sees("you: Use the limit of the README.")
            await comment_on_the_fix(eyes)
            await eyes.type("i/open writer\n")
            await eyes.sees("writer has ended: /restart TEXT")
            await eyes.type("/restart Wait for a further line.\n")
            await eyes.sees("to writer", "wait_for_message  [runs")
            await eyes.type("/kill\n")
            await eyes.sees("Kill writer?")
            await eyes.press("y")
            await eyes.sees("killed: writer")
            await eyes.press("f2")
            await eyes.sees("master / fixer", "python3 -m unittest", "[o]nce")
            await eyes.type("o\n")
            await eyes.sees("Nothing waits for you")
            await eyes.press("f2")
            await eyes.type("/open fixer\n")
            await eyes.sees("once (by user, prsm tui)")
            began = tmp_path / "workspace" / "began"
            await eyes.until(began.exists, "the tests run")
            session = eyes.session.id
        async with (
            engine(tmp_path, "builtin:demo", resumes=session) as app,
            watching(app, size=size) as eyes,
        ):
            await eyes.until(lambda: not eyes.session.run.is_open, "the end of the run")
            await eyes.type("/open session\n")
            await eyes.sees("the run goes on", "the run is completed", "The review agrees")
            children = (await app.agents.tree()).agents[0].children
            states = {node.name: node.state for node in children}
            assert states == {"writer": "killed", "fixer": "failed", "reviewer": "completed"}
