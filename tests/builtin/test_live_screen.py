"""The screen of a terminal: what is asked stays at the bottom, and is drawn once."""

import io
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.builtin.cells import INDENT, rows_of, text_width
from prsm_core.builtin.live_screen import AboveScreen, LiveScreen, Size
from prsm_core.builtin.screen import Shown
from tests.builtin.vt import Vt


class Seen:
    """A LiveScreen, and what a person sees of it."""

    def __init__(self, columns=80, rows=24, invite=""):
        self.size = Size(columns, rows)
        self.vt = Vt(columns, rows)
        stream = io.StringIO()
        setattr(stream, "write", self.vt.feed)  # noqa: B010 - a stream whose words are seen
        self.screen = LiveScreen(stream, invite=invite, size=lambda: self.size)

    def ask(self, *lines, prompt="[o]nce [d]eny: ", request="r"):
        self.screen.show_requests([Shown(request, lines)])
        self.screen.open_prompt(prompt)

    def resize(self, columns):
        self.size = Size(columns, self.size.rows)
        self.vt.resize(columns)


ASKED = ("w1 asks permission for Bash", "  command: make it", "  reason: not known to be safe")


@pytest.mark.requirement("D9", "U8")
def test_a_request_stays_at_the_bottom_and_is_drawn_once():
    seen = Seen()
    seen.ask(*ASKED)
    for number in range(100):
        seen.screen.print_lines([f"progress {number}"])
    assert seen.vt.rows[-4:] == [*ASKED, "[o]nce [d]eny:"]
    assert seen.vt.rows[-6] == "progress 99"
    assert seen.vt.history.count("make it") == 1
    seen.screen.close_prompt(answered=True)
    seen.screen.forget("r")
    seen.screen.print_lines(["Bash of w1: once (by user)"])
    seen.screen.close()
    assert seen.vt.rows[-5:] == ["progress 99", *ASKED, "Bash of w1: once (by user)", ""][-5:]
    assert seen.vt.history.count("make it") == 1


def test_two_requests_stand_together_and_what_ends_leaves():
    seen = Seen()
    first, second = (Shown(name, [f"{name} asks", f"  command: do {name}"]) for name in ("a", "b"))
    seen.screen.show_requests([first, second])
    seen.screen.open_prompt("which? ")
    assert seen.vt.rows[-5:] == [*second.lines, *first.lines, "which?"]
    seen.screen.forget("b")
    assert seen.vt.rows[:2] == list(second.lines)
    assert seen.vt.rows[-3:] == [*first.lines, "which?"]


@pytest.mark.requirement("D9")
def test_a_long_command_is_wrapped_whole_and_one_that_does_not_fit_is_printed_whole():
    command = " ".join(f"argument-{number:04}" for number in range(300))
    seen = Seen()
    seen.ask("w1 asks permission for Bash", f"  command: {command}")
    for number in range(50):
        seen.screen.print_lines([f"progress {number}"])
    shown = seen.vt.history.replace("\n" + INDENT, " ")
    assert shown.count(command) == 1
    assert seen.vt.rows[-3:] == [
        "w1 asks permission for Bash",
        "  all of it stands above",
        "[o]nce [d]eny:",
    ]
    assert len(seen.vt.rows) == 24
    assert seen.screen.show_again()
    assert seen.vt.history.replace("\n" + INDENT, " ").count(command) == 2
    seen.screen.forget("r")
    assert seen.vt.history.replace("\n" + INDENT, " ").count(command) == 2


def test_only_what_does_not_fit_is_cut_to_its_head_and_what_waits_behind_is_counted():
    seen = Seen()
    long = [f"line {number}" for number in range(30)]
    seen.screen.show_requests([Shown("a", ASKED), Shown("b", ["w2 asks", *long])], again="[v]")
    seen.screen.open_prompt("which? ")
    seen.screen.show_waiting(1)
    foot = ["w2 asks", "  all of it stands above; [v]", *ASKED, "1 more to answer after this"]
    assert seen.vt.rows[-7:] == [*foot, "which?"]
    assert seen.vt.history.count("line 29") == 1


@pytest.mark.parametrize("columns", [60, 40, 33, 120])
def test_the_foot_survives_another_size(columns):
    seen = Seen()
    seen.ask(ASKED[0], "  command: " + "漢字 and words " * 6, ASKED[2])
    seen.resize(columns)
    seen.screen.show_status("")
    seen.screen.print_lines(["afterwards"])
    assert seen.vt.history.count("w1 asks permission") == 1
    assert seen.vt.history.count("[o]nce") == 1
    assert seen.vt.rows[0] == "afterwards"


def test_status_and_typing_share_the_bottom():
    seen = Seen(invite="type here")
    seen.screen.show_status("Thinking... (3s)")
    assert seen.vt.rows == ["Thinking... (3s)", "> type here"]
    seen.screen.show_typed("do it\nnow", is_draft=False)
    seen.screen.print_lines(["w1 starts"])
    assert seen.vt.rows == ["w1 starts", "Thinking... (3s)", "> do it\\nnow"]
    seen.ask(*ASKED)
    seen.screen.show_typed("do it\nnow", is_draft=True)
    assert seen.vt.rows[-2:] == ["[o]nce [d]eny: (first end the line below)", "> do it\\nnow"]
    seen.screen.show_typed("o", is_draft=False)
    assert seen.vt.rows[-1] == "[o]nce [d]eny: o"
    seen.screen.show_typed("x" * 200, is_draft=False)
    assert seen.vt.rows[-1].startswith("> …x")
    seen.screen.close()
    assert seen.vt.rows == ["w1 starts", *ASKED, ""]


def test_a_process_in_the_background_leaves_the_bottom_to_the_shell():
    seen = Seen(invite="type here")
    seen.screen.show_status("Thinking...")
    seen.screen.step_back(True)
    seen.vt.feed("\n$ ls\n$ ")
    seen.screen.show_status("Thinking... (9s)")
    assert seen.vt.rows[-1] == "$"
    seen.screen.print_lines(["progress"])
    seen.vt.feed("fg\n")
    seen.screen.step_back(False)
    assert seen.vt.rows[-2:] == ["Thinking... (9s)", "> type here"]


def test_what_others_write_to_stderr_goes_among_the_lines_whole():
    seen = Seen(invite="type here")
    seen.screen.show_status("Thinking...")
    stderr = AboveScreen(seen.screen, io.StringIO())
    print("prsm: warning: ", end="", file=stderr)
    print("a sink is slow", file=stderr, flush=True)
    assert seen.vt.rows == ["prsm: warning: a sink is slow", "Thinking...", "> type here"]
    assert not stderr.isatty()


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")))


@given(WORDS, st.integers(12, 100))
def test_rows_fit_and_say_all_of_a_line(line, width):
    rows = rows_of(line, width)
    assert all(text_width(row) <= width for row in rows)
    assert rows[0] + "".join(row.removeprefix(INDENT) for row in rows[1:]) == line


def test_rows_break_behind_words_and_styles_take_no_room():
    line = "\x1b[1mmaster\x1b[0m: " + "a few words " * 12
    plain = line.replace("\x1b[1m", "").replace("\x1b[0m", "")
    rows = [row.replace("\x1b[1m", "").replace("\x1b[0m", "").rstrip() for row in rows_of(line, 60)]
    assert rows == textwrap.wrap(plain, 60, subsequent_indent=INDENT)


def test_a_request_that_is_folded_says_what_it_is_about():
    seen = Seen()
    lines = ["w1 asks permission for Edit", "  path: a.py", *(f"  | +{n}" for n in range(40))]
    seen.screen.show_requests([Shown("r", lines, "a.py")])
    seen.screen.open_prompt("which? ")
    assert seen.vt.rows[-3] == "w1 asks permission for Edit: a.py"
