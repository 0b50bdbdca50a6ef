"""A provider that begins before its engine: for which runs, and what becomes of what it began."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE


def rarely(*values):
    """Return a case that takes a process of its own and shows what a shorter test does, too."""
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.fixture(autouse=True)
def early(tmp_path, monkeypatch):
    """Install the providers of early_plugin.py for the processes of the test."""
    site = tmp_path / "site"
    info = site / "prsm_early-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("early_plugin.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-early\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nearly = early_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "early")


@pytest.fixture
def began(workspace):
    """Return the names of the providers that have begun; none of what they started is left."""

    def began():
        noted = workspace / "began"
        rows = [line.split() for line in noted.read_text().splitlines()] if noted.exists() else []
        for _, pid in rows:
            until_gone(int(pid))
        return [name for name, _ in rows]

    return began


def until_gone(pid):
    """Wait for the end of a process, which whoever started it may have seen already."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], DEADLINE)
        assert ended, f"process {pid} is left"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "how",
    ["exits", "imports", *map(rarely, ("ready", "hangs", "clings", "raises", "cancels", "blocks"))],
)
def test_however_it_begins_the_run_goes_on_and_nothing_is_left(
    prsm_process, began, monkeypatch, how
):
    monkeypatch.setenv("EARLY", how)
    done = prsm_process("run", "do it")
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    assert "done" in done.out
    assert began() == ["early"]


def test_a_frontend_is_made_once_the_provider_begins(prsm_process, began, workspace):
    done = prsm_process("run", "do it", "--ui", "late")
    assert done.code == 0, done.err
    assert (workspace / "made").read_text() == "early"
    assert set(began()) <= {"early"}


def test_what_has_begun_is_ended_where_no_frontend_can_be_made(prsm_process, began, monkeypatch):
    monkeypatch.setenv("SPOILT", "yes")
    done = prsm_process("run", "do it", "--ui", "late")
    assert done.code == 1
    assert "there is no screen" in done.err
    assert set(began()) <= {"early"}


@pytest.mark.parametrize(
    ("flags", "absent", "expected"),
    [
        (("--mode", "plan"), "", ["early"]),
        rarely(("--provider", "other"), "", ["other"]),
        rarely(("--model", "other/large"), "", ["other"]),
        rarely(("--set", "defaults.provider=other"), "", ["other"]),
        rarely(("--set", "providers.other={}"), "", ["other"]),
        ((), "early", []),
        rarely(("--provider", "early"), "early", []),
        rarely(("--provider", "nobody"), "", []),
        (("--set", "permissions.required=[nobody-has-it]"), "", []),
        rarely(("--provider", "early", "--set", "permissions.require=pre_tool"), "", []),
    ],
)
def test_only_the_provider_begins_that_the_run_takes(
    prsm_process, began, monkeypatch, flags, absent, expected
):
    monkeypatch.setenv("ABSENT", absent)
    if expected:
        monkeypatch.setenv("EARLY", "ready")
    prsm_process("run", "do it", *flags)
    assert began() == expected


@pytest.mark.long
def test_a_session_that_goes_on_has_nothing_begun_for_it(prsm_process, began, monkeypatch):
    monkeypatch.setenv("EARLY", "ready")
    prsm_process("run", "do it")
    monkeypatch.delenv("EARLY")
    assert prsm_process("run", "more", "--continue").code == 0
    assert prsm_process("resume").code in {0, 2}
    [session] = json.loads(prsm_process("sessions", "list", "--json").out)
    assert prsm_process("run", "more", "--session", session["session"]).code == 0
    assert began() == ["early"]


@pytest.mark.long
def test_a_demo_begins_no_provider_of_the_person(prsm_process, began):
    assert prsm_process("demo").code == 0
    assert began() == []


@pytest.mark.parametrize("name", ["SIGINT", rarely("SIGTERM"), rarely("SIGHUP"), "SIGKILL"])
def test_a_signal_meanwhile_leaves_nothing(start_prsm, began, workspace, monkeypatch, name):
    monkeypatch.setenv("EARLY", "ready")
    os.mkfifo(workspace / "began")
    process = start_prsm("run", "do it")
    with (workspace / "began").open() as noted:
        told = noted.readline()
        process.send_signal(signal.Signals[name])
        _, err = process.communicate(timeout=DEADLINE)
    (workspace / "began").unlink()
    (workspace / "began").write_text(told)
    assert b"Traceback" not in err
    assert began() == ["early"]
