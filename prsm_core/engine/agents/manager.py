"""The registry of agents: spawns, restarts, ends and kills them.

Other agents see an end only once it is committed (`record.has_ended`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentRole, AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import Ending
from prsm_core.domain.writes import AgentEnded, AgentRestarted, MessageSent, Told
from prsm_core.engine.agents.births import births_of
from prsm_core.engine.guarded.failing import is_unfit, plain_result
from prsm_core.engine.providers.team import news_of_team, told_of_team
from prsm_core.engine.state import AgentRecord
from prsm_core.errors import AgentSpawnError, MessageRoutingError, PrsmError
from prsm_core.lifecycle.agent import RESTART

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Any

    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest
    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import CallClosed, EffectNoted
    from prsm_core.engine.agents.lives import Lives
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.engine.agents.skills import Skills
    from prsm_core.engine.agents.steps import AgentSteps
    from prsm_core.engine.files.late import Trees
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.requests.human import HumanRequests
    from prsm_core.engine.spawn.idle import IdleChildren
    from prsm_core.engine.spawn.planner import Planner
    from prsm_core.engine.spawn.regions import LeaseTable
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.state import Roster, Staged
    from prsm_core.interfaces.clock import Clock
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker


class AgentManager:
    """Begins and ends the lives of all agents; see the port `Acts`."""

    def __init__(
        self,
        roster: Roster,
        lives: Lives[AgentSession],
        planner: Planner,
        steps: AgentSteps,
        *,
        begin: Callable[[AgentRecord], AgentSession],
        trees: Trees,
        leases: LeaseTable,
        idle: IdleChildren,
        detector: DeadlockDetector,
        router: MessageRouter,
        peers: Peers,
        requests: HumanRequests,
        broker: PermissionBroker,
        budgets: BudgetLedger,
        enforcement: Enforcement,
        skills: Skills,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self.roster = roster
        self.lives = lives
        self.steps = steps
        self.detector = detector
        self._planner = planner
        self._begin = begin
        self._trees = trees
        self._leases = leases
        self._idle = idle
        self._router = router
        self._peers = peers
        self._requests = requests
        self._broker = broker
        self._budgets = budgets
        self._enforcement = enforcement
        self._skills = skills
        self._journal = journal
        self._clock = clock
        self._is_closing = False

    def is_closing(self) -> bool:
        """Return whether the engine closes: no session is started any more."""
        return self._is_closing

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
        """Spawn a child of `request.parent_id`, as planned just now if that was done already.

        The step of its birth has what is written `besides` in front, and carries the `answer` to
        whoever wanted it, and its `note`. Raises AgentSpawnError, MaxDepthExceededError or
        ModelNotAvailableError; then nothing was written.
        """
        plan = self._planner.plan(request) if plan is None else plan
        self._planner.check_room(1)
        record = self.enlist(plan, request)
        await self.give_trees([record])
        closed = None if answer is None else answer(record)
        await self.bear([record], needs=needs, besides=besides, answer=closed, note=note)
        return record

    async def admit(
        self,
        descriptor: AgentDescriptor,
        write: Callable[[Sequence[Write], Callable[[], None]], Awaitable[None]],
    ) -> AgentRecord:
        """Begin the master of a run; `write` commits its birth, and then does what it is given."""
        self._planner.check_room(1)
        record = self.enlist(descriptor)
        try:
            births = births_of([record], None, self._enforcement)
            await write(births, lambda: self._begin_life(record))
        except Exception:
            self.strike(record)
            raise
        return record

    def enlist(
        self, descriptor: AgentDescriptor, request: SpawnRequest | None = None
    ) -> AgentRecord:
        """Give a new agent its name, its regions and its budget; `bear` or `strike` comes next.

        Raises BudgetExceededError, and then there is no such agent.
        """
        descriptor = self._skills.given(descriptor)
        self._budgets.launch_agent(descriptor)
        record = AgentRecord(descriptor)
        if request is not None:
            record.has_profile = request.expert is not None
            record.wants_tree = self._trees.is_wanted(request, descriptor)
            record.stand_in = self._planner.describe_stand_in(request.model, descriptor)
        record.team = self._planner.team_of(descriptor)
        self.roster.enlist(record)
        self._leases.enter(record)
        return record

    async def give_trees(self, records: Sequence[AgentRecord]) -> None:
        """Make worktrees for new agents that want one; all are struck where one cannot be made.

        Raises AgentSpawnError.
        """
        try:
            for record in records:
                if record.wants_tree:
                    await self._trees.give(record)
        except BaseException as error:
            if isinstance(error, PrsmError):  # else the next start finds what is left of them
                await self._trees.drop(records)
            for record in records:
                self.strike(record)
            raise

    def strike(self, record: AgentRecord) -> None:
        """Forget an agent of which nothing was written."""
        self.roster.strike(record)
        self._leases.strike(record.agent_id)
        self._budgets.cancel(record.agent_id)

    async def bear(
        self,
        records: Sequence[AgentRecord],
        *,
        needs: Staged | None = None,
        besides: Sequence[Write] = (),
        answer: CallClosed | None = None,
        note: Callable[[AgentRecord], EffectNoted] | None = None,
    ) -> None:
        """Commit new agents of one parent, by one step of its, and start their sessions.

        The step has what is written `besides` in front; it carries the `answer` to whoever wanted
        them, and what they `note`. Where it is refused there are none.
        """
        births = [*besides, *births_of(records, note, self._enforcement)]
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
            await self._trees.drop(records)
            for record in records:
                self.strike(record)
            raise

    async def restart_agent(
        self,
        agent_id: str,
        new_prompt: str,
        *,
        is_fresh: bool = False,
        besides: Sequence[Write] = (),
    ) -> AgentRecord:
        """Give an ended agent a new life: same identity, place, model and tools.

        The conversation goes on, where the provider can in the vendor's thread; or it `is_fresh`,
        and nothing that was said in the lives before is told to the model. Its step has what is
        written `besides` in front.
        """
        record = self.roster.get(agent_id)
        self._check_restart(record)
        await self.lives.leave(record)
        await self._trees.ensure(record)
        self._check_restart(record)
        self._budgets.launch_agent(record.descriptor)
        source, restore = record.state, record.restore_point()
        target = AgentState.PENDING if source is AgentState.KILLED else AgentState.STARTING
        changes = self.steps.move(record, target, "restarted", trigger=RESTART)
        begun: tuple[Write, ...] = ()
        if is_fresh:
            record.forget_conversation()
            begun = (Told(kind="conversation_begun", data={}),)
        new_prompt = self._with_news(record, new_prompt)
        record.begin_incarnation(new_prompt, target, self._clock.time())
        self.roster.revive(record)
        anew = AgentRestarted(prompt=new_prompt)
        step = self.steps.build(record, *besides, anew, *begun, *changes)
        try:
            await self.steps.commit(step, then=lambda: self._begin_life(record))
        except Exception:  # it has ended as before: nobody may wait for its end
            self._budgets.release(agent_id)
            self.roster.settle(record)
            restore()
            raise
        return record

    def _with_news(self, record: AgentRecord, prompt: str) -> str:
        """Return the prompt of a new life, with what has changed meanwhile: team and skills."""
        told, record.team = record.team, self._planner.team_of(record.descriptor)
        if told is None:
            told = told_of_team(record.descriptor.system_prompt)
        changed = news_of_team(told, record.team), self._skills.news(record)
        return "\n\n".join(filter(None, (prompt, *changed)))

    def ended_master(self, agent_id: str) -> AgentRecord:
        """Return the master of a run that is over; raises AgentSpawnError for any other agent."""
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
        self._leases.check_still_free(record)

    def _begin_life(self, record: AgentRecord) -> None:
        """Open the mailbox and start the session of an agent whose row is committed."""
        if self._is_closing or record.is_over:  # killed while its beginning was committed
            return
        record.started_at = self._clock.now()
        self._router.register_agent(record.agent_id, record.incarnation)
        self._idle.forget_unread(record.agent_id)
        self.lives.begin(record, self._begin(record))
        parent = self.lives.session_of(record.descriptor.parent_id or "")
        if parent is not None:
            parent.life.wait_anew()

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

        The step has what is written `besides` in front, and the `answer` to its call. An agent that
        has ended keeps its first result; one that cannot be written is a failure.
        """
        if (known := _known_end(record, result)) is not None:
            return known
        tree = await self._trees.settle(record, state)
        if (known := _known_end(record, result)) is not None:  # by somebody else, meanwhile
            return known
        before = record.state, record.waiting_on
        try:
            return await self._end(record, state, result, reason, tree, besides, answer, needs)
        except Exception as error:
            if record.has_ended or not is_unfit(error):
                raise
            record.state, record.waiting_on = before
            plain = plain_result(result, error, self._journal.redact)
            state = state if state is AgentState.KILLED else AgentState.FAILED
            return await self._end_plainly(record, state, plain, tree, besides)

    async def _end_plainly(
        self,
        record: AgentRecord,
        state: AgentState,
        result: AgentResult,
        tree: Mapping[str, Any] | None,
        besides: Sequence[Write],
    ) -> AgentResult:
        """End an agent whose end, or what was in front of it, could not be written: one of both."""
        before, reason = (record.state, record.waiting_on), result.error or ""
        try:
            return await self._end(record, state, result, reason, tree, besides)
        except Exception as error:
            if not besides or record.has_ended or not is_unfit(error):
                raise
            record.state, record.waiting_on = before
            return await self._end(record, state, result, reason, tree)

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
        now, began = self._clock.now(), record.started_at
        elapsed = 0.0 if began is None else now - began
        record.result = result = replace(result, duration=round(elapsed, 3))
        changes = self.steps.move(record, state, reason)
        resolved = self._requests.close_agent(record.agent_id, "agent_ended")
        answers = besides if answer is None else (*besides, answer)
        merged = () if tree is None else (_merged(tree),)
        told = self._task_result(record, result, tree)
        end = AgentEnded(result=result)
        step = self.steps.build(record, *answers, *resolved, *merged, end, *changes, *told)
        await self.steps.commit(step, then=lambda: self._settle(record), needs=needs)
        if tree is not None:
            self._trees.leave(record, tree)
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
        self._peers.falls_silent(record)
        self._router.unregister_agent(record.agent_id)
        self._broker.forget(record.agent_id)
        self._budgets.release(record.agent_id)
        for child in record.children:
            self._router.wake(child)
        parent = self.roster.settle(record)
        if parent is not None:
            self._router.wake(parent.agent_id)
            is_unread = self._router.holds(parent.agent_id, record.told)
            self._idle.ended(record, unread=record.told if is_unread else None)
        self.detector.ended(record.agent_id)

    async def fail_agent(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent, keeping what it said; its live children are killed first."""
        self._condemn(record, AgentState.FAILED, message, kind)
        await self._land(record)
        await self.kill_children(record, "its parent has failed")
        result = self._failure(record, message, kind)
        result = await self.end_agent(record, AgentState.FAILED, result, reason=message)
        await self.kill_children(record, "its parent has failed")  # spawned until its own end
        return result

    async def stop_and_fail(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent whose life goes on by itself: that is stopped first."""
        self._condemn(record, AgentState.FAILED, message, kind)
        await self.lives.stop(record)
        return await self.fail_agent(record, message, kind)

    def _failure(self, record: AgentRecord, error: str, kind: str) -> AgentResult:
        """Return the result of an agent that fails, with what it said."""
        session = self.lives.session_of(record.agent_id)
        said = "" if session is None else session.partial_text
        return AgentResult(
            agent_id=record.agent_id, success=False, summary=said, error=error, error_kind=kind
        )

    async def kill_agent(self, agent_id: str, reason: str = "killed") -> AgentResult:
        """Kill an agent and its descendants, children first; partial output is kept.

        Raises MessageRoutingError for an agent that is unknown or has ended already.
        """
        record = self.roster.get(agent_id)
        if record.state.is_terminal:
            raise MessageRoutingError(
                f"{record.descriptor.name} has ended already ({record.state.value})",
                code="agent_ended",
            )
        return await self.kill_tree(record, reason)

    async def kill_tree(self, record: AgentRecord, reason: str) -> AgentResult:
        """Kill what still lives of an agent and its descendants; return the agent's result.

        First it can do nothing more, then its children end, then it does itself.
        """
        if not record.state.is_terminal:
            self._condemn(record, AgentState.KILLED, reason, "killed")
            self.detector.moved(record.agent_id)
            await self.lives.stop(record)
            await self._land(record)
        await self.kill_children(record, reason)
        result = self._failure(record, reason, "killed")
        return await self.end_agent(record, AgentState.KILLED, result, reason=reason)

    def _condemn(self, record: AgentRecord, state: AgentState, reason: str, kind: str) -> None:
        """Decide an agent's end; with agents below it, its next step tells of that.

        So whoever goes on after a crash in the midst of their ends goes on with these. Below one
        that is condemned itself nobody need be told of.
        """
        record.is_condemned = True
        parent = self.roster.parent_of(record)
        is_root = parent is None or not parent.is_condemned
        if record.live_children and is_root and record.notes.ending is None:
            record.note(ending=Ending(state=state.value, reason=reason, kind=kind))

    async def _land(self, record: AgentRecord) -> None:
        """Have that in the ledger, if no step of the agent has carried it there by now."""
        if record.notes.ending is not None and record.riders and not record.state.is_terminal:
            await self.steps.write(record)

    async def kill_children(self, record: AgentRecord, reason: str) -> None:
        """Kill the live children of an agent with all below them, those at the bottom first."""
        kills = [self.kill_tree(child, reason) for child in record.live_children.values()]
        ends = await asyncio.gather(*kills, return_exceptions=True)  # none is left to itself
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def stop_all(self) -> None:
        """Stop every session and start no other; the agents stay as they are in the ledger."""
        self._is_closing = True
        await self.lives.stop_all(self.roster.records())


def _merged(tree: Mapping[str, Any]) -> Told:
    from prsm_core.engine.files.trees import of_tree  # once an agent has a worktree

    return of_tree(tree)


def _known_end(record: AgentRecord, result: AgentResult) -> AgentResult | None:
    """Return the result of an agent that has ended; None where it has not."""
    return (record.result or result) if record.state.is_terminal else None
