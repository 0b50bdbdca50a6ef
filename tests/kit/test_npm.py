"""The version of a program that npm has installed is that of the package it lies in."""

from __future__ import annotations

import json

import pytest

from prsm_core.kit.version import packaged_version

PACKAGE = "@vendor/cli"


@pytest.fixture
def installed(tmp_path):
    """Install a program as npm does: a link in .bin that leads into the package."""
    package = tmp_path / "node_modules" / "@vendor" / "cli"
    (package / "dist").mkdir(parents=True)
    (package / "dist" / "package.json").write_text('{"type": "module"}')
    (package / "package.json").write_text(json.dumps({"name": PACKAGE, "version": "1.2.3"}))
    program = package / "dist" / "cli.js"
    program.write_text("#!/usr/bin/env node\n")
    program.chmod(0o755)
    link = tmp_path / "node_modules" / ".bin" / "cli"
    link.parent.mkdir()
    link.symlink_to(program)
    return link


def test_the_package_is_found_behind_the_link(installed):
    assert packaged_version([str(installed), "--acp"], PACKAGE) == "1.2.3"
    assert packaged_version(["node", str(installed)], PACKAGE) == "1.2.3"


def test_a_program_is_found_on_the_path(installed, monkeypatch):
    monkeypatch.setenv("PATH", str(installed.parent))
    assert packaged_version(["cli"], PACKAGE) == "1.2.3"


def test_a_program_of_another_package_has_no_version(installed):
    assert packaged_version([str(installed)], "@vendor/other") is None


def test_a_word_that_is_no_file_is_not_looked_up(installed, monkeypatch):
    monkeypatch.chdir(installed.resolve().parent)
    assert packaged_version(["no-such-cli", "--acp", ""], PACKAGE) is None


@pytest.mark.parametrize("word", ["x" * 300, "x" * 5000, "a\0b", "/" + "d/" * 3000])
def test_a_word_that_could_be_no_file_is_passed_over(installed, word):
    assert packaged_version(["no-such-cli", word], PACKAGE) is None
    assert packaged_version(["sh", word, str(installed)], PACKAGE) == "1.2.3"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": "@vendor/cli"}', "[" * 100_000])
def test_a_package_that_cannot_be_read_has_no_version(installed, text):
    (installed.resolve().parents[1] / "package.json").write_text(text)
    assert packaged_version([str(installed)], PACKAGE) is None
