"""A text that is gone on with in the person's own editor."""

from __future__ import annotations

import os
import sys

import pytest
from prsm_testing import ScriptedApp
from prsm_tui.editor import Ends, edit, editor_of

from plugins.prsm_tui.tests.scenes import watching
from plugins.prsm_tui.tests.terminals import PRSM, Terminal, world
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions


def editor(folder, code):
    """Return the command line of an editor that does as some Python says."""
    script = folder / "my editor.py"
    script.write_text(f"import sys, pathlib\nfile = pathlib.Path(sys.argv[-1])\n{code}\n")
    return f"{sys.executable} '{script}'"


APPENDS = "file.write_text(file.read_text() + ' and more\\n')"


async def test_what_the_editor_leaves_is_the_text(tmp_path):
    told = {"VISUAL": editor(tmp_path, APPENDS), "EDITOR": "false"}
    assert await edit("a ü text", Ends(), {**os.environ, **told}) == "a ü text and more"


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, "no editor is named"),
        ({"EDITOR": "  "}, "no editor is named"),
        ({"EDITOR": "vi 'half"}, "cannot be read"),
    ],
)
def test_an_editor_that_is_not_named_is_told(environ, why):
    with pytest.raises(ConfigError, match=why):
        editor_of(environ)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("sys.exit(3)", "has failed, with code 3"),
        ("file.unlink()", "has left cannot be read"),
        ("file.write_bytes(b'\\xff')", "has left cannot be read"),
    ],
)
async def test_an_editor_that_fails_is_told(tmp_path, code, why):
    with pytest.raises(ConfigError, match=why):
        await edit("x", Ends(), {"EDITOR": editor(tmp_path, code)})
    with pytest.raises(ConfigError, match="cannot be started"):
        await edit("x", Ends(), {"EDITOR": str(tmp_path / "nowhere")})


async def test_a_draft_goes_to_the_editor_and_back_and_stays_where_that_fails(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor(tmp_path, APPENDS))
    async with watching(ScriptedApp(RunOptions(task=None))) as eyes:
        await eyes.type("half a thought")
        await eyes.press("ctrl+g")
        await eyes.until(lambda: eyes.tui.panes.prompt.text == "half a thought and more")
        monkeypatch.setenv("EDITOR", "")
        await eyes.press("ctrl+g")
        await eyes.sees("no editor is named; set EDITOR")
        assert eyes.tui.panes.prompt.text == "half a thought and more"


def test_the_terminal_is_the_editors_and_the_screens_again_afterwards(tmp_path):
    """On a pseudo-terminal: what is typed meanwhile is the editor's, and nothing is drawn over."""
    code = "print('the editor here'); file.write_text(file.read_text() + input('more: '))"
    env = {**world(tmp_path, "xterm-256color"), "EDITOR": editor(tmp_path, code)}
    terminal = Terminal([str(PRSM), "demo", "--ui", "tui"], env, 24, 80)
    try:
        terminal.sees("NEEDS YOU: 1", "to master")
        terminal.type("a thought, ")
        terminal.type("\x07")
        terminal.sees("the editor here", "more:")
        assert "NEEDS YOU" not in terminal.text
        terminal.type("typed elsewhere\r")
        terminal.sees("a thought, typed elsewhere", "NEEDS YOU: 1")
        terminal.type("!")
        terminal.sees("a thought, typed elsewhere!")
    finally:
        terminal.close()
