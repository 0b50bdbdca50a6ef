"""How a terminal is told something, and what may be set of that."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from msgspec import ValidationError, convert
from prsm_testing import ScriptedApp
from prsm_tui.screen.app import notification
from prsm_tui.screen.driver import TerminalDriver
from prsm_tui.settings import TuiSettings

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.interfaces.frontend import RunOptions

END = "\x1b\\"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "xterm-kitty"}, f"\x1b]99;;1 need you{END}"),
        ({"TERM_PROGRAM": "iTerm.app"}, f"\x1b]9;1 need you{END}"),
        ({"WT_SESSION": "x"}, f"\x1b]9;1 need you{END}"),
        ({"TERM": "foot"}, f"\x1b]777;notify;prsm;1 need you{END}"),
        ({"VTE_VERSION": "7000"}, f"\x1b]777;notify;prsm;1 need you{END}"),
        (
            {"VTE_VERSION": "7000", "TMUX": "/run/tmux,1,0"},
            f"\x1bPtmux;\x1b\x1b]777;notify;prsm;1 need you\x1b{END}{END}",
        ),
    ],
)
def test_a_terminal_is_told_in_the_one_way_that_it_knows(environ, told):
    assert notification("1 need you", environ) == f"\x07{told}"


def test_what_an_agent_wrote_ends_no_sequence():
    told = notification("a\x1b\\b\x07;c\u202e", {"TERM": "xterm-kitty"})
    assert told == f"\x07\x1b]99;;a\\b,c{END}"


@pytest.mark.parametrize("section", [{"theme": "pink"}, {"linear": "maybe"}, {"colour": "dark"}])
def test_a_setting_that_there_is_not_is_an_error(section):
    with pytest.raises(ValidationError):
        convert(section, TuiSettings)


@pytest.mark.parametrize(("notifies", "looks"), [(True, False), (False, False), (True, True)])
async def test_it_rings_where_something_waits_and_nobody_looks(notifies, looks):
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app) as eyes:
        written: list[str] = []
        eyes.tui.notifies, eyes.tui.app_focus = notifies, looks
        eyes.tui._driver.write = written.append
        app.spawn()
        app.say("question_asked", "m", request="q1", question="Which?", options=[])
        await eyes.sees("NEEDS YOU: 1")
        assert any("\x07" in text for text in written) == (notifies and not looks)


def test_a_terminal_that_was_closed_is_known_without_writing_to_it():
    person, program = os.openpty()
    driver = SimpleNamespace(fileno=program)
    has_gone = vars(TerminalDriver)["has_gone"].fget
    assert not has_gone(driver)
    os.close(person)
    assert has_gone(driver)
    os.close(program)
