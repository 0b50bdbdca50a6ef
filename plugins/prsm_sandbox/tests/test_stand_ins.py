"""Stand-ins last as long as commands run, and nothing of the user's goes with them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest
from prsm_sandbox.sandbox import StandIns

from tests.engine.hostile import until
from tests.engine.sandboxes import is_there, needs_bwrap, output_of

pytestmark = pytest.mark.requirement("U23")


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "w"
    folder.mkdir()
    return folder


def test_they_are_there_while_they_are_held_and_gone_then(state, work):
    ours = StandIns(state, work)
    with ours.held([work / ".vscode"]):
        with ours.held([work / ".vscode", work / ".envrc"]):
            assert {path.name for path in work.iterdir()} == {".vscode", ".envrc"}
        assert (work / ".vscode").is_dir()
    assert list(work.iterdir()) == []


def test_what_was_there_before_stays(state, work):
    (work / ".vscode").mkdir()
    (work / ".envrc").write_text("own")
    with StandIns(state, work).held([work / ".vscode", work / ".envrc"]):
        pass
    assert (work / ".vscode").is_dir()
    assert (work / ".envrc").read_text() == "own"


def test_one_that_somebody_has_filled_stays(state, work):
    with StandIns(state, work).held([work / ".vscode"]):
        (work / ".vscode" / "settings.json").write_text("own")
    assert (work / ".vscode" / "settings.json").read_text() == "own"


def test_the_last_of_several_engines_clears_up(state, work):
    one, two = StandIns(state, work), StandIns(state, work)
    with two.held([work / ".envrc"]):
        with one.held([work / ".envrc", work / ".vscode"]):
            pass
        assert (work / ".envrc").is_dir()
        assert (work / ".vscode").is_dir()
    assert list(work.iterdir()) == []


DIES = """
import os, signal, sys
from pathlib import Path
from prsm_sandbox.sandbox import StandIns
with StandIns(Path(sys.argv[1]), Path(sys.argv[2])).held([Path(sys.argv[2], ".vscode")]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_an_engine_that_was_killed_has_left_goes_with_the_next_one(state, work):
    done = subprocess.run([sys.executable, "-c", DIES, str(state), str(work)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (work / ".vscode").is_dir()
    StandIns(state, work).recover()
    assert list(work.iterdir()) == []


def test_a_record_does_not_take_away_a_folder_of_the_user(state, work):
    """The folder was made between the note and the crash, by somebody else."""
    subprocess.run([sys.executable, "-c", DIES, str(state), str(work)], check=False)
    (work / ".vscode").rmdir()
    (work / ".vscode").mkdir()
    StandIns(state, work).recover()
    assert (work / ".vscode").is_dir()


@needs_bwrap
async def test_commands_at_the_same_time_keep_each_others(opened, workspace):
    first, second = opened(), opened()
    wait = "echo > ready; while [ ! -e go ]; do sleep 0.05; done; echo x > .envrc; mkdir .vscode/x"
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(first(wait))
        await until((workspace / "ready").exists, "the first command runs")
        await second("true")
        await first("true")
        (workspace / "go").touch()
    assert (await slow).exit_code != 0
    assert not is_there(workspace / ".envrc")
    assert not is_there(workspace / ".vscode")


@needs_bwrap
async def test_git_outside_sees_nothing_of_them(opened, workspace):
    (workspace / ".git" / "config").unlink()
    output_of("git", "init", "-q", str(workspace))
    async with asyncio.TaskGroup() as group:
        run = group.create_task(
            opened()("echo > ready; while [ ! -e go ]; do sleep 0.05; done; git status --short")
        )
        await until((workspace / "ready").exists, "the command runs")
        assert (workspace / ".envrc").is_dir()
        argv = ["git", "-C", str(workspace), "-c", "safe.directory=*", "status", "--short"]
        shown = output_of(*argv)
        (workspace / "go").touch()
    assert shown.split() == ["??", "a.txt", "??", "ready"]
    assert ".envrc" not in (await run).stdout
