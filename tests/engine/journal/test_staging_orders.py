"""Any order of acts, facts, steps, refusals, cancels and ends: none lost, none doubled."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from prsm_testing.memory_store import MemoryStore
from prsm_testing.store_contract import read_events

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.writes import ResultClaimed
from prsm_core.engine.journal.unit import FLUSH_SECONDS
from prsm_core.errors import MessageRoutingError, StoreError
from prsm_core.store import SqliteStore
from tests.engine.journal.desk import KNOWN, REFUSED, RUNNING, UNFIT, WAITING, Desk

if TYPE_CHECKING:
    from prsm_core.domain.steps import Committed, Write
    from prsm_core.engine.state import Staged
    from prsm_core.interfaces.store import Store


@dataclass
class Given:
    """A commit that was asked for, and what must come of it."""

    task: asyncio.Task[Committed]
    text: str
    error: type[Exception] | None
    ran: list[str]


class Staging(RuleBasedStateMachine):
    """Any order of acts, facts, steps, refusals, cancels and ends, against a list of texts."""

    folder: Path | None = None

    async def make_store(self) -> Store:
        return MemoryStore()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.count = 0
        self.expected: defaultdict[str, list[str]] = defaultdict(list)
        self.state = {"a": RUNNING, "b": RUNNING}
        self.life = {"a": 1, "b": 1}
        self.given: list[Given] = []
        self.acts: list[tuple[Staged, bool]] = []
        self.landings: list[asyncio.Task[None]] = []  # that may wait for each other, in a long line
        self.since: dict[str, float] = {}  # texts that nobody has submitted, by their time

    @initialize()
    def open(self) -> None:
        async def go() -> None:
            self.desk = Desk(await self.make_store())
            await self.desk.open()
            self.desk.store.is_held = True

        self.runner.run(go())

    def text(self, end: str = "") -> str:
        self.count += 1
        return f"{self.count} {end}".strip()

    def toggle(self, name: str) -> list[Write]:
        """Return a change of state that the ledger takes in this order only."""
        source = self.state[name]
        if source.is_terminal:
            return []
        target = self.state[name] = WAITING if source is RUNNING else RUNNING
        return [self.desk.steps.change(source, target)]

    @rule(name=st.sampled_from("ab"))
    def say(self, name):
        text = self.text()

        async def go() -> None:
            self.desk.journal.note("notice", self.desk.steps.agent(name), level="info", text=text)

        self.runner.run(go())
        self.expected[name].append(text)
        self.since[text] = self.desk.clock.now()

    @rule(name=st.sampled_from("ab"), fit=st.sampled_from([True] * 4 + [False]), data=st.data())
    def stage(self, name, fit, data):
        text = self.text("" if fit else UNFIT)
        writes = self.toggle(name) if fit and data.draw(st.booleans()) else []
        needed = None
        own = [
            pair
            for pair in self.acts
            if pair[0].step.agent_id == self.desk.steps.agent(name) and not writes
        ]
        if own and data.draw(st.booleans()):
            needed, is_there = own[-1]
            fit = fit and is_there
        is_late = self.state[name].is_terminal and data.draw(st.booleans())
        if is_late:
            claim = AgentResult(agent_id=name, success=True, summary="late")
            writes.append(ResultClaimed(result=claim))
            fit = False
        step = self.desk.act(name, text, *writes, incarnation=self.life[name])

        async def go() -> Staged:
            return self.desk.journal.stage(step, needed)

        self.acts.append((self.runner.run(go()), fit))
        if fit:
            self.expected[name].append(text)
            self.since[text] = self.desk.clock.now()

    @rule(
        name=st.sampled_from("ab"),
        end=st.sampled_from(["", "", "", UNFIT, REFUSED, KNOWN]),
        moves=st.booleans(),
        leaves=st.sampled_from([False, False, True]),
    )
    def commit(self, name, end, moves, leaves):
        writes = self.toggle(name) if moves and not end else []
        self.give(name, end, leaves, *writes)

    @rule(name=st.sampled_from("ab"))
    def end(self, name):
        if self.state[name].is_terminal:
            return
        source, self.state[name] = self.state[name], AgentState.KILLED
        ended = self.desk.steps.end(name, source=source)
        self.give(name, "", False, *ended.writes)

    @rule(name=st.sampled_from("ab"))
    def live_again(self, name):
        if not self.state[name].is_terminal:
            return
        self.state[name] = RUNNING
        self.life[name] += 1
        changes = [
            self.desk.steps.change(*pair)
            for pair in (
                (AgentState.KILLED, AgentState.PENDING),
                (AgentState.PENDING, AgentState.STARTING),
                (AgentState.STARTING, RUNNING),
            )
        ]
        again = self.desk.steps.restart(name, self.life[name], *changes)
        self.give(name, "", False, *again.writes)

    def give(self, name: str, end: str, leaves: bool, *writes: Write) -> None:
        text = self.text(end)
        step = self.desk.act(name, text, *writes, incarnation=self.life[name])
        ran: list[str] = []

        async def go() -> asyncio.Task[Committed]:
            commit = self.desk.journal.commit(step, lambda: ran.append(text))
            task = asyncio.get_running_loop().create_task(commit)
            await asyncio.sleep(0)
            if leaves:
                task.cancel()
            return task

        error = {UNFIT: StoreError, REFUSED: MessageRoutingError}.get(end)
        self.given.append(Given(self.runner.run(go()), text, error, ran))
        if not end:
            self.expected[name].append(text)

    @rule(name=st.sampled_from("ab"))
    def land(self, name):
        async def go() -> None:
            landed = self.desk.journal.land(self.desk.steps.agent(name))
            self.landings.append(self.desk.background.start(landed, name="land"))
            await asyncio.sleep(0)

        self.runner.run(go())

    @rule(count=st.integers(1, 4))
    def work(self, count):
        self.runner.run(self.desk.store.let(count))

    @precondition(lambda self: self.count)
    @rule(part=st.sampled_from([0.3, 1.0]))
    def time_passes(self, part):
        """Whatever is 20 ms old was given to the store: it is there once the store has worked."""
        self.runner.run(self.desk.clock.advance(part * FLUSH_SECONDS))
        old = self.desk.clock.now() - FLUSH_SECONDS
        due = {text for text, since in self.since.items() if since <= old}
        if due:
            self.runner.run(self.drain())
            there = {text for name in "ab" for text in self.runner.run(self.desk.texts(name))}
            assert due <= there
            self.since = {text: at for text, at in self.since.items() if text not in there}

    async def drain(self) -> None:
        """Let all writes through that were given, and those that they lead to."""
        quiet = 0
        while quiet < 5:
            self.landings = [landing for landing in self.landings if not landing.done()]
            quiet = 0 if self.desk.store.waiting or self.landings else quiet + 1
            await self.desk.store.let(1)
            await asyncio.sleep(0)

    def teardown(self) -> None:
        try:
            if hasattr(self, "desk"):
                self.runner.run(self.look())
        finally:
            self.runner.close()
            if self.folder is not None:
                shutil.rmtree(self.folder)

    async def look(self) -> None:
        desk = self.desk
        desk.journal.end_run()
        self.landings.append(desk.background.start(desk.journal.flush(), name="flush"))
        await self.drain()
        assert all(given.task.done() for given in self.given)
        for name in "ab":
            assert await desk.texts(name) == self.expected[name]
        for act, fit in self.acts:
            assert (act.refused is None) is fit
        for given in self.given:
            if not given.task.cancelled():
                assert given.error is None or isinstance(given.task.exception(), given.error)
            assert len(given.ran) == (given.error is None)
        log = await read_events(desk.store.inner, desk.steps.session)
        notices = [event.seq or 0 for event in desk.told if event.type == "notice"]
        assert sorted(notices) == [event.seq for event in log if event.type == "notice"]
        assert desk.errors == []
        await desk.store.inner.aclose()


class StagingInSqlite(Staging):
    """The same over SQLite."""

    async def make_store(self) -> Store:
        self.folder = Path(tempfile.mkdtemp())
        return await SqliteStore.open(self.folder / "ledger.db")


@pytest.mark.requirement("E31")
@pytest.mark.parametrize(
    ("machine", "examples"),
    [
        (Staging, 25),
        (StagingInSqlite, 8),
        pytest.param(Staging, 400, marks=pytest.mark.long),
        pytest.param(StagingInSqlite, 100, marks=pytest.mark.long),
    ],
)
def test_any_order_of_acts_loses_none_doubles_none_and_keeps_each_agents_order(machine, examples):
    phases = set(Phase) - {Phase.shrink, Phase.explain}  # which take minutes
    bounds = settings(max_examples=examples, stateful_step_count=40, phases=phases)
    run_state_machine_as_test(machine, settings=bounds)
