"""Claimed files: only what lies in the folder, is a file, and is new counts."""

from __future__ import annotations

import hashlib
import os
import time

import pytest
from prsm_files import artifacts
from prsm_files.artifacts import Blob, find_artifacts, find_unchanged, touched_since

LONG_AGO = 0.0


@pytest.fixture
def folder(tmp_path):
    """A folder with a file of its own, beside one that is not inside."""
    (tmp_path / "own").mkdir()
    (tmp_path / "outside.txt").write_text("not yours")
    (tmp_path / "own" / "a.py").write_text("x = 1\n")
    return tmp_path / "own"


def gaps_of(folder, *names, since=LONG_AGO):
    found, gaps = find_artifacts(str(folder), names)
    return gaps + touched_since(found, since)[1]


def blob_of(content: bytes, *, name="sha1", is_executable=False) -> Blob:
    digest = hashlib.new(name, b"blob %d\0" % len(content) + content).hexdigest()
    return Blob(id=digest, size=len(content), is_executable=is_executable)


@pytest.mark.parametrize("name", ["a.py", "./a.py", "sub/../a.py"])
def test_a_file_of_the_folder_is_found_however_it_is_named(folder, name):
    [found], gaps = find_artifacts(str(folder), [name])
    assert (found.name, found.path, found.size, gaps) == (name, "a.py", 6, [])
    assert find_artifacts(str(folder), [str(folder / "a.py")])[0][0].path == "a.py"


@pytest.mark.parametrize("name", ["../outside.txt", "link", "linked/outside.txt", "/etc/passwd"])
def test_what_leads_out_of_the_folder_is_never_looked_at(folder, name):
    (folder / "link").symlink_to("../outside.txt")
    (folder / "linked").symlink_to("..")
    assert gaps_of(folder, name) == [f"{name!r} is outside the agent's folder"]
    assert gaps_of(folder, "../no-such-file") == ["'../no-such-file' is outside the agent's folder"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gone.py", "does not exist"),
        ("a.py/b", "does not exist"),
        (".", "is a folder"),
        ("loop", "is not a file"),
        ("pipe", "is not a file"),
        ("\0", "is not a path"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_what_is_no_file_is_named(folder, name, problem):
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    assert gaps_of(folder, name) == [f"{name!r} {problem}"]


def test_a_file_from_before_was_not_changed_whatever_its_times_say(folder):
    later = time.time() + 1000
    os.utime(folder / "a.py", (later + 1, later + 1))
    assert gaps_of(folder, "a.py", since=later) == ["'a.py' was not changed since the agent began"]


def test_no_more_files_are_looked_at_than_anybody_makes(folder):
    found, gaps = find_artifacts(str(folder), ["a.py"] * (artifacts.MAX_FILES + 2))
    assert (len(found), gaps) == (artifacts.MAX_FILES, ["2 more files were not checked"])


@pytest.mark.parametrize("name", ["sha1", "sha256"])
def test_content_that_git_knew_already_is_no_change(folder, name):
    found, _ = find_artifacts(str(folder), ["a.py"])
    before = {"a.py": blob_of(b"x = 1\n", name=name)}
    assert find_unchanged(str(folder), found, before) == [
        "'a.py' is as it was before the agent began"
    ]
    assert find_unchanged(str(folder), found, {"a.py": blob_of(b"x = 2\n", name=name)}) == []
    assert find_unchanged(str(folder), found, {"b.py": before["a.py"]}) == []


def test_a_file_that_was_only_made_executable_has_changed(folder):
    (folder / "a.py").chmod(0o755)
    found, _ = find_artifacts(str(folder), ["a.py"])
    assert find_unchanged(str(folder), found, {"a.py": blob_of(b"x = 1\n")}) == []


def test_a_huge_file_is_not_read(folder):
    with (folder / "huge").open("wb") as file:
        file.truncate(2**40)
    found, gaps = find_artifacts(str(folder), ["huge"])
    assert gaps == []
    assert find_unchanged(str(folder), found, {"huge": blob_of(b"small")}) == []
    same_size = {"huge": Blob(id="0" * 40, size=2**40, is_executable=False)}
    assert find_unchanged(str(folder), found, same_size) == ["'huge' is too large to be compared"]


def test_a_file_that_vanishes_before_it_is_compared_is_named(folder):
    found, _ = find_artifacts(str(folder), ["a.py"])
    (folder / "a.py").unlink()
    assert find_unchanged(str(folder), found, {"a.py": blob_of(b"x = 1\n")}) == [
        "'a.py' cannot be read: No such file or directory"
    ]
