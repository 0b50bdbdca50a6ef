"""The real program on real terminals: a pseudo-terminal that pyte draws, and tmux."""

from __future__ import annotations

import contextlib
import select
import shutil
import subprocess
import time

import pytest

from plugins.prsm_tui.tests.terminals import CTRL_C, F2, PRSM, SEEN_SECONDS, Terminal, world


@pytest.fixture
def demo(tmp_path):
    """Start `prsm demo --ui tui` on a terminal of a size."""
    with contextlib.ExitStack() as stack:

        def start(rows=24, columns=80):
            argv = [str(PRSM), "demo", "--ui", "tui"]
            terminal = Terminal(argv, world(tmp_path, "xterm-256color"), rows, columns)
            stack.callback(terminal.close)
            return terminal

        yield start


def test_the_demo_is_answered_and_left_on_a_terminal_of_80_columns(demo):
    terminal = demo()
    terminal.sees("NEEDS YOU: 1", "to master")
    terminal.type("half a thought")
    terminal.type(F2)
    terminal.sees("python3 -m unittest", "[o]nce", "reason: it is not known to be safe")
    terminal.type("o\r")
    terminal.sees("Nothing waits for you")
    terminal.type(F2)
    terminal.sees("the run is completed", "The review agrees", "half a thought")
    terminal.type(CTRL_C)
    terminal.sees("Ctrl+C again leaves: no run is open")
    terminal.type(CTRL_C)
    assert terminal.ends() == 0
    assert b"not sent: half a thought" in terminal.written
    assert terminal.settings() == terminal.before
    for mode in (b"1049", b"1000", b"1003", b"2004", b"1004"):
        assert terminal.written.rfind(b"\x1b[?%bl" % mode) > terminal.written.rfind(
            b"\x1b[?%bh" % mode
        ), f"mode {mode!r} stays on"


def test_leaving_a_run_says_how_it_goes_on_and_is_no_success(demo):
    terminal = demo(rows=30, columns=120)
    terminal.sees("NEEDS YOU: 1", "# session")
    terminal.type(CTRL_C)
    terminal.sees("the run stops here as interrupted")
    terminal.type(CTRL_C)
    assert terminal.ends() == 130
    assert b"the run is interrupted: prsm resume" in terminal.written


def test_a_terminal_that_is_closed_ends_it(demo):
    terminal = demo()
    terminal.sees("NEEDS YOU: 1")
    assert terminal.hang_up() != 0


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_demo_is_answered_in_tmux(tmp_path):
    socket = str(tmp_path / "tmux")
    env = world(tmp_path, "xterm-256color")

    def tmux(*words):
        argv = ["tmux", "-S", socket, "-f", "/dev/null", *words]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout

    def sees(*texts):
        end = time.monotonic() + SEEN_SECONDS
        while not all(text in (seen := tmux("capture-pane", "-p")) for text in texts):
            assert time.monotonic() < end, f"not seen: {texts}, but\n{seen}"
            select.select([], [], [], 0.2)

    tmux("new-session", "-d", "-x", "120", "-y", "30", f"{PRSM} demo --ui tui; echo code $?; cat")
    try:
        sees("NEEDS YOU: 1", "# session", "? fixer")
        tmux("send-keys", "F2")
        sees("[o]nce", "python3 -m unittest")
        tmux("send-keys", "o", "Enter")
        sees("Nothing waits for you")
        tmux("send-keys", "F2")
        sees("the run is completed", "x reviewer")
        tmux("send-keys", "C-c")
        sees("Ctrl+C again leaves")
        tmux("send-keys", "C-c")
        sees("code 0")
    finally:
        tmux("kill-server")
