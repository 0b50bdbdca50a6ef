"""Frontends that stay or draw a screen: the contract takes those that keep it, and no other."""

import asyncio

import pytest
from prsm_testing import FrontendContract, open_terminal
from prsm_testing.terminal import Screen

from plugins.prsm_testing.tests.staying import Drawing, Staying

pytestmark = pytest.mark.requirement("F12")


class TestStaying(FrontendContract):
    stays = True

    def build(self, settings):
        return Staying(settings)

    async def leave(self, terminal):
        terminal.type("q\n")


class TestDrawing(TestStaying):
    draws = True

    def build(self, settings):
        return Drawing(settings)


def contract(kind, breaks):
    broken = type("Broken", (kind,), {"breaks": breaks})

    methods = {"deadline_s": 2.0, "build": lambda _, settings: broken(settings)}
    return type("Contract", (TestDrawing if kind is Drawing else TestStaying,), methods)()


@pytest.mark.parametrize(
    ("kind", "breaks", "test", "arguments"),
    [
        (Staying, "ends with its run", "its_exit_code_is_that_of_the_run", ("completed", 0)),
        (Staying, "its code is that of the run", "its_exit_code_is_that_of_the_run", ("failed", 1)),
        (Staying, "begins without a task", "one_that_stays_waits_where_it_has_no_task", ()),
        (Staying, "cannot be left", "one_that_stays_waits_where_it_has_no_task", ()),
        (Staying, "hides why", "a_run_that_cannot_start_is_no_success", ()),
        (Staying, "hides why", "a_run_that_breaks_is_no_success", ()),
        (Staying, "shows it raw", "what_an_agent_writes_cannot_steer_the_terminal", ()),
        (Drawing, "draws over its text", "the_summary_is_shown", ()),
        (Drawing, "takes no other size", "a_change_of_size_is_taken", ()),
        (Drawing, "leaves its screen", "the_terminal_is_left_as_it_was", ()),
    ],
)
async def test_a_frontend_that_breaks_the_rule_fails_its_test(kind, breaks, test, arguments):
    tasks = asyncio.all_tasks()
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - groups, assertions, pytest.fail
        await getattr(contract(kind, breaks), f"test_{test}")(*arguments)
    assert not isinstance(caught.value, asyncio.CancelledError | KeyboardInterrupt)
    for task in asyncio.all_tasks() - tasks:
        task.cancel()


def test_a_screen_is_what_is_seen_and_not_what_was_written():
    with open_terminal() as terminal:
        print("hello\x1b[1;1HJ\x1b[5;10H日本\x1b[?25l", end="", flush=True)  # noqa: T201
        screen = terminal.screen
        assert (screen.lines[0], screen.lines[4].strip()[0]) == ("Jello", "日")
        assert (len(screen.lines), screen.columns, screen.has_cursor) == (24, 80, False)
        assert screen.cursor == (4, 13)
        terminal.resize(3, 4)
        print("\x1b[2J\x1b[1;1Habcdef\x1b[?25h", end="", flush=True)  # noqa: T201
        assert terminal.screen == Screen(("abcd", "ef", ""), 4, (1, 2), has_cursor=True)
