"""`prsm install --cli` with the real npm, into a folder of the test's own."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.cli.test_install import clone, pristine
from tests.live.install_cli import unreachable

__all__ = ["clone", "pristine"]  # fixtures
pytestmark = pytest.mark.live


def test_npm_brings_the_vendors_program(clone, tmp_path):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    for name in ("npm", "node"):
        clone.bin.joinpath(name).symlink_to(shutil.which(name))
    clone.env |= {name: text for name, text in os.environ.items() if _is_of_npm(name)}
    prefix = tmp_path / "tools"
    done = clone.run("prsm", "install", "gemini", "--cli", "--prefix", str(prefix))
    if done.returncode != 0 and (why := unreachable(done.stderr)) is not None:
        pytest.skip(f"npm cannot reach its registry ({why})")
    assert done.returncode == 0, done.stderr
    assert f"{prefix}/bin/gemini is 0." in done.stdout
    assert clone.states()["gemini"] == "active"


def _is_of_npm(name):
    """Whether a variable says how npm reaches its registry here."""
    return name.lower().startswith(("node_", "npm_config_"))
