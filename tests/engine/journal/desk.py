"""A journal with two agents that run, over a store whose writes can be held."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from prsm_testing.fake_clock import FakeClock
from prsm_testing.steps import Steps
from prsm_testing.store_contract import read_events

from prsm_core.domain.agents import AgentState
from prsm_core.domain.steps import Committed
from prsm_core.domain.writes import Told
from prsm_core.engine.journal.unit import Journal
from prsm_core.errors import MessageRoutingError, StoreError
from prsm_core.kit.background import Background
from prsm_core.permissions import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.events import Event
    from prsm_core.domain.steps import Step, Write
    from prsm_core.engine.state import Staged
    from prsm_core.interfaces.store import Store

RUNNING, WAITING = AgentState.RUNNING, AgentState.WAITING_FOR_CHILD
# What a text makes a store do with a step
UNFIT, REFUSED, KNOWN, TORN = "unfit", "refused", "known", "torn"


class HeldStore:
    """A store whose writes wait, in order, until they are let through."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.is_held = False
        self.waiting: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self.commits: list[Step] = []  # those that were applied

    async def commit(self, step: Step) -> Committed:
        committed: Committed = await self._when_let(lambda: self._commit(step))
        return committed

    async def append(self, events: list[Event]) -> tuple[Event, ...]:
        numbered: tuple[Event, ...] = await self._when_let(lambda: self._append(events))
        return numbered

    async def _when_let(self, act: Callable[[], Any]) -> Any:
        if not self.is_held:
            return await act()
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((act, done))
        return await done

    async def _append(self, events: list[Event]) -> tuple[Event, ...]:
        _check([event.data["text"] for event in events])
        return await self.inner.append(events)

    async def _commit(self, step: Step) -> Committed:
        texts = [write.data["text"] for write in step.all(Told)]
        _check(texts)
        if any(text.endswith(REFUSED) for text in texts):
            raise MessageRoutingError("nobody can get it", code="agent_ended")
        if any(text.endswith(KNOWN) for text in texts):
            return Committed(step_id=step.step_id, duplicate=True)
        committed = await self.inner.commit(step)
        self.commits.append(step)
        return committed

    async def let(self, count: int) -> None:
        """Let the oldest writes through."""
        for _ in range(min(count, len(self.waiting))):
            act, done = self.waiting.popleft()
            try:
                value = await act()
            except Exception as error:  # noqa: BLE001 - the journal's to deal with
                done.set_exception(error)
            else:
                done.set_result(value)
            await asyncio.sleep(0)


def _check(texts: list[str]) -> None:
    if any(text.endswith(UNFIT) for text in texts):
        raise StoreError("it cannot be written", code="unfit")
    if any(text.endswith(TORN) for text in texts):
        raise StoreError("the disk is full")


class Desk:
    """A journal over a held store, with two agents that run."""

    def __init__(self, store: Store) -> None:
        self.steps = Steps()
        self.store = HeldStore(store)
        self.clock = FakeClock(autojump=False)
        self.errors: list[Exception] = []
        self.told: list[Event] = []
        self.background = Background(lambda _, error: self.errors.append(error), self.clock)
        self.journal = Journal(
            self.store,  # type: ignore[arg-type]
            self.clock,
            self.background,
            session_id=self.steps.session,
            on_events=self.told.extend,
            redactor=Redactor([]),
        )
        self.journal.begin_run(self.steps.run)

    async def open(self) -> None:
        await self.store.commit(self.steps.run_started())
        for name in "ab":
            await self.store.commit(self.steps.spawn(name))
            up = self.steps.change(AgentState.PENDING, AgentState.STARTING)
            run = self.steps.change(AgentState.STARTING, RUNNING)
            await self.store.commit(self.steps.step(name, up, run))
        self.store.commits.clear()

    def act(self, name: str, text: str, *writes: Write, incarnation: int = 1) -> Step:
        return self.steps.step(
            name, *writes, self.steps.told(text), incarnation=incarnation, at=self.clock.time()
        )

    def stage(self, name: str, text: str, *writes: Write, needs: Staged | None = None) -> Staged:
        return self.journal.stage(self.act(name, text, *writes), needs)

    async def texts(self, name: str) -> list[str]:
        events = await read_events(self.store.inner, self.steps.session)
        own = self.steps.agent(name)
        return [e.data["text"] for e in events if e.type == "notice" and e.agent == own]
