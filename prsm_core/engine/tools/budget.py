"""The get_budget tool: what is used, reserved and left, for those who may spend or hand down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.engine.turns.call import Reply

if TYPE_CHECKING:
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.turns.call import Call


class Spending(Record, frozen=True, kw_only=True):
    """Handles looks at what is left."""

    budgets: BudgetLedger

    async def get_budget(self, call: Call) -> Reply:
        """Return the numbers of the run and of the agent with all below it, by kind.

        What a turn that still runs was told to have used is in them.
        """
        return Reply(self.budgets.report(call.record.agent_id))
