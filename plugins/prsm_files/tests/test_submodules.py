"""A worktree of a repository with submodules has their files, and what changes there comes back."""

from __future__ import annotations

import shutil

import pytest
from prsm_files.changes.acting import Rejecter
from prsm_files.worktrees.worktrees import Whose, Worktrees

from plugins.prsm_files.tests.shadow_scene import every_byte
from plugins.prsm_files.tests.trees_scene import Grove, inside
from prsm_core.errors import ConfigError

pytestmark = [
    pytest.mark.requirement("U36"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


class Nested(Grove):
    """A repository with a submodule that has one itself, and one that is not filled."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        for name in ("lib", "deep", "empty"):
            source = tmp_path / "sources" / name
            source.mkdir(parents=True)
            self.git("init", "-q", at=source)
            (source / "x").write_text(f"{name}\n")
            self.commit(at=source)
        allow = ("-c", "protocol.file.allow=always")
        sources = tmp_path / "sources"
        lib = self.folder / "lib"
        self.git(*allow, "submodule", "add", "-q", str(sources / "lib"), "lib")
        self.git(*allow, "submodule", "add", "-q", str(sources / "deep"), "in/deep", at=lib)
        self.commit(at=lib)
        self.git(*allow, "submodule", "add", "-q", str(sources / "empty"), "empty")
        self.git("add", "lib", "empty", ".gitmodules")
        self.git("commit", "-qm", "submodules")
        self.git("submodule", "--quiet", "deinit", "-f", "empty")
        (lib / "x").write_text("the person's\n")
        (lib / "untracked").write_text("u\n")
        shutil.rmtree(sources)

    def heads(self):
        """Return the commit and the index of each repository."""
        tops = (self.folder, self.folder / "lib", self.folder / "lib" / "in" / "deep")
        return [(self.git("rev-parse", "HEAD", at=top), self.staged(at=top)) for top in tops]


@pytest.fixture
def scene(tmp_path):
    return Nested(tmp_path)


def without_git(found):
    """Return files but for those of git itself, and those that it ignores."""
    own = (b"/.git", b".git")
    return {
        path: one for path, one in found.items() if not path.endswith(own) and path != b"ignored"
    }


def test_a_submodule_is_filled_from_what_is_there_without_a_network(scene):
    before = scene.bytes()
    tree = scene.make()
    assert without_git(every_byte(tree.folder)) == without_git(before)
    assert inside(tree, "lib/x").read_text() == "the person's\n"
    assert inside(tree, "lib/in/deep/x").read_text() == "deep\n"
    assert "lib" not in scene.git("status", "--porcelain", at=tree.folder)
    assert not scene.trees().has_changed(tree.id)
    assert scene.settle(tree).result == "nothing"
    assert scene.trees().finish(tree.id)
    assert scene.bytes() == before


def test_what_changed_in_a_submodule_is_merged_and_its_commits_stay(scene):
    tree = scene.make()
    heads = scene.heads()
    inside(tree, "b").write_text("w1\n")
    inside(tree, "lib/x").write_text("w1\n")
    inside(tree, "lib/untracked").unlink()
    inside(tree, "lib/in/deep/new").write_text("w1\n")
    assert scene.trees().has_changed(tree.id)
    outcome = scene.settle(tree)
    assert (outcome.result, outcome.conflicts) == ("merged", ())
    assert scene.read("b") == scene.read("lib/x") == scene.read("lib/in/deep/new") == "w1\n"
    assert not (scene.folder / "lib/untracked").exists()
    assert scene.heads() == heads
    assert {one.path for one in outcome.left_out} == {
        *("lib/x", "lib/untracked", "lib/in/deep/new"),
    }
    changed = scene.git("diff", "--name-only", "HEAD", tree.branch)
    assert changed == "b"
    assert scene.trees().finish(tree.id)


def test_the_merge_is_one_act_that_undo_takes_back(scene):
    before = scene.bytes()
    tree = scene.make()
    inside(tree, "b").write_text("w1\n")
    inside(tree, "lib/x").write_text("w1\n")
    inside(tree, "lib/in/deep/new").write_text("w1\n")
    outcome = scene.settle(tree)
    act = scene.shadow().acts.last()
    assert (outcome.result, act.id) == ("merged", outcome.act)
    assert Rejecter(scene.shadow()).undo(act).stays == ()
    assert without_git(scene.bytes()) == without_git(before)


@pytest.mark.parametrize("path", ["lib/x", "lib/in/deep/x"])
def test_half_of_what_an_agent_did_is_not_merged_if_a_submodule_conflicts(scene, path):
    tree = scene.make()
    inside(tree, "b").write_text("w1\n")
    inside(tree, path).write_text("w1\n")
    scene.write(path, "later\n")
    before = scene.bytes()
    outcome = scene.settle(tree)
    assert (outcome.result, [one.path for one in outcome.conflicts]) == ("conflict", [path])
    assert without_git(scene.bytes()) == without_git(before)


def test_a_region_holds_in_a_submodule_too(scene):
    tree = scene.make(region=("lib/in",))
    inside(tree, "lib/x").write_text("w1\n")
    inside(tree, "lib/in/deep/new").write_text("w1\n")
    outcome = scene.settle(tree)
    assert (outcome.result, [one.path for one in outcome.outside]) == ("partial", ["lib/x"])
    assert scene.read("lib/x") == "the person's\n"
    assert scene.read("lib/in/deep/new") == "w1\n"


def test_a_submodule_that_is_gone_meanwhile_is_told_and_nothing_is_written(scene):
    tree = scene.make()
    inside(tree, "b").write_text("w1\n")
    inside(tree, "lib/x").write_text("w1\n")
    shutil.rmtree(scene.folder / "lib")
    outcome = scene.settle(tree)
    assert outcome.result == "conflict"
    assert {one.path for one in outcome.conflicts} == {"lib", "lib/in/deep"}
    assert scene.read("b") == "b\n"
    assert inside(tree, "lib/x").read_text() == "w1\n"


def test_files_in_a_submodule_that_is_not_filled_replace_it_in_no_commit(scene):
    tree = scene.make()
    inside(tree, "b").write_text("w1\n")
    inside(tree, "empty").mkdir(exist_ok=True)
    inside(tree, "empty/new").write_text("w1\n")
    outcome = scene.settle(tree)
    assert outcome.result == "merged"
    assert [one.path for one in outcome.left_out] == ["empty/new"]
    assert scene.git("diff", "--name-only", "HEAD", tree.branch) == "b"
    assert scene.read("empty/new") == "w1\n"


def test_a_worktree_of_a_worktree_has_the_submodules_files_and_brings_them_back(scene):
    tree = scene.make()
    below = Worktrees(scene.shadow(tree.folder), scene.where)
    child = below.make(Whose("session", "id-c", "c")).tree
    inside(child, "lib/x").write_text("c\n")
    inside(child, "lib/new").write_text("c\n")
    outcome = below.settle(child.id, "m")
    assert outcome.result == "merged"
    assert {one.path for one in outcome.left_out} == {"lib/x", "lib/new"}
    assert scene.settle(tree).result == "merged"
    assert scene.read("lib/x") == scene.read("lib/new") == "c\n"
    assert below.finish(child.id)
    assert scene.trees().finish(tree.id)


def test_a_repository_that_is_no_submodule_is_still_named(scene):
    inner = scene.folder / "lib" / "own"
    inner.mkdir()
    scene.git("init", "-q", at=inner)
    (inner / "x").write_text("1")
    scene.commit(at=inner)
    with pytest.raises(ConfigError, match="lib/own"):
        scene.make()
    assert not list(scene.where.trees.glob("*/*"))
