"""Parts of every Store's contract: a session as a resume adopts it, and its forks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentState, PermissionMode
from prsm_core.domain.ids import Ids
from prsm_core.domain.messages import MessageType
from prsm_core.domain.turns import AgentError, AgentMessage, Effect, ErrorKind, StopReason
from prsm_core.domain.usage import Spent, TokenUsage, total
from prsm_core.domain.writes import (
    AgentRelabelled,
    AgentRestarted,
    AgentsResumed,
    EffectNoted,
    Granted,
    ModelSwitched,
    ModeSwitched,
    RequestOpened,
    ResultClaimed,
    RunFinished,
    RunResumed,
    RunStarted,
    SnapshotTaken,
    ThreadKept,
    Told,
    TurnMetered,
)
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import FencedError, PrsmError, StoreError
from prsm_testing.codes import raises_code
from prsm_testing.steps import Steps

if TYPE_CHECKING:
    from prsm_core.domain.sessions import AgentNow, CallState, SessionState, TurnEnd, TurnState
    from prsm_core.domain.steps import Committed, Step, Write
    from prsm_core.domain.writes import TurnOpened
    from prsm_core.interfaces.store import AgentRow, Store


NOW = 5000.0
PENDING, STARTING, RUNNING = AgentState.PENDING, AgentState.STARTING, AgentState.RUNNING
USED = Spent.of_turn(TokenUsage(input_tokens=7, output_tokens=3), 0.25)


def said(turn: TurnOpened, role: str, text: str, **fields: Any) -> Told:
    """Return what tells of a message of a turn."""
    data = {"turn": turn.turn_id, "role": role, "text": text, "thinking": None, "id": text}
    return Told(kind="message_completed", data={**data, **fields})


def began(call_id: str, tool: str = "Bash", **fields: Any) -> Told:
    """Return what tells that a call of the vendor's own has begun."""
    data = {"call": call_id, "tool": tool, "arguments": {"command": "make"}, **fields}
    return Told(kind="tool_call_started", data={**data, "orchestration": False})


def ended(call_id: str, status: str = "completed", **fields: Any) -> Told:
    """Return what tells that a call of the vendor's own has ended."""
    data = {"call": call_id, "status": status, "result": None, "error": None, **fields}
    return Told(kind="tool_call_finished", data=data)


def one(state: SessionState, name: str) -> AgentNow:
    """Return the agent called `name`."""
    (found,) = [now for now in state.agents if now.agent.name == name]
    return found


class Team(Steps):
    """The steps of a master and its worker w1, and the store to which they are given."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    async def give(self, step: Step) -> Committed:
        """Commit a step."""
        return await self.store.commit(step)

    async def commit(self, name: str | None, *writes: Write, **fields: Any) -> Committed:
        """Commit a step of the agent called `name`, or of the run."""
        return await self.give(self.step(name, *writes, **fields))

    async def begin_turn(self, number: int = 1, *calls: str, **fields: Any) -> TurnOpened:
        """Open a turn of w1, with calls in it."""
        turn = self.turn("w1", number, **fields)
        await self.commit("w1", turn)
        for call in calls:
            await self.give(self.open_call(turn, self.call(call), "w1"))
        return turn

    async def take_turn(self, number: int = 1, parent: str | None = None, **fields: Any) -> str:
        """Open a turn of w1 and close it; return its id."""
        turn = await self.begin_turn(number, parent_turn_id=parent)
        await self.give(self.close_turn(turn, "w1", **fields))
        return turn.turn_id

    async def ask_master(self, turn: TurnOpened) -> None:
        """Have w1 ask the master by the call c1 of a turn."""
        asked = Effect(turn_id=turn.turn_id, call_id="c1", name="question", ref="q1")
        question = self.message("w1", "master", correlation_id="q1")
        await self.commit("w1", *self.sent(question), EffectNoted(effect=asked))

    async def two_turns(self) -> tuple[str, TurnOpened]:
        """Give w1 a turn that is over, and one with an open call that has asked the master.

        Return the id of the first, and the second.
        """
        first = await self.take_turn()
        second = await self.begin_turn(2, "c1", parent_turn_id=first)
        await self.ask_master(second)
        return first, second

    async def fork(self, session: str = "s1", seed: int = 1, **wanted: Any) -> SessionState:
        """Fork a session; ids are made from the seed."""
        ids = Ids(lambda: NOW, Random(seed))  # noqa: S311 - ids that are the same each time
        return await fork_session(self.store, session, ForkRequest(**wanted), ids, NOW)

    async def state(self, at: int | None = None) -> SessionState:
        """Return the session as it is, or was."""
        return await self.store.state(self.session, at)

    async def now(self, name: str = "w1") -> AgentNow:
        """Return the agent called `name` as the session's state has it."""
        return one(await self.state(), name)

    async def row(self, name: str = "w1", session: str = "s1") -> AgentRow:
        """Return the row of the agent called `name`."""
        (row,) = [a for a in await self.store.agents(session) if a.descriptor.name == name]
        return row

    async def running_turn(self) -> TurnState:
        """Return the open turn of w1."""
        turn = (await self.now()).open_turn
        assert turn is not None
        return turn

    async def last_turn(self) -> TurnEnd:
        """Return how w1's last turn ended."""
        end = (await self.now()).last_turn
        assert end is not None
        return end

    async def log(self, session: str, agent: str | None = None) -> list[tuple[int | None, str]]:
        """Return number and type of the events of a session, or of an agent."""
        events = self.store.events(session, agent=agent)
        return [(event.seq, event.type) async for event in events]


def marks(state: CallState) -> tuple[str, str, int | None]:
    """Return what tells a call from others: its id, its status, when it was answered."""
    return state.call.id, state.call.status, state.answered_at


class StateRules:
    """What every Store tells of a session's state; each test's docstring is the rule."""

    async def test_a_session_without_a_run_is_unknown(self, team: Team) -> None:
        """Asking for a session that the ledger does not have is an error with a hint."""
        assert (await team.state()).task == "a task"
        with pytest.raises(StoreError) as caught:
            await team.store.state("s2")
        assert (caught.value.code, bool(caught.value.hint)) == ("unknown_session", True)

    async def test_runs_are_told_with_what_they_began_with(self, team: Team) -> None:
        """A run has its options, its newest engine and, once it is over, how it ended."""
        options = {"mode": "plan", "budget": {"usd": 2.5}}
        start = RunStarted(task="b", workspace="/b", engine=("boot", 7, 9), options=options)
        await team.commit(None, start, run_id="r2", at=2000.0)
        first, second = (await team.state()).runs
        assert (first.run_id, first.task, first.options) == (team.run, "a task", {})
        assert (first.engine, first.epoch, first.outcome) == (None, 1, None)
        assert (second.status, second.started_at, second.options) == ("running", 2000.0, options)
        assert second.engine == ("boot", 7, 9)
        over = RunFinished(status="failed", summary="s", error="no", used={})
        await team.commit(None, over, run_id="r2", at=3000.0)
        second = (await team.state()).runs[1]
        assert (second.status, second.finished_at) == ("failed", 3000.0)
        ended = {"status": "failed", "summary": "s", "error": "no"}
        assert second.outcome == {**ended, "exit_code": None, "problems": []}

    async def test_a_run_that_was_cut_off_runs_again(self, team: Team) -> None:
        """Resuming it notes the new engine and forgets its end: every reader sees it run."""
        cut = RunFinished(status="interrupted", used={})
        await team.commit(None, cut)
        again = RunResumed(epoch=2, engine=("boot", 8, 1))
        await team.commit(None, again)
        (run,) = (await team.state()).runs
        assert (run.status, run.epoch, run.engine) == ("running", 2, ("boot", 8, 1))
        assert (run.finished_at, run.outcome) == (None, None)
        shown = (await team.store.picture("s1")).run
        assert shown is not None
        assert (shown.status, shown.finished_at) == ("running", None)
        assert [info.status for info in await team.store.sessions()] == ["running"]

    async def test_a_run_is_gone_on_with_once_and_not_after_its_end(self, team: Team) -> None:
        """Of two engines that want one epoch one gets it. A finished run is not resumed."""
        await team.commit(None, RunResumed(epoch=2))
        for epoch in (2, 4):
            with raises_code("not_resumable", StoreError):
                await team.commit(None, RunResumed(epoch=epoch))
        await team.commit(None, RunFinished(status="completed", used={}))
        with raises_code("not_resumable", StoreError):
            await team.commit(None, RunResumed(epoch=3))

    async def test_agents_are_told_as_they_are_now(self, team: Team) -> None:
        """Agents have their present life, prompt, model, thread and result; parents come first."""
        result = AgentResult(agent_id=team.agent("w1"), success=True, summary="done")
        writes: tuple[Write, ...] = (
            ModelSwitched(provider="other", model="second", reasoning_effort="high"),
            ThreadKept(thread="thread-1"),
            ResultClaimed(result=result),
        )
        await team.commit("w1", *writes)
        goes_on = AgentRestarted(prompt="go on", is_resume=True)
        waits = team.change(PENDING, STARTING, waiting_on="a slot")
        await team.commit("w1", goes_on, waits, incarnation=2)
        master, w1 = (await team.state()).agents
        assert master.agent == team.descriptor("master")
        assert (master.resume_token, master.result, master.waiting_on) == (None, None, None)
        agent = w1.agent
        assert (agent.state, agent.incarnation, agent.prompt) == (STARTING, 2, "go on")
        assert (agent.provider, agent.model, agent.reasoning_effort) == ("other", "second", "high")
        assert (w1.resume_token, w1.result, w1.waiting_on) == ("thread-1", result, "a slot")
        await team.commit("w1", ThreadKept(thread=None), incarnation=2)
        assert (await team.now()).resume_token is None

    async def test_what_is_said_of_an_agent_is_told_as_it_is_and_as_it_was(
        self, team: Team
    ) -> None:
        """An agent and its parent change its labels; nobody else does, and no ended agent."""
        step = team.spawn("w9", "w1", labels={"a": "1"}, continues=team.agent("master"))
        born = (await team.give(step)).events[0]
        assert (born.data["labels"], born.data["continues"]) == ({"a": "1"}, team.agent("master"))
        at = (await team.state()).position
        about = AgentRelabelled(agent_id=team.agent("w9"), labels={"b": "2"})
        (told,) = (await team.commit("w1", about)).events
        assert (told.type, told.agent, told.data) == (
            "agent_labels_changed",
            team.agent("w9"),
            {"labels": {"b": "2"}},
        )
        now, then = await team.state(), await team.state(at)
        labels = [dict(state.agents[-1].agent.labels) for state in (then, now)]
        assert labels == [{"a": "1"}, {"b": "2"}]
        assert now.agents[-1].agent.continues == team.agent("master")
        row = (await team.store.agents("s1"))[-1]
        assert dict(row.descriptor.labels) == {"b": "2"}
        with raises_code("unknown_agent", StoreError):
            await team.commit("master", about)
        await team.commit("w9", replace(about, labels={}))
        await team.give(team.end("w9"))
        with pytest.raises(FencedError):
            await team.commit("w9", about)
        assert (await team.now("w9")).agent.labels == {}

    async def test_the_mode_of_an_agent_is_told_as_it_is_and_as_it_was(self, team: Team) -> None:
        """What it may hand down changes with it. A change of that alone has no event."""
        at = (await team.state()).position
        plan, default = PermissionMode.PLAN, PermissionMode.DEFAULT
        write = ModeSwitched(source=default, target=plan, mode=plan, granted=plan)
        (told,) = (await team.commit("w1", write)).events
        assert (told.type, told.agent, told.data) == (
            "agent_mode_changed",
            team.agent("w1"),
            {"from": "default", "to": "plan", "mode": "plan"},
        )
        now = (await team.now()).agent
        assert one(await team.state(at), "w1").agent == team.descriptor("w1", "master")
        for agent in (now, (await team.row()).descriptor):
            assert (agent.mode, agent.grant.mode) == (plan, plan)
        less = replace(write, source=plan, mode=default)
        assert not (await team.commit("w1", less)).events
        assert (await team.now()).agent.mode is default

    async def test_agents_go_on_together_or_none_does(self, team: Team) -> None:
        """Agents keep states and mail. Steps of their earlier lives are refused from then on."""
        await team.commit("w1", team.change(PENDING, STARTING, waiting_on="a slot"))
        await team.commit("master", *team.sent(team.message("master", "w1")))
        master, w1 = team.agent("master"), team.agent("w1")
        for lives in ({w1: 2, "nobody": 2}, {w1: 2, master: 3}, {w1: 2, master: 1}):
            with pytest.raises(PrsmError):
                await team.commit(None, AgentsResumed(lives=lives))
        await team.commit(None, AgentsResumed(lives={master: 2, w1: 2}))
        now = await team.now()
        assert (now.agent.state, now.agent.incarnation, now.waiting_on) == (STARTING, 2, "a slot")
        assert [message.incarnation for message in (await team.state()).unread] == [2]
        with pytest.raises(FencedError):
            await team.commit("w1", team.told())

    async def test_an_open_turn_is_told_with_what_was_said(self, team: Team) -> None:
        """Also after the end of its agent: a kill may come before the turn is closed."""
        turn = team.turn("w1", started_at_ms=1_000_005)
        prompt = said(turn, "user", "do it", id="m1")
        await team.commit("w1", turn, prompt)
        assert (await team.running_turn()).last_heard == 0
        answer = said(turn, "assistant", "well", id="m2", thinking="hm")
        heard = (await team.commit("w1", answer)).events[0].seq
        await team.commit("w1", said(turn, "user", "faster", id="m3"))
        await team.give(team.end("w1"))
        now = await team.now()
        assert (now.agent.state, now.next_turn, now.turns) == (AgentState.KILLED, 2, 1)
        assert (now.head_turn_id, now.last_turn, now.spent) == (None, None, None)
        open_ = now.open_turn
        assert open_ is not None
        assert (open_.turn_id, open_.number, open_.parent_turn_id) == (turn.turn_id, 1, None)
        assert (open_.started_at, open_.spent, open_.last_heard) == (1_000_005, None, heard)
        told = [("m1", "user", "do it"), ("m2", "assistant", "well"), ("m3", "user", "faster")]
        assert open_.messages == tuple(
            AgentMessage(
                id=id_,
                role=role,
                content=text,
                sequence=number,
                created_at=1_000_000,
                thinking="hm" if id_ == "m2" else None,
            )
            for number, (id_, role, text) in enumerate(told, 1)
        )

    async def test_the_calls_of_an_open_turn_are_told_in_their_order(self, team: Team) -> None:
        """The engine's calls come from their rows, the vendor's from the log."""
        turn = team.turn("w1")
        before = (began("v0"), ended("v0", result="not of this turn"))
        await team.commit("w1", *before, turn)
        await team.commit("w1", began("v1"), ended("v1", "denied", result="r"))
        await team.give(team.open_call(turn, team.call("c1"), "w1"))
        started = await team.commit("w1", began("v2", "Read"))
        closed = await team.give(team.close_call(turn, "c1", "w1"))
        open_ = await team.running_turn()
        v1, c1, v2 = open_.calls
        assert marks(v1)[:2] == ("v1", "failed")
        assert (v1.call.error, v1.call.result, v1.call.completed_at) == ("denied", "r", 1_000_000)
        assert marks(c1) == ("c1", "completed", closed.events[0].seq)
        assert (c1.call.result, c1.call.completed_at) == ("the answer", 1_000_200)
        assert (c1.call.tool_name, c1.call.params) == ("ask_parent", {"question": "which one?"})
        assert marks(v2) == ("v2", "running", None)
        assert (v2.call.tool_name, v2.call.params) == ("Read", {"command": "make"})
        assert (v2.call.completed_at, v2.call.orchestration) == (None, False)
        await team.commit("w1", ended("v2", "unknown", error="nobody told"))
        *_, v2 = (await team.running_turn()).calls
        assert (v2.call.status, v2.call.error) == ("unknown", "nobody told")
        assert [each.call.sequence for each in open_.calls] == [1, 2, 3]
        assert open_.last_heard == started.events[0].seq

    async def test_an_id_of_a_vendor_that_comes_again_is_its_last_call(self, team: Team) -> None:
        """The end of an earlier call with the same id does not end the newer one."""
        turn = team.turn("w1")
        await team.commit("w1", turn, began("v1"), ended("v1"), began("v2"))
        await team.commit("w1", began("v1"))
        v2, v1 = (await team.running_turn()).calls
        assert (marks(v2), marks(v1)) == (("v2", "running", None), ("v1", "running", None))

    async def test_a_call_is_told_with_its_effects_and_what_it_consumed(self, team: Team) -> None:
        """Only those of this call count: vendors use an id again in a later turn."""
        first = await team.begin_turn(1, "c1")
        mail = [team.message("master", "w1") for _ in range(3)]
        await team.commit("master", *team.sent(*mail))
        old, *used = (message.message_id for message in mail)
        await team.give(team.close_call(first, "c1", "w1", (old,)))
        await team.give(team.close_turn(first, "w1"))
        turn = await team.begin_turn(2, "c1", parent_turn_id=first.turn_id)
        effects = [
            Effect(turn_id=turn.turn_id, call_id="c1", name=name, ref=ref, data=data)
            for name, ref, data in (("since", None, {"at": 1.5}), ("child:0", "w2", None))
        ]
        await team.commit("w1", EffectNoted(effect=effects[0]))
        await team.commit("master", EffectNoted(effect=effects[1]))
        (call,) = (await team.running_turn()).calls
        assert (call.effects, call.consumed) == (tuple(effects), ())
        await team.give(team.close_call(turn, "c1", "w1", tuple(used)))
        (call,) = (await team.running_turn()).calls
        assert call.consumed == tuple(used)

    async def test_an_effect_is_noted_once(self, team: Team) -> None:
        """A second effect of that name is refused, and so is one of an unknown turn."""
        turn = await team.begin_turn()
        noted = EffectNoted(effect=Effect(turn_id=turn.turn_id, call_id="c1", name="child:0"))
        await team.commit("w1", noted)
        nowhere = EffectNoted(effect=Effect(turn_id="nothing", call_id="c1", name="child:0"))
        for again in (noted, nowhere):
            with raises_code("conflict", StoreError):
                await team.commit("w1", again)

    async def test_what_a_running_turn_has_used_counts_once(self, team: Team) -> None:
        """A resume sees it at once. The sum of closed turns has it once the turn is over."""
        turn = await team.begin_turn()
        for spent in (Spent.of_turn(TokenUsage(input_tokens=2), None), USED):
            await team.commit("w1", TurnMetered(turn_id=turn.turn_id, spent=spent))
            assert (await team.running_turn()).spent == spent
        assert (await team.row()).spent == Spent()
        closing = team.result(usage=TokenUsage(input_tokens=20, output_tokens=5), cost_usd=None)
        await team.give(team.close_turn(turn, "w1", result=closing))
        assert (await team.row()).spent == closing.spent
        late = TurnMetered(turn_id=turn.turn_id, spent=USED)
        await team.commit("w1", late)
        assert (await team.now()).spent == closing.spent

    async def test_a_running_turn_is_not_one_that_told_nothing(self, team: Team) -> None:
        """A running turn may still tell what it used: only closed turns count as silent."""
        turn = team.turn("w1")
        untold = Spent.of_turn(TokenUsage(), None)
        metered = TurnMetered(turn_id=turn.turn_id, spent=untold)
        await team.commit("w1", turn, metered)
        assert (await team.row()).spent == Spent()

    async def test_turns_and_use_are_those_of_the_newest_run(self, team: Team) -> None:
        """Counts are those of the newest run, but the last turn may be of an earlier one."""
        texts = (("user", "do it"), ("assistant", "half"), ("assistant", " \n"))
        result = team.result(
            messages=tuple(
                AgentMessage(id=text, role=role, content=text, sequence=9 - n, created_at=1)
                for n, (role, text) in enumerate(texts)
            ),
            cost_usd=0.5,
        )
        head = await team.take_turn(result=result)
        now = await team.now()
        assert (now.turns, now.spent, now.next_turn) == (1, result.spent, 2)
        start = RunStarted(task="b", workspace="/work")
        await team.commit(None, start, run_id="r2", at=2000.0)
        now = await team.now()
        assert (now.turns, now.spent) == (0, None)
        assert now.head_turn_id == head
        end = await team.last_turn()
        assert (end.turn_id, end.stop_reason, end.error) == (head, "end_turn", None)
        assert end.last_text == result.last_text == "half"
        spent = []
        for number in (2, 3):
            closing = team.result(cost_usd=number / 8)
            head = await team.take_turn(number, head, result=closing)
            spent.append(closing.spent)
        now = await team.now()
        assert (now.turns, now.spent, now.head_turn_id) == (2, total(spent), head)

    async def test_a_compaction_is_no_turn_of_an_agents_own(self, team: Team) -> None:
        """A compaction is the newest turn and counts, but it is not how the agent ended."""
        error = AgentError(kind=ErrorKind.CONTEXT_OVERFLOW, message="too long")
        closing = team.result(stop_reason=StopReason.ERROR, error=error)
        head = first = await team.take_turn(result=closing)
        for number, failure in ((2, error), (3, None)):
            compaction = team.turn("w1", number, parent_turn_id=head, turn_type="compaction")
            step = team.close_turn(compaction, "w1", result=team.result(error=failure))
            await team.give(replace(step, writes=(compaction, *step.writes)))
            now, head = await team.now(), compaction.turn_id
            assert (now.turns, now.next_turn) == (number, number + 1)
            assert (now.head_turn_id, now.open_turn) == (head, None)
            end = await team.last_turn()
            assert (end.turn_id, end.was_too_long) == (first, True)
            assert end.is_compacted == (failure is None)
        later = await team.take_turn(4, head)
        end = await team.last_turn()
        assert (end.turn_id, end.is_compacted, end.was_too_long) == (later, False, False)

    async def test_the_last_turn_is_the_one_that_ended_last(self, team: Team) -> None:
        """The last turn is not the one with the greatest number."""
        first, second = [await team.begin_turn(number) for number in (1, 2)]
        for turn in (second, first):
            await team.give(team.close_turn(turn, "w1"))
        assert (await team.last_turn()).turn_id == first.turn_id

    async def test_unread_messages_requests_and_grants_are_told(self, team: Team) -> None:
        """A state has what present lives have not read, and what nobody has answered."""
        old, new = team.message("master", "w1"), team.message("w1", "master")
        await team.commit("master", *team.sent(old), *team.sent(new))
        asked, done = team.request("w1"), team.request("w1")
        for request in (asked, done):
            await team.give(team.ask("w1", request))
        await team.commit("w1", team.resolved(done.request_id))
        await team.commit("w1", Granted(grant={"tool": "Bash"}), at=1234.0)
        await team.give(team.end("w1"))
        state = await team.state()
        assert state.unread == (old, new)
        assert state.requests == (asked,)
        (grant,) = state.grants
        assert grant["data"] == {"tool": "Bash"}
        assert (grant["agent_id"], grant["created_at"]) == (team.agent("w1"), 1234.0)
        await team.give(team.restart("w1", 2))
        assert (await team.state()).unread == (new,)

    async def test_snapshots_are_told_in_order_and_once_for_a_commit(self, team: Team) -> None:
        """A snapshot that is named again for a later prompt is there twice."""
        first = team.snapshot(snapshot_id="a", last_commit=1, staged="t", head="h")
        again, other = replace(first, last_commit=2), team.snapshot(snapshot_id="b")
        for each in (first, again, first, other):
            await team.commit("w1", SnapshotTaken(snapshot=each))
        state = await team.state()
        assert state.snapshots == (first, again, other)
        told = [event async for event in team.store.events("s1") if event.type == "snapshot_taken"]
        assert [event.data["snapshot"] for event in told] == ["a", "a", "a", "b"]
        assert told[0].agent == team.agent("w1")
        assert (await team.state(state.position - 1)).snapshots == (first, again)

    async def test_a_question_is_open_while_its_call_is_and_nobody_answered(
        self, team: Team
    ) -> None:
        """The effect of the call names the question. Reading it does not answer it."""
        turn = await team.begin_turn(1, "c1")
        question = team.message("w1", "master", correlation_id="q1")
        other = team.message("w1", "master", correlation_id="q2")
        asked = Effect(turn_id=turn.turn_id, call_id="c1", name="question", ref="q1")
        noted = EffectNoted(effect=asked)
        await team.commit("w1", *team.sent(other, question), noted)
        (open_,) = (await team.state()).questions
        assert (open_.message, open_.is_read) == (question, False)
        await team.give(team.consume("master", question.message_id))
        (open_,) = (await team.state()).questions
        assert (open_.message, open_.is_read) == (question, True)
        answer = team.message("master", "w1", MessageType.ANSWER, correlation_id="q1")
        await team.commit("master", *team.sent(answer))
        assert (await team.state()).questions == ()

    async def test_a_question_whose_call_was_answered_is_none(self, team: Team) -> None:
        """Any answer to the call closes the question, such as the end of the asked agent."""
        turn = await team.begin_turn(1, "c1")
        await team.ask_master(turn)
        assert len((await team.state()).questions) == 1
        await team.give(team.close_call(turn, "c1", "w1"))
        assert (await team.state()).questions == ()


class ForkRules:
    """What every Store does when a session is forked; each test's docstring is the rule."""

    async def test_a_fork_has_what_was_open_under_ids_of_its_own(self, team: Team) -> None:
        """A fork has agents, a run, the open turn with its calls, unread mail and requests."""
        first, second = await team.two_turns()
        await team.commit("w1", RequestOpened(request=team.request("w1")))
        await team.commit("w1", Granted(grant={"n": 1}))
        await team.commit("w1", SnapshotTaken(snapshot=team.snapshot("w1")))
        assert await team.store.shared_snapshots() == frozenset()
        origin, state = await team.state(), await team.fork()
        assert await team.store.state(state.session_id) == state
        w1 = one(state, "w1")
        assert w1.agent.agent_id == state.aliases[team.agent("w1")] != team.agent("w1")
        assert w1.agent.parent_id == one(state, "master").agent.agent_id
        assert w1.head_turn_id == first  # shared
        turn = w1.open_turn
        assert turn is not None
        assert (turn.turn_id, turn.parent_turn_id) == (state.aliases[second.turn_id], first)
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
        assert await team.store.shared_snapshots() == {kept.snapshot_id}
        assert (state.runs[0].status, state.runs[0].engine) == ("interrupted", None)

    async def test_a_fork_tells_what_happened_before_as_its_own(self, team: Team) -> None:
        """Earlier events keep their numbers and get new ids; then `session_forked` follows."""
        _, second = await team.two_turns()
        before = await team.log("s1")
        state = await team.fork()
        session = state.session_id
        forked = (state.seq, "session_forked")
        assert await team.log(session) == [*before, forked]
        assert await team.log("s1") == before
        own = one(state, "w1").agent.agent_id
        of_w1 = await team.log("s1", team.agent("w1"))
        assert await team.log(session, own) == of_w1
        kinds = ("turn_started", "turn_finished")
        turns = await team.store.last_events(session, own, kinds=kinds, limit=2)
        assert [event.type for event in turns] == ["turn_finished", "turn_started"]
        assert turns[1].data["turn"] == state.aliases[second.turn_id]
        assert {event.session for event in turns} == {session}
        assert (await team.log(session, own))[-1] in before

    async def test_a_fork_and_its_origin_go_their_own_ways(self, team: Team) -> None:
        """What one session reads, answers or ends stays as it was in the other."""
        _, second = await team.two_turns()
        state = await team.fork()
        await team.give(team.close_call(second, "c1", "w1"))
        await team.give(team.close_turn(second, "w1"))
        await team.give(team.end("w1"))
        await team.commit(None, RunFinished(status="failed", used={}))
        assert await team.store.state(state.session_id) == state
        row = await team.row(session=state.session_id)
        assert row.spent.usage == team.result().usage  # of its first turn only
        assert (row.descriptor.state, row.next_turn) == (AgentState.PENDING, 3)
        picture = await team.store.picture(state.session_id)
        assert picture.run is not None
        assert picture.run.status == "interrupted"
        assert [(turn.number, len(turn.calls)) for turn in picture.turns] == [(2, 1)]

    async def test_a_session_is_forked_as_it_was(self, team: Team) -> None:
        """A fork begins after the commit that holds an event, or that ends a turn."""
        await team.two_turns()
        ends = [seq for seq, kind in await team.log("s1") if kind == "turn_finished"]
        by_turn = await team.fork(at="w1:1")
        by_event = await team.fork(seed=2, at=str(ends[0]))
        for state in (by_turn, by_event):
            assert one(state, "w1").open_turn is None
            assert (one(state, "w1").next_turn, state.origins[0].seq) == (2, ends[0])
            assert (state.unread, state.questions) == ((), ())

    async def test_a_fork_of_a_fork_shares_the_past_of_both(self, team: Team) -> None:
        """A fork of a fork may begin before the first one. Ids of both lead to its agents."""
        first, _ = await team.two_turns()
        one_fork = await team.fork()
        other = await team.fork(one_fork.session_id, 2)
        assert [origin.session_id for origin in other.origins] == ["s1", one_fork.session_id]
        w1 = one(other, "w1")
        for known in (team.agent("w1"), one(one_fork, "w1").agent.agent_id):
            assert other.aliases[known] == w1.agent.agent_id
        assert w1.head_turn_id == first
        assert len(await team.log(other.session_id)) == other.seq == one_fork.seq + 1
        early = await team.fork(one_fork.session_id, 3, at="w1:1")
        assert [origin.session_id for origin in early.origins] == ["s1"]

    async def test_what_is_no_point_of_a_session_is_not_forked(self, team: Team) -> None:
        """A wrong point writes nothing, and the error says what to give."""
        await team.two_turns()
        before = [info.session_id for info in await team.store.sessions()]
        wrong = {"999": "unknown_position", "w1:2": "unknown_position", "w1:9": "unknown_position"}
        wrong |= {"w9:1": "unknown_agent", "x": "bad_point", ":3": "bad_point", "1": "no_master"}
        for at, code in wrong.items():
            with pytest.raises(PrsmError) as caught:
                await team.fork(at=at)
            assert (at, caught.value.code, bool(caught.value.hint)) == (at, code, True)
        with raises_code("unknown_session", StoreError):
            await team.fork("s9")
        assert [info.session_id for info in await team.store.sessions()] == before

    async def test_a_master_that_lives_is_told_something_more(self, team: Team) -> None:
        """The prompt is in the master's mailbox, like any other of a person."""
        await team.two_turns()
        state = await team.fork(prompt="be quick", models={"w1": ("other", "fast")})
        message = state.unread[-1]
        assert (message.type, message.source) == (MessageType.USER_PROMPT, None)
        assert message.target == one(state, "master").agent.agent_id
        assert message.payload == {"text": "be quick"}
        assert (await team.log(state.session_id))[-1][1] == "message_routed"
        agent = one(state, "w1").agent
        assert (agent.provider, agent.model) == ("other", "fast")

    async def test_a_master_that_has_ended_lives_again_with_a_prompt(self, team: Team) -> None:
        """The prompt begins a run of its own, which can be resumed."""
        await team.give(team.end("w1"))
        await team.give(team.end("master"))
        await team.commit(None, RunFinished(status="killed", used={}))
        state = await team.fork(prompt="once more", name="second try")
        first, second = state.runs
        assert (first.status, second.status, second.task) == ("killed", "interrupted", "once more")
        master = one(state, "master")
        assert (master.agent.state, master.agent.incarnation) == (AgentState.STARTING, 2)
        assert (master.agent.prompt, master.result, master.turns) == ("once more", None, 0)
        assert one(state, "w1").agent.state is AgentState.KILLED
        (info,) = [one for one in await team.store.sessions() if one.session_id == state.session_id]
        assert (info.name, info.origin, info.status) == ("second try", "s1", "interrupted")
        kinds = [kind for _, kind in await team.log(state.session_id)]
        assert kinds[-3:] == ["session_forked", "run_started", "agent_state_changed"]
