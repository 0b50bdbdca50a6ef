"""An application whose run is a script, and a clock that a test moves."""

import asyncio
import heapq
import io
from dataclasses import dataclass, field

import pytest

from prsm_core.domain.events import Event
from prsm_core.domain.usage import TokenUsage
from prsm_core.interfaces.frontend import RunOptions, RunResult

RUN, SESSION = "run-1", "session-1"
RESULT = RunResult(
    status="completed",
    summary="All done.",
    exit_code=0,
    usage=TokenUsage(input_tokens=1200, output_tokens=None),
)


@dataclass
class ScriptedRun:
    run_id: str
    session: str
    ended: asyncio.Future

    async def result(self):
        return await self.ended


@dataclass
class ScriptedApp:
    """Says what a test makes it say; answers of the person become events, as in the engine."""

    options: RunOptions = field(default_factory=lambda: RunOptions(task="do it"))
    answers: list = field(default_factory=list)
    said: asyncio.Queue = field(default_factory=lambda: asyncio.Queue(1000))
    seq: int = 0

    async def start_run(self, task, **overrides):
        self.run = ScriptedRun(RUN, SESSION, asyncio.get_running_loop().create_future())
        self.say("run_started", task=task, workspace="/w")
        return self.run

    def say(self, kind, agent=None, *, run=RUN, live=False, **data):
        self.seq += not live
        event = Event(
            type=kind,
            session=SESSION,
            run=run,
            ts=float(self.seq),
            agent=agent,
            data=data,
            seq=None if live else self.seq,
        )
        self.said.put_nowait(event)

    def spawn(self, agent="m", name="master", parent=None, prompt="do it"):
        self.say(
            "agent_spawned",
            agent,
            name=name,
            parent=parent,
            role="worker" if parent else "master",
            provider="echo",
            model="default",
            depth=0,
            prompt=prompt,
        )

    def finish(self, result=RESULT, **data):
        self.say(
            "run_finished",
            status=result.status,
            summary=result.summary,
            **{"duration_s": 74.0, "usage": result.usage.to_dict(), **data},
        )
        self.run.ended.set_result(result)

    async def events(self, after=0):
        while True:
            yield await self.said.get()

    async def resolve_permission(self, request, verdict):
        self.answers.append((request, verdict))
        self.say("permission_resolved", "m", request=request, verdict=verdict, by="user")
        return True

    async def answer(self, request, answer):
        self.answers.append((request, answer))
        self.say("question_answered", "m", request=request, answer=None, by="user")
        return True


class ManualClock:
    """Time that moves when a test says so."""

    def __init__(self):
        self._now = 1000.0
        self._sleepers = []

    def now(self):
        return self._now

    time = now

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, id(woken), woken))
        await woken

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


async def settle():
    """Let every task that can go on do so."""
    for _ in range(30):
        await asyncio.sleep(0)


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
