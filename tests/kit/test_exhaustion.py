"""What a machine has run out of is told by its name: which, where, how much, and what helps."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import subprocess
from contextlib import contextmanager

import pytest

from prsm_core.errors import ConfigError, PluginError, ProcessError
from prsm_core.kit.exhaustion import exhaustion_of, find_exhaustion, speaks_of_exhaustion


@contextmanager
def small(folder, options):
    """Mount a file system of its own on a folder; skip the test where nobody may."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder, *, files):
    """Make files, or one file, until the system refuses."""
    try:
        for number in range(10_000):
            with (folder / f"f{number if files else 0}").open("ab") as file:
                if not files:
                    file.write(b"x" * 65_536)
    except OSError as error:
        return error
    raise AssertionError("there is always room")


def told(error):
    """Return what is used up by an error, which says that something is."""
    found = exhaustion_of(error)
    assert found is not None
    return found


def looked(folder):
    found = find_exhaustion(folder)
    assert found is not None
    return found


def raised(error, cause):
    try:
        raise error from cause
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    ("options", "files", "says", "helps"),
    [
        ("size=1m", False, "no space left", "df {}"),
        ("size=8m,nr_inodes=30", True, "no inodes left", "df -i {}"),
    ],
)
def test_a_full_disk_is_told_from_one_without_inodes(tmp_path, options, files, says, helps):
    with small(tmp_path / "small", options) as folder:
        error = fill(folder, files=files)
        error.filename = error.filename or str(folder / "state" / "deep" / "file")
        for one in (told(error), looked(folder / "not" / "there")):
            assert says in one.message
            assert str(folder) in one.message
            assert helps.format(folder) in one.hint
        found = told(ProcessError(f"git failed: cannot write {folder}/x: No space left on device"))
        assert says in found.message
        assert str(folder) in found.message


def test_a_read_only_file_system_is_named(tmp_path):
    with small(tmp_path / "small", "size=1m,ro") as folder:
        found = looked(folder / "data")
        assert f"{folder} is read-only" in found.message
        assert "PRSM_HOME" in found.hint


def test_a_limit_of_open_files_is_told_with_its_number(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = told(OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(tmp_path)))
    assert str(soft) in found.message
    assert "ulimit" in found.hint
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        held: list[int] = []
        refused = None
        try:
            while len(held) < 100:
                held.append(os.open(tmp_path, os.O_RDONLY))
        except OSError as error:
            refused = error.errno
        found = looked(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in held:
            os.close(each)
    assert refused == errno.EMFILE
    assert "64" in found.message


@pytest.mark.parametrize("number", [errno.EDQUOT, errno.ENFILE, errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda error: error,
        lambda error: raised(PluginError("plugin x: cannot import y"), error),
        lambda error: ExceptionGroup("of a task group", [ValueError("first"), error]),
        lambda error: raised(ConfigError("z"), ExceptionGroup("tasks", [error])),
    ],
)
def test_it_is_found_wherever_it_led_to_what_is_told(tmp_path, number, wrapped):
    error = OSError(number, os.strerror(number), str(tmp_path / "file"))
    assert exhaustion_of(wrapped(error)) == exhaustion_of(error) is not None
    assert speaks_of_exhaustion(str(error))


def test_other_errors_are_about_nothing_that_is_used_up(tmp_path):
    for error in (
        OSError(errno.ENOENT, "No such file or directory", "x"),
        PermissionError(errno.EACCES, "Permission denied"),
        ValueError("disk"),
        ConfigError("the task is blank"),
        sqlite3.OperationalError("no such table: x"),
    ):
        assert exhaustion_of(error) is None
        assert not speaks_of_exhaustion(str(error))
    assert find_exhaustion(tmp_path) is None


def test_an_error_that_suppresses_what_led_to_it_is_taken_at_its_word():
    error = raised(ConfigError("it is so"), None)
    error.__context__ = OSError(errno.ENOSPC, "No space left on device")
    assert exhaustion_of(error) is None
