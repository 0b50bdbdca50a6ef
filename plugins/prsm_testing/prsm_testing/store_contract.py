"""The contract of every Store, as a pytest class to subclass.

class TestMyStore(StoreContract):
    async def open_store(self, tmp_path: Path) -> Store:  # again: with what was kept there
        return await MyStore.open(tmp_path / "data")
"""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentState, Grant
from prsm_core.domain.budgets import Budget
from prsm_core.domain.events import Event
from prsm_core.domain.messages import MessageType
from prsm_core.domain.turns import StopReason
from prsm_core.domain.usage import Provenance, Spent, TokenUsage, total
from prsm_core.domain.writes import (
    ModelSwitched,
    ResultClaimed,
    RunFinished,
    RunStarted,
    SessionNamed,
)
from prsm_core.errors import FencedError, InvalidTransitionError, MessageRoutingError, StoreError
from prsm_core.interfaces.store import TakenNames
from prsm_testing.change_rules import ChangeRules
from prsm_testing.fork_rules import ForkRules
from prsm_testing.label_rules import LabelRules
from prsm_testing.moment_rules import MomentRules
from prsm_testing.state_rules import StateRules
from prsm_testing.steps import Steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prsm_core.interfaces.store import AgentRow, Store

__all__ = ["Steps", "StoreContract", "one_agent", "read_events"]

PENDING, RUNNING = AgentState.PENDING, AgentState.RUNNING
COMPLETED, KILLED = AgentState.COMPLETED, AgentState.KILLED


async def read_events(store: Store, session: str, **options: Any) -> list[Event]:
    """Return the committed events of a session."""
    return [event async for event in store.events(session, **options)]


async def notices(store: Store, session: str) -> list[str]:
    """Return the texts of the committed notices of a session."""
    events = await read_events(store, session)
    return [event.data["text"] for event in events if event.type == "notice"]


async def one_agent(store: Store, session: str, name: str) -> AgentRow:
    """Return the row of the agent called `name`."""
    (row,) = [a for a in await store.agents(session) if a.descriptor.name == name]
    return row


@pytest.mark.asyncio
class StoreContract(StateRules, MomentRules, ForkRules, ChangeRules, LabelRules, ABC):
    """What every Store does; each test's docstring is the rule."""

    @abstractmethod
    async def open_store(self, tmp_path: Path) -> Store:
        """Open a store; with the same path again, the same data."""

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        """Open a store for one test."""
        store = await self.open_store(tmp_path)
        yield store
        await store.aclose()

    @pytest.fixture
    def steps(self) -> Steps:
        """Return a builder of steps."""
        return Steps()

    @pytest_asyncio.fixture
    async def team(self, store: Store, steps: Steps) -> Steps:
        """Start a run with a master and a worker under it."""
        await store.commit(steps.run_started())
        await store.commit(steps.spawn("master"))
        await store.commit(steps.spawn("w1", "master"))
        return steps

    async def test_a_known_step_returns_its_first_result(self, store: Store, team: Steps) -> None:
        """Committing a step again changes nothing, even after the agent has ended."""
        step = team.step("w1", team.told("once"))
        first = await store.commit(step)
        await store.commit(team.end("w1"))
        again = await store.commit(step)
        assert not first.duplicate
        assert again.duplicate
        assert again.events == first.events
        assert await notices(store, "s1") == ["once"]

    async def test_taken_tells_all_names_and_when_the_last_event_was(
        self, store: Store, team: Steps
    ) -> None:
        """`taken` has the names of ended agents, too, and of no other session."""
        await store.commit(team.end("w1"))
        other = Steps("s2")
        await store.commit(other.run_started())
        await store.commit(other.spawn("master"))
        said = replace(team.event("master", "said before"), ts=1.0)
        await store.append([said])
        last = max([event.ts async for event in store.events("s1")])
        taken = await store.taken("s1")
        assert taken == TakenNames(names=frozenset({"master", "w1"}), last_event_at=last)
        assert (await store.taken("s2")).names == {"master"}
        assert not (await store.taken("none")).names

    async def test_a_step_id_names_one_step_only(self, store: Store, team: Steps) -> None:
        """The id of a committed step is refused for a step of another kind or session."""
        step = await store.commit(team.step("w1"))
        with pytest.raises(StoreError) as caught:
            await store.commit(replace(team.spawn("w2", "master"), step_id=step.step_id))
        assert caught.value.code == "step_id_reused"

    async def test_a_step_of_an_older_incarnation_is_fenced(
        self, store: Store, team: Steps
    ) -> None:
        """After a restart the old incarnation cannot write."""
        await store.commit(team.end("w1"))
        await store.commit(team.restart("w1", 2))
        with pytest.raises(FencedError):
            await store.commit(team.open_turn("w1"))
        await store.commit(team.open_turn("w1", incarnation=2))

    async def test_an_ended_agent_is_fenced(self, store: Store, team: Steps) -> None:
        """After its end an agent may only close its turn and calls, or be controlled."""
        turn = team.turn("w1")
        await store.commit(team.step("w1", turn))
        await store.commit(team.open_call(turn, team.call("c1"), "w1"))
        await store.commit(team.end("w1"))
        for late in (
            team.open_turn("w1", 2),
            team.open_call(turn, team.call("c2"), "w1"),
            team.spawn("w2", "w1"),
            team.end("w1", source=KILLED, target=COMPLETED),
            team.step("w1", team.change(KILLED, RUNNING)),
        ):
            with pytest.raises(FencedError):
                await store.commit(late)
        await store.commit(team.close_call(turn, "c1", "w1"))
        await store.commit(team.close_turn(turn, "w1"))
        await store.commit(team.step("w1"))
        assert (await one_agent(store, "s1", "w1")).usage.total_tokens == 15

    async def test_a_change_must_fit_the_stored_state(self, store: Store, team: Steps) -> None:
        """A change whose source is not the stored state applies nothing of its step."""
        change = team.change(RUNNING, COMPLETED)
        before = await read_events(store, "s1")
        with pytest.raises(InvalidTransitionError):
            await store.commit(team.step("w1", team.told(), change))
        assert (await one_agent(store, "s1", "w1")).descriptor.state is PENDING
        assert await read_events(store, "s1") == before

    async def test_changes_apply_in_order(self, store: Store, team: Steps) -> None:
        """The last change decides state and `waiting_on`."""
        changes = (
            team.change(PENDING, AgentState.STARTING),
            team.change(AgentState.STARTING, RUNNING, waiting_on="a person"),
        )
        await store.commit(team.step("w1", *changes))
        row = await one_agent(store, "s1", "w1")
        assert (row.descriptor.state, row.waiting_on) == (RUNNING, "a person")

    async def test_a_message_is_consumed_once_by_its_target(
        self, store: Store, team: Steps
    ) -> None:
        """Receives are selective, and a message is there until it is consumed, then never."""
        old, new = team.message("w1", "master"), team.message("w1", "master")
        await store.commit(team.step("w1", *team.sent(old, new)))
        assert await store.inbox("s1") == [old, new]
        with pytest.raises(StoreError):
            await store.commit(team.open_turn("w1", consumed=(new.message_id,)))
        await store.commit(team.open_turn("master", consumed=(new.message_id,)))
        assert await store.inbox("s1") == [old]
        with pytest.raises(StoreError):
            await store.commit(team.consume("master", new.message_id))

    async def test_a_message_id_is_used_once(self, store: Store, team: Steps) -> None:
        """Another step cannot send the same message again."""
        message = team.message("w1", "master")
        await store.commit(team.step("w1", *team.sent(message)))
        with pytest.raises(StoreError):
            await store.commit(team.step("w1", *team.sent(message)))
        assert await store.inbox("s1") == [message]

    async def test_an_ended_agent_gets_results_and_signals_only(
        self, store: Store, team: Steps
    ) -> None:
        """A question to an ended agent is refused; its children's results are not."""
        await store.commit(team.end("master"))
        question = team.message("w1", "master")
        with pytest.raises(MessageRoutingError) as caught:
            await store.commit(team.step("w1", *team.sent(question)))
        assert caught.value.code == "agent_ended"
        result = team.message("w1", "master", MessageType.TASK_RESULT)
        await store.commit(team.end("w1", *team.sent(result)))
        assert await store.inbox("s1") == [result]

    async def test_a_message_needs_a_target_in_its_session(self, store: Store, team: Steps) -> None:
        """Unknown agents and agents of other sessions are refused alike."""
        other = Steps("s2")
        await store.commit(other.spawn("master"))
        for target in ("nobody", other.agent("master")):
            message = replace(team.message("w1", "master"), target=target)
            with pytest.raises(MessageRoutingError) as caught:
                await store.commit(team.step("w1", *team.sent(message)))
            assert caught.value.code == "unknown_agent"

    async def test_a_message_to_an_older_incarnation_is_stale(
        self, store: Store, team: Steps
    ) -> None:
        """What was meant for an ended incarnation never reaches the next."""
        unread = team.message("master", "w1")
        await store.commit(team.step("master", *team.sent(unread)))
        await store.commit(team.end("w1"))
        await store.commit(team.restart("w1", 2))
        assert await store.inbox("s1") == []
        late = team.message("master", "w1")
        with pytest.raises(MessageRoutingError) as caught:
            await store.commit(team.step("master", *team.sent(late)))
        assert caught.value.code == "stale"

    async def test_what_an_ended_life_left_unread_is_never_read(
        self, store: Store, team: Steps
    ) -> None:
        """Neither by the next life, nor by one that goes on where that was cut off."""
        unread = team.message("master", "w1")
        await store.commit(team.step("master", *team.sent(unread)))
        await store.commit(team.end("w1"))
        await store.commit(team.restart("w1", 2))
        with pytest.raises(StoreError) as caught:
            await store.commit(team.consume("w1", unread.message_id, incarnation=2))
        assert caught.value.code == "not_consumable"
        await store.commit(team.restart("w1", 3, team.change(PENDING, AgentState.STARTING)))
        assert await store.inbox("s1") == []

    async def test_a_resumed_agent_keeps_its_unread_messages(
        self, store: Store, team: Steps
    ) -> None:
        """A restart of an agent that never ended hands its mail to the new incarnation."""
        unread = team.message("master", "w1")
        await store.commit(team.step("master", *team.sent(unread)))
        await store.commit(team.restart("w1", 2, team.change(PENDING, AgentState.STARTING)))
        (kept,) = await store.inbox("s1")
        assert (kept.message_id, kept.incarnation) == (unread.message_id, 2)

    async def test_a_restart_begins_the_next_incarnation(self, store: Store, team: Steps) -> None:
        """It needs the next number, leaves the ended state and clears the result."""
        await store.commit(team.end("w1"))
        with pytest.raises(FencedError):
            await store.commit(team.restart("w1", 1))
        with pytest.raises(StoreError):
            await store.commit(team.restart("w1", 3))
        with pytest.raises(StoreError):
            await store.commit(team.restart("w1", 2, team.change(KILLED, COMPLETED)))
        await store.commit(team.restart("w1", 2, prompt="once more"))
        row = await one_agent(store, "s1", "w1")
        assert (row.descriptor.incarnation, row.descriptor.prompt) == (2, "once more")
        assert (row.descriptor.state, row.result, row.ended_at) == (PENDING, None, None)

    async def test_an_end_must_end_the_agent(self, store: Store, team: Steps) -> None:
        """An end without a terminal state is refused."""
        with pytest.raises(StoreError):
            await store.commit(team.end("w1", source=PENDING, target=RUNNING))
        assert (await one_agent(store, "s1", "w1")).result is None

    async def test_a_finishing_agent_has_its_result_and_lives(
        self, store: Store, team: Steps
    ) -> None:
        """`finishing` stores the result; the end comes later."""
        result = AgentResult(agent_id=team.agent("w1"), success=True, summary="done")
        await store.commit(team.step("w1", ResultClaimed(result=result)))
        row = await one_agent(store, "s1", "w1")
        assert (row.result, row.descriptor.state) == (result, PENDING)
        await store.commit(team.end("w1", result=result))

    async def test_the_first_answer_to_a_request_wins(self, store: Store, team: Steps) -> None:
        """A second resolution is refused with everything in its step."""
        request = team.request("w1")
        await store.commit(team.ask("w1", request))
        assert await store.open_requests("s1") == [request]
        yes = team.resolved(request.request_id)
        no = team.resolved(request.request_id, "deny", by="timeout")
        await store.commit(team.step("w1", yes))
        before = await read_events(store, "s1")
        with pytest.raises(StoreError) as caught:
            await store.commit(team.step("w1", team.told(), no))
        assert caught.value.code == "already_resolved"
        assert await store.open_requests("s1") == []
        assert await read_events(store, "s1") == before
        await store.commit(team.end("w1", no))

    async def test_turns_of_an_agent_are_numbered(self, store: Store, team: Steps) -> None:
        """A turn has the next number, or it is refused."""
        with pytest.raises(StoreError):
            await store.commit(team.open_turn("w1", 2))
        await store.commit(team.open_turn("w1", 1))
        with pytest.raises(StoreError):
            await store.commit(team.open_turn("w1", 1))
        assert (await one_agent(store, "s1", "w1")).next_turn == 2

    async def test_closing_a_turn_again_changes_nothing(self, store: Store, team: Steps) -> None:
        """The first closing stands, whatever step closes the turn again."""
        turn = team.turn("w1")
        await store.commit(team.step("w1", turn))
        first = await store.commit(team.close_turn(turn, "w1"))
        aborted = team.result(stop_reason=StopReason.ABORTED)
        again = await store.commit(team.close_turn(turn, "w1", result=aborted))
        assert again.duplicate
        assert again.events == first.events
        row = await one_agent(store, "s1", "w1")
        assert (row.usage.total_tokens, row.head_turn_id) == (15, turn.turn_id)

    async def test_an_answer_is_stored_under_its_call_once(self, store: Store, team: Steps) -> None:
        """The stored answer outlives what the turn says about the call later."""
        turn = team.turn("w1")
        await store.commit(team.step("w1", turn))
        await store.commit(team.open_call(turn, team.call("c1"), "w1"))
        await store.commit(team.close_call(turn, "c1", "w1"))
        with pytest.raises(StoreError):
            await store.commit(team.close_call(turn, "c1", "w1"))
        told = (team.call("c1", status="failed", sequence=3), team.call("c2", orchestration=False))
        result = team.result(tool_calls=told)
        await store.commit(team.close_turn(turn, "w1", result=result))
        second, first = await store.calls(team.agent("w1"))
        assert (first["id"], first["status"], first["result"]) == ("c1", "completed", "the answer")
        assert (first["sequence"], first["orchestration"]) == (3, True)
        assert (second["id"], second["orchestration"]) == ("c2", False)
        assert first["arguments_hash"] == second["arguments_hash"]

    async def test_unknown_usage_stays_unknown(self, store: Store, team: Steps) -> None:
        """A count nobody told is None; known ones add up over the turns."""
        head = None
        for number in (1, 2):
            turn = team.turn("w1", number, parent_turn_id=head)
            await store.commit(team.step("w1", turn))
            await store.commit(team.close_turn(turn, "w1", resume_token=f"thread-{number}"))
            head = turn.turn_id
        row = await one_agent(store, "s1", "w1")
        assert (row.usage.input_tokens, row.usage.reasoning_tokens) == (20, None)
        assert (row.cost_usd, row.resume_token, row.head_turn_id) == (None, "thread-2", head)

    async def test_a_model_that_takes_over_is_the_agents_from_then_on(
        self, store: Store, team: Steps
    ) -> None:
        """The old thread is forgotten with the model; the rest of the agent stays."""
        turn = team.turn("w1", 1)
        await store.commit(team.step("w1", turn))
        await store.commit(team.close_turn(turn, "w1", resume_token="thread-1"))  # noqa: S106
        new = ModelSwitched(provider="other", model="second", reasoning_effort="high")
        await store.commit(team.step("w1", new))
        row = await one_agent(store, "s1", "w1")
        agent = row.descriptor
        assert (agent.provider, agent.model, agent.reasoning_effort) == ("other", "second", "high")
        assert (agent.name, row.resume_token) == ("w1", None)

    async def test_use_keeps_where_its_numbers_come_from(self, store: Store, team: Steps) -> None:
        """A sum is as certain as its least certain part; turns that told nothing are counted."""
        measured = team.result(cost_usd=0.5)
        reported = team.result(usage_provenance=Provenance.REPORTED)
        untold = team.result(usage=TokenUsage())
        head = None
        for number, result in enumerate((measured, reported, untold), 1):
            turn = team.turn("w1", number, parent_turn_id=head)
            await store.commit(team.step("w1", turn))
            await store.commit(team.close_turn(turn, "w1", result=result))
            head = turn.turn_id
        spent = (await one_agent(store, "s1", "w1")).spent
        assert (spent.usage.total_tokens, spent.tokens_from) == (30, Provenance.REPORTED)
        assert (spent.cost_usd, spent.cost_from) == (0.5, Provenance.MEASURED)
        assert (spent.turns_without_tokens, spent.turns_without_cost) == (1, 2)
        assert (await one_agent(store, "s1", "master")).spent == Spent()

    async def test_the_use_of_an_agent_is_the_total_of_its_turns(
        self, store: Store, team: Steps
    ) -> None:
        """Whichever counts a turn told, and whichever it did not: nothing is dropped."""
        told = [
            Spent.of_turn(
                TokenUsage(input_tokens=whole and 7, output_tokens=answered, total_tokens=sum_), usd
            )
            for whole in (1, None)
            for answered in (3, None)
            for sum_ in (100, None)
            for usd in (0.1, None)
        ]
        head = None
        for number, spent in enumerate(told, 1):
            turn = team.turn("w1", number, parent_turn_id=head)
            await store.commit(team.step("w1", turn))
            result = team.result(usage=spent.usage, cost_usd=spent.cost_usd)
            await store.commit(team.close_turn(turn, "w1", result=result))
            head = turn.turn_id
        assert (await one_agent(store, "s1", "w1")).spent == total(told)

    async def test_a_grant_is_kept_with_its_limits(self, store: Store, team: Steps) -> None:
        """What an agent may hand down comes back as it was given."""
        limits = Budget(tokens=5000, usd=0.25)
        tools = frozenset({"Read", "Edit"})
        grant = Grant(tools=tools, models=frozenset({"a/b"}), depth=0, budget=limits)
        await store.commit(team.spawn("w2", "master", grant=grant))
        assert (await one_agent(store, "s1", "w2")).descriptor.grant == grant

    async def test_events_are_numbered_without_a_gap(self, store: Store, team: Steps) -> None:
        """Steps and appended events of any number of tasks share one count per session."""
        other = Steps("s2")
        begun = len(await read_events(store, "s1"))
        texts = [str(n) for n in range(40)]
        await asyncio.gather(
            *(store.append([team.event(text=t), other.event(text=t)]) for t in texts),
            *(store.commit(team.step("w1", team.told())) for _ in texts),
        )
        assert [e.seq for e in await read_events(store, "s1")] == list(range(1, begun + 81))
        assert [e.seq for e in await read_events(store, "s2", after=30)] == list(range(31, 41))
        own = await read_events(store, "s1", agent=team.agent("w1"))
        assert [event.type for event in own] == ["agent_spawned", *["notice"] * 40]

    async def test_live_events_are_not_stored(self, store: Store, steps: Steps) -> None:
        """Deltas belong to nobody's log."""
        delta = Event(type="text_delta", session="s1", run=None, ts=0.0, data={"text": "a"})
        with pytest.raises(StoreError):
            await store.append([steps.event(), delta])
        assert await read_events(store, "s1") == []

    async def test_a_follower_sees_what_is_committed_later(self, store: Store, team: Steps) -> None:
        """Following goes on until the store is closed, in order."""
        seen: asyncio.Queue[Event] = asyncio.Queue(10)
        begun = len(await read_events(store, "s1"))

        async def follow() -> None:
            async for event in store.events("s1", begun, follow=True):
                seen.put_nowait(event)

        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(follow())
            for text in ("one", "two"):
                await store.append([team.event(text=text)])
                assert (await seen.get()).data["text"] == text
            await store.aclose()

    async def test_sessions_are_listed_newest_first(self, store: Store, team: Steps) -> None:
        """A session has its first task, its newest run and the number of its last event."""
        second = Steps("s2")
        started = RunStarted(task="b", workspace="/work")
        await store.commit(second.step(None, started, at=9e9))
        await store.commit(second.step(None, RunFinished(status="completed", used={})))
        listed = [(s.session_id, s.task, s.status, s.last_seq) for s in await store.sessions()]
        assert listed == [("s2", "b", "completed", 2), ("s1", "a task", "running", 3)]

    async def test_a_name_of_a_model_leaves_that_of_a_person(
        self, store: Store, team: Steps
    ) -> None:
        """One that keeps another is the session's only where that has none."""
        names = []
        for name, keeps in (("m", True), ("p", False), ("n", True), (None, False), ("o", True)):
            await store.commit(team.step(None, SessionNamed(name=name, keeps_other=keeps)))
            [info] = await store.sessions()
            names.append(info.name)
        assert names == ["m", "p", "p", None, "o"]

    async def test_a_cancelled_commit_is_whole_or_absent(self, store: Store, team: Steps) -> None:
        """Its caller may go; the step is applied completely and once."""
        steps = [team.step("w1", team.told()) for _ in range(20)]
        begun = len(await read_events(store, "s1"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(store.commit(step)) for step in steps]
            await asyncio.sleep(0)  # all have begun
            for task in tasks[::2]:
                task.cancel()
        for step in steps:
            await store.commit(step)
        assert [e.seq for e in await read_events(store, "s1")] == list(range(1, begun + 21))

    async def test_closing_finishes_what_was_submitted(
        self, store: Store, team: Steps, tmp_path: Path
    ) -> None:
        """Every acknowledged step is there when the store is opened again."""
        async with asyncio.TaskGroup() as group:
            for n in range(50):
                group.create_task(store.append([team.event(text=str(n))]))
            await asyncio.sleep(0)  # all have begun
            await store.aclose()
        with pytest.raises(StoreError):
            await store.commit(team.step("w1"))
        again = await self.open_store(tmp_path)
        try:
            assert len(await notices(again, "s1")) == 50
            names = [row.descriptor.name for row in await again.agents("s1")]
            assert names == ["master", "w1"]
        finally:
            await again.aclose()

    async def test_an_agent_is_read_back_as_it_was_spawned(
        self, store: Store, steps: Steps
    ) -> None:
        """The descriptor survives unchanged."""
        await store.commit(steps.spawn("master"))
        agent = steps.descriptor("master")
        assert (await one_agent(store, "s1", "master")).descriptor == agent
