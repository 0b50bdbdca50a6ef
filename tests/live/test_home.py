"""What stands in the home of whoever runs the live tests is no part of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.person import HOME

pytestmark = pytest.mark.live


def test_a_vendors_shell_reads_no_start_up_file_of_a_person():
    assert Path.home() != HOME
    told = subprocess.run(
        ["bash", "-lc", "echo ~; ls -A ~"], capture_output=True, text=True, check=True
    )
    assert told.stdout == f"{Path.home()}\n"
