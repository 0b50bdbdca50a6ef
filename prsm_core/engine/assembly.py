"""Assembly: what an engine is made of, put together."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.config import resolve_paths
from prsm_core.engine.agents.slots import Slots
from prsm_core.engine.evidence.gates import GateRunner
from prsm_core.engine.processes.sandbox import Sandbox
from prsm_core.engine.providers.breaker import Breakers
from prsm_core.engine.providers.enforcement import Enforcement
from prsm_core.engine.providers.listings import Listings
from prsm_core.engine.providers.registry import build_provider_registry
from prsm_core.engine.requests.human import HumanDesk
from prsm_core.engine.requests.rules import RuleKeeper
from prsm_core.engine.runtime import Runtime
from prsm_core.engine.spending.alerts import alert_teller
from prsm_core.engine.spending.budgets import BudgetLedger
from prsm_core.engine.turns.watch import TurnWatch
from prsm_core.engine.views import ConversationStore
from prsm_core.messaging.router import MessageRouter
from prsm_core.permissions import Redactor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.config.own_rules import OwnRules
    from prsm_core.domain.ids import Ids
    from prsm_core.engine.journal import Journal
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.requests.human import Commit, HumanPolicy
    from prsm_core.engine.tools.table import ToolTable
    from prsm_core.engine.turns.host import OpenEndpoint
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.scorer import ModelScorerSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background
    from prsm_core.permissions import PermissionBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What an engine is made of; everything is given, nothing is looked up.

    With `outside` the masters of its runs are driven by somebody else, through that provider;
    the provider and model of a run are then those of the master's children. With `plugins_off`
    plugins were not looked for, which is told to whoever misses one.
    """

    settings: Settings
    workspace: str
    session_id: str
    store: Store
    launcher: ProcessLauncher
    providers: Mapping[str, ProviderSpec]
    broker: PermissionBroker
    tools: ToolTable
    human: HumanPolicy
    clock: Clock
    ids: Ids
    state_dir: Path
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    trusted: bool = False
    outside: ProviderSpec | None = None
    scorers: Sequence[ModelScorerSpec] = ()
    sinks: Sequence[EventSinkSpec] = ()
    sink_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    told_at_start: Sequence[tuple[str, Mapping[str, Any]]] = ()  # events of each run: type, fields
    shell_env: Mapping[str, str] = field(default_factory=dict)
    open_endpoint: OpenEndpoint | None = None  # of the tool server, where there is one
    plugins_off: bool = False
    own_rules: OwnRules | None = None  # where the rules of a person's answers go


def build_runtime(
    config: EngineConfig, background: Background, journal: Journal, control: Commit
) -> Runtime:
    """Return the parts that the agents of an engine share.

    Args:
        config: What the engine is made of.
        background: Runs what outlives a call.
        journal: The only path to the store.
        control: Commits an act of an agent.
    """
    settings = config.settings
    sandbox = _sandbox(config)
    providers = _providers(config, background)
    budgets = BudgetLedger(on_alert=alert_teller(journal))
    rules = RuleKeeper(config.own_rules, config.broker, background, journal)
    return Runtime(
        settings=settings,
        workspace=config.workspace,
        trusted=config.trusted,
        interactive=config.human.interactive,
        clock=config.clock,
        ids=config.ids,
        background=background,
        journal=journal,
        router=MessageRouter(),
        slots=Slots(settings.engine.max_concurrent_agents),
        providers=providers,
        listings=Listings(providers, settings, config.clock, config.state_dir / "models.json"),
        enforcement=Enforcement(
            providers, settings, journal, background, config.clock, budgets.parts_of
        ),
        breakers=Breakers(config.clock),
        broker=config.broker,
        desk=HumanDesk(config.human, config.clock, journal, control, rules, config.workspace),
        budgets=budgets,
        launcher=config.launcher,
        gates=_gates(config, sandbox),
        tools=config.tools,
        watch=TurnWatch(config.clock, background),
        conversations=ConversationStore(config.store, config.session_id),
        shell_env=config.shell_env,
        sandbox=sandbox,
        open_endpoint=config.open_endpoint,
        scorers=config.scorers,
    )


def _providers(config: EngineConfig, background: Background) -> ProviderRegistry:
    return build_provider_registry(
        config.providers,
        config.settings,
        launcher=config.launcher,
        background=background,
        clock=config.clock,
        state_dir=config.state_dir,
        outside=config.outside,
        plugins_off=config.plugins_off,
    )


def _sandbox(config: EngineConfig) -> Sandbox:
    paths = resolve_paths(Path(config.workspace), os.environ)
    return Sandbox(
        config.settings.sandbox,
        workspace=config.workspace,
        launcher=config.launcher,
        state_dir=config.state_dir,
        private=(paths.user_config.parent, paths.data, paths.state),
    )


def _gates(config: EngineConfig, sandbox: Sandbox) -> GateRunner:
    return GateRunner(
        config.settings.gates,
        workspace=config.workspace,
        launcher=config.launcher,
        clock=config.clock,
        env=config.shell_env,
        sandbox=sandbox,
    )
