"""The CLIs that the live tests use are the ones they were written for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.install_cli import CLIS, CODEX, install, installed_version, is_unreachable, main

each_cli = pytest.mark.parametrize("cli", CLIS.values(), ids=CLIS)


@pytest.mark.live
@each_cli
def test_the_installed_cli_is_in_the_tested_range(cli):
    binary = Path(os.environ.get(cli.variable, ""))
    if not binary.is_file():
        pytest.skip(f"the {cli.name} CLI is not installed: npm is missing or has no registry")
    version = installed_version(binary)
    assert version is not None
    assert version.startswith(f"{cli.tested}."), f"{cli.name} {version} is outside {cli.range}"


def test_a_folder_without_the_cli_has_no_version(tmp_path):
    assert installed_version(tmp_path / "codex") is None


def test_without_npm_the_installer_succeeds_and_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(tmp_path) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in told] == list(CLIS)
    assert all("npm is missing" in line for line in told)


@pytest.mark.parametrize(
    ("script", "code", "told"),
    [
        ("echo 'npm error code ENOTFOUND'; exit 1", 0, "cannot reach its registry"),
        ("echo 'npm error code ETARGET'; exit 3", 3, "failed with exit code 3"),
        ("exit 0", 1, "npm installed codex None"),
    ],
)
def test_only_an_unreachable_registry_excuses_a_failed_install(
    tmp_path, monkeypatch, capsys, script, code, told
):
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install(CODEX, tmp_path / "codex-cli") == code
    assert told in capsys.readouterr().out


def test_a_package_that_does_not_exist_is_no_network_problem():
    assert not is_unreachable("npm error code E404\nnpm error 404 Not Found")
