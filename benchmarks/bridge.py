"""bridge: a program's request by Redis, to its answer, beside its bare parts.

The parts are what any such request takes: an entry added and read, an answer pushed and popped, on
the same connections, and the call that moves the agent, committed to the same ledger.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import socket
import time
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType
from prsm_testing import open_services

from benchmarks.harness import Absent, Finding
from benchmarks.team import DONE, open_team
from prsm_core import (
    AgentRole,
    AssembledContext,
    Provider,
    ProviderSession,
    StepEnded,
    StopReason,
    ToolContribution,
    TurnEnded,
)
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.tools.table import ToolTable
from prsm_core.kit.clocks import SystemClock
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from benchmarks.harness import Plan
    from prsm_core import AgentHost, ProviderEvent, SessionRequest, ToolCall

REQUESTS = 200
GOAL = 2.0
CASES = ("a request by Redis, CPU", "a request by Redis, wall")
SERVER = "redis-server"
STATES = ("inbox", "deep_work")


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare the CPU and the time on the wall of requests with those of their parts."""
    for needed in ("prsm_protocols", "redis"):
        if find_spec(needed) is None:
            return [Absent(benchmark="bridge", case="all", why=f"{needed} is not installed")]
    if shutil.which(SERVER) is None:
        return [Absent(benchmark="bridge", case="all", why=f"{SERVER} is not installed")]
    with TemporaryDirectory(prefix="prsm-bridge-") as folder:
        return asyncio.run(_measured(plan, Path(folder)))


async def _measured(plan: Plan, folder: Path) -> list[Finding | Absent]:
    found: list[Finding | Absent] = []

    async def work(host: AgentHost) -> None:
        found.extend(await _compared(plan, folder, host))

    table = ToolTable().with_added([_moving()])
    provider = _Working(work)
    store = await SqliteStore.open(folder / "ledger.db")
    far = {"stuck": {"enabled": False}}
    opened = open_team(_nothing, store=store, provider=provider, tools=table, settings=far)
    async with opened as team:
        await team.run()
    await store.aclose()
    return found


def _nothing(_: str) -> Any:
    yield DONE


class _Move(Struct):
    to: str | UnsetType = UNSET
    context: Any = None


async def _move(call: ToolCall) -> Mapping[str, Any]:
    to = call.args.get("to", STATES[0])
    call.relabel({"bridge/state": to})
    return {"state": to, "protocol": "inbox", "moves": [{"to": STATES[0]}], "moved": True}


def _moving() -> ToolContribution:
    return ToolContribution(
        name="state_transition",
        summary="moves the agent",
        description="Moves you.",
        arguments=_Move,
        roles=frozenset(role.value for role in AgentRole),
        handler=_move,
        when=lambda _: True,
        labels="bridge",
    )


class _Working(Provider):
    """Does the work in the one turn of its agent."""

    def __init__(self, work: Any) -> None:
        self._work = work

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open a session at no cost."""
        yield _Worker(self._work, host)


class _Worker(ProviderSession):
    def __init__(self, work: Any, host: AgentHost) -> None:
        self._work = work
        self._host = host

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Do the work, and complete."""
        await self._work(self._host)
        await self._host.call_tool(*DONE)
        yield TurnEnded(StopReason.END_TURN)


async def _compared(plan: Plan, folder: Path, host: AgentHost) -> list[Finding]:
    from prsm_protocols.bridge.desk import Desk
    from prsm_protocols.bridge.redis import RedisBridge
    from redis.asyncio import Redis

    count, numbers = plan.count(REQUESTS), itertools.count(1)
    async with _server(folder) as url, open_services(folder / "state") as services:
        bridge = RedisBridge(url, services)
        desk = Desk("a" * 32, host, services, rate=1_000_000)
        async with bridge.open_place(desk, lambda: next(numbers)) as place:
            token = desk.admit(_Ear(place))
            client, reader = Redis.from_url(url), Redis.from_url(url)
            asking = _Asking(client, reader, host, token, place.keys)
            pairs = [
                (await asking.by_bridge(count), await asking.bare(count))
                for _ in range(plan.pairs + 1)
            ][1:]  # the first warms up
            await client.aclose()
            await reader.aclose()
        await bridge.aclose()
    return [_finding(case, [(s[n], r[n]) for s, r in pairs]) for n, case in enumerate(CASES)]


def _finding(case: str, costs: list[tuple[float, float]]) -> Finding:
    return Finding(
        benchmark="bridge",
        case=case,
        unit="µs",
        value=median(cost for cost, _ in costs),
        reference=median(base for _, base in costs),
        ratio=median(cost / base for cost, base in costs),
        goal=GOAL,
    )


class _Ear:
    """Tells Redis of moves, as the session of a program does."""

    def __init__(self, place: Any) -> None:
        self._place = place

    async def moved(self, here: Mapping[str, Any]) -> None:
        self._place.move(here)

    async def completed(self, summary: str) -> None:
        """Nobody completes here."""

    async def alive(self) -> None:
        """Nobody waits for a sign of life."""

    async def step(self, event: StepEnded) -> None:
        """No call waits."""


class _Asking:
    """Makes requests, and does what they are made of."""

    def __init__(self, client: Any, reader: Any, host: AgentHost, token: str, keys: Any) -> None:
        self._client = client
        self._reader = reader
        self._host = host
        self._token = token
        self._keys = keys
        self._numbers = itertools.count()

    def _request(self) -> tuple[str, str, str]:
        number = next(self._numbers)
        name, to = f"r{number}", STATES[number % 2]
        asked = {"agent": "a" * 32, "token": self._token, "id": name, "do": "state"}
        return name, to, json.dumps({**asked, "args": {"to": to}})

    async def by_bridge(self, count: int) -> tuple[float, float]:
        """Return the microseconds of CPU, and on the wall, of a request to its answer."""
        begin = time.process_time(), time.perf_counter()
        for _ in range(count):
            name, _, line = self._request()
            await self._client.xadd(self._keys.requests, {"r": line})
            _, answer = await self._client.blpop(self._keys.reply(name), timeout=10)
            if not json.loads(answer)["ok"]:
                raise RuntimeError(answer.decode())
        return _spent(begin, count)

    async def bare(self, count: int) -> tuple[float, float]:
        """Return the same of an entry added and read, the call, an answer pushed and popped."""
        begin = time.process_time(), time.perf_counter()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._serve(count))
            for _ in range(count):
                name, _, line = self._request()
                await self._client.xadd("bare", {"r": line})
                await self._client.blpop(f"bare:{name}", timeout=10)
        return _spent(begin, count)

    async def _serve(self, count: int) -> None:
        last: Any = "0"
        for _ in range(count):
            ((_, ((last, fields),)),) = await self._reader.xread({"bare": last}, block=10_000)
            asked = json.loads(fields[b"r"])
            outcome = await self._host.call_tool("state_transition", asked["args"])
            await self._reader.rpush(f"bare:{asked['id']}", outcome.text)
            await self._reader.xdel("bare", last)


def _spent(begin: tuple[float, float], count: int) -> tuple[float, float]:
    cpu, wall = begin
    spent = time.process_time() - cpu, time.perf_counter() - wall
    return 1e6 * spent[0] / count, 1e6 * spent[1] / count


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[str]:
    """Run a Redis that keeps what it is given, as the bridge needs it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--appendonly", "yes", "--save", "", "--dir", str(folder))
    argv = (SERVER, "--port", str(port), "--bind", "127.0.0.1", *options)
    async with ProcessLauncher(SystemClock()) as launcher:
        process = await launcher.start(argv, name="redis")
        async for line in process.lines():
            if b"eady to accept" in line:
                break
        yield f"redis://127.0.0.1:{port}"
        process.kill()
        await process.wait()
