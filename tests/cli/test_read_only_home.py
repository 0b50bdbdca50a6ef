"""A home that cannot be written to: each command says so, and what to do."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tests.place import Place


def mounts_again() -> bool:
    """Whether a process here may have a view of its own of the file system."""
    words = ["unshare", "-rm", "mount", "--bind", "/tmp", "/tmp"]  # noqa: S108 - it is not used
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif(
    not mounts_again(), reason="unshare -rm is not there, or may not mount"
)


CURE = "hint: mount it so that it can be written, or set PRSM_HOME to a folder on another one"


@pytest.fixture
async def place(tmp_path):
    """A home with a session, a file of it, and commands that may only read the home."""
    place = Place(tmp_path)
    place.script(master=[{"say": "hello"}])
    assert (await place.run(*run(place)))[0] == 0
    assert (await place.run("export", "-o", str(tmp_path / "kept.json")))[0] == 0
    return place


def run(place):
    scenario = f"providers.script.scenario={place.scenario}"
    return ("run", "say it", "--provider", "script", "--set", scenario)


async def refused(place, *words):
    """Return what a command says that must fail since its home is read-only."""
    home = shlex.quote(str(place.home))
    view = f"mount --bind {home} {home} && mount -o remount,ro,bind {home} && exec "
    shell = ("unshare", "-rm", "sh", "-c", view + '"$@"', "sh")
    process = await place.start(*words, through=shell)
    out, err = (text.decode() for text in await process.communicate())
    assert process.returncode in {1, 2}
    assert out == ""
    assert "Read-only file system" in err
    assert "Traceback" not in err
    assert "Errno" not in err
    return err


@pytest.mark.parametrize(
    "words",
    [
        ("tree",),
        ("sessions", "list"),
        ("sessions", "rename", "0", "x"),
        ("sessions", "delete", "0", "--yes"),
        ("resume",),
        ("fork",),
        ("export",),
        ("sessions", "import", "../kept.json"),
    ],
    ids=" ".join,
)
async def test_a_ledger_on_a_read_only_disk_says_what_to_do(place, words):
    _, before, _ = await place.run("sessions", "list", "--json")
    said = await refused(place, *words)
    assert f"the file system at {place.home} is read-only" in said
    assert CURE in said
    assert (await place.run("sessions", "list", "--json"))[1] == before


async def test_a_run_in_a_read_only_home_says_what_to_do(place):
    said = await refused(place, *run(place))
    assert f"the file system at {place.home} is read-only" in said
    assert CURE in said
