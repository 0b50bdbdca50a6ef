"""The registry of agents: spawns, restarts, ends and kills them. Only it commits steps.

A state changes in memory when its step is built and in the store when the step commits; both
happen in the same order. Other agents see an end only once it is committed (`record.is_live`).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import (
    AgentEnded,
    AgentRestarted,
    AgentSpawned,
    MessageSent,
    StateChanged,
    Told,
)
from prsm_core.engine.agents.deadlock import KnotResolver
from prsm_core.engine.agents.lives import Lives, result_within
from prsm_core.engine.agents.session import AgentSession
from prsm_core.engine.evidence.evidence import Sources
from prsm_core.engine.failing import is_unfit, plain_result
from prsm_core.engine.providers.retry import RetryPolicy
from prsm_core.engine.providers.team import news_of_team
from prsm_core.engine.spawn.idle import IdleChildren
from prsm_core.engine.spawn.mcp_servers import choose_servers
from prsm_core.engine.spawn.plan import Identity, choose_alias, describe_child
from prsm_core.engine.spawn.regions import LeaseTable
from prsm_core.engine.state import AgentRecord, Roster
from prsm_core.errors import AgentSpawnError, MessageRoutingError, PrsmError
from prsm_core.lifecycle.agent import RESTART, path_to, validate_transition
from prsm_core.messaging.deadlock import DeadlockDetector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest
    from prsm_core.domain.steps import Committed, Write
    from prsm_core.domain.writes import CallClosed
    from prsm_core.engine.runtime import Runtime

WAIT_MARGIN_SECONDS = 60.0


class AgentManager:
    """Owns the records of all agents of a run."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.roster = Roster()
        self.leases = LeaseTable(self.roster)
        self.idle = IdleChildren()
        self.lives: Lives[AgentSession] = Lives(runtime.background, runtime.clock)
        self.detector = DeadlockDetector(
            is_ready=lambda _, wait: bool(wait.key()),
            is_over=lambda agent_id: not self.roster.get(agent_id).is_live,
            on_knot=KnotResolver(self).resolve,
        )
        self.retry = RetryPolicy(attempts=runtime.settings.engine.retry_attempts)
        self.sources = Sources(
            roster=self.roster,
            conversations=runtime.conversations,
            gates=runtime.gates,
            launcher=runtime.launcher,
            journal=runtime.journal,
            clock=runtime.clock,
            refusals=runtime.settings.engine.gate_refusals,
        )
        self.is_stopped = False  # the engine closes: no session is started any more

    def build(self, record: AgentRecord, *writes: Write) -> Step:
        """Build a step of this agent and incarnation, with a new step id."""
        return Step(
            step_id=record.next_step_id(),
            session_id=record.descriptor.session_id,
            run_id=self.runtime.journal.run_id,
            agent_id=record.agent_id,
            incarnation=record.incarnation,
            at=self.runtime.clock.time(),
            writes=writes,
        )

    async def commit(
        self,
        step: Step,
        *,
        consumed: Collection[str] = (),
        then: Callable[[], None] | None = None,
    ) -> Committed:
        """Commit a step; its messages reach their mailboxes once it is durable."""
        router = self.runtime.router

        def deliver() -> None:
            for sent in step.all(MessageSent):
                router.send(sent.message)
            if step.agent_id is not None and consumed:
                router.consumed(step.agent_id, consumed)
                self.idle.read(step.agent_id, consumed)
                self.detector.changed((step.agent_id,))
            if then is not None:
                then()

        return await self.runtime.journal.commit(step, deliver)

    async def write(self, record: AgentRecord, *writes: Write) -> None:
        """Commit a step of this agent."""
        await self.commit(self.build(record, *writes))

    def move(
        self,
        record: AgentRecord,
        target: AgentState,
        reason: str = "",
        *,
        waiting_on: str | None = None,
        trigger: str | None = None,
    ) -> tuple[StateChanged, ...]:
        """Change the state in memory; return what the next step must carry."""
        source = record.state
        if trigger is None:
            path = path_to(source, target)
        else:
            validate_transition(source, target, trigger=trigger)
            path = (target,)
        changes = []
        for state in path:
            on = waiting_on if state is target else None
            changes.append(StateChanged(source=source, target=state, reason=reason, waiting_on=on))
            source = state
        record.set_state(target)
        record.waiting_on = waiting_on
        return tuple(changes)

    def identity(self, alias: str | None, request: SpawnRequest) -> Identity:
        """Return the names of a new agent."""
        runtime = self.runtime
        if alias is not None and runtime.journal.redactor.finds(alias):
            raise AgentSpawnError(
                "the agent's name holds a secret", hint="choose another name or leave it out"
            )
        return Identity(
            agent_id=runtime.ids.agent(),
            alias=choose_alias(alias, request.role, self.roster.taken_names),
            session_id=runtime.journal.session_id,
            run_id=runtime.journal.run_id,
            created_at=runtime.clock.time(),
        )

    async def spawn_agent(
        self, request: SpawnRequest, plan: AgentDescriptor | None = None
    ) -> AgentRecord:
        """Spawn a child of `request.parent_id`, as planned just now if that was done already.

        Raises AgentSpawnError, MaxDepthExceededError or ModelNotAvailableError; then nothing
        was written.
        """
        record = await self.admit(self.plan(request) if plan is None else plan)
        record.has_profile = request.expert is not None
        return record

    def plan(self, request: SpawnRequest) -> AgentDescriptor:
        """Return the agent that a request makes now; raises what spawning it would raise."""
        if request.parent_id is None:
            raise AgentSpawnError("a child needs a parent", hint="the run spawns its master")
        parent = self.roster.get(request.parent_id)
        if parent.is_over:
            raise AgentSpawnError("an agent that has ended cannot spawn", code="agent_ended")
        return describe_child(
            self.runtime.budgets.clamp(request),
            parent.descriptor,
            self.identity(request.name, request),
            workforce=self.runtime.workforce,
            refused=self.runtime.enforcement.refused,
            workspace=self.runtime.workspace,
            mcp_servers=choose_servers(
                self.runtime.settings,
                prompt=request.prompt,
                role=request.role,
                explicit=request.mcp_servers,
                exclude=request.exclude_plugins,
            ),
            leases=self.leases.beside(request.parent_id),
        )

    async def admit(self, descriptor: AgentDescriptor) -> AgentRecord:
        """Commit a new agent and start its session."""
        self.check_room(1)
        self.runtime.budgets.launch_agent(descriptor)
        record = AgentRecord(descriptor)
        record.team = self.runtime.workforce.team_of(descriptor)
        self.roster.enlist(record)
        self.leases.enter(record)
        late = self.runtime.enforcement.tell_parts(descriptor.provider, descriptor.agent_id)
        notices = [Told(kind="notice", data={"level": "warning", "text": line}) for line in late]
        step = self.build(record, AgentSpawned(agent=descriptor), *notices)
        try:
            await self.commit(step, then=lambda: self._begin_life(record))
        except PrsmError:  # nothing was written, so there is no such agent
            self.roster.strike(record)
            self.leases.strike(record.agent_id)
            self.runtime.budgets.cancel(record.agent_id)
            raise
        return record

    def check_room(self, count: int) -> None:
        """Raise AgentSpawnError unless the run may have `count` agents more."""
        limit = self.runtime.settings.engine.max_agents_per_run
        have = self.roster.size(self.runtime.journal.run_id)
        if have + count > limit:
            raise AgentSpawnError(
                f"the run has {have} of {limit} agents, which is max_agents_per_run",
                hint="restart one of your children instead",
                code="too_many_agents",
            )

    async def restart_agent(self, agent_id: str, new_prompt: str) -> AgentRecord:
        """Give an ended agent a new life: same identity, place, model and tools.

        Where the provider can, the conversation goes on in the vendor's thread.
        """
        record = self.roster.get(agent_id)
        self._check_restart(record)
        await self.lives.leave(record)
        self._check_restart(record)
        self.runtime.budgets.launch_agent(record.descriptor)
        source = record.state
        target = AgentState.PENDING if source is AgentState.KILLED else AgentState.STARTING
        changes = self.move(record, target, "restarted", trigger=RESTART)
        new_prompt = self._with_news(record, new_prompt)
        record.begin_incarnation(new_prompt, target)
        self.roster.revive(record)
        step = self.build(record, AgentRestarted(prompt=new_prompt), *changes)
        await self.commit(step, then=lambda: self._begin_life(record))
        return record

    def _with_news(self, record: AgentRecord, prompt: str) -> str:
        """Return the prompt of a new life, with what has changed of the agent's team meanwhile."""
        told, record.team = record.team, self.runtime.workforce.team_of(record.descriptor)
        return "\n\n".join(filter(None, (prompt, news_of_team(told, record.team))))

    def _check_restart(self, record: AgentRecord) -> None:
        if not record.state.is_terminal or record.is_live:
            raise AgentSpawnError(
                f"{record.descriptor.name} has not ended",
                hint="send_child_prompt reaches a running child",
                code="still_running",
            )
        parent = self.roster.parent_of(record)
        if parent is not None and (parent.is_over or parent.is_condemned):
            raise AgentSpawnError("its parent has ended", code="agent_ended")
        self.leases.check_still_free(record)

    def _begin_life(self, record: AgentRecord) -> None:
        """Open the mailbox and start the session of an agent whose row is committed."""
        if self.is_stopped or record.state.is_terminal:  # killed while its beginning was committed
            return
        record.started_at = self.runtime.clock.now()
        self.runtime.router.register_agent(record.agent_id, record.incarnation)
        self.idle.forget_unread(record.agent_id)
        self.lives.begin(record, AgentSession(self, record))
        parent = self.lives.session_of(record.descriptor.parent_id or "")
        if parent is not None:
            parent.child_began()

    async def wait_for_result(self, agent_id: str) -> AgentResult:
        """Return the agent's result; a failed one if it outlives its clock by a minute."""
        limit = self.runtime.settings.engine.agent_timeout_seconds + WAIT_MARGIN_SECONDS
        return await result_within(self.roster.get(agent_id), self.runtime.clock, limit)

    async def wait_for_multiple(self, agent_ids: Sequence[str]) -> list[AgentResult]:
        """Return the results of several agents, in the order given."""
        return list(await asyncio.gather(*(self.wait_for_result(a) for a in agent_ids)))

    async def end_agent(
        self,
        record: AgentRecord,
        state: AgentState,
        result: AgentResult,
        *,
        reason: str = "",
        answer: CallClosed | None = None,
    ) -> AgentResult:
        """Settle the agent once: its state, its result, and TASK_RESULT to its parent.

        An agent that has ended keeps its first result; one that cannot be written is a failure.
        """
        if record.state.is_terminal:
            return record.result or result
        before = record.state, record.waiting_on
        try:
            return await self._end(record, state, result, reason, answer)
        except Exception as error:
            if record.ended.done() or not is_unfit(error):
                raise
            record.state, record.waiting_on = before
            plain = plain_result(result, error, self.runtime.journal.redact)
            state = state if state is AgentState.KILLED else AgentState.FAILED
            return await self._end(record, state, plain, plain.error or "")

    async def _end(
        self,
        record: AgentRecord,
        state: AgentState,
        result: AgentResult,
        reason: str,
        answer: CallClosed | None = None,
    ) -> AgentResult:
        self.detector.moved(record.agent_id)  # it is about to end: nobody is stuck because of it
        now, began = self.runtime.clock.now(), record.started_at
        elapsed = 0.0 if began is None else now - began
        record.result = result = replace(result, duration=round(elapsed, 3))
        changes = self.move(record, state, reason)
        resolved = self.runtime.desk.close_agent(record.agent_id, "agent_ended")
        answers = () if answer is None else (answer,)
        told = self._task_result(record, result)
        end = AgentEnded(result=result)
        step = self.build(record, *answers, *resolved, end, *changes, *told)
        await self.commit(step, then=lambda: self._settle(record))
        return result

    def _task_result(self, record: AgentRecord, result: AgentResult) -> tuple[MessageSent, ...]:
        parent = self.roster.parent_of(record)
        if parent is None or parent.state.is_terminal:
            return ()
        payload = result.to_dict()
        message = self.message(record, MessageType.TASK_RESULT, parent.agent_id, payload)
        record.told = message.message_id
        return (MessageSent(message=message),)

    def _settle(self, record: AgentRecord) -> None:
        record.ended.set_result(None)
        self.runtime.router.unregister_agent(record.agent_id)
        self.runtime.broker.forget(record.agent_id)
        self.runtime.budgets.release(record.agent_id)
        for child in record.children:
            self.runtime.router.wake(child)
        parent = self.roster.parent_of(record)
        if parent is not None:
            parent.live_children.pop(record.agent_id, None)
            self.runtime.router.wake(parent.agent_id)
            is_unread = self.runtime.router.holds(parent.agent_id, record.told)
            self.idle.ended(record, unread=record.told if is_unread else None)
        self.detector.changed((record.agent_id,))

    async def fail_agent(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent, keeping what it said; its live children are killed first."""
        record.is_condemned = True
        await self.kill_children(record, "its parent has failed")
        result = self._failure(record, message, kind)
        result = await self.end_agent(record, AgentState.FAILED, result, reason=message)
        await self.kill_children(record, "its parent has failed")  # spawned until its own end
        return result

    async def stop_and_fail(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent whose life goes on by itself: that is stopped first."""
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
            record.is_condemned = True
            self.detector.moved(record.agent_id)
            await self.lives.stop(record)
        await self.kill_children(record, reason)
        result = self._failure(record, reason, "killed")
        return await self.end_agent(record, AgentState.KILLED, result, reason=reason)

    async def kill_children(self, record: AgentRecord, reason: str) -> None:
        """Kill the live children of an agent with all below them, each children first."""
        kills = [self.kill_tree(child, reason) for child in record.live_children.values()]
        ends = await asyncio.gather(*kills, return_exceptions=True)  # none is left to itself
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def stop_all(self) -> None:
        """Stop every session and start no other; the agents stay as they are in the ledger."""
        self.is_stopped = True
        await self.lives.stop_all(self.roster.records())

    def message(
        self,
        sender: AgentRecord | None,
        kind: MessageType,
        target: str,
        payload: dict[str, Any],
        correlation_id: str | None = None,
    ) -> RoutedMessage:
        """Build a message to an agent of this run, with a new id."""
        return RoutedMessage(
            message_id=self.runtime.ids.ulid(),
            type=kind,
            source=None if sender is None else sender.agent_id,
            target=target,
            payload=payload,
            correlation_id=correlation_id,
            incarnation=self.roster.get(target).incarnation,
            created_at=self.runtime.clock.time(),
        )
