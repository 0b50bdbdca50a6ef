"""prsm resume where sessions cannot be opened: three in a row fail their agent, no death does."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest


@pytest.fixture
def barred(tmp_path, monkeypatch):
    """Install the provider of barred_plugin.py for the processes of the test."""
    site = tmp_path / "site"
    info = site / "prsm_barred-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("barred_plugin.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-barred\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nbarred = barred_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "barred")


def kill_in(process, kind):
    """Kill a command once it has told an event of this kind."""
    for line in process.stdout:
        if json.loads(line)["type"] == kind:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize(("times", "code"), [pytest.param(2, 0, marks=pytest.mark.long), (3, 1)])
def test_three_sessions_in_a_row_that_cannot_be_opened_fail_it(
    barred, start_prsm, prsm_process, workspace, times, code
):
    kill_in(start_prsm("run", "do it", "--provider", "barred", "--json"), "message_completed")
    for _ in range(4):  # the deaths of its engines are not counted
        kill_in(start_prsm("resume", "--json"), "message_completed")
    (workspace / "barred").write_text(str(times))
    done = prsm_process("resume")
    assert done.code == code, done.err
    assert "its home is locked" in done.err
    [master] = json.loads(prsm_process("tree", "--json").out)["agents"]
    assert master["state"] == ("failed" if code else "completed")
    assert (workspace / "barred").read_text() == ("-1" if code == 0 else "0")
