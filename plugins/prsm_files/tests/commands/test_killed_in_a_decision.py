"""`prsm changes` and `prsm undo` killed at all they do: files and ledger agree afterwards.

And nothing of ours lies in the folder meanwhile that `git add -A` would take along.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.prsm_files.tests.shadow_scene import every_byte
from tests.cli.conftest import DEADLINE
from tests.sources import ROOT

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.requirement("U6"),
]

WORKER = Path(__file__).with_name("deciding_worker.py")
LANES = """\
lanes:
  master:
    steps:
      - call:
          tool: spawn_child
          arguments: {name: w1, prompt: work, wait: true, tools: [Bash, Edit, Write]}
      - say: done
  w1:
    steps:
      - edit: {path: a, content: "one\\ntwo\\n"}
      - shell: "mkdir new; echo made > new/b; rm gone; chmod +x run; ln -s a link"
      - say: done
"""
FEW, PARTS = 23, 3  # of so many steps one is played


class Ran:
    """A folder in which a run has made changes, put back as it was then as often as is wanted."""

    def __init__(self, prsm, workspace, home):
        self.prsm, self.workspace, self.home = prsm, workspace, home
        subprocess.run(["git", "init", "-q"], check=True)
        for name, text in (("a", "one\n"), ("gone", "x\n"), ("run", "x\n")):
            (workspace / name).write_text(text)
        self.before = every_byte(workspace)
        scenario = home.parent / "scenario.yaml"
        scenario.write_text(LANES)
        done = prsm(
            *("run", "--provider", "script", "--mode", "bypass", "--on-ask", "allow"),
            *("--set", f"providers.script.scenario={scenario}", "do it"),
        )
        assert done.code == 0, done.err
        self.after = every_byte(workspace)
        self.keep()

    def keep(self):
        """Let files and ledger be put back to what they are now."""
        for place in (self.workspace, self.home):
            kept = place.with_suffix(".kept")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(place, kept, symlinks=True)

    def put_back(self):
        """Let files and ledger be as they were kept."""
        for place in (self.workspace, self.home):
            kept = place.with_suffix(".kept")
            for one in place.iterdir():
                shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
            shutil.copytree(kept, place, symlinks=True, dirs_exist_ok=True)

    def killed_at(self, step, *args):
        """Run a command that is killed at a step; return whether it was."""
        done = subprocess.run(
            [sys.executable, str(WORKER), str(step), *args],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr.decode()
        return done.returncode != 0

    def check_no_strays(self):
        """Nothing is to be seen in the folder but what was there before, or is there after."""
        seen = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others"], capture_output=True, check=True
        )
        known = {"a", "gone", "run", "new/b", "link"}
        assert set(filter(None, os.fsdecode(seen.stdout).split("\0"))) <= known

    def states(self):
        """Return what the next command says of the changes, by path."""
        done = self.prsm("changes", "list", "--all", "--json")
        assert done.code == 0, done.err
        return {one["path"]: one["state"] for one in json.loads(done.out)}


@pytest.fixture
def ran(prsm, workspace, tmp_path):
    return Ran(prsm, workspace, tmp_path / "home")


def check_rejection(ran, first, each):
    ends, step = [], first
    while True:
        ran.put_back()
        was_killed = ran.killed_at(step, "changes", "reject", "--all", "--possible", "--yes")
        ran.check_no_strays()
        states, files = ran.states(), every_byte(ran.workspace)
        ends.append(next(iter(states.values())))
        assert set(states.values()) == {ends[-1]}, "all or nothing"
        assert set(states) == {"a", "new/b", "gone", "run", "link"}
        assert files == (ran.before if ends[-1] == "rejected" else ran.after), step
        if not was_killed:
            break
        step += each
    assert (ends[0], ends[-1]) == ("pending", "rejected")
    assert step > 60
    assert ends == sorted(ends), "once it has begun it is finished"


def test_killed_at_some_steps_a_rejection_is_finished_or_was_not_begun(ran):
    check_rejection(ran, 3, FEW)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_every_step_a_rejection_is_finished_or_was_not_begun(ran, part):
    check_rejection(ran, part, PARTS)


def check_acceptance(ran, first, each):
    ends: list[str] = []
    step = first
    while True:
        ran.put_back()
        was_killed = ran.killed_at(step, "changes", "accept", "--all")
        states = set(ran.states().values())
        assert every_byte(ran.workspace) == ran.after
        ends += states
        assert len(states) == 1, "all or nothing"
        if not was_killed:
            break
        step += each
    assert (ends[0], ends[-1]) == ("pending", "accepted")
    assert ends == sorted(ends, reverse=True)


def test_killed_at_some_steps_an_acceptance_is_whole(ran):
    check_acceptance(ran, 3, FEW)


@pytest.mark.long
def test_killed_at_every_step_an_acceptance_is_whole(ran):
    check_acceptance(ran, 0, 1)


def check_undo(ran, first, each):
    """An undo of a rejection: it is done in files and ledger, or in neither."""
    assert ran.prsm("changes", "reject", "--all", "--possible", "--yes").code == 0
    ran.keep()
    ends, step = [], first
    while True:
        ran.put_back()
        was_killed = ran.killed_at(step, "undo", "--yes")
        ran.check_no_strays()
        states, files = ran.states(), every_byte(ran.workspace)
        ends.append(next(iter(states.values())))
        assert set(states.values()) == {ends[-1]}, "all or nothing"
        assert files == (ran.after if ends[-1] == "pending" else ran.before), step
        if not was_killed:
            break
        step += each
    assert (ends[0], ends[-1]) == ("rejected", "pending")
    assert ends == sorted(ends, reverse=True), "once it has begun it is finished"


@pytest.mark.requirement("U27")
def test_killed_at_some_steps_an_undo_is_finished_or_was_not_begun(ran):
    check_undo(ran, 3, FEW)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_every_step_an_undo_is_finished_or_was_not_begun(ran, part):
    check_undo(ran, part, PARTS)
