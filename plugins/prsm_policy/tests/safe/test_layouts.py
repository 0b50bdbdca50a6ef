"""However a repository is laid out, no look that the policy allows starts a program of it."""

from __future__ import annotations

import shutil

import pytest

from plugins.prsm_policy.tests.judging import decide
from plugins.prsm_policy.tests.safe.layouts import (
    COMMANDS,
    LAYOUTS,
    build_template,
    copied,
    hostile,
)

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
EVERY = list(hostile(300))
SHORT = EVERY[::11]


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    return build_template(tmp_path_factory.mktemp("template") / "scene")


@pytest.fixture
def scene(template, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "scene"))
    return copied(template, tmp_path / "scene")


def judged(scene, command):
    return decide(command, scene.work, cwd=scene.cwd)


def assert_nothing_runs(scene, commands):
    allowed = [command for command in commands if judged(scene, command) == "allow"]
    assert not (scene.root / "ran").exists(), "to ask git has started a program"
    assert [command for command in allowed if scene.ran(command)] == []
    asked = [command for command in commands if command not in allowed]
    # git writes its index, and runs the hook behind that, only where the times of files differ.
    tries = (*asked, *COMMANDS) * 5
    assert any(map(scene.ran, tries)), "the repository is not hostile"


@pytest.mark.requirement("E23", "E24")
@pytest.mark.parametrize("case", SHORT, ids=str)
def test_no_look_that_is_allowed_starts_a_program_of_a_hostile_repository(scene, case):
    case.lay(scene)
    assert_nothing_runs(scene, case.commands)


@pytest.mark.long
@pytest.mark.requirement("E23", "E24")
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_no_look_that_is_allowed_starts_a_program_of_any_of_300_hostile_repositories(scene, case):
    case.lay(scene)
    assert_nothing_runs(scene, case.commands)


def test_each_layout_is_among_the_300_and_many_are_among_the_short_ones():
    assert {case.layout for case in EVERY} == set(LAYOUTS)
    assert len({case.layout for case in SHORT}) >= 25


# Layouts in which nothing but what everybody has is configured: none of them may ask.


def clone(scene):
    scene.git(scene.root, "clone", "-q", str(scene.work), "copy")
    shutil.rmtree(scene.work)
    (scene.root / "copy").rename(scene.work)


def folder_of_a_clone(scene):
    (scene.work / "deep/er").mkdir(parents=True)
    scene.cwd = "deep/er"


def shallow_clone(scene):
    scene.git(scene.root, "clone", "-q", "--depth=2", f"file://{scene.work}", "copy")
    shutil.rmtree(scene.work)
    (scene.root / "copy").rename(scene.work)


def repository_elsewhere(scene):
    scene.git(scene.work, "init", "-q", "--separate-git-dir", str(scene.root / "own.git"))


def linked_work_tree(scene):
    scene.git(scene.work, "worktree", "add", "-q", str(scene.root / "tree"))
    scene.work.rename(scene.root / "main")
    scene.git(scene.root / "main", "worktree", "repair", str(scene.root / "tree"))
    (scene.root / "tree").rename(scene.work)
    scene.git(scene.root / "main", "worktree", "repair", str(scene.work))


def work_tree_of_a_bare_repository(scene):
    scene.git(scene.root, "clone", "-q", "--bare", str(scene.work), "own.git")
    shutil.rmtree(scene.work)
    scene.git(scene.root / "own.git", "worktree", "add", "-q", str(scene.work))


def submodule(scene):
    scene.git(scene.root, "clone", "-q", str(scene.work), "other")
    scene.git(scene.work, "submodule", "--quiet", "add", str(scene.root / "other"), "sub")
    scene.git(scene.work, "commit", "-q", "-m", "sub")


def in_a_submodule(scene):
    submodule(scene)
    scene.cwd = "sub"


def submodule_that_is_not_there(scene):
    submodule(scene)
    scene.git(scene.work, "submodule", "--quiet", "deinit", "-f", "sub")


def sparse(scene):
    scene.git(scene.work, "stash", "-q")
    scene.git(scene.work, "sparse-checkout", "set", "--no-cone", "a.txt")


def hooks_of_a_project(scene):
    folder = scene.work / ".husky/_"
    folder.mkdir(parents=True)
    shutil.copy(scene.canary, folder / "pre-commit")
    scene.git(scene.work, "config", "core.hooksPath", ".husky/_")


def harmless_include(scene):
    scene.git(scene.work, "config", "include.path", "../shared.config")
    (scene.work / "shared.config").write_text("[alias]\n\tst = status\n")


def settings_of_the_person(scene):
    """They start programs, also by what they include; and nobody is asked about them."""
    (scene.root / ".gitconfig").write_text(
        "[core]\n\tpager = less\n\tfsmonitor = false\n[include]\n\tpath = .gitconfig-work\n"
    )
    more = f'[diff]\n\texternal = true\n[includeIf "gitdir:{scene.root}/"]\n\tpath = .more\n'
    (scene.root / ".gitconfig-work").write_text(more)
    (scene.root / ".more").write_text("[log]\n\tshowSignature = true\n[gpg]\n\tprogram = true\n")


def file_named_head_beside(scene):
    (scene.work / "HEAD").write_text("no repository\n")


BENIGN = [
    clone, folder_of_a_clone, shallow_clone, repository_elsewhere, linked_work_tree,
    work_tree_of_a_bare_repository, submodule, in_a_submodule, submodule_that_is_not_there,
    sparse, hooks_of_a_project, harmless_include, settings_of_the_person, file_named_head_beside,
]  # fmt: skip


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("make", BENIGN, ids=lambda make: make.__name__)
def test_what_everybody_has_is_not_asked_about(scene, make):
    make(scene)
    assert [command for command in COMMANDS if judged(scene, command) != "allow"] == []
    assert [command for command in COMMANDS if scene.ran(command)] == []
