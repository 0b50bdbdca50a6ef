"""A run whose provider swallows every cancellation ends within 15 s after its time limit."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

LIMIT = 2
STARTING = 6.0  # seconds: imports, on a busy machine


@pytest.fixture
def clinging(tmp_path, monkeypatch):
    """Install the provider of clinging_plugin.py for the processes of the test."""
    site = tmp_path / "site"
    info = site / "prsm_clinging-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("clinging_plugin.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-clinging\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nclinging = clinging_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "clinging")


@pytest.mark.long
@pytest.mark.parametrize(
    ("places", "task"), [("turn", "hang"), ("turn,exit,close,interrupt", "tree 3")]
)
def test_all_that_is_waited_for_ends_together(clinging, prsm_process, monkeypatch, places, task):
    monkeypatch.setenv("CLINGS", places)
    began = time.monotonic()
    done = prsm_process("run", "--provider", "clinging", "--timeout", str(LIMIT), task)
    assert time.monotonic() - began <= LIMIT + 15 + STARTING
    assert done.code == 1
    assert "time limit of 2 s is over" in done.err + done.out
    assert "run_finished" in prsm_process("events").out
