"""What stands in the home of whoever runs the live tests is no part of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.person import HOME

CASES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("live", "long")]


@pytest.mark.parametrize("marked", CASES)
def test_a_vendors_shell_reads_no_start_up_file_of_a_person(marked):
    """Whoever kills engines again and again would leave locks of theirs behind."""
    assert Path.home() != HOME
    told = subprocess.run(
        ["bash", "-lc", "echo ~; ls -A ~"], capture_output=True, text=True, check=True
    )
    assert told.stdout == f"{Path.home()}\n"
