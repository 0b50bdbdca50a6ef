"""The markers work in a project that knows nothing of this one's configuration."""

from __future__ import annotations

import subprocess
import sys

MARKED = """
import pytest

@pytest.mark.requirement("X1", "X2")
@pytest.mark.live
def test_marked():
    pass
"""


def test_a_third_party_may_use_the_markers_strictly(tmp_path):
    (tmp_path / "test_marked.py").write_text(MARKED, encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "--strict-markers", "-q", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*argv, "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
