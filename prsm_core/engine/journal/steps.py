"""Commit what agents do: build a step, write it, then tell those it concerns.

A state changes in memory when its step is built and in the store when it commits, in the same
order. What has no effect outside the engine is staged: it changes memory now, and the agent's next
step carries it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import MessageSent, StateChanged
from prsm_core.lifecycle import AGENT_MACHINE, path_to

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.steps import Committed, Write
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.state import AgentRecord, Roster, Staged
    from prsm_core.interfaces.clock import Clock
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter


class AgentSteps(Struct, eq=False, dict=True):
    """Writes the steps of agents."""

    journal: Journal
    roster: Roster
    router: MessageRouter
    detector: DeadlockDetector
    # Is told of messages that an agent has consumed.
    read: Callable[[str, Collection[str]], None]
    clock: Clock
    ids: Ids
    # Is told of what peers write, once it is in a mailbox.
    arrived: Callable[[RoutedMessage], None] = lambda _: None

    def build(self, record: AgentRecord, *writes: Write) -> Step:
        """Build a step of this agent and incarnation, with its riders."""
        if record.riders:
            writes, record.riders = (*writes, *record.riders), ()
        return Step(
            step_id=record.next_step_id(),
            session_id=record.descriptor.session_id,
            run_id=self.journal.run_id,
            agent_id=record.agent_id,
            incarnation=record.incarnation,
            at=self.clock.time(),
            writes=writes,
        )

    def build_of_run(self, *writes: Write) -> Step:
        """Build a step of the run itself."""
        return Step(
            step_id=self.journal.run_step_id(),
            session_id=self.journal.session_id,
            run_id=self.journal.run_id,
            agent_id=None,
            at=self.clock.time(),
            writes=writes,
        )

    async def commit(
        self,
        step: Step,
        *,
        consumed: Collection[str] = (),
        then: Callable[[], None] | None = None,
        needs: Staged | None = None,
        bears: Collection[str] = (),
    ) -> Committed:
        """Commit a step; its messages reach their mailboxes once it is durable."""

        def deliver() -> None:
            for write in step.writes:
                if type(write) is MessageSent:
                    self.router.send(write.message)
                    if write.message.type is MessageType.PEER:
                        self.arrived(write.message)
            if step.agent_id is not None and consumed:
                self.router.consumed(step.agent_id, consumed)
                self.read(step.agent_id, consumed)
                self.detector.consumed(step.agent_id)
            if then is not None:
                then()

        return await self.journal.commit(step, deliver, needs=needs, bears=bears)

    async def write(self, record: AgentRecord, *writes: Write) -> None:
        """Commit a step of this agent."""
        await self.commit(self.build(record, *writes))

    def stage(self, record: AgentRecord, *writes: Write, needs: Staged | None = None) -> Staged:
        """Write a step with the agent's next one, or within 20 ms; see `Journal.stage`."""
        return self.journal.stage(self.build(record, *writes), needs)

    async def land(self, agent_id: str | None = None) -> None:
        """Write what this agent, or all agents, have staged, before anything depends on it."""
        if agent_id is None:
            await self.journal.flush()
        else:
            await self.journal.land(agent_id)

    def move(
        self,
        record: AgentRecord,
        target: AgentState,
        reason: str = "",
        *,
        waiting_on: str | None = None,
        trigger: str | None = None,
    ) -> tuple[StateChanged, ...]:
        """Change the state in memory; return the writes for the next step."""
        source = record.state
        if trigger is None:
            path = path_to(source, target)
        else:
            AGENT_MACHINE.validate(source, target, trigger=trigger)
            path = (target,)
        changes = []
        for state in path:
            on = waiting_on if state is target else None
            changes.append(StateChanged(source=source, target=state, reason=reason, waiting_on=on))
            source = state
        record.state = target
        record.waiting_on = waiting_on
        return tuple(changes)

    def message(
        self,
        sender: AgentRecord | None,
        kind: MessageType,
        target: str,
        payload: dict[str, Any],
        correlation_id: str | None = None,
    ) -> RoutedMessage:
        """Build a message to an agent of this run."""
        return RoutedMessage(
            message_id=self.ids.ulid(),
            type=kind,
            source=None if sender is None else sender.agent_id,
            target=target,
            payload=payload,
            correlation_id=correlation_id,
            incarnation=self.roster.get(target).incarnation,
            created_at=self.clock.time(),
        )
