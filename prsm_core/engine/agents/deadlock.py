"""Untie a knot of waits: by a reminder, else by an empty answer, else by one victim.

A member that was given a question and forgot it is shown it once more. Else a member that waits for
what others write has its wait end without a message, once. Else the deepest and youngest member
fails, so that its parent can go on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.domain.agents import AgentState
from prsm_core.domain.writes import Told
from prsm_core.engine.turns.waits import AnyMessage
from prsm_core.errors import DeadlockDetectedError, FencedError
from prsm_core.messaging.waits import ANYONE

if TYPE_CHECKING:
    from collections.abc import Container

    from prsm_core.engine.agents.manager import AgentEnds
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.journal.unit import AgentSteps
    from prsm_core.engine.state import AgentRecord, OpenQuestion, Roster
    from prsm_core.kit.background import Background
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.messaging.waits import WaitFor

_log = logging.getLogger("prsm.engine")


class KnotResolver(Struct, eq=False):
    """Unties a knot in the loop step in which it was found."""

    roster: Roster
    detector: DeadlockDetector
    router: MessageRouter
    peers: Peers
    steps: AgentSteps
    ends: AgentEnds
    background: Background

    def resolve(self, agents: frozenset[str], by_sweep: bool) -> None:
        """Make one member of the knot move or end."""
        members = [self.roster.get(agent) for agent in sorted(agents)]
        waits = [self._describe(record) for record in members]
        if by_sweep:
            _log.error("a knot was missed when it closed: %s", waits)
        holder, question = self._find_reminder(members)
        if holder is not None and question is not None:
            mover, action = holder, "reminder"
            self._remind(holder, question)
        elif (listener := self._find_listener(members)) is not None:
            mover, action = listener, "unanswered"
            self.peers.give_up(listener)
        else:
            mover, action = max(members, key=_depth_and_age), "victim"
            mover.is_condemned = True
        self.detector.moved(mover.agent_id)
        victim = mover.agent_id if action == "victim" else None
        data = {"agents": sorted(agents), "waits": waits, "victim": victim, "action": action}
        told = Told(kind="deadlock_detected", data=data)
        work = self._tell(mover, told) if victim is None else self._fail(mover, waits, told)
        self.background.launch(work, name=f"deadlock {action}")

    def _remind(self, holder: AgentRecord, question: OpenQuestion) -> None:
        about, notes = question.message.correlation_id or "", holder.notes
        holder.note(
            reminded=(*holder.open_among(notes.reminded), about),
            reminders=(*notes.reminders, about),
        )
        self.router.wake(holder.agent_id)

    def _find_reminder(
        self, members: list[AgentRecord]
    ) -> tuple[AgentRecord | None, OpenQuestion | None]:
        inside = {record.agent_id for record in members}
        for record in sorted(members, key=_depth_and_age):
            if not self._only_lacks_a_message(record, inside):
                continue
            for question in record.questions.values():
                about = question.message.correlation_id
                is_new = question.delivered and about not in record.notes.reminded
                if is_new and question.message.source in inside:
                    return record, question
        return None, None

    def _only_lacks_a_message(self, record: AgentRecord, inside: Container[str]) -> bool:
        """Whether any message would move an agent.

        Its model goes on when every call of the response is answered. If the agent also waits for a
        member of the knot, no message helps.
        """
        if record.state is not AgentState.WAITING_FOR_CHILD:
            return False
        stuck = self._stuck_waits(record, inside)
        return len(stuck) == 1 and isinstance(stuck[0].key, AnyMessage)

    def _find_listener(self, members: list[AgentRecord]) -> AgentRecord | None:
        """Return a member that can continue once it knows that nobody writes to it now."""
        inside = {record.agent_id for record in members}
        for record in sorted(members, key=_depth_and_age, reverse=True):
            stuck = self._stuck_waits(record, inside)
            listens = bool(stuck) and all(wait.targets == (ANYONE,) for wait in stuck)
            if listens and self.peers.may_give_up(record):
                return record
        return None

    def _stuck_waits(self, record: AgentRecord, inside: Container[str]) -> list[WaitFor]:
        """Return a member's waits that only members or ended agents could end."""

        def is_lost(target: str) -> bool:
            return target in inside or self.roster.get(target).has_ended

        waits, targets = self.detector.graph.waits_of(record.agent_id), self.detector.targets
        return [w for w in waits if not w.key.ready() and all(map(is_lost, targets(w)))]

    async def _fail(self, victim: AgentRecord, waits: list[dict[str, Any]], told: Told) -> None:
        names = ", ".join(sorted(f"{wait['name']} waits for {wait['on']}" for wait in waits))
        error = DeadlockDetectedError(f"deadlock: {names}")
        try:  # at once: the provider may take seconds to let go of the victim
            await self._tell(victim, told)
        except FencedError:
            return  # somebody has ended it meanwhile, which unties the knot as well
        await self.ends.stop_and_fail(victim, error.message, error.code)

    async def _tell(self, record: AgentRecord, told: Told) -> None:
        """Commit the event of a knot, after all the waits that form it."""
        await self.steps.land()
        await self.steps.write(record, told)

    def _describe(self, record: AgentRecord) -> dict[str, Any]:
        waits = self.detector.graph.waits_of(record.agent_id)
        targets = {target for wait in waits for target in self.detector.targets(wait)}
        return {
            "agent": record.agent_id,
            "name": record.descriptor.name,
            "on": record.waiting_on or "",
            "targets": sorted(targets - {record.agent_id}),
        }


def _depth_and_age(record: AgentRecord) -> tuple[int, float, str]:
    descriptor = record.descriptor
    return (descriptor.depth, descriptor.created_at, descriptor.agent_id)
