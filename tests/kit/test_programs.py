"""Hints that name programs."""

from __future__ import annotations

import pytest

from prsm_core.kit import runnable

LOGIN = "Run `claude` and log in, or set `api_key_env`."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The only folder of the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def make(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_on_the_path_is_named_as_it_is(folder):
    make(folder / "claude")
    assert runnable(LOGIN, {"claude": ("/sdk/claude",)}) == LOGIN


def test_one_that_is_elsewhere_is_named_by_where_it_is(folder, tmp_path):
    bundled = make(tmp_path / "the sdk" / "claude")
    told = runnable(LOGIN, {"claude": (bundled,)})
    assert told == f"Run `'{bundled}'` and log in, or set `api_key_env`."


def test_the_words_behind_it_stay_and_so_do_those_of_its_command(folder):
    make(folder / "npx")
    told = runnable("run `codex login`, or set X", {"codex": ("npx", "@openai/codex")})
    assert told == "run `npx @openai/codex login`, or set X"


@pytest.mark.parametrize("commands", [None, {}, {"codex": ("/gone/codex",)}, {"claude": ("sh",)}])
def test_one_that_is_nowhere_is_said_to_be_missing(folder, commands):
    told = runnable("run `codex login`, or set X", commands)
    assert told == "run `codex login` (`codex` is not on your PATH), or set X"


def test_what_is_no_program_to_run_is_left_alone(folder):
    text = "Set `command`, or install it with `npm install -g x`."
    assert runnable(text) == text
