"""The contract of every Store, as a pytest class to subclass.

class TestMyStore(StoreContract):
    async def open_store(self, tmp_path: Path) -> Store:  # again: with what was kept there
        return await MyStore.open(tmp_path / "data")
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentState, Grant
from prsm_core.domain.budgets import Budget
from prsm_core.domain.changes import Decision
from prsm_core.domain.events import Event
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import NO_NOTES, ModelChoice, Notes
from prsm_core.domain.turns import StopReason
from prsm_core.domain.usage import Provenance, Spent, TokenUsage, total
from prsm_core.domain.writes import (
    AgentNoted,
    ChangesDecided,
    ModelSwitched,
    ResultClaimed,
    RunFinished,
    RunStarted,
    SessionNamed,
    ThreadKept,
    Told,
    TurnMetered,
)
from prsm_core.domain.writes.runs import SessionSetAside, SessionTakenUp
from prsm_core.errors import FencedError, InvalidTransitionError, MessageRoutingError, StoreError
from prsm_core.interfaces.store import TakenNames
from prsm_testing.codes import raises_code
from prsm_testing.state_rules import USED, ForkRules, StateRules, Team
from prsm_testing.steps import Steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.sessions import AgentNow
    from prsm_core.interfaces.store import Store

__all__ = ["Steps", "StoreContract", "read_events"]

PENDING, RUNNING = AgentState.PENDING, AgentState.RUNNING
COMPLETED, KILLED = AgentState.COMPLETED, AgentState.KILLED


def _has_open_call(now: AgentNow) -> bool:
    turn = now.open_turn
    return turn is not None and any(one.answered_at is None for one in turn.calls)


class MomentRules:
    """What `Store.state` tells of a session as it was; see StoreContract."""

    async def test_commits_are_numbered(self, team: Team) -> None:
        """Steps and appended events are commits, with events or without; nothing else is."""
        state = await team.state()
        assert (state.session_id, state.seq, state.position) == ("s1", 3, 3)
        assert (state.workspace, state.created_at) == ("/work", 1000.0)
        step = team.step("w1", ThreadKept(thread="one"))
        for _ in range(2):
            await team.give(step)
        with pytest.raises(StoreError):
            await team.give(team.consume("w1", "nothing"))
        await team.store.append([])
        state = await team.state()
        assert (state.seq, state.position) == (3, 4)
        await team.store.append([team.event(), team.event()])
        state = await team.state()
        assert (state.seq, state.position) == (5, 5)
        before = await team.state(4)
        assert (before.seq, before.position) == (3, 4)
        assert before.agents == state.agents

    async def test_a_message_of_a_peer_is_unread_until_it_is_read(self, team: Team) -> None:
        """A peer is any agent of the run that has not ended."""
        await team.give(team.spawn("w2", "master"))
        sent = team.message("w1", "w2", MessageType.PEER)
        await team.commit("w1", *team.sent(sent))
        then = await team.state()
        await team.give(team.consume("w2", sent.message_id))
        assert (then.unread, (await team.state()).unread) == ((sent,), ())
        assert (await team.state(then.position)).unread == (sent,)
        await team.give(team.end("w2"))
        late = team.message("w1", "w2", MessageType.PEER)
        with raises_code("agent_ended", MessageRoutingError):
            await team.commit("w1", *team.sent(late))

    async def test_a_session_is_told_as_it_was(self, team: Team) -> None:
        """A session can be read as it was after any of its commits."""
        turn = await team.begin_turn(1, "c1")
        mail = team.message("master", "w1")
        await team.commit("master", *team.sent(mail))
        then = await team.state()
        await team.give(team.close_call(turn, "c1", "w1", (mail.message_id,)))
        metered = TurnMetered(turn_id=turn.turn_id, spent=USED)
        await team.commit("w1", metered, ThreadKept(thread="one"))
        told = (team.call("c1", sequence=9), team.call("v1", orchestration=False))
        await team.give(team.close_turn(turn, "w1", result=team.result(tool_calls=told)))
        await team.give(team.end("w1"))
        await team.commit(None, RunFinished(status="failed", used={}))
        assert await team.state() != then
        assert await team.state(then.position) == then
        first = await team.state(1)
        assert (first.agents, first.seq, len(first.runs)) == ((), 1, 1)

    async def test_the_end_of_a_call_is_of_its_own_turn(self, team: Team) -> None:
        """A call of a later turn with the same id stays open, also as of any moment."""
        older, newer = [await team.begin_turn(number, "c1") for number in (1, 2)]
        await team.give(team.close_call(older, "c1", "w1"))
        then = await team.state()
        assert any(map(_has_open_call, then.agents))
        await team.give(team.close_call(newer, "c1", "w1"))
        assert await team.state(then.position) == then
        assert not any(map(_has_open_call, (await team.state()).agents))

    async def test_only_its_answer_ends_a_call(self, team: Team) -> None:
        """An event of the vendor with the same id leaves it open, also as of any moment."""
        turn = await team.begin_turn(1, "c1")
        data = {"call": "c1", "status": "completed", "result": "it says so", "error": None}
        heard = Told(kind="tool_call_finished", data=data)
        await team.commit("w1", heard)
        then = await team.state()
        assert any(map(_has_open_call, then.agents))
        await team.give(team.close_call(turn, "c1", "w1"))
        assert await team.state(then.position) == then
        assert not any(map(_has_open_call, (await team.state()).agents))

    async def test_a_commit_that_is_not_the_sessions_is_unknown(self, team: Team) -> None:
        """A position is refused if it is to come, another session's, or below 1."""
        await team.store.append([Steps("s2").event()])
        newest = (await team.state()).position
        for at in (newest + 1, newest + 2, 0, -1, 1 << 70):
            with pytest.raises(StoreError) as caught:
                await team.state(at)
            assert (caught.value.code, bool(caught.value.hint)) == ("unknown_position", True)

    async def test_what_a_person_chose_for_an_agent_is_noted_by_the_run(self, team: Team) -> None:
        """The run notes it for an agent that nobody runs. No agent may note it."""
        before = (await team.state()).position
        notes = Notes(chosen=ModelChoice(provider="other", model="second"), tried=("p/m",))
        await team.commit(None, AgentNoted(notes=notes, agent_id=team.agent("w1")))
        rows = {row.descriptor.name: row for row in await team.store.agents("s1")}
        assert (rows["w1"].chosen, rows["master"].chosen) == (notes.chosen, None)
        for by, about in (("master", team.agent("w1")), (None, "nobody"), (None, None)):
            with raises_code("unknown_agent", StoreError):
                await team.commit(by, AgentNoted(notes=NO_NOTES, agent_id=about))
        now, then = await team.state(), await team.state(before)
        assert [state.agents[1].notes for state in (then, now)] == [NO_NOTES, notes]


class LabelRules:
    """Rules of labels; each test's docstring is one."""

    async def test_the_newest_sessions_of_a_label_are_found(self, store: Store) -> None:
        """Sessions in which an agent has the label come newest first, up to the limit."""
        for number in range(4):
            steps = Steps(f"s{number}")
            labels = {"a/b.c": "x" if number != 2 else "y", "other": "x"}
            await store.commit(steps.run_started())
            await store.commit(steps.spawn("master", labels=labels))
        assert list(await store.sessions_with("a/b.c", "x", limit=9)) == ["s3", "s1", "s0"]
        assert list(await store.sessions_with("a/b.c", "x", limit=2)) == ["s3", "s1"]
        assert list(await store.sessions_with("a/b.c", "y", limit=2)) == ["s2"]
        assert list(await store.sessions_with("a", "x", limit=2)) == []


class ChangeRules:
    """Rules of changes; each test's docstring is one."""

    async def test_changes_of_files_are_kept_with_what_is_decided(self, team: Team) -> None:
        """A change is found once; what a person decides about it replaces what was decided."""
        mine = team.changed("f1", "w1", path="odd-\\xff", before="", note="too large")
        other = team.changed("f2", how="shared", beside=("", team.agent("w2")))
        await team.commit(None, mine, other)
        with pytest.raises(StoreError):
            await team.commit(None, mine)
        first, second = await team.store.changes("s1")
        assert (first.change, first.state, second.change) == (mine.change, "pending", other.change)
        for state, why in (("unmerged", "later edits"), ("rejected", None)):
            decided = ChangesDecided(decisions=(Decision("f1", mine.change.path, state, why),))
            await team.commit(None, decided)
            first, second = await team.store.changes("s1")
            assert (first.state, first.why, second.state) == (state, why, "pending")
        unknown = ChangesDecided(decisions=(Decision("f3", "x", "accepted"),))
        with raises_code("unknown_change", StoreError):
            await team.commit(None, unknown)
        told = [one async for one in team.store.events("s1") if one.type == "file_changed"]
        assert [event.agent for event in told] == [team.agent("w1"), None]
        assert list(await team.store.changes("another")) == []

    async def test_changes_are_told_as_they_stood_after_a_commit(self, team: Team) -> None:
        """A state has the changes and decisions of then. The last decision of a step counts."""
        await team.commit(None, team.changed("f1", "w1"))
        seen = [await team.state()]
        await team.commit(None, team.changed("f2"), team.changed("f3"))
        seen.append(await team.state())
        for made in ([("f1", "unmerged", "later")], [("f1", "accepted", None)] * 2, []):
            made = [*made, ("f3", "rejected", None)]
            decisions = tuple(Decision(id_, "src/a.py", *rest) for id_, *rest in made)
            await team.commit(None, ChangesDecided(decisions=decisions))
            seen.append(await team.state())
        found = [[(row.change.id, row.state) for row in state.changes] for state in seen]
        assert found == [
            [("f1", "pending")],
            [("f1", "pending"), ("f2", "pending"), ("f3", "pending")],
            [("f1", "unmerged"), ("f2", "pending"), ("f3", "rejected")],
            *[[("f1", "accepted"), ("f2", "pending"), ("f3", "rejected")]] * 2,
        ]
        for state in seen:
            assert await team.state(state.position) == state
        assert seen[-1].changes == tuple(await team.store.changes("s1"))

    async def test_what_was_taken_back_and_is_there_again_is_pending_in_all_that_know_it(
        self, team: Team
    ) -> None:
        """Undoing a rejection makes it pending in every session; other decisions stay."""
        names = ("f1", "f2", "f3")
        await team.commit(None, *(team.changed(name) for name in names))
        forked = (await team.fork(seed=7)).session_id
        await decide(team, f1="rejected", f2="accepted", f3="rejected")
        await decide(team, forked, f3="committed")
        before = await team.state()
        await decide(team, f1="pending", f2="pending", f3="pending")
        for session, last in (("s1", "pending"), (forked, "committed")):
            rows = await team.store.changes(session)
            assert states(rows) == {"f1": "pending", "f2": "accepted", "f3": last}
            assert next(row.decided_at for row in rows if row.state == "pending") is None
        assert states((await team.state(before.position)).changes)["f1"] == "rejected"

    async def test_a_fork_has_the_changes_that_its_origin_had(self, team: Team) -> None:
        """Decisions are those of now, or those of then where the files go back as well."""
        mine = team.changed("f1", "w1", beside=("", team.agent("master")))
        await team.commit(None, mine, team.changed("f2"), team.changed("f3"))
        point = (await team.state()).position
        await decide(team, f1="rejected", f2="committed")
        await team.commit(None, team.changed("f4"))
        forked = await team.fork(position=point)
        assert states(forked.changes) == {"f1": "rejected", "f2": "committed", "f3": "pending"}
        back = await team.fork(seed=2, position=point, with_files=True)
        assert states(back.changes) == {"f1": "pending", "f2": "committed", "f3": "pending"}
        assert await team.store.state(back.session_id) == back
        change, own = back.changes[0].change, back.aliases[team.agent("w1")]
        assert [one.agent for one in change.authors] == [own]
        assert change.beside == ("", back.aliases[team.agent("master")])
        again = await team.fork(back.session_id, 3)
        assert states(again.changes) == states(back.changes)

    async def test_what_is_decided_about_a_change_holds_wherever_it_is_known(
        self, team: Team
    ) -> None:
        """Sessions share the files: none undoes or commits what another has rejected."""
        await team.commit(None, *(team.changed(f"f{number}") for number in range(1, 5)))
        forked = (await team.fork()).session_id
        before = await team.state()
        await decide(team, forked, f1="rejected", f2="accepted", f3="unmerged")
        assert states(await team.store.changes("s1")) == states(await team.store.changes(forked))
        assert (await team.store.changes("s1"))[0].state == "rejected"
        await decide(team, f1="unmerged", f2="committed", f3="rejected", f4="accepted")
        told = {"f2": "committed", "f3": "rejected", "f4": "accepted"}
        assert states(await team.store.changes(forked)) == {
            "f1": "rejected",
            **told,
        }  # it was settled
        assert states(await team.store.changes("s1")) == {"f1": "unmerged", **told}
        assert (await team.state(before.position)).changes == before.changes

    async def test_a_session_that_is_taken_up_is_the_newest_and_one_set_aside_is_told(
        self, team: Team
    ) -> None:
        """Given changes get the state that they are given with. A new run ends `aside`."""
        await team.commit(None, team.changed("f1"))
        (then,) = await team.store.changes("s1")
        forked = (await team.fork()).session_id
        await decide(team, forked, f1="rejected")
        assert await listed(team.store) == [(forked, False), ("s1", False)]
        await team.commit(None, SessionTakenUp(changes=(then,)))
        assert await listed(team.store) == [("s1", False), (forked, False)]
        assert await team.store.changes("s1") == [then]
        assert states(await team.store.changes(forked)) == {"f1": "rejected"}
        await team.give(replace(team.step(None, SessionTakenUp()), session_id=forked))
        assert await listed(team.store) == [(forked, False), ("s1", False)]
        await team.commit(None, SessionSetAside())
        assert await listed(team.store) == [(forked, False), ("s1", True)]
        await team.commit(None, SessionTakenUp())
        assert await listed(team.store) == [("s1", False), (forked, False)]
        await team.commit(None, SessionSetAside())
        await team.give(replace(team.run_started(), run_id="another", step_id="another"))
        assert await listed(team.store) == [("s1", False), (forked, False)]
        with raises_code("unknown_session", StoreError):
            await team.give(replace(team.step(None, SessionTakenUp()), session_id="nosuch"))


async def listed(store: Store) -> list[tuple[str, bool]]:
    """Return the sessions, newest first, and whether they are set aside."""
    return [(info.session_id, info.is_aside) for info in await store.sessions()]


def states(rows: Iterable[ChangeRow]) -> dict[str, str]:
    """Return what was decided about changes, by their ids."""
    return {row.change.id: row.state for row in rows}


async def decide(team: Team, session: str = "s1", /, **states: str) -> None:
    """Decide about changes of a session, by their ids."""
    made = tuple(Decision(id_, "src/a.py", state) for id_, state in states.items())
    step = team.step(None, ChangesDecided(decisions=made))
    await team.give(replace(step, session_id=session))


async def read_events(store: Store, session: str, **options: Any) -> list[Event]:
    """Return the committed events of a session."""
    return [event async for event in store.events(session, **options)]


async def notices(store: Store, session: str) -> list[str]:
    """Return the texts of the committed notices of a session."""
    events = await read_events(store, session)
    return [event.data["text"] for event in events if event.type == "notice"]


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
    async def team(self, store: Store) -> Team:
        """Start a run with a master and a worker under it."""
        team = Team(store)
        for step in (team.run_started(), team.spawn("master"), team.spawn("w1", "master")):
            await team.give(step)
        return team

    async def test_a_known_step_returns_its_first_result(self, team: Team) -> None:
        """Committing a step again changes nothing, even after the agent has ended."""
        step = team.step("w1", team.told("once"))
        first = await team.give(step)
        await team.give(team.end("w1"))
        again = await team.give(step)
        assert not first.duplicate
        assert again.duplicate
        assert again.events == first.events
        assert await notices(team.store, "s1") == ["once"]

    async def test_taken_tells_all_names_and_when_the_last_event_was(self, team: Team) -> None:
        """`taken` has the names of ended agents, too, and of no other session."""
        await team.give(team.end("w1"))
        other = Steps("s2")
        await team.give(other.run_started())
        await team.give(other.spawn("master"))
        said = replace(team.event("master", "said before"), ts=1.0)
        await team.store.append([said])
        last = max([event.ts async for event in team.store.events("s1")])
        taken = await team.store.taken("s1")
        assert taken == TakenNames(names=frozenset({"master", "w1"}), last_event_at=last)
        assert (await team.store.taken("s2")).names == {"master"}
        assert not (await team.store.taken("none")).names

    async def test_a_step_id_names_one_step_only(self, team: Team) -> None:
        """The id of a committed step is refused for a step of another kind or session."""
        step = await team.commit("w1")
        with raises_code("step_id_reused", StoreError):
            await team.give(replace(team.spawn("w2", "master"), step_id=step.step_id))

    async def test_a_step_of_an_older_incarnation_is_fenced(self, team: Team) -> None:
        """After a restart the old incarnation cannot write."""
        await team.give(team.end("w1"))
        await team.give(team.restart("w1", 2))
        with pytest.raises(FencedError):
            await team.give(team.open_turn("w1"))
        await team.give(team.open_turn("w1", incarnation=2))

    async def test_an_ended_agent_is_fenced(self, team: Team) -> None:
        """After its end an agent may only close its turn and calls, or be controlled."""
        turn = await team.begin_turn(1, "c1")
        await team.give(team.end("w1"))
        for late in (
            team.open_turn("w1", 2),
            team.open_call(turn, team.call("c2"), "w1"),
            team.spawn("w2", "w1"),
            team.end("w1", source=KILLED, target=COMPLETED),
            team.step("w1", team.change(KILLED, RUNNING)),
        ):
            with pytest.raises(FencedError):
                await team.give(late)
        await team.give(team.close_call(turn, "c1", "w1"))
        await team.give(team.close_turn(turn, "w1"))
        await team.commit("w1")
        assert (await team.row()).spent.usage.total_tokens == 15

    async def test_a_change_must_fit_the_stored_state(self, team: Team) -> None:
        """A change whose source is not the stored state applies nothing of its step."""
        change = team.change(RUNNING, COMPLETED)
        before = await read_events(team.store, "s1")
        with pytest.raises(InvalidTransitionError):
            await team.commit("w1", team.told(), change)
        assert (await team.row()).descriptor.state is PENDING
        assert await read_events(team.store, "s1") == before

    async def test_changes_apply_in_order(self, team: Team) -> None:
        """The last change decides state and `waiting_on`."""
        changes = (
            team.change(PENDING, AgentState.STARTING),
            team.change(AgentState.STARTING, RUNNING, waiting_on="a person"),
        )
        await team.commit("w1", *changes)
        row = await team.row()
        assert (row.descriptor.state, row.waiting_on) == (RUNNING, "a person")

    async def test_a_message_is_consumed_once_by_its_target(self, team: Team) -> None:
        """Receives are selective, and a message is there until it is consumed, then never."""
        old, new = team.message("w1", "master"), team.message("w1", "master")
        await team.commit("w1", *team.sent(old, new))
        assert await team.store.inbox("s1") == [old, new]
        with pytest.raises(StoreError):
            await team.give(team.open_turn("w1", consumed=(new.message_id,)))
        await team.give(team.open_turn("master", consumed=(new.message_id,)))
        assert await team.store.inbox("s1") == [old]
        with pytest.raises(StoreError):
            await team.give(team.consume("master", new.message_id))

    async def test_a_message_id_is_used_once(self, team: Team) -> None:
        """Another step cannot send the same message again."""
        message = team.message("w1", "master")
        await team.commit("w1", *team.sent(message))
        with pytest.raises(StoreError):
            await team.commit("w1", *team.sent(message))
        assert await team.store.inbox("s1") == [message]

    async def test_an_ended_agent_gets_results_and_signals_only(self, team: Team) -> None:
        """A question to an ended agent is refused; its children's results are not."""
        await team.give(team.end("master"))
        question = team.message("w1", "master")
        with raises_code("agent_ended", MessageRoutingError):
            await team.commit("w1", *team.sent(question))
        result = team.message("w1", "master", MessageType.TASK_RESULT)
        await team.give(team.end("w1", *team.sent(result)))
        assert await team.store.inbox("s1") == [result]

    async def test_a_message_needs_a_target_in_its_session(self, team: Team) -> None:
        """Unknown agents and agents of other sessions are refused alike."""
        other = Steps("s2")
        await team.give(other.spawn("master"))
        for target in ("nobody", other.agent("master")):
            message = replace(team.message("w1", "master"), target=target)
            with raises_code("unknown_agent", MessageRoutingError):
                await team.commit("w1", *team.sent(message))

    async def test_a_message_to_an_older_incarnation_is_stale(self, team: Team) -> None:
        """What was meant for an ended incarnation never reaches the next."""
        unread = team.message("master", "w1")
        await team.commit("master", *team.sent(unread))
        await team.give(team.end("w1"))
        await team.give(team.restart("w1", 2))
        assert await team.store.inbox("s1") == []
        late = team.message("master", "w1")
        with raises_code("stale", MessageRoutingError):
            await team.commit("master", *team.sent(late))

    async def test_what_an_ended_life_left_unread_is_never_read(self, team: Team) -> None:
        """Neither by the next life, nor by one that goes on where that was cut off."""
        unread = team.message("master", "w1")
        await team.commit("master", *team.sent(unread))
        await team.give(team.end("w1"))
        await team.give(team.restart("w1", 2))
        with raises_code("not_consumable", StoreError):
            await team.give(team.consume("w1", unread.message_id, incarnation=2))
        await team.give(team.restart("w1", 3, team.change(PENDING, AgentState.STARTING)))
        assert await team.store.inbox("s1") == []

    async def test_a_resumed_agent_keeps_its_unread_messages(self, team: Team) -> None:
        """A restart of an agent that never ended hands its mail to the new incarnation."""
        unread = team.message("master", "w1")
        await team.commit("master", *team.sent(unread))
        await team.give(team.restart("w1", 2, team.change(PENDING, AgentState.STARTING)))
        (kept,) = await team.store.inbox("s1")
        assert (kept.message_id, kept.incarnation) == (unread.message_id, 2)

    async def test_a_restart_begins_the_next_incarnation(self, team: Team) -> None:
        """It needs the next number, leaves the ended state and clears the result."""
        await team.give(team.end("w1"))
        with pytest.raises(FencedError):
            await team.give(team.restart("w1", 1))
        with pytest.raises(StoreError):
            await team.give(team.restart("w1", 3))
        with pytest.raises(StoreError):
            await team.give(team.restart("w1", 2, team.change(KILLED, COMPLETED)))
        await team.give(team.restart("w1", 2, prompt="once more"))
        row = await team.row()
        assert (row.descriptor.incarnation, row.descriptor.prompt) == (2, "once more")
        assert (row.descriptor.state, row.result, row.ended_at) == (PENDING, None, None)

    async def test_an_end_must_end_the_agent(self, team: Team) -> None:
        """An end without a terminal state is refused."""
        with pytest.raises(StoreError):
            await team.give(team.end("w1", source=PENDING, target=RUNNING))
        assert (await team.row()).result is None

    async def test_a_finishing_agent_has_its_result_and_lives(self, team: Team) -> None:
        """A claimed result is stored while the agent lives on; its end comes later."""
        result = AgentResult(agent_id=team.agent("w1"), success=True, summary="done")
        await team.commit("w1", ResultClaimed(result=result))
        row = await team.row()
        assert (row.result, row.descriptor.state) == (result, PENDING)
        await team.give(team.end("w1", result=result))

    async def test_the_first_answer_to_a_request_wins(self, team: Team) -> None:
        """A second resolution is refused with everything in its step."""
        request = team.request("w1")
        await team.give(team.ask("w1", request))
        assert await team.store.open_requests("s1") == [request]
        yes = team.resolved(request.request_id)
        no = team.resolved(request.request_id, "deny", by="timeout")
        await team.commit("w1", yes)
        before = await read_events(team.store, "s1")
        with raises_code("already_resolved", StoreError):
            await team.commit("w1", team.told(), no)
        assert await team.store.open_requests("s1") == []
        assert await read_events(team.store, "s1") == before
        await team.give(team.end("w1", no))

    async def test_turns_of_an_agent_are_numbered(self, team: Team) -> None:
        """A turn has the next number, or it is refused."""
        with pytest.raises(StoreError):
            await team.give(team.open_turn("w1", 2))
        await team.give(team.open_turn("w1", 1))
        with pytest.raises(StoreError):
            await team.give(team.open_turn("w1", 1))
        assert (await team.row()).next_turn == 2

    async def test_closing_a_turn_again_changes_nothing(self, team: Team) -> None:
        """The first closing stands, whatever step closes the turn again."""
        turn = await team.begin_turn()
        first = await team.give(team.close_turn(turn, "w1"))
        aborted = team.result(stop_reason=StopReason.ABORTED)
        again = await team.give(team.close_turn(turn, "w1", result=aborted))
        assert again.duplicate
        assert again.events == first.events
        row = await team.row()
        assert (row.spent.usage.total_tokens, row.head_turn_id) == (15, turn.turn_id)

    async def test_an_answer_is_stored_under_its_call_once(self, team: Team) -> None:
        """The stored answer outlives what the turn says about the call later."""
        turn = await team.begin_turn(1, "c1")
        await team.give(team.close_call(turn, "c1", "w1"))
        with pytest.raises(StoreError):
            await team.give(team.close_call(turn, "c1", "w1"))
        told = (team.call("c1", status="failed", sequence=3), team.call("c2", orchestration=False))
        result = team.result(tool_calls=told)
        await team.give(team.close_turn(turn, "w1", result=result))
        second, first = await team.store.calls(team.agent("w1"))
        assert (first["id"], first["status"], first["result"]) == ("c1", "completed", "the answer")
        assert (first["sequence"], first["orchestration"]) == (3, True)
        assert (second["id"], second["orchestration"]) == ("c2", False)
        assert first["arguments_hash"] == second["arguments_hash"]

    async def test_unknown_usage_stays_unknown(self, team: Team) -> None:
        """A count nobody told is None; known ones add up over the turns."""
        head = None
        for number in (1, 2):
            head = await team.take_turn(number, head, resume_token=f"thread-{number}")
        row = await team.row()
        assert (row.spent.usage.input_tokens, row.spent.usage.reasoning_tokens) == (20, None)
        assert (row.spent.cost_usd, row.resume_token, row.head_turn_id) == (None, "thread-2", head)

    async def test_a_model_that_takes_over_is_the_agents_from_then_on(self, team: Team) -> None:
        """The old thread is forgotten with the model; the rest of the agent stays."""
        await team.take_turn(resume_token="thread-1")  # noqa: S106
        new = ModelSwitched(provider="other", model="second", reasoning_effort="high")
        await team.commit("w1", new)
        row = await team.row()
        agent = row.descriptor
        assert (agent.provider, agent.model, agent.reasoning_effort) == ("other", "second", "high")
        assert (agent.name, row.resume_token) == ("w1", None)

    async def test_use_keeps_where_its_numbers_come_from(self, team: Team) -> None:
        """A sum is as certain as its least certain part; turns that told nothing are counted."""
        measured = team.result(cost_usd=0.5)
        reported = team.result(usage_provenance=Provenance.REPORTED)
        untold = team.result(usage=TokenUsage())
        head = None
        for number, result in enumerate((measured, reported, untold), 1):
            head = await team.take_turn(number, head, result=result)
        spent = (await team.row()).spent
        assert (spent.usage.total_tokens, spent.tokens_from) == (30, Provenance.REPORTED)
        assert (spent.cost_usd, spent.cost_from) == (0.5, Provenance.MEASURED)
        assert (spent.turns_without_tokens, spent.turns_without_cost) == (1, 2)
        assert (await team.row("master")).spent == Spent()

    async def test_the_use_of_an_agent_is_the_total_of_its_turns(self, team: Team) -> None:
        """No count that a turn told is dropped, whichever other counts it did not tell."""
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
            result = team.result(usage=spent.usage, cost_usd=spent.cost_usd)
            head = await team.take_turn(number, head, result=result)
        assert (await team.row()).spent == total(told)

    async def test_a_grant_is_kept_with_its_limits(self, team: Team) -> None:
        """What an agent may hand down comes back as it was given."""
        limits = Budget(tokens=5000, usd=0.25)
        tools = frozenset({"Read", "Edit"})
        grant = Grant(tools=tools, models=frozenset({"a/b"}), depth=0, budget=limits)
        await team.give(team.spawn("w2", "master", grant=grant))
        assert (await team.row("w2")).descriptor.grant == grant

    async def test_events_are_numbered_without_a_gap(self, team: Team) -> None:
        """Steps and appended events of any number of tasks share one count per session."""
        other = Steps("s2")
        begun = len(await read_events(team.store, "s1"))
        texts = [str(n) for n in range(40)]
        await asyncio.gather(
            *(team.store.append([team.event(text=t), other.event(text=t)]) for t in texts),
            *(team.commit("w1", team.told()) for _ in texts),
        )
        assert [e.seq for e in await read_events(team.store, "s1")] == list(range(1, begun + 81))
        assert [e.seq for e in await read_events(team.store, "s2", after=30)] == list(range(31, 41))
        own = await read_events(team.store, "s1", agent=team.agent("w1"))
        assert [event.type for event in own] == ["agent_spawned", *["notice"] * 40]

    async def test_live_events_are_not_stored(self, store: Store, steps: Steps) -> None:
        """Deltas belong to nobody's log."""
        delta = Event(type="text_delta", session="s1", run=None, ts=0.0, data={"text": "a"})
        with pytest.raises(StoreError):
            await store.append([steps.event(), delta])
        assert await read_events(store, "s1") == []

    async def test_a_follower_sees_what_is_committed_later(self, team: Team) -> None:
        """Following goes on until the store is closed, in order."""
        seen: asyncio.Queue[Event] = asyncio.Queue(10)
        begun = len(await read_events(team.store, "s1"))

        async def follow() -> None:
            async for event in team.store.events("s1", begun, follow=True):
                seen.put_nowait(event)

        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(follow())
            for text in ("one", "two"):
                await team.store.append([team.event(text=text)])
                assert (await seen.get()).data["text"] == text
            await team.store.aclose()

    async def test_sessions_are_listed_newest_first(self, team: Team) -> None:
        """A session has its first task, its newest run and the number of its last event."""
        second = Steps("s2")
        started = RunStarted(task="b", workspace="/work")
        await team.give(second.step(None, started, at=9e9))
        await team.give(second.step(None, RunFinished(status="completed", used={})))
        listed = [(s.session_id, s.task, s.status, s.last_seq) for s in await team.store.sessions()]
        assert listed == [("s2", "b", "completed", 2), ("s1", "a task", "running", 3)]

    async def test_a_name_of_a_model_leaves_that_of_a_person(self, team: Team) -> None:
        """A name that keeps another one is only taken by a session without a name."""
        names = []
        for name, keeps in (("m", True), ("p", False), ("n", True), (None, False), ("o", True)):
            await team.commit(None, SessionNamed(name=name, keeps_other=keeps))
            [info] = await team.store.sessions()
            names.append(info.name)
        assert names == ["m", "p", "p", None, "o"]

    async def test_a_cancelled_commit_is_whole_or_absent(self, team: Team) -> None:
        """The caller may be gone: the step is applied as a whole and once, or not at all."""
        steps = [team.step("w1", team.told()) for _ in range(20)]
        begun = len(await read_events(team.store, "s1"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(team.give(step)) for step in steps]
            await asyncio.sleep(0)  # all have begun
            for task in tasks[::2]:
                task.cancel()
        for step in steps:
            await team.give(step)
        assert [e.seq for e in await read_events(team.store, "s1")] == list(range(1, begun + 21))

    async def test_closing_finishes_what_was_submitted(self, team: Team, tmp_path: Path) -> None:
        """Every acknowledged step is there when the store is opened again."""
        async with asyncio.TaskGroup() as group:
            for n in range(50):
                group.create_task(team.store.append([team.event(text=str(n))]))
            await asyncio.sleep(0)  # all have begun
            await team.store.aclose()
        with pytest.raises(StoreError):
            await team.commit("w1")
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
        (row,) = await store.agents("s1")
        assert row.descriptor == agent
