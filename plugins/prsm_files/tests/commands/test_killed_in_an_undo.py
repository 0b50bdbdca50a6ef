"""`prsm undo --prompt` killed anywhere: the next command has done both, or there is neither."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.prsm_files.tests.commands.test_undo import Told
from tests.cli.conftest import DEADLINE
from tests.sources import ROOT

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
WORKER = Path(__file__).with_name("undo_worker.py")
MOST = 1000  # things that an undo does


class Undone:
    """Two prompts, and how files and sessions are before the second is taken back, and after."""

    def __init__(self, prsm, workspace, tmp_path):
        self.prsm, self._kept = prsm, tmp_path / "kept"
        self._folders = (workspace, tmp_path / "home")
        self.told = Told(prsm, workspace, tmp_path)
        self.session = self.told.say("one")
        (workspace / "staged").write_text("s\n")
        subprocess.run(["git", "add", "staged"], check=True)
        self.after = self.told.now(), self.told.history(self.session)
        self.told.say("two", "--continue")
        subprocess.run(["git", "reset", "-q"], check=True)
        self.before = self.told.now(), self.told.history(self.session)
        assert self.before != self.after
        for folder in self._folders:
            shutil.copytree(folder, self._kept / folder.name, symlinks=True)

    def put_back(self):
        for folder in self._folders:
            for one in list(folder.iterdir()):
                shutil.rmtree(one) if one.is_dir() else one.unlink()
            shutil.copytree(self._kept / folder.name, folder, symlinks=True, dirs_exist_ok=True)

    def check(self, words):
        """The next command of any kind about snapshots has done the rest; return if it was both."""
        done = self.prsm(*words)
        assert done.code == 0, done.err
        sessions = self.told.sessions()
        now = self.told.now(), self.told.history(sessions[0])
        assert now in (self.before, self.after)
        is_taken_back = now == self.after
        assert len(sessions) == 1 + is_taken_back
        assert self.told.history(self.session) == self.before[1]
        home = self._folders[1]
        assert not [*home.rglob("intent.json"), *home.rglob("owed.json")]
        again = self.prsm("snapshot", "list")
        assert (again.code, again.err) == (0, ""), "nothing is left to be done"
        if is_taken_back:
            assert self.prsm("undo", "--yes").code == 0
            assert self.told.now() == self.before[0]
        return is_taken_back


@pytest.fixture
def undone(prsm, workspace, tmp_path):
    return Undone(prsm, workspace, tmp_path)


@pytest.fixture
def worker():
    """Return what runs an undo that dies at a number, and returns its exit code."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        text=True,
    ) as process:
        asked, told = process.stdin, process.stdout
        assert asked is not None
        assert told is not None

        def run(step):
            asked.write(f"{step}\n")
            asked.flush()
            return int(told.readline())

        yield run
        asked.close()
        process.wait(DEADLINE)


def kill_at_each(undone, worker, first, stride):
    """Return for each step whether both were taken back after it."""
    ends: dict[int, bool] = {}
    for step in range(first, MOST, stride):
        undone.put_back()
        code = worker(step)
        assert not [one for one in undone.told.workspace.rglob("*") if ".prsm-" in one.name]
        if code == 0:
            assert undone.check(["snapshot", "list"])
            return ends
        assert code == -9, step
        words = [["snapshot", "list"], ["snapshot", "create"]][step // stride % 2]
        ends[step] = undone.check(words)
    raise AssertionError("it does not end")


def check_order(ends):
    """Once it is taken back at a step, it is so at all that come later."""
    assert list(ends.values()) == sorted(ends.values())
    assert set(ends.values()) == {False, True}


@pytest.mark.requirement("U2")
def test_an_undo_killed_here_and_there_is_finished_or_was_not_begun(undone, worker):
    check_order(kill_at_each(undone, worker, 3, 17))


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_an_undo_killed_at_anything_it_does_is_finished_or_was_not_begun(undone, worker, part):
    check_order(kill_at_each(undone, worker, part, 4))


def test_the_next_run_in_the_folder_does_the_rest_first(undone, worker):
    """Nobody works with files of one time and a conversation of another."""
    assert worker(-1) == -9
    assert (undone.told.now(), len(undone.told.sessions())) == (undone.after[0], 1)
    done = undone.prsm("run", "again", "--json", *undone.told.given)
    assert done.code == 0, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    [notice] = [one["text"] for one in told if one["type"] == "notice" and "undo" in one["text"]]
    assert "an undo of a prompt that was cut off is finished" in notice
    assert len(undone.told.sessions()) == 3


def test_a_conversation_that_was_deleted_meanwhile_is_told_and_owed_no_more(undone, worker):
    assert worker(-1) == -9
    assert undone.prsm("sessions", "delete", undone.session, "--yes").code == 0
    done = undone.prsm("snapshot", "list")
    assert done.code == 0
    assert "the files are as before it, and the conversation stays: there is no session" in done.err
    assert undone.told.now() == undone.after[0]
    assert undone.prsm("snapshot", "list").err == ""
