"""Wrappers are looked through, and texts that shells read are read."""

from __future__ import annotations

import pytest
from prsm_policy.shell import awk, read_script
from prsm_policy.shell.sed import may_run


def inner(text):
    script = read_script(text)
    return [list(command.texts) for command in script.commands[script.own :]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timeout -k 1 -s KILL 5 a b", [["a", "b"]]),
        ("nice -n 3 timeout 5 a", [["timeout", "5", "a"], ["a"]]),
        ("env -i A=1 B=2 a b", [["a", "b"]]),
        ("env -S 'a b'", [["env", "a", "b"], ["a", "b"]]),
        ("env -S '-i A=1 a' b", [["env", "-i", "A=1", "a"], ["a"], ["b"]]),
        ("fish --command='a; b'", [["a"], ["b"]]),
        ("bash <(echo a b)", [["a", "b"]]),
        ("socat - EXEC:'a b'", [["EXEC:a b"], ["EXEC:a", "b"], ["a", "b"]]),
        ("sudo -u me -- a", [["a"]]),
        ("command -v a", []),
        ("command -p a", [["a"]]),
        ("xargs -n1 a", [["a", ""]]),
        ("xargs -I{} a {} b", [["a", "{}", "b"]]),
        ("bash -lc 'a; b'", [["a"], ["b"]]),
        ("bash -o pipefail -c a", [["a"]]),
        ("bash x.sh", []),
        ("find . -exec a {} \\; -ok b +", [["b", ""], ["a", "{}", ""]]),
        ("eval a b", [["a", "b"]]),
        ("trap 'a b' EXIT", [["a", "b"]]),
        ("echo 'a b' | sh", [["a", "b"]]),
        ("bash <<'E'\na b\nE", [["a", "b"]]),
        ("grep a b", []),
        ("echo a", []),
    ],
)
def test_the_commands_inside_a_command_are_found(text, expected):
    assert sorted(inner(text)) == sorted(expected)


def test_an_option_that_is_not_known_makes_every_argument_a_command():
    assert ["b"] in inner("timeout --new a b")
    assert ["a", "b"] in inner("timeout --new a b")


def test_so_many_commands_that_none_may_be_missed_are_searched_as_text():
    text = "ssh " + "x " * 60 + "a"
    assert read_script(text).opaque
    assert read_script("nice " * 400 + "a").unresolved


@pytest.mark.parametrize(
    "script",
    [
        "s/a/b/", "s|a|b|g", "s/e w/x/", "1,5p", "$d", "/a/,/b/d", "1!G;h;$!d", "y/ab/cd/",
        "s/a\\/b/c/;p", "{s/a/b/;p}", "a some text", "b end; :end", "",
        "s/[[:space:]]*world/x/", "s/[ \\t]*$//;s/^[^a-z]+e/x/", "p # a note",
    ],
)  # fmt: skip
def test_a_script_of_sed_that_edits_text_is_known_to_do_no_more(script):
    assert not may_run(script)


@pytest.mark.parametrize(
    "script",
    [
        "1e id", "e", "w out", "1w x", "s/a/b/e", "s/a/b/ge", "s/a/b/w x", "p;w x", "{p;e id}",
        "s/a/b/\nw x", "r .env", "s/a", "z" * 3_000, "\\,x,e id",
        "/[]/p;#]/w out", "s/[]/;w out;s/]/x/", "s/[[:alpha:]/x/;e id;s/]/x/", ":a;$!ba# w out",
    ],
)  # fmt: skip
def test_a_script_of_sed_that_may_do_more_is_found(script):
    assert may_run(script)


@pytest.mark.parametrize(
    "program",
    [
        "{print $1}", "/system/ {print}", "/a|b/ {print ($1 > 2)}", "/^[[:space:]]*(a|b)/ {print}",
        "function f(x) {return x + 1} {print f(2)}", '{print "a > b | c"}', "BEGIN {while (1) x++}",
    ],
)  # fmt: skip
def test_a_program_of_awk_that_runs_nothing_is_known(program):
    assert not awk.may_run(program)


@pytest.mark.parametrize(
    "program",
    [
        """/[]/"]/ || 1 {system("id")} #\"""", 'BEGIN {system\\\n("id")}', '{print /"/ | c ";"}',
        "{print > $1}", '{print(1) > "x"}', '"id" | getline', "{print ENVIRON[1]}", "{@f(1)}",
        "x" * 3_000 + "|", "function f(x) {print x} /a|b/ {f(1)}",
    ],
)  # fmt: skip
def test_a_program_of_awk_that_may_run_others_is_found(program):
    assert awk.may_run(program)
