"""The part of every Store's contract that tells a session as it was after any of its commits."""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import NO_NOTES, NamedModel, Notes
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.domain.writes import AgentNoted, RunFinished, ThreadKept, Told, TurnMetered
from prsm_core.errors import MessageRoutingError, StoreError
from prsm_testing.steps import Steps

if TYPE_CHECKING:
    from prsm_core.domain.sessions import AgentNow
    from prsm_core.interfaces.store import Store

_USED = Spent.of_turn(TokenUsage(input_tokens=7, output_tokens=3), 0.25)


def _has_open_call(now: AgentNow) -> bool:
    turn = now.open_turn
    return turn is not None and any(one.answered_at is None for one in turn.calls)


class MomentRules:
    """What `Store.state` tells of a session as it was; see StoreContract."""

    async def test_commits_are_numbered(self, store: Store, team: Steps) -> None:
        """Steps and appended events, with events or without; nothing else is a commit."""
        state = await store.state("s1")
        assert (state.session_id, state.seq, state.position) == ("s1", 3, 3)
        assert (state.workspace, state.created_at) == ("/work", 1000.0)
        step = team.step("w1", ThreadKept(thread="one"))
        for _ in range(2):
            await store.commit(step)
        with pytest.raises(StoreError):
            await store.commit(team.consume("w1", "nothing"))
        await store.append([])
        state = await store.state("s1")
        assert (state.seq, state.position) == (3, 4)
        await store.append([team.event(), team.event()])
        state = await store.state("s1")
        assert (state.seq, state.position) == (5, 5)
        before = await store.state("s1", 4)
        assert (before.seq, before.position) == (3, 4)
        assert before.agents == state.agents

    async def test_a_message_of_a_peer_is_unread_until_it_is_read(
        self, store: Store, team: Steps
    ) -> None:
        """It need be of neither parent nor child; who has ended gets none."""
        await store.commit(team.spawn("w2", "master"))
        sent = team.message("w1", "w2", MessageType.PEER)
        await store.commit(team.step("w1", *team.sent(sent)))
        then = await store.state("s1")
        await store.commit(team.consume("w2", sent.message_id))
        assert (then.unread, (await store.state("s1")).unread) == ((sent,), ())
        assert (await store.state("s1", then.position)).unread == (sent,)
        await store.commit(team.end("w2"))
        late = team.message("w1", "w2", MessageType.PEER)
        with pytest.raises(MessageRoutingError) as caught:
            await store.commit(team.step("w1", *team.sent(late)))
        assert caught.value.code == "agent_ended"

    async def test_a_session_is_told_as_it_was(self, store: Store, team: Steps) -> None:
        """After any of its commits, whatever has happened since."""
        turn = team.turn("w1")
        mail = team.message("master", "w1")
        await store.commit(team.step("w1", turn))
        await store.commit(team.open_call(turn, team.call("c1"), "w1"))
        await store.commit(team.step("master", *team.sent(mail)))
        then = await store.state("s1")
        await store.commit(team.close_call(turn, "c1", "w1", (mail.message_id,)))
        metered = TurnMetered(turn_id=turn.turn_id, spent=_USED)
        await store.commit(team.step("w1", metered, ThreadKept(thread="one")))
        told = (team.call("c1", sequence=9), team.call("v1", orchestration=False))
        await store.commit(team.close_turn(turn, "w1", result=team.result(tool_calls=told)))
        await store.commit(team.end("w1"))
        await store.commit(team.step(None, RunFinished(status="failed", used={})))
        assert await store.state("s1") != then
        assert await store.state("s1", then.position) == then
        first = await store.state("s1", 1)
        assert (first.agents, first.seq, len(first.runs)) == ((), 1, 1)

    async def test_the_end_of_a_call_is_of_its_own_turn(self, store: Store, team: Steps) -> None:
        """A later turn has a call of the same id, which goes on: now, and as of any moment."""
        older, newer = team.turn("w1"), team.turn("w1", 2)
        for turn in (older, newer):
            await store.commit(team.step("w1", turn))
            await store.commit(team.open_call(turn, team.call("c1"), "w1"))
        await store.commit(team.close_call(older, "c1", "w1"))
        then = await store.state("s1")
        assert any(map(_has_open_call, then.agents))
        await store.commit(team.close_call(newer, "c1", "w1"))
        assert await store.state("s1", then.position) == then
        assert not any(map(_has_open_call, (await store.state("s1")).agents))

    async def test_only_its_answer_ends_a_call(self, store: Store, team: Steps) -> None:
        """Not what a vendor says, whose call has the same id: now, and as of any moment."""
        turn = team.turn("w1")
        await store.commit(team.step("w1", turn))
        await store.commit(team.open_call(turn, team.call("c1"), "w1"))
        data = {"call": "c1", "status": "completed", "result": "it says so", "error": None}
        heard = Told(kind="tool_call_finished", data=data)
        await store.commit(team.step("w1", heard))
        then = await store.state("s1")
        assert any(map(_has_open_call, then.agents))
        await store.commit(team.close_call(turn, "c1", "w1"))
        assert await store.state("s1", then.position) == then
        assert not any(map(_has_open_call, (await store.state("s1")).agents))

    async def test_a_commit_that_is_not_the_sessions_is_unknown(
        self, store: Store, team: Steps
    ) -> None:
        """One to come, one of another session, and none at all."""
        await store.append([Steps("s2").event()])
        newest = (await store.state("s1")).position
        for at in (newest + 1, newest + 2, 0, -1, 1 << 70):
            with pytest.raises(StoreError) as caught:
                await store.state("s1", at)
            assert (caught.value.code, bool(caught.value.hint)) == ("unknown_position", True)

    async def test_what_a_person_chose_for_an_agent_is_noted_by_the_run(
        self, store: Store, team: Steps
    ) -> None:
        """For one that nobody runs, and as it was before; nobody else notes it, nor of nobody."""
        before = (await store.state("s1")).position
        notes = Notes(chosen=NamedModel(provider="other", model="second"), tried=("p/m",))
        await store.commit(team.step(None, AgentNoted(notes=notes, agent_id=team.agent("w1"))))
        rows = {row.descriptor.name: row for row in await store.agents("s1")}
        assert (rows["w1"].chosen, rows["master"].chosen) == (notes.chosen, None)
        for by, about in (("master", team.agent("w1")), (None, "nobody"), (None, None)):
            with pytest.raises(StoreError) as refused:
                await store.commit(team.step(by, AgentNoted(notes=NO_NOTES, agent_id=about)))
            assert refused.value.code == "unknown_agent"
        now, then = await store.state("s1"), await store.state("s1", before)
        assert [state.agents[1].notes for state in (then, now)] == [NO_NOTES, notes]
