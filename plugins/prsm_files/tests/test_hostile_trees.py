"""A table of trees that snapshots of other kinds lose something of: each comes back exact."""

from __future__ import annotations

import os
import shutil
import socket

import pytest
from prsm_files.shadow.root import Limits

from plugins.prsm_files.tests.shadow_scene import Scene, every_byte

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def binary(scene):
    scene.write("b.bin", bytes(range(256)) * 40)
    scene.commit()
    yield
    scene.write("b.bin", bytes(range(255, -1, -1)) * 41)


def dangling_link(scene):
    (scene.folder / "gone").symlink_to("nowhere")
    yield
    (scene.folder / "gone").unlink()


def link_loop(scene):
    (scene.folder / "one").symlink_to("two")
    (scene.folder / "two").symlink_to("one")
    yield
    (scene.folder / "two").unlink()
    scene.write("two/a")


def link_to_a_folder_and_back(scene):
    scene.write("real/a", "1")
    (scene.folder / "link").symlink_to("real")
    scene.commit()
    yield
    (scene.folder / "link").unlink()
    scene.write("link/a", "2")


def folder_becomes_a_link(scene):
    scene.write("d/a", "1")
    scene.write("e/a", "1")
    scene.commit()
    yield
    shutil.rmtree(scene.folder / "d")
    (scene.folder / "d").symlink_to("e")


def a_commit_between(scene):
    scene.write("a", "dirty")
    yield
    scene.commit()
    scene.write("a", "dirtier")


def no_commit_at_all(scene):
    scene.git("update-ref", "-d", "HEAD")
    scene.write("new", "1")
    yield
    scene.write("new", "2")


def end_of_line_attributes(scene):
    scene.write(".gitattributes", "*.txt text eol=crlf\n*.c ident\n")
    scene.write("a.txt", "one\r\ntwo\n")
    scene.write("b.c", "$Id$\n")
    scene.commit()
    yield
    scene.write("a.txt", "three\n")
    scene.write("b.c", "$Id: changed $\n")


def autocrlf(scene):
    scene.git("config", "core.autocrlf", "true")
    scene.write("a.txt", "one\r\ntwo\r\n")
    scene.commit()
    yield
    scene.write("a.txt", "one\ntwo\n")


def another_encoding(scene):
    scene.write(".gitattributes", "*.u working-tree-encoding=UTF-16\n")
    scene.write("a.u", "text".encode("utf-16"))
    scene.commit()
    yield
    scene.write("a.u", "other".encode("utf-16"))


def pointers_of_a_filter(scene):
    """As git-lfs has them: what is committed is not what is in the file."""
    scene.write(".gitattributes", "*.big filter=short\n")
    scene.git("config", "filter.short.clean", "head -c 3")
    scene.git("config", "filter.short.smudge", "cat")
    scene.write("a.big", "a long content")
    scene.commit()
    yield
    scene.write("a.big", "another content")


def odd_names(scene):
    for name in (b"\xff\xfe", b"new\nline", b"tab\t\"quote'", b" lead", b"-rf", b":(top)x", b"*"):
        with open(os.path.join(os.fsencode(scene.folder), name), "wb") as file:  # noqa: PTH118, PTH123
            file.write(name)
    yield
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b"*"):
        os.unlink(os.path.join(os.fsencode(scene.folder), name))  # noqa: PTH108, PTH118


def names_that_other_systems_refuse(scene):
    for name in ("con", "a\\b", "git~1", "dir/.gitmodules.bak", "x:y"):
        scene.write(name, "1")
    yield
    for name in ("con", "a\\b", "git~1", "dir/.gitmodules.bak", "x:y"):
        scene.write(name, "2")


def only_the_case_changes(scene):
    scene.write("Read", "1")
    scene.commit()
    yield
    (scene.folder / "Read").rename(scene.folder / "READ")


def a_file_becomes_a_folder(scene):
    scene.write("x", "file")
    scene.commit()
    yield
    (scene.folder / "x").unlink()
    scene.write("x/y/z", "deep")


def a_folder_becomes_a_file(scene):
    scene.write("x/y/z", "deep")
    scene.commit()
    yield
    shutil.rmtree(scene.folder / "x")
    scene.write("x", "file")


def permissions_that_git_does_not_keep(scene):
    scene.write("secret", "1", 0o600)
    scene.write("closed", "1", 0o400)
    scene.write("tool", "1", 0o711)
    scene.commit()
    yield
    scene.write("tool", "2", 0o777)
    (scene.folder / "secret").chmod(0o644)
    (scene.folder / "closed").unlink()
    scene.write("closed", "2", 0o600)


def others_may_write(scene):
    for number in range(5):
        scene.write(f"f{number}", str(number), 0o664)
    scene.commit()
    yield
    scene.write("f1", "changed", 0o664)
    (scene.folder / "f2").unlink()


def pipes_and_sockets(scene):
    os.mkfifo(scene.folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(scene.folder / "sock"))
    yield
    scene.write("a", "changed")


def assume_unchanged(scene):
    scene.write("a", "1")
    scene.write("b", "1")
    scene.commit()
    scene.git("update-index", "--assume-unchanged", "a")
    scene.git("update-index", "--skip-worktree", "b")
    scene.write("a", "2")
    scene.write("b", "2")
    yield
    scene.write("a", "3")
    scene.write("b", "3")


def sparse(scene):
    scene.write("in/a", "1")
    scene.write("out/a", "1")
    scene.commit()
    scene.git("sparse-checkout", "set", "in")
    yield
    scene.write("in/a", "2")
    scene.write("out/b", "new")


def split_index(scene):
    scene.write("a", "1")
    scene.commit()
    scene.git("update-index", "--split-index")
    scene.write("b", "staged")
    scene.git("add", "b")
    yield
    scene.git("reset", "-q")
    scene.write("b", "more")


def a_conflict(scene):
    scene.write("a", "1")
    scene.commit()
    scene.git("checkout", "-q", "-b", "other")
    scene.write("a", "2")
    scene.commit()
    scene.git("checkout", "-q", "main")
    scene.write("a", "3")
    scene.commit()
    scene.git("merge", "-q", "other", check=False)
    yield
    scene.write("a", "merged")
    scene.git("add", "a")


def detached(scene):
    scene.commit()
    scene.git("checkout", "-q", "--detach")
    scene.write("a", "1")
    yield
    scene.write("a", "2")


def intent_to_add(scene):
    scene.write("new", "1")
    scene.git("add", "-N", "new")
    yield
    scene.git("add", "new")
    scene.write("new", "2")


def an_ignored_folder_in_the_way(scene):
    scene.write(".gitignore", "*.o\n")
    scene.write("out", "a file")
    yield
    (scene.folder / "out").unlink()
    scene.write("out/a.o", "ignored")


def ignored_later(scene):
    scene.write("secret.env", "1")
    yield
    scene.write(".gitignore", "*.env\n")
    scene.write("secret.env", "2")


def staged_and_changed_again(scene):
    scene.write("a", "1")
    scene.commit()
    scene.write("a", "staged")
    scene.git("add", "a")
    scene.write("a", "in the tree")
    yield
    scene.git("add", "a")
    scene.write("a", "other")


def hooks_and_monitors(scene):
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        scene.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch {scene.home}/ran\n", 0o755)
    scene.write("watch", f"#!/bin/sh\ntouch {scene.home}/ran\n", 0o755)
    scene.git("config", "core.fsmonitor", str(scene.folder / "watch"))
    yield
    scene.write("a", "2")


def an_object_format_of_its_own(scene):
    shutil.rmtree(scene.folder / ".git")
    scene.git("init", "-q", "--object-format=sha256")
    scene.write("a", "1")
    scene.commit()
    yield
    scene.write("a", "2")
    scene.write("b", "2")


TREES = [
    *(binary, dangling_link, link_loop, link_to_a_folder_and_back, folder_becomes_a_link),
    *(a_commit_between, no_commit_at_all, end_of_line_attributes, autocrlf, another_encoding),
    *(pointers_of_a_filter, odd_names, names_that_other_systems_refuse, only_the_case_changes),
    *(a_file_becomes_a_folder, a_folder_becomes_a_file, permissions_that_git_does_not_keep),
    *(others_may_write, pipes_and_sockets, assume_unchanged, sparse, split_index, a_conflict),
    *(detached, intent_to_add, an_ignored_folder_in_the_way, ignored_later),
    *(staged_and_changed_again, hooks_and_monitors, an_object_format_of_its_own),
]


@pytest.fixture
def scene(tmp_path, monkeypatch):
    scene = Scene(tmp_path)
    monkeypatch.chdir(scene.folder)  # a socket's path has few characters
    scene.write("first", "1")
    scene.commit()
    return scene


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_comes_back_exact_and_goes_forth_again(scene, tree):
    steps = tree(scene)
    next(steps)
    (scene.home / "ran").unlink(missing_ok=True)
    taken = scene.take()
    before, head, staged = every_byte(scene.folder), scene.person(), scene.staged()
    assert not list(steps)
    after, moved, mixed = every_byte(scene.folder), scene.person(), scene.staged()
    (scene.home / "ran").unlink(missing_ok=True)
    restored = scene.shadow().restore(taken.id)
    assert not restored.differs
    is_same_head = head["HEAD"] == moved["HEAD"]
    assert not (scene.home / "ran").exists(), "no program of the configuration has run"
    assert every_byte(scene.folder) == before
    assert (scene.person(), scene.staged()) == (moved, staged if is_same_head else mixed)
    again = scene.shadow().undo()
    assert not again.differs
    assert every_byte(scene.folder) == after
    assert (scene.person(), scene.staged()) == (moved, mixed)
    assert bool(restored.notes) is not is_same_head


def test_there_are_many_trees():
    assert len(TREES) >= 25


def test_a_submodule_and_a_nested_repository_are_roots_of_their_own(tmp_path, scene):
    other = tmp_path / "other"
    other.mkdir()
    scene.git("init", "-q", at=other)
    (other / "lib").write_text("1")
    scene.commit(at=other)
    scene.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    nested = scene.folder / "deep" / "own"
    nested.mkdir(parents=True)
    scene.git("init", "-q", at=nested)
    scene.write("deep/own/x", "1")
    scene.write("sub/lib", "2")
    scene.git("add", "lib", at=scene.folder / "sub")
    before, staged = every_byte(scene.folder), scene.staged(at=scene.folder / "sub")
    taken = scene.take()
    assert [root.path for root in taken.roots] == ["", "deep/own", "sub"]
    scene.write("sub/lib", "3")
    scene.write("sub/new", "3")
    scene.git("reset", "-q", at=scene.folder / "sub")
    scene.write("deep/own/x", "2")
    scene.write("first", "2")
    after = every_byte(scene.folder)
    assert not scene.shadow().restore(taken.id).differs
    assert every_byte(scene.folder) == before
    assert scene.staged(at=scene.folder / "sub") == staged
    scene.shadow().undo()
    assert every_byte(scene.folder) == after


@pytest.mark.parametrize("was_one", [True, False])
def test_a_folder_becomes_a_repository_or_is_none_any_more(scene, was_one):
    scene.write("sub/a", "1")
    if was_one:
        scene.git("init", "-q", at=scene.folder / "sub")
    before = every_byte(scene.folder)
    taken = scene.take()
    if was_one:
        shutil.rmtree(scene.folder / "sub" / ".git")
    else:
        scene.git("init", "-q", at=scene.folder / "sub")
    scene.write("sub/a", "2")
    after = every_byte(scene.folder)
    restored = scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before
    assert bool(restored.plan.notes) is was_one or not was_one
    scene.shadow().undo()
    assert every_byte(scene.folder) == after


def test_a_folder_without_a_repository_has_snapshots_too(tmp_path):
    scene = Scene(tmp_path, repository=False)
    scene.write("a", "1")
    scene.write("b/c", "1", 0o755)
    before = every_byte(scene.folder)
    taken = scene.take()
    scene.write("a", "2")
    shutil.rmtree(scene.folder / "b")
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before
    assert (taken.main.head, taken.main.branch, taken.main.staging) == (None, None, None)


def test_what_is_too_large_is_left_out_told_and_never_overwritten(tmp_path):
    scene = Scene(tmp_path, limits=Limits(file_bytes=10))
    scene.write("large", "more than ten bytes")
    scene.commit()  # what is committed costs nothing, and is in it
    scene.write("new", "also more than ten bytes")
    taken = scene.take()
    assert [(one.path, one.size) for one in taken.skipped] == [("new", 24)]
    assert taken.bytes_skipped == 24
    scene.write("new", "still more than ten bytes")
    scene.shadow().restore(taken.id)
    assert scene.read("new") == "still more than ten bytes"


def test_a_branch_that_is_packed_is_read_like_a_loose_one(tmp_path):
    scene = Scene(tmp_path)
    scene.write("a", "x")
    scene.commit()
    loose = scene.take().main
    scene.git("pack-refs", "--all")
    packed = scene.take().main
    assert (
        (packed.head, packed.branch)
        == (loose.head, loose.branch)
        == (
            scene.git("rev-parse", "HEAD"),
            "main",
        )
    )
