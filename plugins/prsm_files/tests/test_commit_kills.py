"""Commits that are killed anywhere are made, or not at all, once the next command looks."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.prsm_files.tests.commits_scene import Committed, edited
from plugins.prsm_files.tests.shadow_scene import every_byte
from prsm_core.errors import ConfigError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

WORKER = Path(__file__).with_name("commit_worker.py")


def scene_at(place):
    """Return a folder with changes of two agents in one file, and something that is staged."""
    place.mkdir()
    scene = Committed(place)
    scene.write("a", edited())
    scene.commit("first")
    scene.begin()
    first = scene.change("a", edited(n2="one\n"))
    second = scene.change("a", edited(n2="one\n", n10="two\n"), agent="w2")
    scene.write("staged", "staged\n")
    scene.git("add", "staged")
    return scene, scene.asked(first, second)


def run_worker(scene, asked, step, since="commit-tree"):
    told = [
        (one.message, [(c.id, c.path, _told(c.before), _told(c.after)) for c in one.changes])
        for one in asked
    ]
    done = subprocess.run(
        [sys.executable, str(WORKER), str(scene.home.parent), str(step), json.dumps(told), since],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        check=False,
    )
    assert not done.stderr, done.stderr.decode()
    return done.returncode


def _told(entry):
    return None if entry is None else [entry.mode, entry.blob]


PARTS = 4


@pytest.mark.parametrize("apart", [3, pytest.param(1, marks=pytest.mark.long)])
def test_killed_anywhere_the_next_command_finds_all_commits_made_or_none(tmp_path, apart):
    ends, died = kills(tmp_path, "commit-tree", 0, apart)
    assert {(False, False), (True, True)} <= ends <= {(False, False), (True, False), (True, True)}
    assert died > 8 // apart


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_while_it_plans_it_has_changed_nothing(tmp_path, part):
    """Before the first commit all is read, or kept aside; this goes through all to the end."""
    _, died = kills(tmp_path, "check-attr", part, PARTS)
    assert died > 8


def kills(tmp_path, since, step, apart):
    """Kill one process after the other, each some things later; return how all of it ended."""
    ends, died = set(), 0
    while True:
        scene, asked = scene_at(tmp_path / str(step))
        before = every_byte(scene.folder)
        first = scene.git("rev-parse", "HEAD")
        code = run_worker(scene, asked, step, since)
        committer = scene.committer()
        was_cut_off = committer.session == "s"
        outcome = committer.unfinished()
        count = int(scene.git("rev-list", "--count", f"{first}..HEAD"))
        assert count == (0 if outcome is None else 2)
        if outcome is None:
            assert committer.session is None
            again = committer.commit("s", asked)
            assert [len(one.changes) for one in again.commits] == [1, 1]
        else:
            assert [one.changes for one in outcome.commits] == [("c0",), ("c1",)]
            assert scene.committer().unfinished() == outcome  # until it is stored
        committer.finish()
        assert every_byte(scene.folder) == before
        assert scene.status() == {"staged": "A "}
        assert scene.at("HEAD:a") == edited(n2="one\n", n10="two\n")
        names = {path.name for path in (scene.folder / ".git").iterdir()}
        assert not {"index.lock", "index.prsm"} & names
        scene.git("fsck", "--strict", "--no-dangling")
        ends.add((was_cut_off, outcome is not None))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        step, died = step + apart, died + 1
    return ends, died


def test_a_lock_that_a_person_deletes_after_a_death_is_no_harm(tmp_path):
    """git may have gone on with the old index by then: it is left alone, and that is told."""
    for goes_on in (False, True):
        scene, asked = scene_at(tmp_path / str(goes_on))
        first = scene.git("rev-parse", "HEAD")
        assert run_worker(scene, asked, 1, "update-ref") == -signal.SIGKILL
        assert scene.git("rev-parse", "HEAD") != first
        (scene.folder / ".git" / "index.lock").unlink()
        if goes_on:
            scene.write("more", "x\n")
            scene.git("add", "more")
        committer = scene.committer()
        assert len(committer.unfinished().commits) == 2
        committer.finish()
        staged = {"staged": "A "} if not goes_on else {"a": "MM", "more": "A ", "staged": "A "}
        assert scene.status() == staged
        notes = committer._shadow.notes
        assert bool(notes) == goes_on


def test_a_session_waits_for_the_commits_that_were_cut_off(tmp_path):
    scene, asked = scene_at(tmp_path / "s")
    assert run_worker(scene, asked, 0, "update-ref") == -signal.SIGKILL
    with pytest.raises(ConfigError) as refused:
        scene.committer().commit("another", asked)
    assert refused.value.code == "cut_off"
    assert "--session s" in (refused.value.hint or "")
