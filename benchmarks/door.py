"""door: what a frontend asks for, in the engine's process and over the control socket."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, cast

from prsm_testing.steps import Steps

from benchmarks.harness import Finding, compared, cpu_seconds
from benchmarks.team import DONE, open_team
from prsm_core.domain.events import Event
from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.control.server import ControlServer
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.local import LocalApp
from prsm_core.engine.journal.feed import Feed
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from benchmarks.harness import Plan
    from benchmarks.team import Calls, Team
    from prsm_core.interfaces.frontend import AppHandle

SESSION = "session"
AGENTS = 100
CALLS = 10  # that each has made before it waits
VIEWS = 50  # of one measurement
VIEW_GOAL_MS = 10.0
ENTRIES, FEW_ENTRIES, PAGE = 100_000, 1_000, 200
PAGES = 20
PAGE_GOAL_MS, FLAT_GOAL = 10.0, 1.2
EVENTS = 100_000
EVENTS_GOAL = 2.0
DELTAS = 20_000
DELTA_GOAL_US = 60.0
LATE_DELTAS, LATE_GOAL_MS = 1_000, 20.0
PAUSE_SECONDS = 0.002  # between two deltas whose lateness is measured: 500 a second
PERCENT = 99
WAITING = "waiting_for_child"  # … or for any message
TEXT = "what the agent said, and what it did next, in about nine hundred characters " * 12
WORD = " a word of it "


def measure(plan: Plan) -> list[Finding]:
    """Measure pictures, pages, events and deltas."""
    with asyncio.Runner() as runner:
        return [
            *runner.run(_pictures(plan)),
            *_logs(plan, runner),
            *runner.run(_deltas(plan)),
        ]


async def _pictures(plan: Plan) -> list[Finding]:
    count, times = plan.count(AGENTS), plan.count(VIEWS)
    async with _open_door(count) as (team, app, path):
        await app.view()
        again = [await _cost_of(app.view, times) for _ in range(plan.pairs)]
        first = [await _first_cost(team, path) for _ in range(plan.pairs)]
    cases = {f"a picture of {count} agents": again, "… the first of a session": first}
    return [
        Finding(
            benchmark="door",
            case=case,
            unit="ms",
            value=1e3 * median(costs),
            goal=VIEW_GOAL_MS,
        )
        for case, costs in cases.items()
    ]


async def _first_cost(team: Team, path: Path) -> float:
    """Return the CPU seconds of a picture by a store that has read none."""
    async with await SqliteStore.open(path, read_only=True) as store:
        await store.sessions()  # its connection is one that was used
        app = LocalApp(team.engine, RunOptions(), store, SESSION)
        return await _cost_of(app.view, 1)


async def _cost_of(ask: Callable[[], Awaitable[object]], times: int) -> float:
    """Return the CPU seconds of an answer."""
    gc.collect()
    begin = time.process_time()
    for _ in range(times):
        await ask()
    return (time.process_time() - begin) / times


@asynccontextmanager
async def _open_door(count: int) -> AsyncIterator[tuple[Team, LocalApp, Path]]:
    """Open a session of so many agents, all of which wait; the ledger is on disk."""

    def behave(prompt: str) -> Calls:
        if prompt == "lead":
            children = [{"prompt": "idle", "name": f"c{number}"} for number in range(count - 1)]
            yield "spawn_children_parallel", {"children": children}
            yield "wait_for_message", {"timeout": 3600}  # so that waiting for it is no deadlock
            yield DONE
        for percent in range(CALLS):
            yield "report_progress", {"status": "on it", "percent": percent}
        yield "wait_for_message", {}
        yield DONE

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        store = await SqliteStore.open(path)
        async with store, open_team(behave, store=store) as team:
            app = LocalApp(team.engine, RunOptions(workspace=folder), store, SESSION)
            async with aclosing(app):
                await app.runs.start("lead")
                await _until_idle(store, count)
                yield team, app, path


async def _until_idle(store: SqliteStore, count: int) -> None:
    """Return once all agents wait."""
    waiting: set[str | None] = set()
    async with aclosing(cast("Any", store.events(SESSION, follow=True))) as events:
        async for event in events:
            if event.type == "agent_state_changed" and event.data["to"] == WAITING:
                waiting.add(event.agent)
            if len(waiting) == count:
                return
            if event.type == "run_finished":
                raise RuntimeError(f"the run has ended: {event.data['error']}")


def _logs(plan: Plan, runner: asyncio.Runner) -> list[Finding]:
    """Measure pages of a long log and of a short one, and a long log that is read whole."""
    long, short = plan.count(ENTRIES), min(plan.count(ENTRIES), FEW_ENTRIES)
    with tempfile.TemporaryDirectory() as folder:
        logs = {
            count: runner.run(_written(Path(folder) / f"{count}.db", count))
            for count in {long, short}
        }
        pages = _Pages(runner, plan.count(PAGES))
        page = [pages.cost(logs[long]) for _ in range(plan.pairs)]
        found = [
            Finding(
                benchmark="door",
                case=f"the last {PAGE} of {long} entries",
                unit="ms",
                value=median(page),
                goal=PAGE_GOAL_MS,
            ),
            compared(
                "door",
                f"… against those of {short}",
                lambda: pages.cost(logs[long]),
                lambda: pages.cost(logs[short]),
                plan,
                goal=FLAT_GOAL,
                unit="ms",
            ),
            _whole(plan, runner, logs[long], plan.count(EVENTS)),
        ]
        for store in logs.values():
            runner.run(store.aclose())
    return found


async def _written(path: Path, count: int) -> SqliteStore:
    """Return a ledger of an agent that has said so many messages."""
    steps, store = Steps(SESSION), await SqliteStore.open(path)
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("master"))
    data = {"turn": "t1", "role": "assistant", "text": TEXT, "thinking": None}
    said = Event(
        type="message_completed",
        session=SESSION,
        run=steps.run,
        ts=1000.0,
        agent=steps.agent("master"),
        data=data,
    )
    for begin in range(0, count, 1000):
        await store.append([said] * min(1000, count - begin))
    return store


class _Pages:
    def __init__(self, runner: asyncio.Runner, times: int) -> None:
        self._runner = runner
        self._times = times
        self._agent = Steps(SESSION).agent("master")

    def cost(self, store: SqliteStore) -> float:
        """Return the CPU milliseconds of a page."""

        def read() -> Awaitable[object]:
            return read_history(store, SESSION, self._agent, "full", before=None, limit=PAGE)

        return 1e3 * self._runner.run(_cost_of(read, self._times))


def _whole(plan: Plan, runner: asyncio.Runner, store: SqliteStore, count: int) -> Finding:
    """Compare reading all events at the door with reading them from the store."""

    async def by_feed() -> None:
        async with Background(_surprise) as background:
            await _take(Feed(store, background).events(SESSION), count)

    async def by_store() -> None:
        await _take(store.events(SESSION), count)

    return compared(
        "door",
        f"an event of {count} by events()",
        lambda: 1e6 * cpu_seconds(lambda: runner.run(by_feed())) / count,
        lambda: 1e6 * cpu_seconds(lambda: runner.run(by_store())) / count,
        plan,
        goal=EVENTS_GOAL,
    )


async def _take(events: AsyncIterator[Event], count: int) -> None:
    async with aclosing(cast("Any", events)) as all_of_them:
        async for _ in all_of_them:
            count -= 1
            if not count:
                return
    raise RuntimeError(f"{count} events are missing")


async def _deltas(plan: Plan) -> list[Finding]:
    """Measure what a delta costs that goes over the socket, and how much later it comes."""
    async with _open_door(2) as (team, app, _), _served(team, app) as remote:
        turn = (await app.view()).turns[0]
        deltas = _Deltas(team, turn.agent, turn.turn)
        # The clock and the loop of both ends are one; so it is all the CPU that a delta takes.
        costs = [await deltas.cost(remote, plan.count(DELTAS)) for _ in range(plan.pairs)]
        late = [await deltas.late_ms(app, remote, 2 + plan.count(LATE_DELTAS)) for _ in range(3)]
    return [
        Finding(
            benchmark="door",
            case="a delta by RemoteApp",
            unit="µs",
            value=1e6 * median(costs),
            goal=DELTA_GOAL_US,
        ),
        Finding(
            benchmark="door",
            case=f"… later than in the process, p{PERCENT}",
            unit="ms",
            value=median(late),
            goal=LATE_GOAL_MS,
        ),
    ]


@asynccontextmanager
async def _served(team: Team, app: LocalApp) -> AsyncIterator[AppHandle]:
    """Serve an application, and reach it by its socket."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        with SessionLock.take(state, SESSION, since=time.time()) as lock:
            start_soon = team.engine.start_soon
            async with (
                ControlServer(app, lock, start_soon=start_soon, clock=SystemClock()),
                open_remote(state, SESSION) as remote,
            ):
                yield remote


class _Deltas:
    """The pieces of a message that an agent says."""

    def __init__(self, team: Team, agent: str, turn: str) -> None:
        self._live = team.engine.journal.live_text("text_delta", agent, turn=turn, message=1)
        self._clock = SystemClock()

    async def cost(self, app: AppHandle, count: int) -> float:
        """Return the CPU seconds of a delta, both ends of the socket together."""
        seen = 0
        async with _following(app) as deltas:
            gc.collect()
            begin = time.process_time()
            for number in range(count):
                self._live.feed(WORD)
                while number - seen > READER_KEEPS:
                    await anext(deltas)
                    seen += 1
            while seen < count - HELD_BACK:
                await anext(deltas)
                seen += 1
            return (time.process_time() - begin) / count

    async def late_ms(self, near: AppHandle, far: AppHandle, count: int) -> float:
        """Return by how much later a delta comes over the socket, in the worst of a hundred."""
        async with (
            _following(near) as here,
            _following(far) as there,
            asyncio.TaskGroup() as group,
        ):
            times = [
                group.create_task(_times(deltas, count - HELD_BACK)) for deltas in (here, there)
            ]
            for _ in range(count):
                self._live.feed(WORD)
                await self._clock.sleep(PAUSE_SECONDS)
        pairs = zip(*(each.result() for each in times), strict=True)
        late: list[float] = [1e3 * max(0.0, far_at - near_at) for near_at, far_at in pairs]
        return float(quantiles(late, n=100)[PERCENT - 1])


READER_KEEPS = 200  # deltas that wait to be read: none is dropped
HELD_BACK = 1  # the end of a text may be the beginning of a secret


async def _times(deltas: AsyncIterator[Event], count: int) -> list[float]:
    times = []
    for _ in range(count):
        await anext(deltas)
        times.append(time.perf_counter())
    return times


@asynccontextmanager
async def _following(app: AppHandle) -> AsyncIterator[AsyncIterator[Event]]:
    """Follow an application from now on; what is yielded are the deltas."""
    seq = (await app.view()).seq
    async with aclosing(cast("Any", app.events(after=seq - 1))) as events:
        await anext(events)
        yield (event async for event in events if event.seq is None)


def _surprise(name: str, error: Exception) -> None:
    raise RuntimeError(name) from error
