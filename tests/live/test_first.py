"""The benchmark of the first turn finds the real Codex, and runs one agent on it in both ways."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.first import measure
from benchmarks.harness import Finding, Plan
from tests.live.install_cli import CODEX

pytestmark = pytest.mark.live


def test_an_agent_on_codex_is_measured_beside_codex_alone():
    binary = Path(os.environ.get(CODEX.variable, ""))
    if not binary.is_file():
        pytest.skip(CODEX.why_missing(binary))
    report = measure(Plan(pairs=1, scale=0.01))
    assert all(isinstance(line, Finding) for line in report)
    cases = [line.case for line in report if "codex exec" in line.case]
    assert [case.rpartition(": ")[2] for case in cases] == ["cpu", "wall"]
