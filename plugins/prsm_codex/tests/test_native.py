"""Codex in place of its launcher: only where both lie as npm lays them."""

from __future__ import annotations

import json
import os
import sys

import pytest
from prsm_codex.app_server import unwrapped

BUILDS = {
    ("linux", "x86_64"): ("linux-x64", "x86_64-unknown-linux-musl"),
    ("linux", "aarch64"): ("linux-arm64", "aarch64-unknown-linux-musl"),
    ("darwin", "x86_64"): ("darwin-x64", "x86_64-apple-darwin"),
    ("darwin", "arm64"): ("darwin-arm64", "aarch64-apple-darwin"),
}
NAME, TARGET = BUILDS[sys.platform, os.uname().machine]


def make(path, text="", mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def npm(tmp_path):
    """An installation: its package, its launcher on the path, and how to add the program."""

    class Npm:
        modules = tmp_path / "lib" / "node_modules"
        package = modules / "@openai" / "codex"
        beside = modules / "@openai" / f"codex-{NAME}"
        inside = package / "node_modules" / "@openai" / f"codex-{NAME}"
        launcher = tmp_path / "bin" / "codex"

        def program(self, place, mode=0o755):
            make(place / "package.json", "{}")
            return make(place / "vendor" / TARGET / "bin" / "codex", mode=mode)

    found = Npm()
    make(found.package / "package.json", json.dumps({"name": "@openai/codex"}))
    script = make(found.package / "bin" / "codex.js", "#!/usr/bin/env node\n")
    found.launcher.parent.mkdir()
    found.launcher.symlink_to(script)
    return found


def run(launcher):
    return unwrapped((str(launcher), "exec", "-"))


@pytest.mark.parametrize("place", ["beside", "inside", "package"])
def test_the_program_is_run_where_the_launcher_would_find_it(npm, place):
    program = npm.program(getattr(npm, place))
    make(npm.package / "package.json", json.dumps({"name": "@openai/codex"}))
    assert run(npm.launcher) == (str(program), "exec", "-")


def test_the_nearest_program_is_run_as_the_launcher_does(npm):
    npm.program(npm.beside)
    nearest = npm.program(npm.inside)
    assert run(npm.launcher)[0] == str(nearest)


def test_a_launcher_on_the_path_is_found(npm, monkeypatch):
    program = npm.program(npm.beside)
    monkeypatch.setenv("PATH", str(npm.launcher.parent), prepend=os.pathsep)
    assert run("codex")[0] == str(program)


@pytest.mark.parametrize("about", ["", "[]", "{}", '{"name": "other"}', "[" * 9999])
def test_the_launcher_of_another_package_is_run_as_it_is(npm, about):
    npm.program(npm.beside)
    make(npm.package / "package.json", about)
    assert run(npm.launcher)[0] == str(npm.launcher)


def test_a_launcher_whose_program_is_missing_or_cannot_be_run_says_so_itself(npm):
    assert run(npm.launcher)[0] == str(npm.launcher)
    npm.program(npm.beside, mode=0o644)
    assert run(npm.launcher)[0] == str(npm.launcher)


def test_a_package_without_the_program_does_not_let_another_one_run(npm):
    npm.program(npm.beside)
    make(npm.inside / "package.json", "{}")
    assert run(npm.launcher)[0] == str(npm.launcher)


@pytest.mark.parametrize("argv", [("true", "x"), ("no-such-program",), ("node", "codex.js")])
def test_what_is_no_launcher_is_run_as_it_is(argv):
    assert unwrapped(argv) == argv
