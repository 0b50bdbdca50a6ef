"""The screen of snapshots, driven by keys over an application that a test plays."""

from __future__ import annotations

import pytest
from prsm_testing import ScriptedApp
from prsm_tui.screen.snapshots import Snapshots

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.door import ChangedFile
from prsm_core.interfaces.frontend import RunOptions

HERE = RunOptions(task=None)


@pytest.fixture
def app():
    made = ScriptedApp(HERE)
    made.keeps_files = True
    made.restore_changes = [
        ChangedFile(path="a.py", change="modified"),
        ChangedFile(path="[red]\x1b[2J", change="deleted"),
    ]
    return made


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["small", "large"])
async def test_one_is_taken_looked_at_restored_and_the_restore_undone(app, size):
    async with watching(app, size=size) as eyes:
        await eyes.type("/snapshot\n")
        await eyes.sees("snapshots of this session: 0", "n takes one")
        await eyes.press("n")
        await eyes.type("before r and u\n")
        await eyes.sees("snapshots of this session: 1", "manual", "before r and u", "is taken")
        await eyes.press("r")
        await eyes.sees("look at what it changes first")
        await eyes.press("enter")
        await eyes.sees("a restore: 1 go, 1 change", "~ a.py", r"- [red]\x1b[2J")
        await eyes.press("r")
        await eyes.sees("Restore snapshot 0000000001?", "y yes · any other key: no")
        await eyes.press("n")
        assert app.restored == []
        await eyes.until(lambda: isinstance(eyes.tui.screen, Snapshots))
        await eyes.press("r", "y")
        await eyes.sees("restored 0000000001: files changed: 2")
        assert app.restored == ["0000000001"]
        await eyes.press("u")
        await eyes.sees("Take back what was done to files last?")
        await eyes.press("y")
        await eyes.until(lambda: app.restored == [])
        await eyes.press("escape")
        await eyes.until(lambda: eyes.tui.screen is eyes.tui.panes)


async def test_a_name_is_given_up_by_esc_and_a_text_takes_one_at_once(app):
    async with watching(app) as eyes:
        await eyes.press("f4", "n")
        await eyes.type("not this")
        await eyes.press("escape")
        await eyes.sees("n takes one")
        await eyes.press("escape")
        await eyes.type("/snapshot as it is\n")
        await eyes.until(lambda: len(app.snapshot_rows) == 1)
        assert app.snapshot_rows[0].description == "as it is"


async def test_below_an_open_run_nothing_is_restored_and_it_is_said_why(app):
    await app.runs.start("do it")
    await app.snapshots.take("one")
    async with watching(app) as eyes:
        await eyes.press("f4")
        await eyes.sees("snapshots of this session: 1")
        await eyes.press("enter")
        await eyes.sees("a restore: 1 go")
        await eyes.press("r", "y")
        await eyes.sees("error: a run is open in session")
        assert app.restored == []


async def test_without_kept_files_the_reason_is_told():
    async with watching(ScriptedApp(HERE)) as eyes:
        await eyes.press("f4", "n", "enter")
        await eyes.sees("files are not kept here")
        await eyes.press("u", "y")
        await eyes.sees("nothing was restored, rejected or merged in this folder")
        await eyes.press("f3")
        await eyes.sees("changes by file")
        await eyes.press("f3")
        await eyes.until(lambda: eyes.tui.screen is eyes.tui.panes)
