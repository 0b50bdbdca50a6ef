"""flood: what ten thousand messages take that wait for one agent, and what they cost another."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Finding
from benchmarks.team import DONE, Team, open_team
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Generator

    from benchmarks.harness import Plan
    from benchmarks.team import Calls

MESSAGES = 10_000
CALLS = 200  # of the other agent, in each of its rounds
GOAL_MB = 50.0
GOAL_RATIO = 1.5
LIMIT_SECONDS = 300
PATIENT = {"stuck": {"enabled": False}}  # who makes the same call again and again is measured
WAIT = ("wait_for_message", {"timeout": 3600})  # for a person: without it, a deadlock
_GO, _END = "go", "end"


def measure(plan: Plan) -> list[Finding]:
    """Queue the messages in a process of its own, whose memory nobody has used before."""
    count = plan.count(MESSAGES)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as alone:
        size, before, after = alone.submit(_flood, count, plan.pairs).result()
    return [
        Finding(
            benchmark="flood",
            case=f"{count} messages to one agent",
            unit="MB",
            value=size / 2**20,
            goal=GOAL_MB,
        ),
        Finding(
            benchmark="flood",
            case="a call of another agent meanwhile",
            unit="µs",
            value=1e6 * after,
            reference=1e6 * before,
            ratio=after / before,
            goal=GOAL_RATIO,
        ),
    ]


def _flood(count: int, rounds: int) -> tuple[float, float, float]:
    """Return the bytes, and the CPU seconds of another's call before and with the messages."""
    return asyncio.run(Flood(count, rounds).run())


class Flood:
    """One run: a master, an agent that does not read yet, and one that works."""

    def __init__(self, count: int, rounds: int) -> None:
        self._count = count
        self._rounds = rounds
        self._calls: list[float] = []  # CPU seconds of one call, each the mean of a round
        self._worked = asyncio.Event()
        self._heard: list[str] = []

    async def run(self) -> tuple[float, float, float]:
        """Run it; raise RuntimeError unless every message came, in order."""
        with tempfile.TemporaryDirectory() as folder:
            store = await SqliteStore.open(Path(folder) / "ledger.db")
            async with (
                asyncio.timeout(LIMIT_SECONDS),
                store,
                open_team(self._behave, store=store, settings=PATIENT) as team,
                asyncio.TaskGroup() as group,
            ):
                driving = group.create_task(self._drive(team))
                await team.run()
        if self._heard != [str(number) for number in range(self._count)]:
            raise RuntimeError(f"{len(self._heard)} messages came, or in another order")
        return driving.result()

    async def _drive(self, team: Team) -> tuple[float, float, float]:
        ids = await _ids(team, ("reader", "worker", "sitter"))
        before = await self._work(team, ids["worker"])
        size = await self._send(team, ids["reader"])
        after = await self._work(team, ids["worker"])
        for name in ("worker", "sitter"):  # the reader reads once the sitter, its child, is done
            await _say(team, ids[name], _END)
        return size, before, after

    async def _send(self, team: Team, agent: str) -> float:
        """Queue the messages, a hundred senders at once; return the bytes they took at most."""
        numbers = iter(range(self._count))
        begin = most = _resident()

        async def send() -> None:
            nonlocal most
            for number in numbers:
                await _say(team, agent, str(number))
                most = max(most, _resident())

        await asyncio.gather(*(send() for _ in range(100)))
        return most - begin

    async def _work(self, team: Team, agent: str) -> float:
        self._calls.clear()
        self._worked.clear()
        for _ in range(self._rounds):
            await _say(team, agent, _GO)
        await self._worked.wait()
        return median(self._calls)

    def _behave(self, prompt: str) -> Calls:
        parts = {"lead": _lead, "read": self._read, "work": self._calls_of_worker, "sit": _sit}
        yield from parts[prompt]()
        yield DONE

    def _read(self) -> Calls:
        """Wait for a child while the messages come, then read them."""
        yield "spawn_child", {"prompt": "sit", "name": "sitter", "wait": True}
        while len(self._heard) < self._count:
            self._heard += _texts((yield WAIT))

    def _calls_of_worker(self) -> Calls:
        texts: list[str] = []
        while _END not in texts:
            texts = _texts((yield WAIT))
            for _ in range(texts.count(_GO)):
                begin = time.process_time()
                for _ in range(CALLS):
                    yield "get_children_status", {}
                self._calls.append((time.process_time() - begin) / CALLS)
                if len(self._calls) == self._rounds:
                    self._worked.set()


def _texts(answer: dict[str, Any]) -> list[str]:
    """Return what the messages of an answer say."""
    return [message["text"] for message in (answer, *answer.get("others", ()))]


def _lead() -> Calls:
    children = [{"prompt": "read", "name": "reader"}, {"prompt": "work", "name": "worker"}]
    yield "spawn_children_parallel", {"children": children}
    for _ in children:
        yield WAIT


def _sit() -> Generator[tuple[str, dict[str, Any]], Any, None]:
    yield WAIT


async def _ids(team: Team, names: tuple[str, ...]) -> dict[str, str]:
    """Return the ids of agents once they are there."""
    found: dict[str, str] = {}
    async for event in team.store.events("session", follow=True):
        if event.type == "agent_spawned" and event.data["name"] in names:
            found[event.data["name"]] = str(event.agent)
        if len(found) == len(names):
            break
    return found


async def _say(team: Team, agent: str, text: str) -> None:
    await team.engine.prompting.prompt(agent, text, "queue")


def _resident() -> int:
    """Return the memory of this process that is in use, in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
