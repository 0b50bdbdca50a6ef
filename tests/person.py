"""A home for the person who runs the live tests, in which nothing stands.

Vendors' programs start the user's shell to learn its environment, and keep what they know in the
user's home. What stands in the start-up files of whoever runs these tests is no part of them: one
that takes a lock, say, holds up every later shell for a minute once its holder has been killed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import uuid
from pathlib import Path

import pytest

from tests.sources import ROOT

HOME = Path.home()
LIVE = ROOT / "tests" / "live"


def _is_in_temp(path: Path) -> bool:
    """Whether a sandbox shows an empty folder there, which everybody may write."""
    temps = (Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108 - the very folder
    return any(path.resolve().is_relative_to(temp.resolve()) for temp in temps)


def home_outside() -> Path:
    """Return a home of this user outside the temp folders: HOME, else the one the system knows.

    It is HOME, too, where neither lies outside.
    """
    known = Path(pwd.getpwuid(os.getuid()).pw_dir)
    return next((path for path in (HOME, known) if not _is_in_temp(path)), HOME)


ROOM = home_outside() / ".cache" / "prsm-tests"  # there the sandbox of Codex works


def room() -> Path:
    """Return the path of a folder that nobody has, outside the temp folder."""
    if _is_in_temp(ROOM):
        pytest.skip(f"no home outside the temp folder: HOME is {HOME}")
    return ROOM / uuid.uuid4().hex


@pytest.fixture(autouse=True)
def empty_home(request, monkeypatch):
    """Give a test of real programs an empty home; what npm has loaded already stays where it is."""
    if not _is_live(request.node):
        yield None
        return
    home = room()
    home.mkdir(parents=True)
    if "npm_config_cache" not in os.environ:
        monkeypatch.setenv("npm_config_cache", str(HOME / ".npm"))
    monkeypatch.setenv("HOME", str(home))
    yield home
    shutil.rmtree(home, ignore_errors=True)


def _is_live(node) -> bool:
    """Whether a test runs real programs: those that take minutes are `long`, and in that folder."""
    is_long = node.get_closest_marker("long") is not None and node.path.parent == LIVE
    return is_long or node.get_closest_marker("live") is not None
