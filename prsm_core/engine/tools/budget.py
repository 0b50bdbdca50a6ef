"""The get_budget tool: what is used, reserved and left, for those who may spend or hand down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.engine.turns.calls import Reply

if TYPE_CHECKING:
    from prsm_core.engine.turns.calls import Call


async def get_budget(call: Call) -> Reply:
    """Return the numbers of the run and of the agent with all below it, by kind.

    What a turn that still runs was told to have used is in them.
    """
    return Reply(call.manager.runtime.budgets.report(call.record.agent_id))
