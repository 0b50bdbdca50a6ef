"""A home for the person who runs the live tests, in which nothing stands.

Vendors' programs start the user's shell to learn its environment, and keep what they know in the
user's home. What stands in the start-up files of whoever runs these tests is no part of them: one
that takes a lock, say, holds up every later shell for a minute once its holder has been killed.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest

HOME = Path.home()
ROOM = HOME / ".cache" / "prsm-tests"  # outside the temp folder: there the sandbox of Codex works


def room() -> Path:
    """Return the path of a folder that nobody has, outside the temp folder."""
    return ROOM / uuid.uuid4().hex


@pytest.fixture(autouse=True)
def empty_home(request, monkeypatch):
    """Give a live test an empty home; what npm has loaded already stays where it is."""
    if request.node.get_closest_marker("live") is None:
        yield None
        return
    home = room()
    home.mkdir(parents=True)
    if "npm_config_cache" not in os.environ:
        monkeypatch.setenv("npm_config_cache", str(HOME / ".npm"))
    monkeypatch.setenv("HOME", str(home))
    yield home
    shutil.rmtree(home, ignore_errors=True)
