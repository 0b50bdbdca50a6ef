"""The terminal of frontend tests: what is written is seen, what is typed is read."""

import os
import sys
import termios
import tty

import pytest
from prsm_testing import open_terminal


async def test_a_person_sees_what_is_written_and_types_what_is_read():
    with open_terminal() as terminal:
        assert sys.stdout.isatty()
        assert os.get_terminal_size(sys.stdout.fileno()) == (80, 24)
        print("name?", file=sys.stderr, flush=True)  # noqa: T201
        await terminal.shows("name?")
        terminal.type("Ada\n")
        assert sys.stdin.readline() == "Ada\n"
    assert "name?\r\n" in terminal.text


async def test_output_larger_than_the_terminals_buffer_does_not_block():
    with open_terminal() as terminal:
        sys.stdout.write("x" * 200_000 + "!")
        sys.stdout.flush()
        await terminal.shows("!")
    assert terminal.text.count("x") == 200_000


def test_the_standard_streams_come_back():
    before = sys.stdin, sys.stdout, sys.stderr
    with pytest.raises(KeyError), open_terminal():
        raise KeyError
    assert (sys.stdin, sys.stdout, sys.stderr) == before


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("plain \x1b[1mbold\x1b[0m", []),
        ("\x1b[?25l", ["mode 25"]),
        ("\x1b[?25l\x1b[?25h", []),
        ("\x1b[?1049h\x1b[?1000;1006h", ["mode 1049", "mode 1000", "mode 1006"]),
        ("\x1b[?1049h\x1b[?1049l", []),
    ],
)
def test_modes_that_are_left_on_are_told(written, left):
    with open_terminal() as terminal:
        sys.stdout.write(written)
        sys.stdout.flush()
        assert terminal.disorder == left
    assert terminal.text == written


def test_changed_line_settings_are_told():
    with open_terminal() as terminal:
        before = termios.tcgetattr(sys.stdin)
        tty.setraw(sys.stdin)
        assert terminal.disorder == ["line settings"]
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
        assert terminal.disorder == []
