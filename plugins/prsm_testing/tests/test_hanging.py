"""What hangs fails the contract with the reason, within a bound; the test run itself ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

HEAD = '''
import asyncio
import threading
import time

from prsm_core import EventSink, Frontend, PermissionCheckSpec, RunInfo
from prsm_testing import EventSinkContract, FrontendContract, PermissionCheckContract

class Plain(Frontend):
    def __init__(self, settings):
        pass

class Contract(FrontendContract):
    deadline_s = 0.3
    bound_s = 1.5
    shows_summary = False

    def build(self, settings):
        return self.made(settings)

class Stubborn:
    """Waits for ever, whoever cancels it."""

    async def stay(self):
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

class Sinks(EventSinkContract):
    deadline_s = 0.3
    bound_s = 1.5

    def open_sink(self, run, tmp_path):
        return self.made()
'''
# Name: the code of a class, and what its failure says.
HANGS = {
    "NeverStarts": (
        """
        async def run(self, app):
            await asyncio.Event().wait()
        """,
        "after 0.3 s the frontend has not started a run: it calls `app.runs.start`",
    ),
    "ReturnsWithoutARun": (
        """
        async def run(self, app):
            return 0
        """,
        "after 0.3 s the frontend has not started a run: it calls `app.runs.start`",
    ),
    "NeverReturns": (
        """
        async def run(self, app):
            await app.runs.start("x")
            await asyncio.Event().wait()
        """,
        "after 0.3 s the frontend has not returned, although its run has ended",
    ),
    "IgnoresTheEnd": (
        """
        async def run(self, app):
            await app.runs.start("x")
            async for event in app.events():
                pass
        """,
        "after 0.3 s the frontend has not returned, although its run has ended",
    ),
    "SwallowsCancellation": (
        """
        async def run(self, app):
            await app.runs.start("x")
            await Stubborn().stay()
        """,
        r"goes on although it was cancelled: it waits in Stubborn.stay \(test_\w+.py:\d+\)",
    ),
    "SwallowsBeforeTheRun": (
        """
        async def run(self, app):
            await Stubborn().stay()
        """,
        r"goes on although it was cancelled: it waits in Stubborn.stay \(test_\w+.py:\d+\)",
    ),
    "LeavesAStubbornTask": (
        """
        async def run(self, app):
            self.task = asyncio.ensure_future(Stubborn().stay())
            return (await (await app.runs.start("x")).result()).exit_code
        """,
        r"goes on although it was cancelled: it waits in Stubborn.stay \(test_\w+.py:\d+\)",
    ),
    "Sleeps": (
        """
        async def run(self, app):
            await app.runs.start("x")
            time.sleep(600)
        """,
        r"it blocks the event loop: Sleeps.run \(test_\w+.py:\d+\) does not return",
    ),
    "AsksByInput": (
        """
        async def run(self, app):
            await app.runs.start("x")
            return int(input("code? "))
        """,
        r"it blocks the event loop: AsksByInput.run \(test_\w+.py:\d+\) does not return",
    ),
    "Spins": (
        """
        async def run(self, app):
            await app.runs.start("x")
            while True:
                pass
        """,
        r"it blocks the event loop: Spins.run \(test_\w+.py:\d+\) does not return",
    ),
    "WaitsForALock": (
        """
        async def run(self, app):
            await app.runs.start("x")
            threading.Event().wait()
        """,
        r"it blocks the event loop: WaitsForALock.run \(test_\w+.py:\d+\) does not return",
    ),
    "BlocksAndSaysNothing": (
        """
        async def run(self, app):
            run = await app.runs.start("x")
            try:
                time.sleep(600)
            except BaseException:
                return 0
        """,
        r"it blocks the event loop: BlocksAndSaysNothing.run \(test_\w+.py:\d+\) does not return",
    ),
    "BlocksWhenItIsBuilt": (
        """
        def __init__(self, settings):
            time.sleep(600)

        async def run(self, app):
            return 0
        """,
        r"it blocks the event loop: BlocksWhenItIsBuilt.__init__ \(test_\w+.py:\d+\)",
    ),
    "BlocksAThread": (
        """
        async def run(self, app):
            await app.runs.start("x")
            await asyncio.to_thread(time.sleep, 600)
        """,
        "after 0.3 s the frontend has not returned, although its run has ended",
    ),
}
OTHERS = """
class BlockingSink(EventSink):
    async def write(self, batch):
        time.sleep(600)

class StubbornSink(EventSink):
    async def write(self, batch):
        await Stubborn().stay()

class TestBlockingSink(Sinks):
    made = BlockingSink

class TestStubbornSink(Sinks):
    made = StubbornSink

async def blocks(request, context):
    time.sleep(600)

async def swallows(request, context):
    await Stubborn().stay()

class Checks(PermissionCheckContract):
    bound_s = 0.5

class TestBlockingCheck(Checks):
    spec = PermissionCheckSpec(name="x", summary="", priority=1, check=blocks)

class TestStubbornCheck(Checks):
    spec = PermissionCheckSpec(name="x", summary="", priority=1, check=swallows)
"""
SAID = {
    "BlockingSink": r"it blocks the event loop: BlockingSink.write \(test_\w+.py:\d+\)",
    "StubbornSink": r"it waits in Stubborn.stay \(test_\w+.py:\d+\)",
    "BlockingCheck": r"it blocks the event loop: blocks \(test_\w+.py:\d+\)",
    "StubbornCheck": r"it waits in Stubborn.stay \(test_\w+.py:\d+\)",
}
# One test of each contract: they all run alike.
PICKED = "completed-0 or takes_what_a_later_version or answers_in_time"


def run_pytest(folder, code, *, is_many=False):
    (folder / "test_hangs.py").write_text(code, encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
    # They wait most of the time: several at once.
    argv += ["-n", "4"] if is_many else []
    own = ["-c", "/dev/null", "--rootdir", str(folder), "-o", "asyncio_mode=auto"]
    return subprocess.run(
        [*argv, *own, "-k", PICKED, "test_hangs.py"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "400"},  # no reason is cut
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What pytest says of all that hang, in one run."""
    classes = [
        f"class {name}(Plain):{code}\nclass Test{name}(Contract):\n    made = {name}\n"
        for name, (code, _) in HANGS.items()
    ]
    code = "\n".join([HEAD, *classes, OTHERS])
    done = run_pytest(tmp_path_factory.mktemp("hangs"), code, is_many=True)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.requirement("F12")
def test_nothing_that_hangs_passes(said):
    assert re.search(rf"^{len(HANGS) + len(SAID)} failed\b(?!.* passed)", said, re.MULTILINE)


@pytest.mark.requirement("F12")
@pytest.mark.parametrize("name", [*HANGS, *SAID])
def test_what_hangs_fails_the_contract_with_the_reason(name, said):
    (line,) = [line for line in said.splitlines() if f"::Test{name}::" in line]
    assert re.search(SAID.get(name) or HANGS[name][1], line)


@pytest.mark.requirement("F12")
@pytest.mark.long
def test_a_thread_that_is_left_does_not_keep_the_run_and_is_named(tmp_path):
    code = f"""{HEAD}
def snore():
    time.sleep(600)

class Leaves(Plain):
    async def run(self, app):
        threading.Thread(target=snore).start()
        return (await (await app.runs.start("x")).result()).exit_code

class TestLeaves(Contract):
    made = Leaves
"""
    done = run_pytest(tmp_path, code)
    assert "1 passed" in done.stdout
    assert done.returncode == 70
    assert "threads that were left do not end: snore (test_hangs.py:" in done.stderr


@pytest.mark.requirement("F12")
@pytest.mark.long
def test_what_cannot_be_interrupted_ends_the_run_and_says_so(tmp_path):
    code = f"""{HEAD}
class Defiant(Plain):
    async def run(self, app):
        while True:
            try:
                time.sleep(600)
            except BaseException:
                continue

class TestDefiant(Contract):
    made = Defiant
"""
    done = run_pytest(tmp_path, code)
    assert done.returncode == 70
    assert "it blocks the event loop: Defiant.run (test_hangs.py:" in done.stderr
    assert "it cannot be interrupted, and so the tests end here" in done.stderr
