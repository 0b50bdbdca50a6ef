"""The real program where terminals are slow, small, silent, closed, or left for a while."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml
from prsm_tui.screen.driver import Output

from plugins.prsm_tui.tests.terminals import CTRL_C, F2, FOCUS_OUT, PRSM, TAB, Terminal, world

DEMO = [str(PRSM), "demo", "--ui", "tui"]
HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold]no markup[/] \u202egnp.exe 文字 e\u0301 end"
ASK = {"question": "Which colour?", "options": ["red", "blue"]}
COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:38|48|3[0-7]|4[0-7]|9[0-7]|10[0-7])(?:;\d+)*m")
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "Painted it."}}}


@pytest.fixture
def started(tmp_path):
    """Start programs on terminals, in a world of their own."""
    with contextlib.ExitStack() as stack:

        def start(argv=DEMO, rows=24, columns=80, *, term="xterm-256color", delay=0.0, **more):
            env = world(tmp_path, term, **more)
            place = tmp_path / "workspace"
            place.mkdir(exist_ok=True)
            terminal = Terminal(argv, env, rows, columns, delay=delay, cwd=place)
            stack.callback(terminal.close)
            return terminal

        yield start


@pytest.fixture
def prsm(tmp_path):
    """Run a command of prsm to its end, in the same world; return what it printed."""
    place = tmp_path / "workspace"
    place.mkdir(exist_ok=True)

    def run(*words):
        argv = [str(PRSM), *words]
        env = world(tmp_path)
        done = subprocess.run(
            argv, cwd=place, env=env, capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout

    yield run
    for session in json.loads(run("sessions", "list", "--json")):
        if session["pid"] is not None:  # of a test that has failed, or it is just ending
            with contextlib.suppress(ProcessLookupError):
                os.kill(session["pid"], signal.SIGKILL)


def scripted(tmp_path, *steps):
    """Return the words by which a master follows steps."""
    path = tmp_path / "scenario.yaml"
    lanes = {"lanes": {"master": {"marker": "", "steps": list(steps)}}}
    path.write_text(yaml.safe_dump(lanes, allow_unicode=True), encoding="utf-8")
    return ["--provider", "script", "--set", f"providers.script.scenario={path}"]


def leave(terminal):
    terminal.type(CTRL_C)
    terminal.sees("Ctrl+C again leaves")
    terminal.type(CTRL_C)
    return terminal.ends()


@pytest.mark.long
def test_over_a_slow_line_keys_are_shown_in_order_and_nothing_flickers(started):
    terminal = started(term="screen", delay=0.2)
    terminal.sees("NEEDS YOU: 1", "to master")
    begin, sentence = len(terminal.seen), "the quick brown fox says yes or no"
    for letter in sentence:
        terminal.type(letter)
    terminal.sees(sentence)
    shown = [row for row in terminal.seen[begin:] if row]
    assert all(sentence.startswith(row) for row in shown), shown
    assert [len(row) for row in shown] == sorted(len(row) for row in shown)
    terminal.type(F2)
    terminal.sees("[o]nce")
    terminal.type("o\r")
    terminal.sees("Nothing waits for you")
    terminal.type(F2)
    terminal.sees("the run is completed", sentence)
    assert terminal.screen.flickers == []
    assert leave(terminal) == 0


@pytest.mark.long
@pytest.mark.skipif(shutil.which("screen") is None, reason="GNU screen is not installed")
def test_in_gnu_screen_it_is_typed_answered_detached_and_come_back_to(started, tmp_path):
    sockets = tmp_path / "sockets"
    sockets.mkdir(mode=0o700)
    screen = ["screen", "-c", os.devnull, "-S", "shop"]
    terminal = started([*screen, *DEMO], rows=30, columns=120, SCREENDIR=str(sockets))
    terminal.sees("NEEDS YOU: 1", "? fixer")
    terminal.type("half a thought")
    terminal.sees("half a thought")
    terminal.type("\x01d")  # screen's own keys: it goes on without a terminal
    terminal.writes("[detached from ")
    _ = terminal.ends()
    again = started(["screen", "-r", "shop"], rows=24, columns=80, SCREENDIR=str(sockets))
    again.sees("NEEDS YOU: 1", "half a thought")
    again.type(F2)
    again.sees("[o]nce")
    again.type("o\r")
    again.sees("Nothing waits for you")
    again.type(F2)
    again.sees("the run is completed", "half a thought")
    assert leave(again) == 0


def test_a_terminal_that_answers_no_query_shows_all(started):
    """Ours never answers: neither what it is, nor what modes it knows."""
    terminal = started(term="dumb")
    terminal.sees("NEEDS YOU: 1", "to master")
    terminal.type("still typing")
    terminal.sees("still typing")


def test_a_storm_of_sizes_leaves_a_whole_screen(started):
    terminal = started(rows=30, columns=120)
    terminal.sees("NEEDS YOU: 1", "# session")
    terminal.type("half a thought")
    terminal.sees("half a thought")
    for step in range(30):
        terminal.resize(5 + step, 20 + 4 * step)
    terminal.resize(5, 20)
    terminal.sees("half a thought")
    terminal.resize(30, 120)
    terminal.sees("NEEDS YOU: 1", "# session", "half a thought", "fixer")
    terminal.resize(24, 80)
    terminal.sees("NEEDS YOU: 1", "half a thought")
    assert leave(terminal) == 130


def test_stopped_and_continued_it_draws_all_again(started):
    terminal = started()
    terminal.sees("NEEDS YOU: 1", "to master")
    terminal.type("half a thought")
    terminal.sees("half a thought")
    terminal.process.send_signal(signal.SIGTSTP)
    terminal.until(lambda: terminal.state() == "T", "that it is stopped")
    terminal.until(lambda: terminal.written.rfind(b"?1049l") > terminal.written.rfind(b"?1049h"))
    assert terminal.settings() == terminal.before
    terminal.screen.reset()
    terminal.process.send_signal(signal.SIGCONT)
    terminal.sees("NEEDS YOU: 1", "half a thought")
    terminal.type(" and on")
    terminal.sees("half a thought and on")
    assert leave(terminal) == 130


@pytest.mark.parametrize("linear", ["", "1"])
def test_a_terminal_that_goes_without_a_signal_ends_it(started, prsm, tmp_path, linear):
    """Also where nothing is drawn any more, so that no writing tells of it."""
    prsm("run", "paint", *scripted(tmp_path, {"say": "I paint.", **DONE}))
    replay = started([str(PRSM), "replay", "--ui", "tui"], PRSM_LINEAR=linear)
    replay.writes("Painted it.")
    _ = replay.hang_up(tells=False)
    assert replay.process.returncode is not None


@pytest.mark.parametrize("linear", ["", "1"])
def test_a_terminal_that_takes_nothing_keeps_no_process(started, linear):
    terminal = started(PRSM_LINEAR=linear)
    terminal.writes("fixer")
    terminal.type("\x13")
    end, sizes = time.monotonic() + 30, itertools.cycle(range(60, 120))
    while not terminal.is_full():
        assert time.monotonic() < end, "it is not drawn on"
        terminal.resize(24, next(sizes))
        # Sizes that come faster than it can take them leave it no time to draw.
        with contextlib.suppress(subprocess.TimeoutExpired):
            terminal.process.wait(0.02)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(20) == 130


def test_a_screen_of_which_a_part_was_dropped_is_drawn_again():
    taken: list[bool] = []
    told: list[str] = []

    class Stalling(io.StringIO):
        def write(self, text):
            return len(text) if taken.pop(0) else 0

    output = Output(Stalling(), gone=lambda: told.append("gone"), torn=lambda: told.append("torn"))
    for taken[:], tells in (([True], []), ([False], []), ([False], []), ([True], ["torn"])):
        output.write("a frame")
        assert told == tells
    taken[:] = [True]
    output.write("a frame")
    assert told == ["torn"]


def test_the_mouse_does_what_keys_do_and_answers_nothing(started):
    terminal = started(rows=30, columns=120)
    terminal.sees("NEEDS YOU: 1", "? fixer")
    terminal.click(*terminal.find("? fixer"))
    terminal.sees("to fixer", "master / fixer")
    column, row = terminal.find("asks to use Bash")
    terminal.wheel_up(column, row)
    terminal.click(*terminal.find("NEEDS YOU"))
    terminal.click(*terminal.find("master / fixer"))
    terminal.type("ityped ")
    terminal.sees("typed")
    assert "NEEDS YOU: 1" in terminal.text


def test_who_looks_elsewhere_is_told_by_the_terminal(started):
    terminal = started(TERM_PROGRAM="WezTerm")
    terminal.writes("\x1b[?1049h")
    terminal.type(FOCUS_OUT)
    terminal.writes("\x07\x1b]9;1 need you: fixer: Bash: python3 -m unittest\x1b\\")


def test_a_text_is_copied_by_the_terminal(started):
    terminal = started()
    terminal.sees("NEEDS YOU: 1", "to master")
    terminal.click(*terminal.find("First I read"))
    terminal.type("y")
    terminal.sees("copied: ")
    terminal.writes("\x1b]52;c;")


def test_hostile_text_is_text(started, tmp_path):
    wide = {"shell": {"cmd": "python3 -c \"print('x' * 20_000_000)\""}}
    steps = [{"say": HOSTILE, **wide}, DONE]
    words = scripted(tmp_path, *steps)
    argv = [str(PRSM), "run", "paint it", "--ui", "tui", *words, "--on-ask", "allow"]
    terminal = started(argv, rows=30, columns=100)
    terminal.sees("[bold]no markup[/]", "文字", "Painted it.", "the run is completed")
    assert b"\x1b]0;owned" not in terminal.written
    assert "\u202e".encode() not in terminal.written
    assert leave(terminal) == 0


def test_a_session_of_another_process_is_attached_to_and_goes_on(started, prsm, tmp_path):
    steps = [{"say": "I paint.", "ask_user": ASK}, DONE]
    told = json.loads(prsm("run", "paint", "--detach", "--json", *scripted(tmp_path, *steps)))
    attach = [str(PRSM), "attach", "--ui", "tui", told["session"]]
    terminal = started(attach)
    terminal.sees("I paint.", "NEEDS YOU: 1")
    terminal.type(CTRL_C)
    terminal.sees("the run goes on, since another process has it")
    terminal.type(CTRL_C)
    assert terminal.ends() == 0
    again = started(attach)
    again.sees("NEEDS YOU: 1")
    again.type(F2)
    again.sees("2. blue", "a number or a text")
    again.type("2\r")
    again.sees("Nothing waits for you")
    again.type(F2)
    again.sees("Painted it.")
    assert leave(again) == 0


@pytest.mark.parametrize("linear", ["", "1"])
def test_a_session_that_is_over_is_replayed(started, prsm, tmp_path, linear):
    steps = [{"say": "I paint.", **DONE}]
    prsm("run", "paint", *scripted(tmp_path, *steps))
    replay = started([str(PRSM), "replay", "--ui", "tui"], PRSM_LINEAR=linear)
    replay.sees("I paint.", "Painted it.")
    assert leave(replay) == 0


def test_the_linear_mode_writes_lines_and_moves_no_cursor(started):
    terminal = started(PRSM_LINEAR="1")
    terminal.writes("linear mode: on, by PRSM_LINEAR=1", "needs you: 1 waits", "writer: done")
    terminal.type("/needs\r")
    terminal.writes("choice 1: once", "then Enter")
    terminal.type("1\r")
    terminal.writes("the run is completed")
    terminal.type(TAB + CTRL_C)
    terminal.writes("Ctrl+C again leaves: no run is open")
    terminal.type(CTRL_C)
    assert terminal.ends() == 0
    assert terminal.settings() == terminal.before
    told = terminal.written.replace(b"\x1b[?2004h", b"").replace(b"\x1b[?2004l", b"")
    assert b"\x1b" not in told


def test_where_no_colours_are_wanted_none_are_written(started):
    terminal = started(rows=30, columns=120, NO_COLOR="1")
    terminal.sees("NEEDS YOU: 1", "? fixer")
    terminal.type(F2)
    terminal.sees("[o]nce")
    assert COLOUR.findall(terminal.written) == []
