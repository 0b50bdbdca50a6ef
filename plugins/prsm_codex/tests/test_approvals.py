"""Requests of Codex as requests of PRSM."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_codex import approvals

from prsm_core.domain.permissions import Answer


@given(st.text())
def test_the_wrapping_shell_is_taken_off_whatever_is_inside(text):
    assert approvals.unwrap(f"/bin/bash -lc {shlex.quote(text)}") == text


@pytest.mark.parametrize(
    "command", ["ls -l", "bash script.sh", "/bin/bash -lc 'a' b", "echo 'open", "env -lc x", ""]
)
def test_a_command_that_is_not_wrapped_stays_as_it_is(command):
    assert approvals.unwrap(command) == command


def test_a_command_is_what_the_model_wrote_and_not_codexs_parse_of_it():
    params = {
        "command": "/bin/bash -lc 'cat a && rm -rf b'",
        "commandActions": [{"type": "read", "command": "cat a"}],
        "cwd": "/work/sub",
    }
    asked = approvals.command_request("a1", params, "/work")
    assert (asked.tool, asked.command, asked.cwd) == ("Bash", "cat a && rm -rf b", "/work/sub")


def test_a_moved_file_counts_with_both_of_its_paths():
    change = {"path": "/w/a", "kind": {"type": "update", "move_path": "/etc/b"}, "diff": "-a"}
    asked = approvals.edit_request("a1", {"changes": [change]}, "/w")
    assert asked.paths == ("/w/a", "/etc/b")


def test_each_file_of_a_change_says_what_becomes_of_it():
    changes = [
        {"path": "/w/new", "kind": {"type": "add"}, "diff": "one\n-two\n"},
        {"path": "/w/old", "kind": {"type": "delete"}, "diff": "three\n+four\n"},
        {"path": "/w/kept", "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-five\n+six\n"},
        {"path": "/w/untold", "kind": "update"},
    ]
    asked = approvals.edit_request("a1", {"changes": changes}, "/w")
    assert asked.arguments["diff"].split("\n") == [
        "*** Add File: /w/new",
        "+one",
        "+-two",
        "*** Delete File: /w/old",
        "-three",
        "-+four",
        "*** Update File: /w/kept",
        "@@ -1 +1 @@",
        "-five",
        "+six",
    ]
    assert asked.paths == ("/w/new", "/w/old", "/w/kept", "/w/untold")


@pytest.mark.parametrize(
    "command",
    [
        "bash",
        "/bin/sh -i",
        "python3",
        "python3.11 -q",
        "cd x && python3",
        "FOO=1 env -i bash",
        "sudo -n zsh",
        "true; exec bash",
        "(node)",
        "echo 'x\n' | bash -s",
        "bash 'open",
        "bash\nls",
    ],
)
def test_an_interpreter_without_a_script_is_interactive(command):
    assert approvals.interactive(command) is not None


@pytest.mark.parametrize(
    "command",
    [
        "bash run.sh",
        "bash -c 'ls'",
        "bash -lc ls",
        "python3 -m pytest",
        "python3 -c 'print(1)'",
        "python3 script.py",
        "python3 --version",
        "node -e 1",
        "cat bash",
        "which python3",
        "ls",
        "FOO=1",
        "",
    ],
)
def test_an_interpreter_with_a_script_is_not_interactive(command):
    assert approvals.interactive(command) is None


@given(st.text())
def test_no_command_breaks_the_look_for_interpreters(text):
    approvals.interactive(text)


def test_questions_and_answers_keep_their_ids():
    asked = [
        {"id": "q1", "question": "Which?", "options": [{"label": "A"}, {"label": "B"}]},
        {"id": "q2", "header": "H", "question": "Why?", "options": None},
    ]
    found = dict(approvals.questions({"questions": asked}))
    assert found["q1"].options == ("A", "B")
    assert found["q2"].text == "H: Why?"
    given_answers = {"q1": Answer(choices=("B",)), "q2": Answer(text="because")}
    assert approvals.answers(given_answers) == {
        "answers": {"q1": {"answers": ["B"]}, "q2": {"answers": ["because"]}}
    }


def test_there_is_a_refusal_for_every_request_that_is_answered():
    methods = [
        approvals.TOOL_CALL,
        approvals.COMMAND,
        approvals.FILE_CHANGE,
        approvals.PERMISSIONS,
        approvals.ELICITATION,
        approvals.USER_INPUT,
    ]
    assert all(approvals.refusal(method, "no") for method in methods)
    assert approvals.refusal("something/new", "no") is None
