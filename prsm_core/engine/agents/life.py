"""One life of an agent: whether it is over, its slot, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.domain.tools import ORCHESTRATION_TOOLS
from prsm_core.engine.agents.parts import SlotLease, Slots
from prsm_core.engine.state import Evidence
from prsm_core.engine.turns.waits import edge_of
from prsm_core.lifecycle import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.domain.writes import StateChanged
    from prsm_core.engine.agents.parts import SessionParts
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.engine.turns.waits import Wait


# Of several, the first one is told.
_WAIT_ORDER = (
    AgentState.WAITING_FOR_PARENT,
    AgentState.WAITING_FOR_EXPERT,
    AgentState.WAITING_FOR_CHILD,
)


class AgentLife:
    """Owns the slot of one life and its present waits."""

    __slots__ = ("_lease", "_number", "_parts", "_waits", "is_leaving", "record", "turn")

    def __init__(self, record: AgentRecord, parts: SessionParts, *, is_external: bool) -> None:
        self.record = record
        self.turn: TurnRun | None = None  # the running one, or the last
        self.is_leaving = False  # its session is to be left: no wait goes on in it
        self._parts = parts
        self._number = record.incarnation
        self._lease = SlotLease(Slots(1) if is_external else parts.slots)
        self._waits: Sequence[Wait] = ()  # what blocks the agent, or did until somebody moved it

    @property
    def is_over(self) -> bool:
        """Whether this life may do nothing more; the agent's next one may have begun."""
        has_passed = self.record.incarnation != self._number
        return has_passed or self.record.is_over or self._parts.is_closing()

    @property
    def holds_slot(self) -> bool:
        """Whether the agent counts as one that works."""
        return self._lease.held

    @property
    def is_working(self) -> bool:
        """Whether the agent runs and holds a slot, so that it can be answered at once."""
        return self._lease.held and self.record.state is AgentState.RUNNING

    async def take_slot(self) -> None:
        """Hold a slot, waiting in line for it; the log tells first who has left theirs."""
        if self._lease.held:
            return
        await self._lease.acquire()
        for act in self._parts.slots.untold():
            if not act.is_settled:  # while another one was written
                await self._parts.steps.land(act.step.agent_id)

    def release_slot(self) -> None:
        """Hold no slot for now."""
        self._lease.release()

    def leave_slot(self) -> None:
        """Hold no slot, and never again; nothing of this life writes any more."""
        self._lease.close()
        if self.record.incarnation == self._number:  # else the next one may have begun
            self._parts.quiet.turn_over(self.record.agent_id)

    def leave(self) -> None:
        """Let go of everything: it is over. Where the agent has ended nobody asks what it said."""
        self.leave_slot()
        if self.record.has_ended and self.record.incarnation == self._number:
            if self.turn is not None:
                self.turn.forget()
            self.turn = None
            self._parts.forget(self.record.agent_id)

    def resume(self) -> tuple[StateChanged, ...]:
        """Let a waiting agent run again, if it holds a slot; return what a step must carry."""
        if self.record.state in WAITING and self._lease.held:
            return self._parts.steps.move(self.record, AgentState.RUNNING, "answered")
        return ()

    @property
    def is_blocked(self) -> bool:
        """Whether all that the agent does is waiting, as far as nobody has moved it since."""
        return bool(self._waits)

    def moved(self) -> None:
        """Note that the agent is not blocked any more, or about to move."""
        if self._waits and self.record.incarnation == self._number:
            self._waits = ()
            self._parts.detector.moved(self.record.agent_id)

    def idles(self) -> None:
        """Note that nothing of the agent acts, while it keeps its slot: a person is asked."""
        self._parts.providers.residents.waits(self.record.agent_id)

    def blocked(self, waits: Sequence[Wait]) -> None:
        """Become WAITING and give the slot back; a knot of waits is found here and now."""
        record, steps = self.record, self._parts.steps
        wait = waits[0] if len(waits) == 1 else min(waits, key=lambda w: _WAIT_ORDER.index(w.state))
        act = None
        if (record.state, record.waiting_on) != (wait.state, wait.on):
            reason = f"waits for {wait.on}"
            changes = steps.move(record, wait.state, reason, waiting_on=wait.on)
            act = steps.stage(record, *changes)
        self._lease.release(act)
        self._waits = waits
        self._parts.providers.residents.waits(record.agent_id)
        if not record.is_condemned:
            self._parts.detector.blocked(record.agent_id, [edge_of(wait) for wait in waits])

    def wait_anew(self) -> None:
        """If the agent is blocked, let it wait for those too that have begun since."""
        detector, agent_id = self._parts.detector, self.record.agent_id
        if detector.graph.waits_of(agent_id):
            detector.blocked(agent_id, [edge_of(wait) for wait in self._waits])

    async def runs_again(self, rests: Callable[[], bool]) -> None:
        """Become RUNNING, unless by the time that it has a slot the turn rests again."""
        self.moved()
        if self.record.state not in WAITING:
            return
        await self.take_slot()
        if rests():
            self._lease.release()
            return
        if changes := self.resume():
            self._parts.steps.stage(self.record, *changes)

    @property
    def has_only_talked(self) -> bool:
        """Whether this life can have done nothing but orchestration, for sure."""
        turn, record = self.turn, self.record
        if turn is None or record.children or record.incarnation > 1 or record.next_turn > 2:
            return False
        folders = self._parts.files.folders
        if folders.of(record.descriptor.cwd) != folders.main:
            return False  # what is done in a worktree is seen there
        ours = [row.tool_name for row in turn.calls.rows.values()]
        ours += [call.name for call in turn.calls.open]
        talk = ORCHESTRATION_TOOLS - {"run_bash"}
        return not turn.fold.calls and talk.issuperset(ours)

    async def weigh(
        self, artifacts: Sequence[str], commands: Sequence[str], *, is_last: bool = False
    ) -> Evidence:
        """Look into what the agent says that it has done, and run the gates if it changed files.

        Raises OrchestrationError, code `gate_failed`, unless it `is_last`: to send the agent back.
        """
        if not (artifacts or commands) and self.has_only_talked:
            return Evidence()
        proof = self._parts.files.proof(self.record)
        return await proof.weigh(artifacts, commands, is_last=is_last)
