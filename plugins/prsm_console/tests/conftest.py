"""An application whose run is a script, and a clock that a test moves."""

import asyncio
import heapq
import io
import os
from contextlib import asynccontextmanager

import pytest
from prsm_console.console import ConsoleFrontend
from prsm_testing.app_double import ScriptedApp, settle

DEADLINE = 10.0


class ManualClock:
    """Time that moves when a test says so."""

    def __init__(self):
        self._now = 1000.0
        self._sleepers = []

    def now(self):
        return self._now

    time = now

    async def sleep(self, seconds):
        await self._wake(seconds)

    def call_later(self, seconds, callback):
        woken = self._wake(seconds)
        woken.add_done_callback(lambda due: due.cancelled() or callback())
        return woken

    def _wake(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, id(woken), woken))
        return woken

    async def advance(self, seconds):
        """Move second by second, so that each sleeper wakes at its own time."""
        for _ in range(int(seconds)):
            self._now += 1.0
            while self._sleepers and self._sleepers[0][0] <= self._now:
                woken = heapq.heappop(self._sleepers)[2]
                if not woken.done():
                    woken.set_result(None)
            await settle()


class Stream(io.StringIO):
    """A stream that a test can watch."""

    def __init__(self):
        super().__init__()
        self._written = asyncio.Event()

    def write(self, text):
        self._written.set()
        return super().write(text)

    async def shows(self, text):
        """Wait until `text` was written."""
        async with asyncio.timeout(10):
            while text not in self.getvalue():
                self._written.clear()
                await self._written.wait()


class Terminal(Stream):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
async def app():
    return ScriptedApp()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def settled():
    return settle


@pytest.fixture
async def stream():
    return Stream()


@pytest.fixture
async def terminal():
    return Terminal()


@pytest.fixture
def typed():
    """The two ends of a pipe: what the console reads, what the person writes to."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb", buffering=0) as keyboard:
        yield reader, keyboard
    os.close(reader)


async def look_away(folder, *, commit=""):
    """See no files: the folder is in no repository."""


@pytest.fixture
def running(app, stream):
    """A context manager that runs a console on `app` and yields (task, out, err)."""

    @asynccontextmanager
    async def run(*, err=stream, settings=None, stdin=None, clock=None, look=look_away):
        out = io.StringIO()
        console = ConsoleFrontend(
            settings or {}, out=out, err=err, stdin=stdin, clock=clock, look=look
        )
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            yield group.create_task(console.run(app)), out, err

    return run
