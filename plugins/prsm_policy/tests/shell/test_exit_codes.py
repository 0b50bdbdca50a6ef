"""What the exit code of a text tells of the commands in it, checked against bash itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_policy.by_text import read_exit

pytestmark = pytest.mark.requirement("U28")

TOLD = [
    "pytest",
    "cd x && pytest",
    "cd x; pytest",
    "ruff check . && mypy . && pytest",
    "pytest && echo ok",
    "(pytest)",
    "{ pytest; }",
    "timeout 60 pytest -q",
    "env X=1 pytest",
    "X=1 pytest",
    "time pytest",
    "nice -n 5 timeout 3 bash -c 'pytest'",
    "bash -c 'pytest'",
    "bash -lc 'cd a && pytest'",
    "bash -o pipefail -c 'pytest | tail'",
    "sh -ec 'pytest; echo done'",
    "set -e; pytest; echo done",
    "set -euo pipefail; pytest | tail; echo done",
    "set -o pipefail; pytest | tail",
    "set -o pipefail && pytest | tail",
    "pytest || exit 1",
    "pytest || exit 1; echo done",
    "pytest || { echo no; exit 1; }",
    "pytest > out.txt 2>&1",
    "source .venv/bin/activate && pytest",
    "test -d x && pytest",
]
HIDDEN = [
    "pytest | tail",
    "pytest 2>&1 | tee log",
    "pytest; true",
    "pytest\ntrue",
    "pytest || true",
    "pytest &",
    "pytest & wait",
    "! pytest",
    "time ! pytest",
    "(pytest; true)",
    "(! pytest)",
    "pytest > out.txt; cat out.txt",
    "bash -c 'pytest | tail'",
    "bash -c 'pytest; true'",
    "bash -c 'pytest' || true",
    "timeout 60 pytest | tail",
    "set +e; pytest; echo done",
    "set -e; set +e; pytest; echo done",
    "set -e; pytest && echo ok; echo done",
    "set -o pipefail; set +o pipefail; pytest | tail",
    "set -o pipefail; pytest | tail; true",
    "bash -o pipefail -c 'true'; pytest | tail",
    "(set -e); pytest; true",
    "if pytest; then echo ok; fi",
    "while pytest; do break; done",
    "for i in 1 2; do pytest; done",
    "case x in x) pytest;; esac",
    "out=$(pytest)",
    "echo $(pytest)",
    "cat <(pytest)",
    "test -d x || pytest",
    "true || pytest",
    "pytest || exit 0",
    "pytest && echo ok || echo no",
    "exit 0; pytest",
    "trap 'exit 0' EXIT; pytest",
    "pytest() { true; }; pytest",
    "alias pytest=true; pytest",
    "source other.sh; pytest",
    "eval 'pytest; true'",
    "command -v pytest",
]


def is_told(text):
    parts = read_exit(text)
    assert parts is not None
    found = [part for part in parts if part.command.name == "pytest"]
    return bool(found) and all(part.is_told for part in found)


@pytest.mark.parametrize("text", TOLD)
def test_a_code_that_the_shell_hands_on_is_told(text):
    assert is_told(text)


@pytest.mark.parametrize("text", HIDDEN)
def test_a_code_that_the_shell_hides_is_not_told(text):
    assert not is_told(text)


def test_a_text_that_cannot_be_read_tells_nothing():
    assert read_exit("pytest 'unclosed") is None


def test_folders_that_were_entered_are_known_and_left_with_their_subshell():
    parts = read_exit("cd a && (cd b && pytest) && mypy")
    assert parts is not None
    told = {part.command.name: part.folders for part in parts if part.command.name != "cd"}
    assert told == {"pytest": ("a", "b"), "mypy": ("a",)}


COMMANDS = st.sampled_from(["a", "b", "c", "true", "false"])


def _grow(inner):
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda two: f"{two[0]} && {two[1]}"),
        pair.map(lambda two: f"{two[0]} || {two[1]}"),
        pair.map(lambda two: f"({two[0]}; {two[1]})"),
        pair.map(lambda two: f"({two[0]}) | ({two[1]})"),
        pair.map(lambda two: f"(set -e; {two[0]}; {two[1]})"),
        pair.map(lambda two: f"(set -o pipefail; ({two[0]}) | ({two[1]}))"),
        inner.map(lambda one: f"! ({one})"),
        inner.map(lambda one: f"{{ {one}; }}"),
        inner.map(lambda one: f"if {one}; then true; fi"),
        inner.map(lambda one: f"({one}) || exit 1"),
    )


TEXTS = st.recursive(COMMANDS, _grow, max_leaves=6)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with commands that say that they ran, and how."""
    folder = tmp_path_factory.mktemp("bin")
    for name in "abc":
        file = folder / name
        file.write_text(
            f'#!/bin/sh\necho "$code_{name}" >> "{folder}/ran-{name}"\nexit $code_{name}\n'
        )
        file.chmod(0o755)
    return folder


@settings(max_examples=120, deadline=None)
@given(text=TEXTS, codes=st.tuples(*[st.integers(0, 1)] * 3))
def test_in_bash_a_told_command_has_succeeded_wherever_its_text_has(place, text, codes):
    parts = read_exit(text) or ()
    for name in "abc":
        Path(place, f"ran-{name}").unlink(missing_ok=True)
    env = {"PATH": f"{place}:/usr/bin:/bin"}
    env |= {f"code_{name}": str(code) for name, code in zip("abc", codes, strict=True)}
    done = subprocess.run(["bash", "-c", text], env=env, check=False, capture_output=True)
    if done.returncode:
        return
    for part in parts:
        if part.is_told and part.command.name in "abc":
            ran = Path(place, f"ran-{part.command.name}")
            assert ran.exists(), (text, codes)
            assert codes["abc".index(part.command.name)] == 0, (text, codes)
