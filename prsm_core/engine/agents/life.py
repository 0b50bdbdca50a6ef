"""The lives of agents: each one's slot and waits, and the task that it runs in."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.domain.agents import AgentState
from prsm_core.domain.tools import ORCHESTRATION_TOOLS
from prsm_core.engine.state import Evidence
from prsm_core.engine.turns.waits import edge_of
from prsm_core.errors import AgentSpawnError
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from prsm_core.domain.writes import StateChanged
    from prsm_core.engine.agents.session import AgentSession, SessionParts
    from prsm_core.engine.state import AgentRecord, Staged
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.engine.turns.waits import Wait
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background

_log = logging.getLogger("prsm.engine")


class Slots:
    """Bounds how many agents have a streaming model or a running tool at one time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._free = asyncio.Semaphore(limit)
        # Acts that tell of slots which are free again.
        self._let_go: list[Staged] = []

    async def acquire(self) -> None:
        """Take a slot, waiting in line for it."""
        await self._free.acquire()
        self.in_use += 1

    def untold(self) -> list[Staged]:
        """Return what must be written before the ledger may have the newest holder at work."""
        self._let_go = [act for act in self._let_go if not act.is_settled]
        return self._let_go if self.in_use + len(self._let_go) > self.limit else []

    def release(self, act: Staged | None = None) -> None:
        """Give a slot back, of which `act` will tell."""
        if act is not None:
            self._let_go.append(act)
        self.in_use -= 1
        self._free.release()


class SlotLease(Struct, eq=False):
    """One agent's hold on a slot: taking it twice, or giving it back twice, is one act."""

    slots: Slots
    held: bool = False
    _is_closed: bool = False
    _lock: asyncio.Lock | None = None  # while somebody asks: an idle agent needs no memory for it
    _asking: int = 0  # how many do

    async def acquire(self) -> None:
        """Hold a slot."""
        lock = self._lock = self._lock or asyncio.Lock()
        self._asking += 1
        try:
            async with lock:
                if not self.held:
                    await self.slots.acquire()
                    self.held = True
                    if self._is_closed:  # whoever wanted it has ended meanwhile
                        self.release()
        finally:
            self._asking -= 1
            if not self._asking:
                self._lock = None

    def release(self, act: Staged | None = None) -> None:
        """Hold none, of which `act` tells."""
        if self.held:
            self.held = False
            self.slots.release(act)

    def close(self) -> None:
        """Hold none, and never again."""
        self._is_closed = True
        self.release()


# Of several, the first one is told.
_WAIT_ORDER = (
    AgentState.WAITING_FOR_PARENT,
    AgentState.WAITING_FOR_EXPERT,
    AgentState.WAITING_FOR_CHILD,
)
WAITING = frozenset(_WAIT_ORDER)


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


DRAIN_SECONDS = 5.0  # how long an ended agent's turn may take to close before it is cancelled
STOP_SECONDS = 10.0  # how long a cancelled session may take to let go of everything


class _Life(Struct, eq=False):
    record: AgentRecord
    session: AgentSession
    task: asyncio.Task[None]
    until: float | None = None  # monotonic: it is cancelled, and waited for until then
    is_left: bool = False  # it was waited for, in vain: nobody does so again

    @property
    def is_open(self) -> bool:
        return not self.task.done() and not self.is_left


class Lives(Struct, eq=False):
    """Owns the newest life of every agent, until it has ended and let go of all."""

    background: Background
    clock: Clock
    _newest: dict[str, _Life] = field(default_factory=dict)

    def begin(self, record: AgentRecord, session: AgentSession) -> None:
        """Run a session as the agent's life from now on."""
        name = f"agent {record.descriptor.name}"
        task = self.background.start(session.run(), name=name, is_bare=True)
        self._newest[record.agent_id] = _Life(record, session, task)

    def forget(self, agent_id: str) -> None:
        """Keep nothing of an agent's life: it is over, and so is the agent."""
        self._newest.pop(agent_id, None)

    def session_of(self, agent_id: str) -> AgentSession | None:
        """Return the session of an agent's newest life; None before its first, and once over."""
        life = self._newest.get(agent_id)
        return None if life is None else life.session

    def task_of(self, agent_id: str) -> asyncio.Task[None] | None:
        """Return the task of an agent's newest life; None before its first, and once over."""
        life = self._newest.get(agent_id)
        return None if life is None else life.task

    def wait_anew(self, agent_id: str) -> None:
        """Let an agent that is blocked wait for those too that have begun since."""
        if (session := self.session_of(agent_id)) is not None:
            session.life.wait_anew()

    def running(self) -> list[asyncio.Task[None]]:
        """Return the tasks of all lives that have not let go of everything."""
        return [life.task for life in self._newest.values() if not life.task.done()]

    def begin_stop(self, record: AgentRecord) -> None:
        """Cancel an agent's life, once: a second time would break off its cleaning up."""
        life = self._newest.get(record.agent_id)
        if life is None or life.task.done() or life.until is not None:
            return
        life.until = self.clock.now() + self.background.parting.most(STOP_SECONDS)
        if not life.task.cancelling():
            life.task.cancel()

    async def stop(self, record: AgentRecord) -> None:
        """Cancel an agent's life and wait until it has let go of everything.

        What does not let go in time is left behind; its turn is closed in the ledger.
        """
        life = self._newest.get(record.agent_id)
        if life is None or not life.is_open:
            return
        task = life.task
        self.begin_stop(record)
        left = max((life.until or 0.0) - self.clock.now(), 0.0)
        if await first_of(self.clock, left, lambda: asyncio.wait({task})) or task.done():
            return
        life.is_left = True
        life.session.life.leave_slot()
        who = (record.descriptor.provider, record.descriptor.name)
        _log.warning("provider %s does not let go of %s: its session is left behind", *who)
        await self._within(STOP_SECONDS, life.session.abandon_turn)

    async def leave(self, record: AgentRecord) -> None:
        """Have an ended agent's life let go of everything, for no two may run at a time.

        Raises AgentSpawnError when it does not.
        """
        life = self._newest.get(record.agent_id)
        if life is None:
            return
        await self._drain([life], DRAIN_SECONDS)
        if not life.task.done():
            raise AgentSpawnError(
                f"the last session of {record.descriptor.name} has not closed yet",
                hint="try again later, or spawn another agent",
                code="still_running",
            )

    async def drain_all(self, seconds: float) -> None:
        """Give all lives this time to end by themselves, then stop them."""
        await self._drain([*self._newest.values()], seconds)

    async def _drain(self, lives: Sequence[_Life], seconds: float) -> None:
        late = [life.task for life in lives if life.is_open]
        if late:
            await self._within(seconds, lambda: asyncio.wait(late))
        await self._stop(lives)

    async def stop_all(self) -> None:
        """Stop all lives, all at a time."""
        await self._stop([*self._newest.values()])

    async def _stop(self, lives: Sequence[_Life]) -> None:
        alive = [life.record for life in lives if life.is_open]
        if alive:  # most have ended: they get no task
            await asyncio.gather(*map(self.stop, alive))

    async def _within(self, seconds: float, wait: Callable[[], Awaitable[object]]) -> bool:
        return await first_of(self.clock, self.background.parting.most(seconds), wait)
