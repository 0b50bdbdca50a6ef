"""Real runs whose machine has run out of something: it is named, and the run can be resumed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from tests.place import Place

ALLOWED = ("--on-ask", "allow", "--provider", "script")
AFTER = "echo after > after.txt"
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "did it"}}}


def spawning(**options):
    """Return the step of a master that waits for a child which works."""
    child = {"prompt": "[[lane:w]] go", "name": "w", "wait": True, **options}
    return {"call": {"tool": "spawn_child", "arguments": child}}


SPAWN = spawning()


class Small(Place):
    """A place whose state lies on a file system of its own."""

    def __init__(self, folder, options):
        super().__init__(folder)
        self.disk = folder / "disk"
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.disk]
        done = subprocess.run(mount, capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted: {done.stderr.decode().strip()}")
        self.home = self.disk / "home"
        self.env["PRSM_HOME"] = str(self.home)

    def free(self):
        for path in self.disk.glob("fill*"):
            path.unlink()

    def make_read_only(self):
        subprocess.run(["mount", "-o", "remount,ro", self.disk], check=True)

    def unmount(self):
        subprocess.run(["umount", "-l", self.disk], check=True)


@pytest.fixture
def small(tmp_path):
    made = []

    def make(options):
        made.append(Small(tmp_path, options))
        return made[-1]

    yield make
    for place in made:
        place.unmount()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def repository(place):
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    (place.workspace / "a.txt").write_text("a")
    for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *args], cwd=place.workspace, check=True)


def scenario(place):
    return ("--set", f"providers.script.scenario={place.scenario}")


async def run_limited(place, count, *args):
    limited = ("bash", "-c", 'ulimit -n "$0"; exec "$@"', str(count))
    process = await place.start(*args, through=limited, stdin=subprocess.DEVNULL)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(
    ("options", "fill", "names"),
    [
        (
            "size=30m,nr_inodes=2000",
            "for i in $(seq 2500); do : > {disk}/fill$i; done 2> /dev/null; true",
            "has no inodes left",
        ),
        (
            "size=30m",
            "head -c 40000000 /dev/zero > {disk}/fill 2> /dev/null; true",
            "has no space left",
        ),
    ],
)
async def test_a_run_that_a_disk_stops_is_resumed(small, options, fill, names):
    place = small(options)
    command = fill.format(disk=place.disk)
    place.script(master=[SPAWN, DONE], w=[{"shell": command}, {"shell": AFTER}, DONE])
    code, _, err = await place.run("run", "--mode", "bypass", *ALLOWED, *scenario(place), "go")
    assert code == 1
    assert names in err
    assert str(place.disk) in err
    assert "hint:" in err
    place.free()
    code, out, err = await place.run("resume", "--on-ask", "allow", *scenario(place))
    assert code == 0, err
    assert "did it" in out
    assert (place.workspace / "after.txt").read_text() == "after\n"


@pytest.mark.parametrize("command", [("run", *ALLOWED, "go"), ("snapshot", "create")])
async def test_a_disk_that_is_full_before_it_begins_is_named(small, command):
    place = small("size=1m")
    (place.disk / "fill").write_bytes(b"x" * 1_040_000)
    repository(place)
    code, _, err = await place.run(*command)
    assert code in {1, 2}
    assert "no space left" in err
    assert f"df {place.disk}" in err


async def test_a_snapshot_that_a_disk_has_no_room_for_says_so(small):
    place = small("size=6m")
    repository(place)
    (place.workspace / "big.bin").write_bytes(os.urandom(12_000_000))
    code, _, err = await place.run("snapshot", "create")
    assert code == 1
    assert f"the disk is full: the file system at {place.disk}" in err


async def test_a_state_that_cannot_be_written_is_told_as_read_only(small):
    place = small("size=20m")
    repository(place)
    assert (await place.run("snapshot", "create"))[0] == 0
    place.make_read_only()
    for command in (("run", *ALLOWED, "go"), ("snapshot", "create")):
        code, _, err = await place.run(*command)
        assert code in {1, 2}
        assert f"the file system at {place.disk} is read-only" in err


async def test_a_limit_of_open_files_is_named_wherever_it_is_met(place):
    repository(place)
    place.script(master=[SPAWN, DONE], w=[{"shell": "echo b > b.txt"}, DONE])
    refused, code = 0, 1
    for count in (12, 16, 20, 48):
        given = ("--mode", "bypass", *ALLOWED, *scenario(place))
        code, _, err = await run_limited(place, count, "run", *given, "go")
        if code == 0:
            break
        refused += 1
        assert f"no more than {count} files open at a time (ulimit -n)" in err, count
        assert "reinstall the plugin" not in err
    assert refused
    assert code == 0


async def test_a_worktree_that_is_removed_is_named(place):
    repository(place)
    place.script(
        master=[spawning(worktree=True), DONE],
        w=[{"shell": "echo b > b.txt"}, {"shell": 'cd / && rm -rf "$OLDPWD"'}, DONE],
    )
    given = ("--mode", "bypass", *ALLOWED, *scenario(place))
    await place.run("run", *given, "go")
    code, out, _ = await place.run("events", "--json")
    assert code == 0
    told = [json.loads(line) for line in out.splitlines()]
    merged = [json.dumps(event) for event in told if "not merged" in json.dumps(event)]
    text = " ".join(merged) or out
    assert "there is no folder" in text
    assert "install git" not in out


async def test_a_state_that_is_removed_is_told_and_is_no_error_of_ours(place):
    place.script(master=[SPAWN, DONE], w=[{"shell": f"rm -rf '{place.home}'"}, DONE])
    given = ("--mode", "bypass", *ALLOWED, *scenario(place))
    code, _, err = await place.run("run", *given, "go")
    assert "internal error" not in err
    assert "was removed while it was in use" in err
    assert code in {0, 1}
    shutil.rmtree(place.home, ignore_errors=True)
