"""End agents: each is settled once, and its parent is told.

Other agents see an end only once it is committed (`record.has_ended`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.events import EVENT_FIELDS
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import Ending
from prsm_core.domain.writes import AgentEnded, MessageSent, Told
from prsm_core.engine.guarded.failing import is_unfit, plain_result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import CallClosed
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.agents.session import Lives
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.spawn import IdleChildren
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import AgentRecord, Roster, Staged
    from prsm_core.engine.workspace_files import Trees
    from prsm_core.interfaces.clock import Clock
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker

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
