"""git by one helper: bytes in and out, one process, told when it is missing or gone."""

import asyncio
import os
import shutil

import pytest
from prsm_files.session.git_process import open_git

from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.errors import ProcessError
from prsm_core.kit.clocks import SystemClock

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
MEGABYTE = 2**20


@pytest.fixture
async def launcher():
    async with ProcessLauncher(SystemClock()) as launcher:
        yield launcher


async def test_bytes_go_in_and_come_out_whole(launcher, tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff \n")
    os.mkdir(folder)  # noqa: PTH102 - no UTF-8
    data = os.urandom(3 * MEGABYTE)

    def work(git):
        env = {"GIT_DIR": f"{folder}/own", "LC_ALL": "C"}
        assert git(["init", "-q", "--bare"], cwd=folder, env=env).code == 0
        stored = git(["hash-object", "-w", "--stdin"], cwd=folder, env=env, stdin=data)
        name = stored.out.decode().strip()
        return git(["cat-file", "blob", name], cwd=folder, env=env)

    async with open_git(launcher, SystemClock()) as git:
        [helper] = launcher.live
        output = await asyncio.to_thread(work, git)
        assert launcher.live == (helper,)
    assert (output.code, output.out, output.err) == (0, data, b"")
    assert not launcher.live


async def test_an_error_of_git_comes_with_its_words_and_no_variable_of_ours(launcher, tmp_path):
    async with open_git(launcher, SystemClock()) as git:
        cwd, env = str(tmp_path), {"LC_ALL": "C"}
        output = await asyncio.to_thread(git, ["no-such-command"], cwd=cwd, env=env)
        assert output.code == 1
        assert b"not a git command" in output.err
        alias = ["-c", "alias.env=!env", "env"]
        seen = (await asyncio.to_thread(git, alias, cwd=cwd, env=env)).out.decode()
    assert "GIT_CONFIG_COUNT" not in seen
    assert "HOME=" not in seen


async def test_git_that_is_missing_is_told_with_the_cure(tmp_path):
    async with (
        ProcessLauncher(SystemClock(), environ={"PATH": str(tmp_path)}) as launcher,
        open_git(launcher, SystemClock()) as git,
    ):
        with pytest.raises(ProcessError, match="git cannot be started") as caught:
            await asyncio.to_thread(git, ["version"], cwd="/", env={})
    assert "install git" in str(caught.value.hint)


async def test_a_helper_that_has_ended_is_told_and_does_not_end_with_the_programs(launcher):
    async with open_git(launcher, SystemClock()) as git:
        launcher.kill_programs()  # of which it is none
        [helper] = launcher.live
        assert (await asyncio.to_thread(git, ["version"], cwd="/", env={})).code == 0
        helper.kill()
        await helper.wait()
        with pytest.raises(ProcessError):
            await asyncio.to_thread(git, ["version"], cwd="/", env={})


async def test_git_that_is_killed_in_a_command_has_answered_nothing(launcher):
    """What it was asked is not known: that is no answer of git's, which would be believed."""
    async with open_git(launcher, SystemClock()) as git:
        alias = ["-c", "alias.end=!kill -KILL $PPID", "end"]
        with pytest.raises(ProcessError, match="ended in the middle"):
            await asyncio.to_thread(git, alias, cwd="/", env={})
        assert (await asyncio.to_thread(git, ["version"], cwd="/", env={})).code == 0


@pytest.mark.parametrize("name", [".gitignore", "d/.gitattributes", "sub/.git/HEAD"])
async def test_git_that_waits_for_a_pipe_is_ended_and_names_it(launcher, tmp_path, name):
    work, own = tmp_path / "work", tmp_path / "own"
    pipe = work / name
    pipe.parent.mkdir(parents=True)
    for one in ("objects", "refs"):
        (work / "sub" / ".git" / one).mkdir(parents=True, exist_ok=True)
    (work / "d").mkdir(exist_ok=True)
    (work / "d" / "f").write_text("x")
    os.mkfifo(pipe)

    def work_on(git):
        env = {"GIT_DIR": str(own), "GIT_WORK_TREE": str(work), "LC_ALL": "C"}
        assert git(["init", "-q"], cwd=str(tmp_path), env=env).code == 0
        add = git(["add", "-A"], cwd=str(work), env=env)
        pipe.unlink()
        return add, git(["ls-files", "--others"], cwd=str(work), env=env)

    async with open_git(launcher, SystemClock(), still_seconds=0.1) as git:
        waited, after = await asyncio.to_thread(work_on, git)
    assert waited.code == 1
    assert f"fatal: {pipe} is a pipe, where git waits for a file: remove it" in waited.err.decode()
    assert after.code == 0


async def test_the_helper_is_small(launcher):
    async with open_git(launcher, SystemClock()) as git:
        await asyncio.to_thread(git, ["version"], cwd="/", env={})
        [helper] = launcher.live
        children = f"/proc/{helper.pid}/task/{helper.pid}/children"
        [pid] = (await asyncio.to_thread(_read, children)).split()
        [line] = [
            one
            for one in (await asyncio.to_thread(_read, f"/proc/{pid}/status")).splitlines()
            if one.startswith("VmRSS")
        ]
    assert int(line.split()[1]) <= 14 * 1024  # KiB


def _read(path):
    with open(path) as file:  # noqa: PTH123
        return file.read()
