"""The screen of a terminal: what is asked stays at the bottom, and is drawn once."""

import io
import textwrap

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_console.live_screen import AboveScreen, LiveScreen, Size
from prsm_console.screen import Shown

from plugins.prsm_console.tests.vt import Vt
from prsm_core.terminal.cells import INDENT, rows_of, text_width


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


class Terminal:
    """A LiveScreen on a terminal as pyte has it, and how much is written there."""

    def __init__(self, columns=80, rows=24):
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self.screen.set_mode(pyte.modes.LNM)  # the line discipline adds the return
        self._stream = pyte.Stream(self.screen)
        self.written = ""
        stream = io.StringIO()
        setattr(stream, "write", self._take)  # noqa: B010 - a stream whose words are seen
        self.live = LiveScreen(stream, invite="type here", size=lambda: Size(columns, rows))

    def _take(self, text):
        self.written += text
        self._stream.feed(text)

    def taken(self):
        """Return what was written since this was asked last."""
        written, self.written = self.written, ""
        return written

    @property
    def rows(self):
        past = ["".join(row[i].data for i in range(80)) for row in self.screen.history.top]
        return [row.rstrip() for row in (*past, *self.screen.display)]

    @property
    def cursor(self):
        return self.screen.cursor.y, self.screen.cursor.x


def fill(terminal, requests=4):
    """Show requests, a status and a row for typing: fifteen rows that stay."""
    shown = [
        Shown(f"r{n}", (f"w{n} asks permission", f"  command: make {n}", "  reason: not listed"))
        for n in range(requests)
    ]
    terminal.live.show_status("3 agents work")
    terminal.live.show_requests(shown)
    terminal.taken()


def test_a_line_of_news_costs_that_line_and_not_the_rows_that_stay():
    terminal = Terminal()
    fill(terminal)
    foot = [row for row in terminal.rows if row]
    assert len(foot) == 15
    for number in range(40):
        terminal.live.print_lines([f"progress {number}"])
        assert len(terminal.taken()) <= len(f"progress {number}") + 32
    rows = [row for row in terminal.rows if row]
    assert rows == [*(f"progress {number}" for number in range(40)), *foot]
    assert terminal.cursor == (23, 2)


def test_a_new_status_costs_its_own_row():
    terminal = Terminal()
    fill(terminal)
    terminal.live.show_status("4 agents work")
    assert len(terminal.taken()) <= len("4 agents work") + 24
    assert terminal.rows[13:15] == ["4 agents work", "> type here"]
    terminal.live.show_typed("no", is_draft=False)
    assert terminal.rows[14] == "> no"
    assert terminal.cursor == (14, 4)
    terminal.taken()
    terminal.live.show_requests([])
    terminal.live.show_status("4 agents work")
    assert [row for row in terminal.rows if row] == ["4 agents work", "> no"]


TEXTS = st.text("ab 漢", min_size=1, max_size=100)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("print_lines"), st.lists(TEXTS, max_size=30)),
        st.tuples(st.just("show_status"), TEXTS),
        st.tuples(st.just("show_typed"), TEXTS),
        st.tuples(st.just("show_requests"), st.lists(TEXTS, max_size=5)),
    ),
    max_size=20,
)


def play(terminal, act, given, *, anew):
    """Do one thing on a screen; with `anew` as if the terminal had had another size before."""
    if anew:
        terminal.live._drawn_for = None
    if act == "show_typed":
        terminal.live.show_typed(given, is_draft=False)
    elif act == "show_requests":
        terminal.live.show_requests([Shown(str(n), (text,)) for n, text in enumerate(given)])
    else:
        getattr(terminal.live, act)(given)


@given(ACTS)
def test_what_changes_is_drawn_as_if_all_of_it_were_drawn_anew(acts):
    whole, changed = Terminal(), Terminal()
    for act, given_ in acts:
        play(whole, act, given_, anew=True)
        play(changed, act, given_, anew=False)
        assert changed.screen.display == whole.screen.display
        assert changed.cursor == whole.cursor
    assert changed.rows == whole.rows
