"""Repositories in a folder that are damaged, borrowed, or gone, and paths that nobody can open."""

from __future__ import annotations

import os
import shutil

import pytest
from prsm_files.changes.merging import Wanted
from prsm_files.commits import Asked, Committer
from prsm_files.shadow.place import find_repository, is_own
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.changes_scene import begun, found_by, wanted
from plugins.prsm_files.tests.shadow_scene import every_byte
from prsm_core.workspace.identity import repo_identity

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def scene(tmp_path):
    return begun(tmp_path)


@pytest.fixture
def other(scene, tmp_path):
    """A repository of the person's, beside the folder."""
    folder = tmp_path / "other"
    folder.mkdir()
    scene.git("init", "-q", at=folder)
    (folder / "x").write_text("1")
    scene.commit(at=folder)
    return folder


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_staged_in_a_repository_elsewhere_stays_though_a_file_says_it_is_here(
    scene, other, kind
):
    scene.write("sub/x", "1")
    if kind == "file":
        scene.write("sub/.git", f"gitdir: {other}/.git\n")
    else:
        (scene.folder / "sub" / ".git").symlink_to(other / ".git")
    taken = scene.take()
    (other / "x").write_text("what the person has staged since")
    scene.git("add", "x", at=other)
    staged = scene.staged(at=other)
    scene.write("sub/x", "2")
    restored = scene.shadow().restore(taken.id)
    assert scene.read("sub/x") == "1"
    assert scene.staged(at=other) == staged
    assert restored.notes == (
        f"the staging area of sub stays as it is: its repository is {other}/.git, "
        "which may be that of another folder",
    )


def test_nothing_is_committed_to_a_repository_elsewhere(scene, other):
    scene.write("sub/x", "1")
    scene.write("sub/.git", f"gitdir: {other}/.git\n")
    tracker = scene.begin()
    scene.write("sub/x", "2")
    found = found_by(tracker).found
    head = scene.git("rev-parse", "HEAD", at=other)
    asked = [Asked(message="m", changes=tuple(wanted(found)), agents=())]
    outcome = Committer(scene.shadow()).commit("s", asked)
    assert "may be that of another folder" in outcome.left[0].why
    assert scene.git("rev-parse", "HEAD", at=other) == head


def test_worktrees_and_submodules_have_repositories_of_their_own(scene, other, tmp_path):
    scene.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    scene.commit()
    scene.git("worktree", "add", "-q", str(scene.folder / "tree"), at=other)
    apart = tmp_path / "apart"
    scene.git("worktree", "add", "-q", str(apart))
    scene.git("-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", at=apart)
    for top, name in ((scene.folder, "tree"), (scene.folder, "sub"), (apart, "sub")):
        assert owns(top / name, top)
    strange = apart / "strange"
    strange.mkdir()
    (strange / ".git").write_text(f"gitdir: {scene.folder}/.git\n")
    assert not owns(strange, apart)


def owns(root, top):
    repository = find_repository(root)
    assert repository is not None
    return is_own(repository, root, top)


def test_a_repository_that_is_removed_with_all_its_content_comes_back(scene):
    scene.write("sub/d/x", "1")
    scene.git("init", "-q", at=scene.folder / "sub")
    scene.commit(at=scene.folder / "sub")
    scene.write("sub/y", "2")
    before = every_byte(scene.folder)
    first = scene.take()
    assert scene.shadow().secure() > 0
    assert scene.shadow().secure() == 0
    scene.write("sub/d/x", "changed")
    scene.commit(at=scene.folder / "sub")
    second, after = scene.take(), every_byte(scene.folder)
    scene.shadow().secure()
    shutil.rmtree(scene.folder / "sub")
    for taken, was in ((first, before), (second, after)):
        scene.shadow().restore(taken.id)
        assert every_byte(scene.folder) == was
    scene.shadow().delete(first.id)
    scene.shadow().pack()
    shutil.rmtree(scene.folder / "sub")
    scene.shadow().restore(second.id)
    assert every_byte(scene.folder) == after


@pytest.mark.parametrize("harm", ["garbage", "folder", "pipe"])
@pytest.mark.parametrize("path", ["", "sub"])
def test_files_are_kept_though_the_staging_area_cannot_be_read(scene, harm, path):
    scene.write("sub/x", "1")
    scene.git("init", "-q", at=scene.folder / "sub")
    scene.commit(at=scene.folder / "sub")
    index = scene.folder / path / ".git" / "index"
    index.unlink()
    if harm == "garbage":
        index.write_bytes(b"no index")
    elif harm == "folder":
        index.mkdir()
    else:
        os.mkfifo(index)
    taken, before = scene.take(), every_byte(scene.folder)
    where = path or "the folder"
    assert f"the staging area of {where} cannot be read, and is not in it" in taken.notes[0]
    scene.write("sub/x", "2")
    scene.write("first", "2")
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before


def test_nobody_waits_for_a_pipe_where_git_has_a_file(scene):
    """What PRSM reads itself, that is; a git that waits is ended by its helper."""
    scene.take()
    where = scene.folder / ".git/info/exclude"
    where.unlink(missing_ok=True)
    os.mkfifo(where)
    assert scene.take()


def test_nobody_waits_for_a_pipe_where_a_worktree_says_of_whom_it_is(scene):
    pointed = scene.folder / "sub" / "place"
    pointed.mkdir(parents=True)
    scene.write("sub/.git", "gitdir: place\n")
    os.mkfifo(pointed / "commondir")
    assert repo_identity(scene.folder / "sub").root == scene.folder / "sub"


def test_files_that_are_too_deep_to_be_opened_are_told_and_the_others_kept(scene):
    tracker = scene.begin()
    depth = _make_deep(scene.folder)
    scene.write("first", "2")
    before = every_byte(scene.folder / "first") if (scene.folder / "first").is_dir() else "2"
    taken = scene.take()
    reasons = {one.reason for one in taken.skipped}
    assert reasons == {"its path is too long", "the folder cannot be opened: its path is too long"}
    assert {len(one.path) > 3500 for one in taken.skipped} == {True}
    assert depth > 4096
    assert [one.path for one in found_by(tracker).found] == ["first"]
    scene.write("first", "3")
    scene.shadow().restore(taken.id)
    assert scene.read("first") == before
    _remove_deep(scene.folder)


def _make_deep(folder):
    """Make folders so deep that no path leads there; with one file at a path that is too long."""
    length, descriptor = len(str(folder)), os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=descriptor)
        below = os.open("d" * 250, os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
        length += 251
        if 4096 - 251 < length < 4096:
            name = "f" * (4096 - length)
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)
    return length


def _remove_deep(folder):
    """Remove them: pytest cannot."""
    shutil.rmtree(folder / ("d" * 250))


@pytest.mark.parametrize("of", ["blob:none", "tree:0"])
def test_snapshots_of_a_clone_of_a_part_are_packed_and_deleted_like_others(scene, tmp_path, of):
    """What the clone has never fetched, and a sparse index names, is in nobody's files."""
    scene.write("in/a", "1")
    scene.write("out/b", "1")
    scene.commit()
    scene.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    how = ("--no-local", f"--filter={of}", "--sparse")
    scene.git("clone", "-q", *how, f"file://{scene.folder}", str(clone), at=tmp_path)
    scene.git("sparse-checkout", "set", "in", at=clone)
    shutil.rmtree(scene.folder)  # nothing more can be fetched
    scene.folder = clone
    first, before = scene.take(), every_byte(clone)
    scene.write("in/a", "2")
    scene.git("add", "-A")
    second, staged = scene.take(), scene.staged()
    scene.shadow().pack()
    scene.shadow().delete(first.id)
    scene.write("in/a", "3")
    scene.git("reset", "-q", "--soft", "HEAD")
    scene.shadow().restore(second.id)
    assert scene.staged() == staged
    assert every_byte(clone) == {**before, b"in/a": (before[b"in/a"][0], b"2")}


def test_changes_of_a_borrowed_repository_are_taken_back_like_others(scene, other):
    scene.write("sub/x", "1")
    scene.write("sub/.git", f"gitdir: {other}/.git\n")
    tracker = scene.begin()
    scene.write("sub/x", "2")
    [found] = found_by(tracker).found
    asked = Wanted(id="c", path=found.path, root=found.root, before=found.before, after=found.after)
    assert isinstance(asked.before, Entry)
    [made] = scene.rejecter().reject("s", [asked]).act.verdicts
    assert (made.new, scene.read("sub/x")) == ("rejected", "1")
