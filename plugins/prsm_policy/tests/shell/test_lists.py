"""Lists and pipelines are grouped as bash groups them, wherever a redirection stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prsm_policy.shell import read_script
from prsm_policy.shell.structure import read_structure
from prsm_policy.shell.tree import Either, Fed, Literal, Pipeline, Sequence, Simple, Subshell

from plugins.prsm_policy.tests.shell.test_bash import run_in_bash

# Every name is a program that does not exist. It tells its name and the first line that comes in,
# takes in the rest of it, and says its name. Nobody need hear it: then no error is said, either.
_TELL = """() {
    local first= more
    IFS= read -r first
    while IFS= read -r more; do :; done
    printf '%s\\0%s\\0\\1\\0' "$1" "$first" >&9
    printf '%s\\n' "$1" 2>/dev/null
    return $STATUS
}"""
IN_FILE = "of a file"
# With many more line ends, groups and operators in one text the grammar loses its way at a line's
# end and the text is refused.
_SPACES = st.sampled_from([(" ", " "), (" ", " "), ("", ""), (" ", "\n")])


@dataclass
class Writing:
    """A text that is being written: names are given in order, heredocs follow their line."""

    names: count = field(default_factory=count)
    heredocs: int = 0


def _name(writing):
    return f"p{next(writing.names)}"


@st.composite
def members(draw, writing, depth, *, takes_in=False):
    """Commands of a list; one that `takes_in` reads what comes in to all of the list."""
    redirects = ["", "", "", " 2>&1", " 2>/dev/null", *([] if takes_in else [" <f"])]
    if not depth or draw(st.integers(0, 2)):  # the grammar knows here-strings of programs only
        here = [] if takes_in else ["<<<w", " <<<'v w'"]
        return _name(writing) + draw(st.sampled_from([*redirects, *here]))
    inner = draw(lists(writing, depth - 1, takes_in=True))
    if draw(st.booleans()):
        inner += "; " + draw(lists(writing, depth - 1))
    group = f"( {inner})" if draw(st.booleans()) else f"{{ {inner}; }}"
    return group + draw(st.sampled_from(redirects))


@st.composite
def lists(draw, writing, depth, *, takes_in=False):
    text = _maybe_negated(draw, draw(members(writing, depth, takes_in=takes_in)))
    for operator in draw(st.lists(st.sampled_from(["|", "|", "|", "&&", "||"]), max_size=4)):
        before, after = draw(_SPACES)
        member = draw(members(writing, depth))
        text += before + operator + after
        text += member if operator == "|" else _maybe_negated(draw, member)
    return text


def _maybe_negated(draw, member):
    # The grammar takes a brace behind a negation for the name of a program: such a text is refused.
    is_negated = member[0] != "{" and draw(st.integers(0, 3)) == 3
    return "! " + member if is_negated else member


@st.composite
def texts(draw):
    """Texts of lists, some of them with a heredoc at a place in the last line."""
    writing = Writing()
    text = draw(lists(writing, 1))
    if draw(st.booleans()):
        text += draw(st.sampled_from(["; ", "\n", ";"])) + draw(lists(writing, 1))
    if draw(st.booleans()):
        operators = draw(st.lists(st.sampled_from(["|", "|", "&&", "||"]), max_size=3))
        rest = "".join(f" {operator} {draw(members(writing, 0))}" for operator in operators)
        text += f" && {_name(writing)} <<'E'{rest}\nof a heredoc\nE\n"
    return text


def told_by_structure(step, incoming=""):
    """Return who gets which first line, and the first line of what comes out.

    The first of several commands takes in all that comes; it says its name before the others.
    """
    match step:
        case Simple(words):
            (piece,) = words[0]
            assert isinstance(piece, Literal)
            return {(piece.word.text, incoming)}, piece.word.text
        case Fed(body, reads, feeds):
            assert len(reads) + len(feeds) == 1
            ((piece,),) = reads or feeds
            assert isinstance(piece, Literal)
            first = IN_FILE if reads else piece.word.text.partition("\n")[0]
            return told_by_structure(body, first)
        case Subshell(body):
            return told_by_structure(body, incoming)
        case Pipeline(parts):
            told = set()
            for part in parts:
                more, incoming = told_by_structure(part, incoming)
                told |= more
            return told, incoming
        case Sequence(steps) | Either(steps):
            told, printed = told_by_structure(steps[0], incoming)
            for each in steps[1:]:
                told |= told_by_structure(each)[0]
            return told, printed
    raise AssertionError(step)


def told_by_bash(text, folder, status):
    told = run_in_bash(text, folder, tell=_TELL, status=status)
    return {tuple(each.decode().split("\0")) for each in told.split(b"\0\1\0") if each}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    (folder / "f").write_text(f"{IN_FILE}\nand more\n")
    return folder


@settings(max_examples=60)
@given(text=texts())
@example(text="p0 | p1 | p2 && p3 <<<x")
@example(text="p0 | p1 | p2 && p3 <<<x | p4 | p5 || p6 2>&1")
@example(text="p0 | p1 | p2 && (p3) <f | p4")
@example(text="p0 <<E | p1 | p2 && p3\nx\nE\n")
@example(text="! p0 | p1 | p2 ||\n{ p3 && p4; } <f")
def test_a_command_gets_what_the_structure_says_that_it_gets(folder, text):
    script = read_script(text)
    found = read_structure(script.text or text)
    assert found is not None
    step, commands = found
    assert commands == len(script.commands)
    expected, _ = told_by_structure(step)
    # What stands behind && runs with one status, what stands behind || with the other; of what is
    # behind both nothing is told.
    told = told_by_bash(text, folder, 0) | told_by_bash(text, folder, 1)
    assert told
    assert told <= expected


@pytest.mark.parametrize(
    ("text", "piped"),
    [
        ("a | b | c && d <<<x", [True, True, True, False]),
        ("a | b | c && d <<<x | e", [True, True, True, True, True]),
        ("a | b |& c || ! d <f", [True, True, True, False]),
        ("a | b | c && { d; } <f", [True, True, True, False, False]),
        ("a <<E | b | c && d\nx\nE\ne", [True, True, True, False, False]),
        ("a <<E >/dev/null 2>&1 && b | c\nx\nE\n", [False, True, True]),
        ("(a | b | c && d) | e <<<x", [True, True, True, True, True]),
        ("a | b | c | d | e\nf && g <<<x", [True] * 5 + [False, False]),
    ],
)
def test_only_what_bash_puts_beside_a_pipe_is_piped(text, piped):
    script = read_script(text)
    assert script.unresolved is None
    assert [command.piped for command in script.commands] == piped


@pytest.mark.parametrize(
    "text",
    [
        "a | b | c | d | e <<E\nf && g <<<x\nE\n",  # the line end is that of a heredoc
        "[ a\n]",
        "a >\nb",
        "a <<E |\nx\nE\nb",
        "a\n| b",
    ],
)
def test_no_line_end_is_read_as_the_end_of_a_command_where_it_may_be_none(text):
    assert read_script(text).text is None
