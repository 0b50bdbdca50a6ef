"""A session is read as it was after any commit: equal to a copy that was taken there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from prsm_testing.memory_store import MemoryStore
from prsm_testing.steps import Steps

from prsm_core.domain.events import Event
from prsm_core.store import SqliteStore
from tests.store.ledger_machine import Ledgers
from tests.store.ledger_seen import seen_event
from tests.store.ledger_walk import Walk

if TYPE_CHECKING:
    from prsm_core.domain.sessions import SessionState
    from prsm_core.domain.steps import Step

TOLD = st.sampled_from(["user", "assistant", "started", "finished"])


class Moments(Ledgers):
    """After each commit a copy is taken; at the end each store still tells all of them."""

    @initialize()
    def open(self):
        """Begin within turns and calls: by chance few examples would come so far."""
        super().open()
        for name in "aab":
            agent = self.model.state.agents[self.steps.agent(name)]
            turn = self.steps.turn(name, agent.next_turn)
            self.commit(self.steps.step(name, turn))
            self.turns.append((name, turn))
            self.commit(self.steps.open_call(turn, self.steps.call("c0"), name))
            self.calls.append((name, turn, "c0"))

    def begin(self) -> None:
        super().begin()
        self.copies: list[SessionState] = []
        self.other = Steps("other")
        self.passed = 0  # commits of the other session

    def commit(self, step: Step) -> bool:
        is_done = super().commit(step)
        if is_done and not self.verdict.is_repeated:
            self.copy()
        return is_done

    def copy(self) -> None:
        """Take the next copy; all stores agree about it."""
        states = [self.runner.run(store.state("s1")) for store in self.stores]
        assert all(state == states[0] for state in states)
        self.copies.append(states[0])
        assert states[0].position == len(self.copies) + self.passed

    def tell(self, *events: Event) -> None:
        """Append events to all stores, and to what the model knows."""
        told: tuple[Event, ...] = ()
        for store in self.stores:
            told = self.runner.run(store.append(events))
        self.model.events += [seen_event(event) for event in told if event.session == "s1"]

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), kind=TOLD, call=st.sampled_from(["v1", "v2", "c0"]))
    def hear(self, data, kind, call):
        name, turn = data.draw(st.sampled_from(self.turns[-3:]))
        told = {
            "started": {"call": call, "tool": "Bash", "arguments": {}, "orchestration": False},
            "finished": {"call": call, "status": "completed", "result": "r", "error": None},
        }.get(kind)
        if told is None:
            said = {"turn": turn.turn_id, "role": kind, "text": "word", "thinking": None}
            told = {**said, "id": f"m{len(self.copies)}"}
        type_ = f"tool_call_{kind}" if kind in {"started", "finished"} else "message_completed"
        agent = self.steps.agent(name)
        event = Event(type=type_, session="s1", run="s1-run", ts=1000.0, agent=agent, data=told)
        self.tell(event)
        self.copy()

    @rule()
    def pass_by(self):
        """Another session of the ledger goes on."""
        for store in self.stores:
            self.runner.run(store.append([self.other.event()]))
        self.passed += 1

    async def check(self):
        for store in self.stores:
            for copy in self.copies:
                assert await store.state("s1", copy.position) == copy
        await super().check()


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_any_commit_of_a_session_can_be_read_later(seed):
    async def go(folder: str) -> None:
        path = Path(folder) / "ledger.db"
        async with await SqliteStore.open(path) as store, MemoryStore() as memory:
            walk = Walk([store, memory], Random(seed))
            await walk.go(120)
            for copy in walk.copies:
                assert await store.state("s1", copy.position) == copy
                assert await memory.state("s1", copy.position) == copy
            assert await store.state("s1") == walk.copies[-1]  # nothing has changed by looking
            assert await memory.state("s1") == walk.copies[-1]

    with TemporaryDirectory() as folder:
        asyncio.run(go(folder))


TestMoments = Moments.TestCase
# Without shrinking: it would take minutes, and the walk above is what finds most.
TestMoments.settings = settings(
    max_examples=10, stateful_step_count=40, deadline=None, phases=[Phase.explicit, Phase.generate]
)
