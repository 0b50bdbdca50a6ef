"""The part of every Store's contract that forks sessions."""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.ids import Ids
from prsm_core.domain.messages import MessageType
from prsm_core.domain.turns import Effect
from prsm_core.domain.writes import EffectNoted, Granted, RequestOpened, RunFinished, SnapshotTaken
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import PrsmError, StoreError

if TYPE_CHECKING:
    from prsm_core.domain.sessions import AgentNow, SessionState
    from prsm_core.domain.writes import TurnOpened
    from prsm_core.interfaces.store import Store
    from prsm_testing.steps import Steps

NOW = 5000.0


async def fork(store: Store, session: str = "s1", seed: int = 1, **wanted: Any) -> SessionState:
    """Fork a session; ids are made from the seed."""
    ids = Ids(lambda: NOW, Random(seed))  # noqa: S311 - ids that are the same each time
    return await fork_session(store, session, ForkRequest(**wanted), ids, NOW)


async def told(
    store: Store, session: str, agent: str | None = None
) -> list[tuple[int | None, str]]:
    """Return number and type of the events of a session, or of an agent."""
    return [(each.seq, each.type) async for each in store.events(session, agent=agent)]


def one(state: SessionState, name: str) -> AgentNow:
    """Return the agent called `name`."""
    (found,) = [now for now in state.agents if now.agent.name == name]
    return found


async def two_turns(store: Store, team: Steps) -> tuple[TurnOpened, TurnOpened]:
    """Give w1 a turn that is over, and one with an open call that has asked the master."""
    first = team.turn("w1")
    await store.commit(team.step("w1", first))
    await store.commit(team.close_turn(first, "w1"))
    second = team.turn("w1", 2, parent_turn_id=first.turn_id)
    await store.commit(team.step("w1", second))
    await store.commit(team.open_call(second, team.call("c1"), "w1"))
    asked = Effect(turn_id=second.turn_id, call_id="c1", name="question", ref="q1")
    question = team.message("w1", "master", correlation_id="q1")
    await store.commit(team.step("w1", *team.sent(question), EffectNoted(effect=asked)))
    return first, second


class ForkRules:
    """What every Store does when a session is forked; each test's docstring is the rule."""

    async def test_a_fork_has_what_was_open_under_ids_of_its_own(
        self, store: Store, team: Steps
    ) -> None:
        """Its agents, its run, its open turn with calls and effects, unread mail, requests."""
        first, second = await two_turns(store, team)
        await store.commit(team.step("w1", RequestOpened(request=team.request("w1"))))
        await store.commit(team.step("w1", Granted(grant={"n": 1})))
        await store.commit(team.step("w1", SnapshotTaken(snapshot=team.snapshot("w1"))))
        assert await store.shared_snapshots() == frozenset()
        origin, state = await store.state("s1"), await fork(store)
        assert await store.state(state.session_id) == state
        w1 = one(state, "w1")
        assert w1.agent.agent_id == state.aliases[team.agent("w1")] != team.agent("w1")
        assert w1.agent.parent_id == one(state, "master").agent.agent_id
        assert w1.head_turn_id == first.turn_id  # shared
        turn = w1.open_turn
        assert turn is not None
        assert (turn.turn_id, turn.parent_turn_id) == (
            state.aliases[second.turn_id],
            first.turn_id,
        )
        (call,) = turn.calls
        assert (call.call.id, call.call.completed_at) == ("c1", None)
        assert [(effect.name, effect.ref) for effect in call.effects] == [("question", "q1")]
        (asked,), (letter,), (request,) = state.questions, state.unread, state.requests
        assert asked.message == letter
        assert letter.source == w1.agent.agent_id
        assert letter.message_id != origin.unread[0].message_id
        assert request.agent_id == w1.agent.agent_id
        assert request.request_id != origin.requests[0].request_id
        assert [grant["data"] for grant in state.grants] == [{"n": 1}]
        (kept,), (mine,) = origin.snapshots, state.snapshots
        assert mine == replace(kept, agent_id=w1.agent.agent_id)  # the files are the same
        assert await store.shared_snapshots() == {kept.snapshot_id}
        assert (state.runs[0].status, state.runs[0].engine) == ("interrupted", None)

    async def test_a_fork_tells_what_happened_before_as_its_own(
        self, store: Store, team: Steps
    ) -> None:
        """With the same numbers, and its own ids; then that it is a fork, and what comes after."""
        _, second = await two_turns(store, team)
        before = await told(store, "s1")
        state = await fork(store)
        session = state.session_id
        forked = (state.seq, "session_forked")
        assert await told(store, session) == [*before, forked]
        assert await told(store, "s1") == before
        own = one(state, "w1").agent.agent_id
        of_w1 = await told(store, "s1", team.agent("w1"))
        assert await told(store, session, own) == of_w1
        kinds = ("turn_started", "turn_finished")
        turns = await store.last_events(session, own, kinds=kinds, limit=2)
        assert [event.type for event in turns] == ["turn_finished", "turn_started"]
        assert turns[1].data["turn"] == state.aliases[second.turn_id]
        assert {event.session for event in turns} == {session}
        assert (await told(store, session, own))[-1] in before

    async def test_a_fork_and_its_origin_go_their_own_ways(self, store: Store, team: Steps) -> None:
        """What one reads, answers or ends is as it was in the other."""
        _, second = await two_turns(store, team)
        state = await fork(store)
        await store.commit(team.close_call(second, "c1", "w1"))
        await store.commit(team.close_turn(second, "w1"))
        await store.commit(team.end("w1"))
        await store.commit(team.step(None, RunFinished(status="failed", used={})))
        assert await store.state(state.session_id) == state
        (row,) = [a for a in await store.agents(state.session_id) if a.descriptor.name == "w1"]
        assert row.usage == team.result().usage  # of its first turn only
        assert (row.descriptor.state, row.next_turn) == (AgentState.PENDING, 3)
        picture = await store.picture(state.session_id)
        assert picture.run is not None
        assert picture.run.status == "interrupted"
        assert [(turn.number, len(turn.calls)) for turn in picture.turns] == [(2, 1)]

    async def test_a_session_is_forked_as_it_was(self, store: Store, team: Steps) -> None:
        """After the commit that holds an event, or the one that ends a turn."""
        await two_turns(store, team)
        ends = [seq for seq, kind in await told(store, "s1") if kind == "turn_finished"]
        by_turn = await fork(store, at="w1:1")
        by_event = await fork(store, seed=2, at=str(ends[0]))
        for state in (by_turn, by_event):
            assert one(state, "w1").open_turn is None
            assert (one(state, "w1").next_turn, state.origins[0].seq) == (2, ends[0])
            assert (state.unread, state.questions) == ((), ())

    async def test_a_fork_of_a_fork_shares_the_past_of_both(
        self, store: Store, team: Steps
    ) -> None:
        """Also where it begins before the first fork did; ids of both lead to its agents."""
        first, _ = await two_turns(store, team)
        one_fork = await fork(store)
        other = await fork(store, one_fork.session_id, 2)
        assert [origin.session_id for origin in other.origins] == ["s1", one_fork.session_id]
        w1 = one(other, "w1")
        for known in (team.agent("w1"), one(one_fork, "w1").agent.agent_id):
            assert other.aliases[known] == w1.agent.agent_id
        assert w1.head_turn_id == first.turn_id
        assert len(await told(store, other.session_id)) == other.seq == one_fork.seq + 1
        early = await fork(store, one_fork.session_id, 3, at="w1:1")
        assert [origin.session_id for origin in early.origins] == ["s1"]

    async def test_what_is_no_point_of_a_session_is_not_forked(
        self, store: Store, team: Steps
    ) -> None:
        """Nothing is written, and the error says what to give."""
        await two_turns(store, team)
        before = [info.session_id for info in await store.sessions()]
        wrong = {"999": "unknown_position", "w1:2": "unknown_position", "w1:9": "unknown_position"}
        wrong |= {"w9:1": "unknown_agent", "x": "bad_point", ":3": "bad_point", "1": "no_master"}
        for at, code in wrong.items():
            with pytest.raises(PrsmError) as caught:
                await fork(store, at=at)
            assert (at, caught.value.code, bool(caught.value.hint)) == (at, code, True)
        with pytest.raises(StoreError) as unknown:
            await fork(store, "s9")
        assert unknown.value.code == "unknown_session"
        assert [info.session_id for info in await store.sessions()] == before

    async def test_a_master_that_lives_is_told_something_more(
        self, store: Store, team: Steps
    ) -> None:
        """It reads the prompt like any other of a person."""
        await two_turns(store, team)
        state = await fork(store, prompt="be quick", models={"w1": ("other", "fast")})
        message = state.unread[-1]
        assert (message.type, message.source) == (MessageType.USER_PROMPT, None)
        assert message.target == one(state, "master").agent.agent_id
        assert message.payload == {"text": "be quick"}
        assert (await told(store, state.session_id))[-1][1] == "message_routed"
        agent = one(state, "w1").agent
        assert (agent.provider, agent.model) == ("other", "fast")

    async def test_a_master_that_has_ended_lives_again_with_a_prompt(
        self, store: Store, team: Steps
    ) -> None:
        """In a run of its own, which can be gone on with."""
        await store.commit(team.end("w1"))
        await store.commit(team.end("master"))
        await store.commit(team.step(None, RunFinished(status="killed", used={})))
        state = await fork(store, prompt="once more", name="second try")
        first, second = state.runs
        assert (first.status, second.status, second.task) == ("killed", "interrupted", "once more")
        master = one(state, "master")
        assert (master.agent.state, master.agent.incarnation) == (AgentState.STARTING, 2)
        assert (master.agent.prompt, master.result, master.turns) == ("once more", None, 0)
        assert one(state, "w1").agent.state is AgentState.KILLED
        (info,) = [one for one in await store.sessions() if one.session_id == state.session_id]
        assert (info.name, info.origin, info.status) == ("second try", "s1", "interrupted")
        kinds = [kind for _, kind in await told(store, state.session_id)]
        assert kinds[-3:] == ["session_forked", "run_started", "agent_state_changed"]
