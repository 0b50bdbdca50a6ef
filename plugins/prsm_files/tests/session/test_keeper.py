"""The keeper: one helper, one thread, what goes wrong is told once, and nothing outlives it."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from prsm_files.session.keeper import FilesKeeper
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.root import Limits
from prsm_files.shadow.worktree import Shadow

from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.errors import ConfigError, ProcessError
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from tests.engine.harness import DEADLINE

UNTAKEN = "no snapshot of {} is taken"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Notices:
    """What stands for the journal: it takes notices."""

    def __init__(self):
        self.told = []

    def tell(self, kind, _agent=None, **data):
        assert kind == "notice"
        self.told.append((data["level"], data["text"]))


class Desk:
    """A keeper, and what it is made of."""

    def __init__(self, keeper, launcher, notices, folder):
        self.keeper = keeper
        self.launcher = launcher
        self.notices = notices
        self.folder = folder


@pytest.fixture
def desk(tmp_path):
    """Open a keeper of the folder `work`, with options: `async with desk(...) as desk`."""
    (tmp_path / "work").mkdir()

    @asynccontextmanager
    async def opened(*, limits=None, path=None):
        clock, notices = SystemClock(), Notices()
        environ = {**os.environ, **({} if path is None else {"PATH": str(path)})}
        async with (
            ProcessLauncher(clock, environ=environ) as launcher,
            Background(lambda _name, error: pytest.fail(str(error)), clock) as background,
        ):
            made = Shadows(state=tmp_path / "state", data=tmp_path / "data", limits=limits)
            keeper = FilesKeeper(made, launcher, clock, background, cast("Any", notices))
            try:
                yield Desk(keeper, launcher, notices, tmp_path / "work")
            finally:
                await keeper.aclose()
            assert launcher.live == ()

    return opened


async def test_the_helper_is_started_at_first_need_and_serves_several_folders(desk, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    async with desk() as at:
        assert at.launcher.live == ()
        (at.folder / "a").write_text("one")
        first = await at.keeper.use(at.folder, lambda shadow: shadow.take())
        [helper] = at.launcher.live
        second = await at.keeper.use(other, lambda shadow: shadow.take())
        assert at.launcher.live == (helper,)
        below = at.folder / "below"
        below.mkdir()
        assert (first.folder, second.folder) == (str(at.folder), str(other))
        again = await at.keeper.use(at.folder, lambda shadow: shadow.snapshots())
        assert [one.id for one in again] == [first.id]


async def test_one_thread_at_a_time_is_at_work(desk):
    at_work, most = [], []

    def work(_shadow):
        at_work.append(threading.get_ident())
        most.append(len(at_work))
        threading.Event().wait(0.01)
        at_work.pop()

    async with desk() as at:
        await asyncio.gather(*(at.keeper.use(at.folder, work) for _ in range(8)))
    assert most == [1] * 8


async def test_work_goes_on_if_its_caller_is_cancelled_and_the_next_waits_for_it(desk):
    begun, go_on, order = threading.Event(), threading.Event(), []

    def slow(_shadow):
        begun.set()
        go_on.wait(DEADLINE)
        order.append("slow")

    async with desk() as at:
        working = asyncio.ensure_future(at.keeper.use(at.folder, slow))
        await asyncio.to_thread(begun.wait, DEADLINE)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        after = asyncio.ensure_future(at.keeper.use(at.folder, lambda _: order.append("next")))
        await asyncio.sleep(0)
        go_on.set()
        await after
    assert order == ["slow", "next"]


async def test_git_that_takes_too_long_is_ended_and_the_next_one_works(desk):
    def hang(shadow):
        env = {"LC_ALL": "C"}
        args = ["-c", "alias.hang=!sleep 600", "hang"]
        return shadow._git(args, cwd=str(shadow.folder), env=env)

    async with desk() as at:
        with pytest.raises(ProcessError, match=r"took more than 0 seconds"):
            await at.keeper.use(at.folder, hang, seconds=0.05)
        await at.keeper.use(at.folder, lambda shadow: shadow.take())


async def test_a_helper_that_was_killed_is_replaced(desk):
    async with desk() as at:
        await at.keeper.use(at.folder, lambda shadow: shadow.take())
        [helper] = at.launcher.live
        helper.kill()
        await helper.wait()
        assert len(await at.keeper.use(at.folder, lambda s: [s.take(), *s.snapshots()])) > 1


async def test_closing_ends_what_is_under_way_and_says_nothing_of_it(desk):
    begun = threading.Event()

    def hang(shadow):
        begun.set()
        args = ["-c", "alias.hang=!sleep 600", "hang"]
        return shadow._git(args, cwd=str(shadow.folder), env={"LC_ALL": "C"})

    async with desk() as at:
        working = asyncio.ensure_future(at.keeper.attempt(at.folder, hang, UNTAKEN))
        await asyncio.to_thread(begun.wait, DEADLINE)
        await at.keeper.aclose()
        assert await working is None
        assert at.notices.told == []
        with pytest.raises(ProcessError, match="closes"):
            await at.keeper.use(at.folder, lambda shadow: shadow.take())


async def test_git_that_is_missing_is_told_once(desk, tmp_path):
    async with desk(path=tmp_path) as at:
        for _ in range(2):
            assert await at.keeper.attempt(at.folder, Shadow.take, UNTAKEN) is None
        [(level, text)] = at.notices.told
        assert level == "warning"
        assert text.startswith(f"no snapshot of {at.folder} is taken: git cannot be started")
        assert "install git" in text
        assert await at.keeper.attempt(at.folder, Shadow.take, "what is in {} is not known") is None
        _, (_, other) = at.notices.told
        assert other.startswith(f"what is in {at.folder} is not known: git cannot be started")


async def test_a_folder_that_is_too_large_is_told_once(desk):
    async with desk(limits=Limits(folder_files=1)) as at:
        for name in "ab":
            (at.folder / name).write_text(name)
        for _ in range(2):
            assert await at.keeper.attempt(at.folder, Shadow.take, UNTAKEN) is None
        [(level, text)] = at.notices.told
        assert (level, "is no git repository, and holds 2 files" in text) == ("warning", True)


async def test_an_error_is_the_callers_who_wants_it(desk):
    async with desk() as at:
        with pytest.raises(ConfigError, match="no snapshot 'abc'"):
            await at.keeper.use(at.folder, lambda shadow: shadow.find("abc"))
        assert at.notices.told == []


async def test_what_a_shadow_does_besides_is_told(desk):
    async with desk() as at:
        await at.keeper.use(at.folder, lambda shadow: shadow.notes.append("mended"))
        assert at.notices.told == [("info", f"{at.folder}: mended")]
        await at.keeper.use(Path(at.folder), lambda shadow: None)
        assert len(at.notices.told) == 1
