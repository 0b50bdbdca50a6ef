"""The memory store keeps the contract of every Store, and answers as SQLite answers."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.rows import Insert, Update
from prsm_core.domain.steps import Committed, Telling, Write
from prsm_core.domain.turns import AgentMessage, StopReason
from prsm_core.domain.writes import AgentRestarted, MessagesConsumed, RequestOpened, ResultClaimed
from prsm_core.errors import FencedError, PrsmError, StoreError
from prsm_core.store import SqliteStore
from prsm_core.testing.memory_ledger import MemoryLedger
from prsm_core.testing.memory_store import MemoryStore
from prsm_core.testing.steps import Steps
from prsm_core.testing.store_contract import StoreContract, notices, read_events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.domain.rows import Row
    from prsm_core.domain.steps import Step
    from prsm_core.domain.writes import TurnOpened
    from prsm_core.interfaces.store import Store


class TestMemoryStore(StoreContract):
    @pytest.fixture(autouse=True)
    def ledgers(self):
        self.kept: dict[Path, MemoryLedger] = {}

    async def open_store(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore(self.kept.setdefault(tmp_path, MemoryLedger()))


@pytest.fixture
async def store():
    async with MemoryStore() as store:
        yield store


@pytest.fixture
async def team(store):
    steps = Steps()
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("master"))
    await store.commit(steps.spawn("w1", "master"))
    return steps


async def look(store: Store, session: str = "s1") -> dict[str, Any]:
    """Return everything that a store tells of a session."""
    agents = await store.agents(session)
    return {
        "agents": agents,
        "inbox": await store.inbox(session),
        "requests": await store.open_requests(session),
        "events": await read_events(store, session),
        "calls": [list(await store.calls(row.descriptor.agent_id)) for row in agents],
        "sessions": [replace(info, started_at=0.0) for info in await store.sessions()],
    }


async def test_a_step_that_fails_at_its_very_end_leaves_no_trace(store, team):
    turn, mail = team.turn("w1"), team.message("master", "w1")
    await store.commit(team.step("w1", turn))
    await store.commit(team.open_call(turn, team.call("c1"), "w1"))
    await store.commit(team.step("master", *team.sent(mail)))
    before = await look(store)
    broken = team.end(
        "w1",
        team.answer(turn, "c1", consumed=(mail.message_id,)),
        *team.sent(replace(mail, target="nobody", message_id="new")),
    )
    with pytest.raises(PrsmError):
        await store.commit(broken)
    assert await look(store) == before
    await store.commit(replace(broken, writes=(*broken.writes[:2], broken.writes[-1])))


async def test_a_follower_of_one_store_ends_when_it_closes_and_another_goes_on(store, team):
    other = MemoryStore(store.ledger)
    await store.aclose()
    with pytest.raises(StoreError):
        await store.agents("s1")
    await other.commit(team.step("w1", team.told("more")))
    assert await notices(other, "s1") == ["more"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised(Write):
    """A kind of fact that no store has heard of."""

    texts = ("what",)
    is_of_life = True

    what: str

    def rows(self, step: Step) -> Iterable[Row]:
        grant = {"session_id": step.session_id, "agent_id": step.agent_id, "created_at": step.at}
        yield Insert("grants", {**grant, "data": {"promised": self.what}})
        yield Update("agents", {"agent_id": step.agent_id}, {"waiting_on": self.what})

    def events(self, step: Step) -> Iterable[Telling]:
        return step.telling("notice", {"level": "info", "text": self.what})


async def test_a_new_kind_of_fact_needs_nothing_but_itself(store, team, tmp_path):
    step = team.step("w1", Promised(what="soon"))
    async with await SqliteStore.open(tmp_path / "ledger.db") as sqlite:
        for given in (team.run_started(), team.spawn("master"), team.spawn("w1", "master")):
            await sqlite.commit(given)
        assert await sqlite.commit(step) == await store.commit(step)
        rows = [(await one.agents("s1"))[1].waiting_on for one in (store, sqlite)]
        assert rows == ["soon", "soon"]
        [grant] = await sqlite.grants("s1")
        assert grant["data"] == {"promised": "soon"}
        await sqlite.commit(team.end("w1"))
        with pytest.raises(FencedError):
            await sqlite.commit(team.step("w1", Promised(what="too late")))


NAMES = st.sampled_from(["a", "b", "c"])
STATES = st.sampled_from(list(AgentState))
ENDS = (AgentState.COMPLETED, AgentState.FAILED, AgentState.KILLED)
MOSTLY = st.sampled_from([True] * 9 + [False])


class Twins(RuleBasedStateMachine):
    """Any step, legal or not, does the same to a memory store and to SQLite."""

    @initialize()
    def open(self):
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.steps = Steps()
        self.sqlite = self.runner.run(SqliteStore.open(self.folder / "ledger.db"))
        self.memory = MemoryStore()
        self.turns: list[tuple[str, TurnOpened]] = []
        self.calls: list[tuple[str, TurnOpened, str]] = []
        self.given: list[Step] = []
        self.mail = [("nothing", "a")]
        self.requests = ["nothing"]
        self.commit(self.steps.run_started())
        self.commit(self.steps.spawn("a"))
        self.commit(self.steps.spawn("b", "a"))
        self.commit(self.steps.spawn("c", "b"))

    def commit(self, step: Step) -> bool:
        """Commit to both; return whether the step was applied."""
        self.given.append(step)
        outcome = self.outcome(self.memory, step)
        assert outcome == self.outcome(self.sqlite, step)
        return isinstance(outcome, Committed)

    def outcome(self, store: Store, step: Step) -> Any:
        try:
            return self.runner.run(store.commit(step))
        except PrsmError as error:
            return type(error), error.code

    def likely(self, data, name: str) -> tuple[AgentState, int]:
        """Return a state and an incarnation, most often those the agent has."""
        agent = self.memory.ledger.tables["agents"][self.steps.agent(name)]
        if not data.draw(MOSTLY):
            return data.draw(STATES), data.draw(st.integers(1, 3))
        return AgentState(agent["state"]), agent["incarnation"]

    def write(self, data, name: str, *writes: Write) -> bool:
        _, incarnation = self.likely(data, name)
        told = self.steps.told()
        return self.commit(self.steps.step(name, *writes, told, incarnation=incarnation))

    @rule(name=st.sampled_from(["a", "d", "e", "f"]), parent=st.sampled_from(["a", "b", None]))
    def spawn(self, name, parent):
        self.commit(self.steps.spawn(name, parent))

    @rule(data=st.data(), name=NAMES, restarts=st.booleans())
    def change(self, data, name, restarts):
        state, incarnation = self.likely(data, name)
        prompt = data.draw(st.sampled_from([None, "again"]))
        anew = [AgentRestarted(prompt=prompt)] * restarts
        change = self.steps.change(state, data.draw(STATES))
        self.commit(self.steps.step(name, *anew, change, incarnation=incarnation + restarts))

    @rule(data=st.data(), name=NAMES)
    def finishing(self, data, name):
        result = AgentResult(agent_id=name, success=True, summary="done")
        self.write(data, name, ResultClaimed(result=result))

    @rule(data=st.data(), source=NAMES, to=NAMES, kind=st.sampled_from(list(MessageType)))
    def send(self, data, source, to, kind):
        _, incarnation = self.likely(data, to)
        message = self.steps.message(source, to, kind, incarnation=incarnation)
        copies = 1 if data.draw(MOSTLY) else 2
        if self.write(data, source, *self.steps.sent(*(message,) * copies)):
            self.mail.append((message.message_id, to))

    @rule(data=st.data(), name=NAMES)
    def consume(self, data, name):
        self.write(data, name, MessagesConsumed(messages=self.some_mail(data, name)))

    def some_mail(self, data, name: str) -> tuple[str, ...]:
        """Return ids of messages, most often one that the agent was sent."""
        own = [message for message, target in self.mail if target == name]
        known = own if own and data.draw(MOSTLY) else [message for message, _ in self.mail]
        return tuple(data.draw(st.lists(st.sampled_from(known[-3:]), min_size=1, max_size=2)))

    @rule(data=st.data(), name=NAMES)
    def ask(self, data, name):
        request = self.steps.request(name)
        if self.write(data, name, RequestOpened(request=request)):
            self.requests.append(request.request_id)

    @rule(data=st.data(), name=NAMES)
    def resolve(self, data, name):
        wanted = data.draw(st.sampled_from(self.requests))
        self.write(data, name, self.steps.resolved(wanted))

    @rule(data=st.data(), name=NAMES)
    def open_turn(self, data, name):
        agent = self.memory.ledger.tables["agents"][self.steps.agent(name)]
        number = agent.get("next_turn", 1) + (not data.draw(MOSTLY))
        parents = [None, *(turn.turn_id for _, turn in self.turns[-2:])]
        label = f"s1/{name}" if data.draw(MOSTLY) else "s1/a"
        parent = data.draw(st.sampled_from(parents))
        turn = self.steps.turn(name, number, parent_turn_id=parent, session_label=label)
        if self.write(data, name, turn):
            self.turns.append((name, turn))

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def open_call(self, data):
        name, turn = data.draw(st.sampled_from(self.turns[-3:]))
        call = self.steps.call(f"c{len(self.calls) if data.draw(MOSTLY) else 1}")
        _, incarnation = self.likely(data, name)
        if self.commit(self.steps.open_call(turn, call, name, incarnation=incarnation)):
            self.calls.append((name, turn, call.id))

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def close_call(self, data):
        name, turn, call = data.draw(st.sampled_from(self.calls))
        _, incarnation = self.likely(data, name)
        mail = () if data.draw(MOSTLY) else self.some_mail(data, name)
        step = self.steps.close_call(turn, call, name, consumed=mail)
        self.commit(replace(step, incarnation=incarnation))

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def close_turn(self, data):
        name, turn = data.draw(st.sampled_from(self.turns[-3:]))
        told = (
            self.steps.call("c1", status="failed", error="cut", sequence=3, completed_at=1_000_400),
            self.steps.call("c3", orchestration=False, started_at=1_000_300),
        )
        spoken = AgentMessage(
            id=data.draw(st.sampled_from(["m2", "m0"])),
            role="assistant",
            content="more",
            sequence=3,
            created_at=1_000_200,
        )
        usual = self.steps.result()
        result = replace(
            usual,
            messages=(*usual.messages, spoken),
            tool_calls=told[: data.draw(st.integers(0, 2))],
            stop_reason=data.draw(st.sampled_from(list(StopReason))),
            cost_usd=data.draw(st.sampled_from([None, 0.5])),
        )
        _, incarnation = self.likely(data, name)
        self.commit(self.steps.close_turn(turn, name, incarnation=incarnation, result=result))

    @rule(data=st.data(), name=NAMES, to=st.sampled_from([*ENDS, AgentState.RUNNING]))
    def end(self, data, name, to):
        state, incarnation = self.likely(data, name)
        request = None if data.draw(MOSTLY) else data.draw(st.sampled_from(self.requests))
        ends = [self.steps.resolved(request, by="agent_ended")] if request else []
        self.commit(self.steps.end(name, *ends, source=state, target=to, incarnation=incarnation))

    @rule(data=st.data())
    def repeat(self, data):
        self.commit(data.draw(st.sampled_from(self.given)))

    def teardown(self):
        try:
            if hasattr(self, "sqlite"):
                self.runner.run(self.check())
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    async def check(self):
        assert await look(self.memory) == await look(self.sqlite)
        await self.memory.aclose()
        await self.sqlite.aclose()


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
