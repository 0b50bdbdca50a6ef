"""The CLIs that the live tests use are the ones they were written for."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.live.install_cli import CLIS, CODEX, install, installed_version, main, unreachable

each_cli = pytest.mark.parametrize("cli", CLIS.values(), ids=CLIS)


@pytest.mark.live
@each_cli
def test_the_installed_cli_is_in_the_tested_range(cli):
    binary = Path(os.environ.get(cli.variable, ""))
    if not binary.is_file():
        pytest.skip(cli.why_missing(binary))
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
        ("echo 'npm error code ENOTFOUND'; exit 1", 0, "cannot reach its registry (ENOTFOUND)"),
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


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("npm error code EAI_AGAIN", "EAI_AGAIN"),
        ("npm ERR! code ECONNABORTED", "ECONNABORTED"),
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", "SELF_SIGNED_CERT_IN_CHAIN"),
        ("npm error code UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY"),
        ("npm error code E407\nnpm error 407 Proxy Authentication Required", "E407"),
        ("npm error code E403\nnpm error 403 Forbidden", "E403"),
        ("npm error code ENOTCACHED", "ENOTCACHED"),
        ("npm error network This is a problem related to network connectivity.", "network"),
        ("npm error FetchError: request to http://x/y failed, reason: odd", "network"),
    ],
)
def test_however_npm_tells_that_it_has_no_registry_the_live_tests_skip(output, told):
    assert unreachable(output) == told


@pytest.mark.parametrize(
    "output",
    [
        "npm error code E404\nnpm error 404 Not Found",
        "npm error code ETARGET\nnpm error notarget No matching version",
        "npm error code EACCES\nnpm error syscall mkdir",
        "npm warn tls ERR_TLS_CERT_ALTNAME_INVALID\nnpm error code ENOSPC",
    ],
)
def test_what_is_no_network_problem_is_an_error(output):
    assert unreachable(output) is None


def test_a_real_npm_without_a_registry_makes_the_live_tests_skip_with_that_reason(
    tmp_path, monkeypatch, capsys
):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    with socket.socket() as held:  # a port at which nobody answers
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{held.getsockname()[1]}/")
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
        assert install(CODEX, tmp_path / "codex") == 0
    assert "its live tests skip" in capsys.readouterr().out
    binary = CODEX.binary(tmp_path / "codex")
    assert CODEX.why_missing(binary) == (
        "the codex CLI is not installed: npm cannot reach its registry (ECONNREFUSED)"
    )


def test_a_cli_that_nobody_installed_is_told_by_the_variable_that_names_it(tmp_path):
    assert CODEX.why_missing(tmp_path / "codex").endswith("PRSM_LIVE_CODEX names no program")
