"""A text is read as bash reads it, or it is refused."""

from __future__ import annotations

import pytest
from prsm_policy.shell import read_script


def commands(text):
    script = read_script(text)
    return [list(command.texts) for command in script.commands[: script.own]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -la | wc -l", [["ls", "-la"], ["wc", "-l"]]),
        ("a&&b||c;d\ne", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a |\n b", [["a"], ["b"]]),
        ("# one\nls # two\n\n", [["ls"]]),
        ("echo a#b '#c'", [["echo", "a#b", "#c"]]),
        ("echo 'a b'\"c'd\"e\\ f", [["echo", "a bc'de f"]]),
        (r'grep "a\"b\\c\d$" f', [["grep", r'a"b\c\d$', "f"]]),
        ("ls 2>/dev/null >&2 2>&1 &>/dev/null > /dev/null", [["ls"]]),
        ("ls >/dev/null a 2>&1 b", [["ls", "a", "b"]]),
        ("echo 2 >/dev/null", [["echo", "2"]]),
        ("[ -f x ]", [["[", "-f", "x", "]"]]),
        ("[ a = b ] && c", [["[", "a", "=", "b", "]"], ["c"]]),
        ("ls \\\n -l", [["ls", "-l"]]),
        ("git diff HEAD@{1} @{u}..", [["git", "diff", "HEAD@{1}", "@{u}.."]]),
        ("find . -exec a {} +", [["find", ".", "-exec", "a", "{}", "+"]]),
        ('cut -d" " -f1', [["cut", "-d ", "-f1"]]),
        ("  ls  ", [["ls"]]),
        ("", []),
        ("# x", []),
    ],
)
def test_plain_text_is_read_as_commands_and_words(text, expected):
    assert read_script(text).plain
    assert commands(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ls &", "ls;;ls", "; ls", "ls |", "&& ls", "ls && ; ls", "(ls)", "{ ls; }", "ls {a,b}",
        "ls {1..3}", 'ls {"a",b}', "ls $x", 'ls "$x"', "ls `x`", "ls > x", "ls >> x",
        "ls >| x", "ls 3>/dev/null",
        "ls 2> x", "ls &> x", "ls <<x", "ls <<<x", "ls <(x)", "ls <>x", "ls <&3", "ls |& wc",
        "ls ;&>/dev/null a",
        "ls >/dev/nullx", "ls 2>&1x", "ls 'x", 'ls "x', "l\\\ns", "ls\rx", "ls\0",
        "ls \x1b[0m",
        "ls\u00a0x", "ls \u202ex", "ls \u200bx", "A=1", "! ls", "if a; then b; fi", "[[ a ]]",
        "[ a\n]", "[ a > b ]", "[ a && b ]", "f() { a; }", "ls $'x'", 'ls $"x"', "a[1]=2 ls",
        "a=(b) ls", "ls 0>/dev/null", "ls {x}>/dev/null", "ls >&-2>&1", "export a", "unset a",
        "((1))", "ls \\ \\\nx", "x" * 20_001, "ls " + "a " * 2_000,
    ],
)  # fmt: skip
def test_everything_else_is_not_plain(text):
    assert not read_script(text).plain


@pytest.mark.parametrize(
    "text",
    [
        "ls 'x", "ls )", "l\\\ns", "ls\rx", "ls\0", "ls \u202ex", 'echo "${x:=`a`}"',
        "cat <<E\n`a`\nE", "`ls # `; a\n`", "echo $'a\\\\' ; a ; echo 'b'", "cat <<E; a\nx\nE",
        "cat <<A <<B\na\nA\nb\nB", "time if", "[ a\n]", "a=b]@{u}\\k", "\ud800", "$(" * 400,
        "a=(" * 60, "a;" * 3_000, "x" * 70_000, "\\a" * 3_000,
    ],
)  # fmt: skip
def test_what_may_mean_more_than_it_seems_is_refused_and_kept_to_be_searched(text):
    script = read_script(text)
    assert not script.plain
    assert script.unresolved
    assert text in script.opaque


def test_variables_files_patterns_tildes_and_pipes_are_told():
    script = read_script("A=1 LC_ALL='x y' cat <in *.py '*' ~/x '~' >out | wc")
    first, second = script.commands
    assert [(each.name, each.value.text) for each in first.assigned] == [
        ("A", "1"),
        ("LC_ALL", "x y"),
    ]
    assert [word.text for word in first.reads] == ["in"]
    assert [word.text for word in first.writes] == ["out"]
    assert [(word.glob, word.tilde) for word in first.words[1:]] == [
        (True, False),
        (False, False),
        (False, True),
        (False, False),
    ]
    assert first.piped
    assert second.piped


def test_what_is_only_known_when_it_runs_is_not_exact():
    (command,) = read_script('x "a $b c" $d{e,f} g').commands
    assert [(word.text, word.exact) for word in command.words] == [
        ("x", True),
        ("a  c", False),
        ("{e,f}", False),
        ("g", True),
    ]


def test_expansions_and_functions_are_told():
    script = read_script('f() { echo "$A ${B[1]}"; }; echo ${C:-x}')
    assert script.variables == {"A", "B", "C"}
    assert script.functions == {"f"}
    assert not script.evaluates
    assert read_script("echo ${a@P}").evaluates
    assert read_script("echo ${!a}").evaluates
