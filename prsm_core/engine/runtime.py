"""The runtime: the parts of one engine that its agents share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsm_core.engine.providers.team import Workforce

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.ids import Ids
    from prsm_core.engine.agents.slots import Slots
    from prsm_core.engine.evidence.gates import GateRunner
    from prsm_core.engine.journal import Journal
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.processes.sandbox import Sandbox
    from prsm_core.engine.providers.breaker import Breakers
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.model_names import ModelNames
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.requests.human import HumanDesk
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.tools.table import ToolTable
    from prsm_core.engine.turns.host import OpenEndpoint
    from prsm_core.engine.turns.watch import TurnWatch
    from prsm_core.engine.views import ConversationStore
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.scorer import ModelScorerSpec
    from prsm_core.kit.background import Background
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What every agent session and every tool handler may use."""

    settings: Settings
    workspace: str
    trusted: bool
    interactive: bool
    clock: Clock
    ids: Ids
    background: Background
    journal: Journal
    router: MessageRouter
    slots: Slots
    providers: ProviderRegistry
    listings: Listings
    enforcement: Enforcement
    breakers: Breakers
    broker: PermissionBroker
    desk: HumanDesk
    budgets: BudgetLedger
    launcher: ProcessLauncher
    gates: GateRunner
    tools: ToolTable
    watch: TurnWatch
    conversations: ConversationStore
    shell_env: Mapping[str, str]
    sandbox: Sandbox
    open_endpoint: OpenEndpoint | None = None
    scorers: Sequence[ModelScorerSpec] = ()

    @property
    def workforce(self) -> Workforce:
        """What is known by now of the models that agents may give their children."""
        return Workforce(
            names=self.listings.names,
            usable=self.enforcement.usable_now & self.providers.names,
            summaries=self.providers.summaries,
        )

    @property
    def model_names(self) -> ModelNames:
        """All that a model may be called by, as far as it is known by now."""
        return self.listings.names
