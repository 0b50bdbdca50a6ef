"""Which regions a mount cannot close: those with a file that has a name outside."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_sandbox.view import is_file

from prsm_core.engine.tools.shell import is_reached_from_outside
from prsm_core.kit import names_file

NAMES = ("in/a", "in/b", "in/deep/a", "out/a", "out/b")


@given(files=st.lists(st.sets(st.sampled_from(NAMES), min_size=1), max_size=4))
def test_a_region_is_reached_from_outside_by_a_file_with_names_on_both_sides(
    tmp_path_factory, files
):
    root = tmp_path_factory.mktemp("files")
    for folder in ("in/deep", "out"):
        (root / folder).mkdir(parents=True)
    taken: set[str] = set()
    shared = False
    for names in files:
        free = sorted(names - taken)
        taken.update(free)
        for name in free[:1]:
            (root / name).write_text("x")
        for name in free[1:]:
            (root / name).hardlink_to(root / free[0])
        shared = shared or {name.split("/")[0] for name in free} == {"in", "out"}
    assert is_reached_from_outside(os.fspath(root / "in")) is shared


def test_a_region_may_be_a_file_or_not_there_yet(tmp_path):
    (tmp_path / "file").write_text("x")
    assert not is_reached_from_outside(os.fspath(tmp_path / "file"))
    assert not is_reached_from_outside(os.fspath(tmp_path / "missing"))
    (tmp_path / "alias").hardlink_to(tmp_path / "file")
    assert is_reached_from_outside(os.fspath(tmp_path / "file"))


def test_links_are_not_followed(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / "a").write_text("x")
    (tmp_path / "out" / "b").hardlink_to(tmp_path / "out" / "a")
    (tmp_path / "in" / "folder").symlink_to("../out")
    (tmp_path / "in" / "file").symlink_to("../out/a")
    assert not is_reached_from_outside(os.fspath(tmp_path / "in"))


def test_a_region_too_large_to_tell_counts_as_reached(tmp_path):
    for number in range(3):
        (tmp_path / str(number)).write_text("x")
    assert not is_reached_from_outside(os.fspath(tmp_path), limit=4)  # itself, and three
    assert is_reached_from_outside(os.fspath(tmp_path), limit=3)


FILES = ("Makefile", "docker/Dockerfile", ".gitignore", "a/.env", "LICENSE", "x.py", "makefile")
FOLDERS = ("src", "src/ui", ".github", ".config/x", "license", "build", "x.py/", "Makefile/", "")


@pytest.mark.parametrize("path", FILES)
def test_what_is_missing_is_a_file_by_its_name(tmp_path, path):
    assert names_file(path)
    assert is_file(os.fspath(tmp_path / path))
    (tmp_path / path).mkdir(parents=True)
    assert not is_file(os.fspath(tmp_path / path)), "what is there is what it is"


@pytest.mark.parametrize("path", FOLDERS)
def test_any_other_name_is_a_folders(path):
    assert not names_file(path)
