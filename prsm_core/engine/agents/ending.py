"""The end of a run's agents: whatever ends the run, none of them outlives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.engine.agents.manager import AgentManager
    from prsm_core.engine.state import AgentRecord

CLOSING_SECONDS = 2.0  # how long run_finished waits for the last turn's usage


async def end_agents(manager: AgentManager, roots: Iterable[AgentRecord], why: str) -> None:
    """Kill these agents with all below them, and wait until every agent has let go."""
    for root in roots:
        await manager.kill_tree(root, why)
    await manager.lives.drain(manager.roster.records(), CLOSING_SECONDS)


async def end_masters(manager: AgentManager, why: str) -> None:
    """Kill all that live of a run that nobody drives, also where it was only being begun."""
    masters = (one for one in manager.roster.records() if one.descriptor.parent_id is None)
    await end_agents(manager, [one for one in masters if not one.state.is_terminal], why)
