"""Two stores on one file, random acts in random interleavings, against a plain model."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from prsm_testing.store_contract import Steps, read_events

from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import MessagesConsumed
from prsm_core.errors import FencedError, MessageRoutingError, StoreError
from prsm_core.store import SqliteStore
from tests.store.dumps import query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.steps import Committed, Step, Write

AGENTS = st.sampled_from(["a", "b", "c"])
STORES = st.integers(0, 1)
SIZES = st.integers(1, 6)


class LedgerMachine(RuleBasedStateMachine):
    """Messages are consumed exactly once, events have no gap, repeated steps do nothing."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "ledger.db"
        self.runner = asyncio.Runner()
        self.steps = Steps()
        self.incarnation = dict.fromkeys("abc", 1)
        self.ended: set[str] = set()
        self.unread: dict[str, tuple[str, int]] = {}  # message -> target, its incarnation
        self.done: list[tuple[Step, Committed]] = []
        self.events = 0

    @initialize()
    def open(self):
        self.stores = [self.runner.run(SqliteStore.open(self.path)) for _ in range(2)]
        for name in "abc":
            self.commit([self.steps.spawn(name)], 0)

    def commit(self, steps: Sequence[Step], first: int) -> list[Committed | BaseException]:
        """Commit all at once, alternating between the stores."""

        async def go():
            commits = [self.stores[(first + n) % 2].commit(s) for n, s in enumerate(steps)]
            return await asyncio.gather(*commits, return_exceptions=True)

        results: list[Committed | BaseException] = self.runner.run(go())
        for step, result in zip(steps, results, strict=True):
            if not isinstance(result, BaseException) and not result.duplicate:
                self.done.append((step, result))
                self.events += len(result.events)
        return results

    def notice(self, name: str, *writes: Write, **fields) -> Step:
        fields = {"incarnation": self.incarnation[name], **fields}
        return self.steps.step(name, *writes, self.steps.told(), **fields)

    @rule(source=AGENTS, to=AGENTS, store=STORES, count=SIZES)
    def send(self, source: str, to: str, store: int, count: int):
        steps, sent = [], []
        for _ in range(count):
            message = self.steps.message(
                source, to, MessageType.QUESTION, incarnation=self.incarnation[to]
            )
            sent.append(message.message_id)
            steps.append(self.notice(source, *self.steps.sent(message)))
        results = self.commit(steps, store)
        if to in self.ended:
            assert all(isinstance(r, MessageRoutingError) for r in results)
        else:
            assert not any(isinstance(r, BaseException) for r in results)
            self.unread |= dict.fromkeys(sent, (to, self.incarnation[to]))

    @precondition(lambda self: self.unread)
    @rule(data=st.data(), store=STORES, rivals=SIZES)
    def consume(self, data, store: int, rivals: int):
        message = data.draw(st.sampled_from(sorted(self.unread)))
        target, incarnation = self.unread[message]
        is_stale = incarnation != self.incarnation[target]
        steps = [self.notice(target, MessagesConsumed(messages=(message,))) for _ in range(rivals)]
        results = self.commit(steps, store)
        assert [isinstance(r, StoreError) for r in results].count(False) == int(not is_stale)
        if not is_stale:
            del self.unread[message]

    @precondition(lambda self: self.done)
    @rule(data=st.data(), store=STORES, times=SIZES)
    def repeat(self, data, store: int, times: int):
        step, first = data.draw(st.sampled_from(self.done))
        for again in self.commit([step] * times, store):
            assert not isinstance(again, BaseException)
            assert again.duplicate
            assert again.events == first.events

    @rule(name=AGENTS, store=STORES)
    def end(self, name: str, store: int):
        step = self.steps.end(name, incarnation=self.incarnation[name])
        (result,) = self.commit([step], store)
        assert isinstance(result, FencedError) == (name in self.ended)
        self.ended.add(name)

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), store=STORES, rivals=SIZES)
    def restart(self, data, store: int, rivals: int):
        name = data.draw(st.sampled_from(sorted(self.ended)))
        old = self.incarnation[name]
        steps = [self.steps.restart(name, old + 1) for _ in range(rivals)]
        results = self.commit(steps, store)
        assert [isinstance(r, FencedError) for r in results].count(False) == 1
        self.incarnation[name] += 1
        self.ended.remove(name)
        (late,) = self.commit([self.notice(name, incarnation=old)], store)
        assert isinstance(late, FencedError)

    @rule(store=STORES, count=SIZES)
    def append(self, store: int, count: int):
        events = [self.steps.event() for _ in range(count)]
        self.runner.run(self.stores[store].append(events))
        self.events += count

    def teardown(self):
        try:
            if hasattr(self, "stores"):
                self.runner.run(self.check())
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    async def check(self):
        for store in self.stores:
            numbers = [event.seq for event in await read_events(store, "s1")]
            assert numbers == list(range(1, self.events + 1))
            expected = {m for m, (a, i) in self.unread.items() if i == self.incarnation[a]}
            assert {m.message_id for m in await store.inbox("s1")} == expected
            await store.aclose()
        assert query(self.path, "PRAGMA integrity_check") == [("ok",)]
        commits = query(self.path, "SELECT position, step_id FROM steps ORDER BY position")
        assert [position for position, _ in commits] == list(range(1, len(commits) + 1))
        assert len([id_ for _, id_ in commits if id_ is not None]) == len(self.done)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
