"""Stopping sessions: time to end by themselves, then a cancel; nobody waits without end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentResult
from prsm_core.engine.clocks import first_of
from prsm_core.errors import AgentSpawnError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.clock import Clock

_log = logging.getLogger("prsm.engine")

DRAIN_SECONDS = 5.0  # how long an ended agent's turn may take to close before it is cancelled
STOP_SECONDS = 10.0  # how long a cancelled session may take to let go of everything


async def stop_session(record: AgentRecord, clock: Clock) -> None:
    """Cancel an agent's session and wait until it has let go of everything.

    What does not let go in time is left behind; its turn is closed in the ledger.
    """
    task = record.task
    if task is None or task.done():
        return
    if not task.cancelling():  # a second time would break off its cleaning up
        task.cancel()
    if await first_of(clock, STOP_SECONDS, lambda: asyncio.wait({task})):
        return
    if record.session is None:
        return
    record.session.leave_slot()
    who = (record.descriptor.provider, record.descriptor.name)
    _log.warning("provider %s does not let go of %s: its session is left behind", *who)
    turn = record.session.turn
    if turn is not None:
        await first_of(clock, STOP_SECONDS, turn.abandon)


async def leave_session(record: AgentRecord, clock: Clock) -> None:
    """Have an ended agent's session let go of everything, for no two lives may run at a time.

    Raises AgentSpawnError when it does not.
    """
    await drain_sessions([record], clock)
    if record.task is not None and not record.task.done():
        raise AgentSpawnError(
            f"the last session of {record.descriptor.name} has not closed yet",
            hint="try again later, or spawn another agent",
            code="still_running",
        )


async def drain_sessions(
    records: Iterable[AgentRecord], clock: Clock, seconds: float = DRAIN_SECONDS
) -> None:
    """Give the sessions of agents this time to end by themselves, then stop them."""
    late = [record for record in records if record.task is not None and not record.task.done()]
    tasks = [record.task for record in late if record.task is not None]
    if tasks:
        await first_of(clock, seconds, lambda: asyncio.wait(tasks))
    await asyncio.gather(*(stop_session(record, clock) for record in late))


async def result_within(record: AgentRecord, clock: Clock, seconds: float) -> AgentResult:
    """Return an agent's result; a failed one if it has none within so many seconds."""
    if await first_of(clock, seconds, record.wait_ended) and record.result:
        return record.result
    return AgentResult(
        agent_id=record.agent_id,
        success=False,
        summary="",
        error=f"no result within {seconds:.0f} s",
        error_kind="timeout",
    )
