"""`prsm run` says what the provider cannot enforce, or does not start, in a process of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def echo(tmp_path, monkeypatch):
    """Install the echo provider, which enforces nothing and says so."""
    site = tmp_path / "site"
    info = site / "prsm_echo-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("echo_plugin.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-echo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\necho = echo_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "echo")


@pytest.mark.requirement("F5")
def test_what_is_not_enforced_stands_on_the_console_before_the_master_starts(prsm_process):
    done = prsm_process("run", "say hello", "--set", 'permissions.deny=["git push"]')
    assert (done.code, done.out) == (0, "echo: say hello\n")
    lines = [line for line in done.err.splitlines() if "provider echo" in line or "starts" in line]
    assert lines[0] == "prsm: starts: say hello"
    assert lines[1].startswith("warning: provider echo does not enforce all of the policy; its")
    assert lines[1].endswith("(`prsm providers` says what)")
    assert lines[2].startswith("master (master, echo/default) starts")


@pytest.mark.requirement("F5")
def test_what_is_not_enforced_is_told_in_full_by_the_list_of_providers(prsm_process, tmp_path):
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.yaml").write_text('permissions: {deny: ["git push"]}')
    out = prsm_process("providers").out
    assert "echo does not enforce all: deny and ask rules need 'pre_tool' and it has" in out


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("named", [(), ("--provider", "echo")])
def test_a_run_that_requires_more_does_not_start(prsm_process, named):
    done = prsm_process("run", "say hello", *named, "--set", "permissions.require=pre_tool")
    assert (done.code, done.out) == (3, "")
    assert "provider echo does not enforce enough: permissions.require wants" in done.err
    assert "the network" in done.err
    assert "use another provider, or lower permissions.require" in done.err
    assert json.loads(prsm_process("sessions", "list", "--json").out) == []


def test_a_level_that_does_not_exist_is_a_configuration_error(prsm_process):
    done = prsm_process("run", "say hello", "--set", "permissions.require=everything")
    assert (done.code, done.out) == (2, "")
    assert "permissions.require" in done.err
