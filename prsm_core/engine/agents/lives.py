"""The lives of agents. One ends by itself or by a cancel; nobody waits for it without end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.errors import AgentSpawnError
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background

_log = logging.getLogger("prsm.engine")

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
    """Owns the newest life of every agent: its session, and the task that it runs in.

    Of an agent that has ended nothing is left once its life has let go of all.
    """

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
