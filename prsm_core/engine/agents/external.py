"""External masters: somebody outside the engine drives them, and leaving ends them.

Such an agent takes no slot, and no clock of reasoning or silence ends its turn: the one turn
lasts as long as its driver stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.turns import StopReason
from prsm_core.engine.providers.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.turns import TurnResult
    from prsm_core.engine.turns.ports import Ends, Life

LEFT = "whoever led this run has left"


def describe_external(master: AgentDescriptor, provider: str, team: str) -> AgentDescriptor:
    """Return a master that `provider` drives; what it would have run on is for its children.

    It has a prompt of its own: ours only adds which models its children may have.
    """
    return replace(
        master,
        provider=provider,
        model=DEFAULT_MODEL,
        grant=replace(master.grant, model=f"{master.provider}/{master.model}"),
        system_prompt=team,
        mcp_servers={},
    )


async def settle_left(ends: Ends, life: Life, result: TurnResult) -> None:
    """End an agent whose one turn is over: first its children, then itself.

    Gates run for it as for any other. Nobody is there to be sent back.
    """
    record = life.record
    if result.error is not None or result.stop_reason is not StopReason.END_TURN:
        why = result.stop_reason.value if result.error is None else result.error.message
        await ends.fail_agent(record, f"the turn stopped: {why}", "unknown")
        return
    await ends.kill_children(record, LEFT)
    evidence = await life.weigh((), (), is_last=True)
    summary = result.last_text.strip() or LEFT
    done = evidence.on(AgentResult(agent_id=record.agent_id, success=True, summary=summary))
    await ends.end_agent(record, AgentState.COMPLETED, done, reason=LEFT)
