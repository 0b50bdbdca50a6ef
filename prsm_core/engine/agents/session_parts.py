"""What the sessions of all agents use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.config.limits import StuckSettings
    from prsm_core.engine.agents.failover import FailoverParts
    from prsm_core.engine.agents.holds import Holds
    from prsm_core.engine.agents.inbox import Inbox
    from prsm_core.engine.agents.life import LifeParts
    from prsm_core.engine.agents.opening import Contexts, Opening
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Ends, Steps
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.host import HostParts
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background


class SessionParts(Record, frozen=True, kw_only=True):
    """What the sessions of all agents use."""

    ends: Ends
    steps: Steps
    life: LifeParts
    turns: TurnParts
    failover: FailoverParts
    holds: Holds
    opening: Opening
    contexts: Contexts
    inbox: Inbox
    tools: Callable[[AgentRecord], Toolbox]
    is_external: Callable[[str], bool]  # whether a provider is somebody outside the engine
    host: HostParts
    budgets: BudgetLedger
    stuck: StuckSettings
    journal: Journal
    clock: Clock
    background: Background
