"""Answers of git: kept while nothing changed, asked for without the loop, and none is a no."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from functools import partial

import pytest
from prsm_policy.places import Place
from prsm_policy.safe.asking import Repositories
from prsm_policy.safe.git import may_start_programs

from plugins.prsm_policy.tests.judging import decide
from plugins.prsm_policy.tests.safe.layouts import LAYOUTS, build_template, copied, hostile
from prsm_core.domain.permissions import Allow, Ask
from tests.command_policies import make_policy
from tests.permissions.brokers import broker, make_context, shell

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
SECOND = 10**9  # ns
EVERY = list(hostile(len(LAYOUTS)))
GIT = shutil.which("git")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return build_template(tmp_path_factory.mktemp("template") / "scene")


@pytest.fixture
def scene(template, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "scene"))
    return copied(template, tmp_path / "scene")


def hasty():
    return make_policy(git_seconds=0.05)


class Clock:
    """The time, and some time later: no file is then so young that it may look the same."""

    def __init__(self):
        self.ns = 10 * SECOND
        self._now = time.time_ns()

    def __call__(self):
        return self._now + self.ns


@pytest.fixture
def clock():
    return Clock()


class Looks:
    """Looks of one process at a scene."""

    def __init__(self, scene, clock):
        self._scene = scene
        self._ask_git = partial(Repositories(now=clock).of, waits=True)

    def are_hostile(self):
        place = Place.of(self._scene.cwd, str(self._scene.work), ask_git=self._ask_git)
        assert place is not None
        return may_start_programs("status", place)


@pytest.fixture
def git(scene, monkeypatch):
    """Put a program in the place of git; `starts` counts what is run of the real one."""
    return StandIn(scene, monkeypatch)


class StandIn:
    """The `git` that is found on PATH: a script of shell."""

    def __init__(self, scene, monkeypatch):
        self._folder = scene.root / "bin"
        self._folder.mkdir()
        self.log = scene.root / "log"
        self.log.touch()
        monkeypatch.setenv("PATH", f"{self._folder}:{os.environ['PATH']}")
        self.acts(f'exec {GIT} "$@"')

    def acts(self, text):
        path = self._folder / "git"
        path.write_text(f'#!/bin/sh\necho "$@" >> {self.log}\n{text}\n')
        path.chmod(0o755)

    @property
    def starts(self):
        return len(self.log.read_text().splitlines())


def writes(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def monitor(scene):
    return f"[core]\n\tfsmonitor = {scene.canary}\n"


def adds(scene, name, text):
    path = scene.work / ".git" / name
    path.write_text((path.read_text() if path.exists() else "") + text)


def sets(scene):
    adds(scene, "config", monitor(scene))


def fills_what_is_included(scene):
    writes(scene.work / "extra", monitor(scene))


def shares_another(scene):
    shutil.copytree(scene.work / ".git", scene.work / "other")
    writes(scene.work / "other/config", (scene.work / ".git/config").read_text() + monitor(scene))
    adds(scene, "commondir", "../other\n")


def sets_for_the_work_tree(scene):
    adds(scene, "config.worktree", monitor(scene))


def replaces(scene):
    (scene.work / ".git").rename(scene.work / "old")
    shutil.copytree(scene.work / "old", scene.work / ".git")
    sets(scene)


def breaks_the_inner_one(scene):
    (scene.work / "inner/.git/HEAD").write_text("nothing\n")


def hooks(scene):
    path = scene.work / ".git/hooks/post-index-change"
    path.parent.mkdir(exist_ok=True)
    shutil.copy(scene.canary, path)


def embeds(scene):
    inner = scene.work / "sub"
    inner.mkdir()
    scene.git(inner, "init", "-q")
    scene.git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    scene.git(scene.work, "add", "sub")
    (inner / ".git/config").write_text((inner / ".git/config").read_text() + monitor(scene))


def points_elsewhere(scene):
    (scene.work / "way").unlink()
    (scene.work / "way").symlink_to("evil")


def includes_a_missing_file(scene):
    adds(scene, "config", "[include]\n\tpath = ../extra\n")


def knows_work_trees(scene):
    scene.git(scene.work, "config", "extensions.worktreeConfig", "true")


def holds_another(scene):
    inner = scene.work / "inner"
    inner.mkdir()
    shutil.copytree(scene.work / ".git", inner / ".git")
    sets(scene)
    scene.cwd = "inner"


def lies_behind_a_link(scene):
    for name in ("good", "evil"):
        shutil.copytree(scene.work / ".git", scene.work / name / "r")
    writes(
        scene.work / "evil/r/config",
        (scene.work / "evil/r/config").read_text() + monitor(scene),
    )
    shutil.rmtree(scene.work / ".git")
    (scene.work / "way").symlink_to("good")
    (scene.work / ".git").write_text("gitdir: way/r\n")


def is_plain(_scene):
    pass


@pytest.mark.requirement("E23")
@pytest.mark.parametrize(
    ("before", "change"),
    [
        (is_plain, sets), (is_plain, shares_another), (is_plain, replaces), (is_plain, hooks),
        (is_plain, embeds), (includes_a_missing_file, fills_what_is_included),
        (knows_work_trees, sets_for_the_work_tree), (holds_another, breaks_the_inner_one),
        (lies_behind_a_link, points_elsewhere),
    ],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_an_answer_ends_with_any_change_of_what_it_is_from(scene, git, clock, before, change):
    before(scene)
    looks = Looks(scene, clock)
    assert not looks.are_hostile()
    starts = git.starts
    change(scene)
    clock.ns += SECOND
    assert looks.are_hostile()
    assert scene.ran("git status")
    assert git.starts > starts


@pytest.mark.parametrize("cwd", [".", "deep/er"])
def test_git_is_asked_once_while_nothing_changes(scene, git, clock, cwd):
    (scene.work / "deep/er").mkdir(parents=True)
    scene.cwd = cwd
    looks = Looks(scene, clock)
    assert not looks.are_hostile()
    starts = git.starts
    for _ in range(3):
        clock.ns += SECOND
        assert not looks.are_hostile()
    assert git.starts == starts == 3


def test_an_answer_of_files_that_have_just_changed_holds_for_a_moment_only(scene, git, clock):
    clock.ns = 0
    looks = Looks(scene, clock)
    for age in (0, SECOND // 10, SECOND):
        clock.ns = age
        assert not looks.are_hostile()
    assert git.starts == 6


def test_a_folder_without_a_repository_is_not_asked_about(scene):
    shutil.rmtree(scene.work / ".git")
    assert decide("git status", scene.work) == "allow"
    (scene.work / ".git").mkdir()
    assert decide("git status", scene.work) == "allow"
    (scene.work / ".git").rmdir()
    (scene.work / ".git").write_text("gitdir: x\n")
    assert decide("git status", scene.work) == "ask"


OLD = f"""case "$*" in *--show-scope*) exit 129;; esac
exec {GIT} "$@\""""


@pytest.mark.requirement("E23")
@pytest.mark.parametrize(
    "acts", [OLD, "exit 0", "exit 1", "kill -9 $$", "echo one; echo two", "printf 'a\\0b\\0c'"]
)
def test_a_git_that_is_old_or_answers_otherwise_is_a_question_for_a_person(scene, git, acts):
    assert decide("git status", scene.work) == "allow"
    git.acts(acts)
    assert decide("git status", scene.work) == "ask"
    assert decide("git --version", scene.work) == "allow"


def test_where_git_is_missing_a_person_is_asked(scene, monkeypatch):
    monkeypatch.setenv("PATH", str(scene.root / "nowhere"))
    assert decide("git status", scene.work) == "ask"


@pytest.mark.requirement("E23")
def test_a_git_that_takes_too_long_is_ended_and_a_person_is_asked(scene, git):
    os.mkfifo(scene.root / "pipe")
    git.acts(f"exec cat {scene.root}/pipe")
    assert decide("git status", scene.work, policy=hasty()) == "ask"


def test_a_configuration_that_is_a_pipe_is_not_waited_for(scene):
    config = scene.work / ".git/config"
    config.unlink()
    os.mkfifo(config)
    assert decide("git status", scene.work, policy=hasty()) == "ask"


@pytest.mark.requirement("E23")
async def test_the_loop_goes_on_while_git_is_asked(scene, git):
    """git waits for what the loop gives it only then."""
    pipe = scene.root / "pipe"
    os.mkfifo(pipe)
    git.acts(f'test "$1" != rev-parse || read line < {pipe}; exec {GIT} "$@"')
    request, context = shell("git status"), make_context(workspace=str(scene.work))
    verdict, _ = await asyncio.gather(
        broker().decide(request, context), asyncio.to_thread(pipe.write_text, "go on\n")
    )
    assert isinstance(verdict, Allow)


@pytest.mark.requirement("E23")
async def test_a_broker_asks_a_person_where_git_does_not_answer(scene, git):
    os.mkfifo(scene.root / "pipe")
    git.acts(f"exec cat {scene.root}/pipe")
    request, context = shell("git status"), make_context(workspace=str(scene.work))
    deciding = broker(hasty())
    assert isinstance(await deciding.decide(request, context), Ask)
    assert await deciding.may_write(request, context)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("case", [case for case in EVERY if not case.is_bare][::7], ids=str)
def test_to_ask_starts_nothing_but_git(scene, git, tmp_path, case):
    """Not even where the canary would run unseen."""
    case.lay(scene)
    trace = tmp_path / "trace"
    git.acts(f'exec strace -f -qq -A -o {trace} -e trace=execve {GIT} "$@"')
    assert decide("git status", scene.work, cwd=scene.cwd) == "ask"
    started = re.findall(r'execve\("([^"]*)"', trace.read_text())
    assert started
    assert set(started) == {GIT}
