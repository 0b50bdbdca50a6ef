"""Begin and end the lives of agents.

Each end is settled once, and the parent is told. Other agents see an end only once it is committed
(`record.has_ended`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentRole, AgentState
from prsm_core.domain.events import EVENT_FIELDS
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import Ending
from prsm_core.domain.writes import (
    AgentEnded,
    AgentRestarted,
    AgentSpawned,
    MessageSent,
    ModeSwitched,
    Told,
)
from prsm_core.engine.guarded.failing import is_unfit, plain_result
from prsm_core.engine.providers.model_choice import news_of_team, told_of_team
from prsm_core.engine.spawn import within_parent
from prsm_core.engine.state import AgentRecord
from prsm_core.errors import AgentSpawnError, MessageRoutingError, PrsmError
from prsm_core.lifecycle import RESTART

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Any

    from prsm_core.domain.agents import AgentDescriptor, PermissionMode, SpawnRequest
    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import CallClosed, EffectNoted
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.agents.session import AgentSession, Lives
    from prsm_core.engine.agents.skills import Skills
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.spawn import IdleChildren, LeaseTable, Planner
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import Roster, Staged
    from prsm_core.engine.workspace_files import Trees
    from prsm_core.interfaces.clock import Clock
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker


class AgentManager(Struct, eq=False, dict=True):
    """Begins the lives of all agents, and ends one for a person."""

    roster: Roster
    lives: Lives
    planner: Planner
    steps: AgentSteps
    ends: AgentEnds
    begin: Callable[[AgentRecord], AgentSession]
    trees: Trees
    leases: LeaseTable
    idle: IdleChildren
    router: MessageRouter
    budgets: BudgetLedger
    enforcement: Enforcement
    skills: Skills
    clock: Clock
    is_closing: bool = False  # no session is started any more

    async def spawn_agent(
        self,
        request: SpawnRequest,
        plan: AgentDescriptor | None = None,
        *,
        needs: Staged | None = None,
        besides: Sequence[Write] = (),
        answer: Callable[[AgentRecord], CallClosed | None] | None = None,
        note: Callable[[AgentRecord], EffectNoted] | None = None,
    ) -> AgentRecord:
        """Spawn a child by a `plan`, else a new one; see `create_agents`. Raises spawn errors."""
        plan = self.planner.plan(request) if plan is None else plan
        self.planner.check_room(1)
        record = self.register_agent(plan, request)
        await self.give_trees([record])
        closed = None if answer is None else answer(record)
        await self.create_agents([record], needs=needs, besides=besides, answer=closed, note=note)
        return record

    async def admit(
        self,
        descriptor: AgentDescriptor,
        write: Callable[[Sequence[Write], Callable[[], None]], Awaitable[None]],
    ) -> AgentRecord:
        """Begin the master of a run. `write` commits its birth, then calls its second argument."""
        self.planner.check_room(1)
        record = self.register_agent(descriptor)
        try:
            births = self._births_of([record], None)
            await write(births, lambda: self._begin_life(record))
        except Exception:
            self.discard_agent(record)
            raise
        return record

    def register_agent(
        self, descriptor: AgentDescriptor, request: SpawnRequest | None = None
    ) -> AgentRecord:
        """Give a new agent its name, regions and budget. Raises BudgetExceededError."""
        descriptor = self.skills.given(descriptor)
        self.budgets.launch_agent(descriptor)
        record = AgentRecord(descriptor)
        if request is not None:
            record.has_profile = request.expert is not None
            record.wants_tree = self.trees.is_wanted(request, descriptor)
            record.stand_in = self.planner.describe_stand_in(request.model, descriptor)
        record.team = self.planner.team_of(descriptor)
        self.roster.enlist(record)
        self.leases.enter(record)
        return record

    async def give_trees(self, records: Sequence[AgentRecord]) -> None:
        """Make worktrees for new agents that want one; on failure discard all agents."""
        try:
            for record in records:
                if record.wants_tree:
                    await self.trees.give(record)
        except BaseException as error:
            if isinstance(error, PrsmError):  # else the next start finds what is left of them
                await self.trees.drop(records)
            for record in records:
                self.discard_agent(record)
            raise

    def discard_agent(self, record: AgentRecord) -> None:
        """Forget an agent of which nothing was written."""
        self.roster.strike(record)
        self.leases.strike(record.agent_id)
        self.budgets.cancel(record.agent_id)

    async def create_agents(
        self,
        records: Sequence[AgentRecord],
        *,
        needs: Staged | None = None,
        besides: Sequence[Write] = (),
        answer: CallClosed | None = None,
        note: Callable[[AgentRecord], EffectNoted] | None = None,
    ) -> None:
        """Commit new agents of one parent by one step, and start their sessions.

        What is written `besides` comes first in the step, then what each agent may `note`, and last
        the `answer` to the call. If the step is refused, none of the agents exists.
        """
        births = [*besides, *self._births_of(records, note)]
        if answer is not None:
            births.append(answer)
        spawner = self.roster.parent_of(records[0]) or records[0]

        def begin() -> None:
            for record in records:
                self._begin_life(record)

        born = [record.agent_id for record in records]
        step = self.steps.build(spawner, *births)
        try:
            await self.steps.commit(step, then=begin, needs=needs, bears=born)
        except Exception:  # of whatever kind: nobody would ever end them
            await self.trees.drop(records)
            for record in records:
                self.discard_agent(record)
            raise

    def _births_of(
        self, records: Sequence[AgentRecord], note: Callable[[AgentRecord], EffectNoted] | None
    ) -> list[Write]:
        births: list[Write] = []
        for record in records:
            noted = None if note is None else note(record)
            call = None if noted is None else noted.effect.call_id
            births.append(AgentSpawned(agent=record.descriptor, call=call))
            if noted is not None:
                births.append(noted)
            late = self.enforcement.tell_parts(record.descriptor.provider, record.agent_id)
            for line in filter(None, (record.stand_in, *late)):
                data = {"level": "warning", "text": line}
                births.append(Told(kind="notice", agent_id=record.agent_id, data=data))
        return births

    async def restart_agent(
        self,
        agent_id: str,
        new_prompt: str,
        *,
        is_fresh: bool = False,
        mode: PermissionMode | None = None,
        besides: Sequence[Write] = (),
    ) -> AgentRecord:
        """Give an ended agent a new life with the same identity, place, model and tools.

        The conversation continues unless it `is_fresh`: then the model knows nothing of earlier
        lives. A master may get a new `mode`; a child has at most what its parent may hand down now.
        What is written `besides` comes first in the step.
        """
        record = self.roster.get(agent_id)
        self._check_restart(record)
        await self.lives.leave(record)
        await self.trees.ensure(record)
        self._check_restart(record)
        self.budgets.launch_agent(record.descriptor)
        source, restore = record.state, record.restore_point()
        target = AgentState.PENDING if source is AgentState.KILLED else AgentState.STARTING
        changes = self.steps.move(record, target, "restarted", trigger=RESTART)
        switched = self._switch_mode(record, mode)
        begun: tuple[Write, ...] = ()
        if is_fresh:
            record.forget_conversation()
            begun = (Told(kind="conversation_begun", data={}),)
        new_prompt = self._with_news(record, new_prompt)
        record.begin_incarnation(new_prompt, target, self.clock.time())
        self.roster.revive(record)
        anew = AgentRestarted(prompt=new_prompt)
        step = self.steps.build(record, *besides, anew, *switched, *begun, *changes)
        try:
            await self.steps.commit(step, then=lambda: self._begin_life(record))
        except Exception:  # it has ended as before: nobody may wait for its end
            self.budgets.release(agent_id)
            self.roster.settle(record)
            restore()
            raise
        return record

    def _switch_mode(
        self, record: AgentRecord, mode: PermissionMode | None
    ) -> tuple[ModeSwitched, ...]:
        was, parent = record.descriptor, self.roster.parent_of(record)
        if parent is not None:
            now = within_parent(was, parent.descriptor)
        else:
            now = was if mode is None else was.in_mode(mode)
        if now == was:
            return ()
        record.descriptor = now
        switched = ModeSwitched(
            source=was.run_mode, target=now.run_mode, mode=now.mode, granted=now.grant.mode
        )
        return (switched,)

    def _with_news(self, record: AgentRecord, prompt: str) -> str:
        told, record.team = record.team, self.planner.team_of(record.descriptor)
        if told is None:
            told = told_of_team(record.descriptor.system_prompt)
        changed = news_of_team(told, record.team), self.skills.news(record)
        return "\n\n".join(filter(None, (prompt, *changed)))

    def ended_master(self, agent_id: str) -> AgentRecord:
        """Return the master of a finished run. Raises AgentSpawnError for any other agent."""
        master = self.roster.get(agent_id)
        if master.descriptor.role is not AgentRole.MASTER:
            raise AgentSpawnError(
                f"{master.descriptor.name} is no master",
                hint="a follow-up task goes to the master of a run that has ended",
                code="not_a_master",
            )
        if not master.has_ended:
            raise AgentSpawnError(
                f"{master.descriptor.name} still runs",
                hint="wait for its end, or send it a prompt",
                code="still_running",
            )
        return master

    def _check_restart(self, record: AgentRecord) -> None:
        if not record.has_ended:
            raise AgentSpawnError(
                f"{record.descriptor.name} has not ended",
                hint="send_child_prompt reaches a running child",
                code="still_running",
            )
        parent = self.roster.parent_of(record)
        if parent is not None and (parent.is_over or parent.is_condemned):
            raise AgentSpawnError(
                "its parent has ended", hint="restart its parent first", code="agent_ended"
            )
        self.leases.check_still_free(record)

    def _begin_life(self, record: AgentRecord) -> None:
        if self.is_closing or record.is_over:  # killed while its beginning was committed
            return
        record.started_at = self.clock.now()
        self.router.register_agent(record.agent_id, record.incarnation)
        self.idle.forget_unread(record.agent_id)
        self.lives.begin(record, self.begin(record))
        self.lives.wait_anew(record.descriptor.parent_id or "")

    async def kill_agent(self, agent_id: str, reason: str = "killed") -> AgentResult:
        """Kill an agent and its descendants; raise MessageRoutingError if it has ended."""
        record = self.roster.get(agent_id)
        if record.state.is_terminal:
            raise MessageRoutingError(
                f"{record.descriptor.name} has ended already ({record.state.value})",
                code="agent_ended",
            )
        return await self.ends.kill_tree(record, reason)

    async def stop_all(self) -> None:
        """Stop all sessions for good; the ledger keeps the agents as they are."""
        self.is_closing = True
        await self.lives.stop_all()


CLOSING_SECONDS = 2.0  # how long run_finished waits for the last turn's usage


class AgentEnds(Struct, eq=False):
    """Ends the lives of all agents.

    An agent that fails or is killed is condemned first, so it does nothing more. Then its
    descendants end from the bottom up, and the agent itself last.
    """

    roster: Roster
    lives: Lives
    steps: AgentSteps
    trees: Trees
    idle: IdleChildren
    detector: DeadlockDetector
    router: MessageRouter
    peers: Peers
    requests: HumanRequests
    broker: PermissionBroker
    budgets: BudgetLedger
    journal: Journal
    clock: Clock

    async def end_agent(
        self,
        record: AgentRecord,
        state: AgentState,
        result: AgentResult,
        *,
        reason: str = "",
        besides: Sequence[Write] = (),
        answer: CallClosed | None = None,
        needs: Staged | None = None,
    ) -> AgentResult:
        """Settle the agent once: its state, its result, and TASK_RESULT to its parent.

        One step has what is written `besides`, the end, and the `answer` to its call. An ended
        agent keeps its first result. If the step cannot be stored the agent fails instead, and
        `besides` is dropped only if that was what could not be stored.
        """
        if (known := _known_end(record, result)) is not None:
            return known
        tree = await self.trees.settle(record, state)
        if (known := _known_end(record, result)) is not None:  # by somebody else, meanwhile
            return known
        before = record.state, record.waiting_on
        is_plain = False
        while True:
            try:
                return await self._end(record, state, result, reason, tree, besides, answer, needs)
            except Exception as error:
                if record.has_ended or not is_unfit(error) or (is_plain and not besides):
                    raise
                record.state, record.waiting_on = before
                if is_plain:
                    besides = ()
                    continue
                is_plain, answer, needs = True, None, None
                result = plain_result(result, error, self.journal.redact)
                reason = result.error or ""
                state = state if state is AgentState.KILLED else AgentState.FAILED

    async def _end(
        self,
        record: AgentRecord,
        state: AgentState,
        result: AgentResult,
        reason: str,
        tree: Mapping[str, Any] | None,
        besides: Sequence[Write] = (),
        answer: CallClosed | None = None,
        needs: Staged | None = None,
    ) -> AgentResult:
        self.detector.moved(record.agent_id)  # it is about to end: nobody is stuck because of it
        now, began = self.clock.now(), record.started_at
        elapsed = 0.0 if began is None else now - began
        record.result = result = replace(result, duration=round(elapsed, 3))
        changes = self.steps.move(record, state, reason)
        resolved = self.requests.close_agent(record.agent_id, "agent_ended")
        writes = [*besides, *(() if answer is None else (answer,)), *resolved]
        if tree is not None:
            merged = {name: tree.get(name) for name in EVENT_FIELDS["worktree_merged"]}
            writes.append(Told(kind="worktree_merged", data=merged))
        writes += [AgentEnded(result=result), *changes, *self._task_result(record, result, tree)]
        step = self.steps.build(record, *writes)
        await self.steps.commit(step, then=lambda: self._settle(record), needs=needs)
        if tree is not None:
            self.trees.leave(record, tree)
        return result

    def _task_result(
        self, record: AgentRecord, result: AgentResult, tree: Mapping[str, Any] | None
    ) -> tuple[MessageSent, ...]:
        parent = self.roster.parent_of(record)
        if parent is None or parent.state.is_terminal:
            return ()
        payload = result.to_dict() | ({} if tree is None else {"worktree": tree})
        message = self.steps.message(record, MessageType.TASK_RESULT, parent.agent_id, payload)
        record.told = message.message_id
        return (MessageSent(message=message),)

    def _settle(self, record: AgentRecord) -> None:
        record.end()
        self.peers.falls_silent(record)
        self.router.unregister_agent(record.agent_id)
        self.broker.forget(record.agent_id)
        self.budgets.release(record.agent_id)
        for child in record.children:
            self.router.wake(child)
        parent = self.roster.settle(record)
        if parent is not None:
            self.router.wake(parent.agent_id)
            is_unread = self.router.holds(parent.agent_id, record.told)
            self.idle.ended(record, unread=record.told if is_unread else None)
        self.detector.ended(record.agent_id)

    async def fail_agent(
        self,
        record: AgentRecord,
        message: str,
        kind: str,
        *,
        summary: str | None = None,
        answer: CallClosed | None = None,
        needs: Staged | None = None,
    ) -> AgentResult:
        """Fail an agent with a `summary` or its last words; its live children end first."""
        self._condemn(record, AgentState.FAILED, message, kind)
        await self._land(record)
        await self.kill_children(record, "its parent has failed")
        result = self._failure(record, message, kind, summary)
        failed = AgentState.FAILED
        result = await self.end_agent(
            record, failed, result, reason=message, answer=answer, needs=needs
        )
        await self.kill_children(record, "its parent has failed")  # spawned until its own end
        return result

    async def stop_and_fail(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Stop an agent's life, then fail it."""
        self._condemn(record, AgentState.FAILED, message, kind)
        await self.lives.stop(record)
        return await self.fail_agent(record, message, kind)

    def _failure(
        self, record: AgentRecord, error: str, kind: str, said: str | None = None
    ) -> AgentResult:
        if said is None:
            session = self.lives.session_of(record.agent_id)
            said = "" if session is None else session.partial_text
        return AgentResult(
            agent_id=record.agent_id, success=False, summary=said, error=error, error_kind=kind
        )

    async def kill_tree(self, record: AgentRecord, reason: str) -> AgentResult:
        """Kill an agent and its descendants; return the agent's result."""
        if not record.state.is_terminal:
            self._condemn(record, AgentState.KILLED, reason, "killed")
            self.detector.moved(record.agent_id)
            await self.lives.stop(record)
            await self._land(record)
        await self.kill_children(record, reason)
        result = self._failure(record, reason, "killed")
        return await self.end_agent(record, AgentState.KILLED, result, reason=reason)

    def stop_below(self, record: AgentRecord) -> None:
        """Begin to stop all descendants at once: those at the bottom wait for nobody's end."""
        for child in record.live_children.values():
            child.is_condemned = True
            self.lives.begin_stop(child)
            self.stop_below(child)

    def _condemn(self, record: AgentRecord, state: AgentState, reason: str, kind: str) -> None:
        """Decide an agent's end. If it has live children, its next step says so.

        After a crash in the midst of these ends, a resume continues them. Below a condemned agent
        the note is not needed.
        """
        record.is_condemned = True
        parent = self.roster.parent_of(record)
        is_root = parent is None or not parent.is_condemned
        if record.live_children and is_root and record.notes.ending is None:
            record.note(ending=Ending(state=state.value, reason=reason, kind=kind))

    async def _land(self, record: AgentRecord) -> None:
        """Write that note unless a step of the agent has carried it already."""
        if record.notes.ending is not None and record.riders and not record.state.is_terminal:
            await self.steps.write(record)

    async def kill_children(self, record: AgentRecord, reason: str) -> None:
        """Kill the live children of an agent and all below them, from the bottom up."""
        kills = [self.kill_tree(child, reason) for child in record.live_children.values()]
        ends = await asyncio.gather(*kills, return_exceptions=True)  # none is left to itself
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def end_below(self, master: AgentRecord, why: str) -> None:
        """Kill what lives below the master of an ending run; wait until all have let go."""
        for child in [*master.live_children.values()]:
            await self.kill_tree(child, why)
        await self.lives.drain_all(CLOSING_SECONDS)

    async def end_masters(self, why: str) -> None:
        """Kill all agents of a run that nobody drives, even if it was only beginning."""
        for record in [*self.roster.records()]:
            if record.descriptor.parent_id is None and not record.state.is_terminal:
                await self.kill_tree(record, why)
        await self.lives.drain_all(CLOSING_SECONDS)


def _known_end(record: AgentRecord, result: AgentResult) -> AgentResult | None:
    return (record.result or result) if record.state.is_terminal else None
