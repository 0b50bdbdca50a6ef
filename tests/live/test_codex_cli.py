"""The CLI that the live tests use is the one they were written for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.install_codex import RANGE, TESTED, installed_version, is_unreachable, main


@pytest.mark.live
def test_the_installed_codex_is_in_the_tested_range():
    binary = Path(os.environ.get("PRSM_LIVE_CODEX", ""))
    if not binary.is_file():
        pytest.skip("the codex CLI is not installed: npm is missing or cannot reach its registry")
    version = installed_version(binary)
    assert version is not None
    assert version.startswith(f"{TESTED}."), f"codex {version} is outside {RANGE}"


def test_a_folder_without_the_cli_has_no_version(tmp_path):
    assert installed_version(tmp_path / "codex") is None


def test_without_npm_the_installer_succeeds_and_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(tmp_path) == 0
    assert "npm is missing" in capsys.readouterr().out


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
    assert main(tmp_path / "codex-cli") == code
    assert told in capsys.readouterr().out


def test_a_package_that_does_not_exist_is_no_network_problem():
    assert not is_unreachable("npm error code E404\nnpm error 404 Not Found")
