"""Parts of an engine that are made of its configuration, and of few others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.config import resolve_paths
from prsm_core.engine.agents.failover import FailoverParts
from prsm_core.engine.agents.saying import Saying
from prsm_core.engine.agents.skills import Skills
from prsm_core.engine.processes.sandbox import CommandSandbox
from prsm_core.engine.providers.breaker import Breakers
from prsm_core.engine.providers.registry import build_provider_registry
from prsm_core.engine.providers.retry import RetryPolicy
from prsm_core.engine.providers.team import WorkforceNow
from prsm_core.engine.requests.human import HumanRequests
from prsm_core.engine.requests.rules import RuleKeeper
from prsm_core.engine.spending.budgets import BudgetLedger
from prsm_core.engine.tools.shell import Shell
from prsm_core.kit.places import unseen_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.config import EngineConfig
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.quiet import QuietMoment
    from prsm_core.engine.spending.budgets import BudgetAlert
    from prsm_core.engine.tools.table import ToolSet
    from prsm_core.engine.turns.call import Handler
    from prsm_core.engine.turns.permits import Permits
    from prsm_core.engine.turns.standing import Standing
    from prsm_core.engine.workspace_files import Folders, WorkspaceFiles
    from prsm_core.kit.background import Background


def make_providers(config: EngineConfig, background: Background) -> ProviderRegistry:
    """Return all providers that may be used."""
    if config.made is not None:
        config.made.report_to(background.report)
        return config.made.registry
    return build_provider_registry(
        config.providers,
        config.settings,
        launcher=config.launcher,
        background=background,
        clock=config.clock,
        state_dir=config.state_dir,
        external=config.external,
        absent=config.absent,
        redactor=config.redactor,
        executor=config.executor,
    )


def make_failover(
    config: EngineConfig,
    providers: ProviderRegistry,
    listings: Listings,
    steps: Steps,
    journal: Journal,
) -> FailoverParts:
    """Return what agents go on with after turns that failed."""
    settings = config.settings
    return FailoverParts(
        settings=settings,
        providers=providers,
        listings=listings,
        breakers=Breakers(config.clock),
        retry=config.retry or RetryPolicy(attempts=settings.engine.retry_attempts),
        steps=steps,
        journal=journal,
    )


def make_skills(config: EngineConfig, providers: ProviderRegistry) -> Skills:
    """Return what tells agents of skills."""
    return Skills(
        config.skills,
        workspace=config.workspace,
        capabilities=providers.capabilities,
        is_external=providers.is_external,
        redact=config.redactor.text,
    )


def make_workforce(
    listings: Listings, enforcement: Enforcement, providers: ProviderRegistry
) -> WorkforceNow:
    """Return what tells which models there are to work with, as things stand."""
    return WorkforceNow(
        listings.names,
        lambda: enforcement.usable_now & providers.names,
        providers.summaries,
        enforcement.is_gone,
        lambda: enforcement.unseen,
    )


def make_requests(
    config: EngineConfig, journal: Journal, steps: Steps, background: Background
) -> HumanRequests:
    """Return what asks a person, and keeps the rules that they answer with."""
    rules = RuleKeeper(config.own_rules, config.broker, background, journal, config.clock)
    return HumanRequests(config.human, config.clock, journal, steps.write, rules, config.workspace)


def make_sandbox(config: EngineConfig, folders: Folders) -> CommandSandbox:
    """Return the sandbox of commands."""
    paths = resolve_paths(Path(config.workspace), os.environ)
    return CommandSandbox(
        config.settings.sandbox,
        executor=config.executor,
        workspace=config.workspace,
        launcher=config.launcher,
        state_dir=config.state_dir,
        private=(
            *(paths.user_config.parent, paths.data, paths.state, paths.trees),
            *unseen_folders(config.sinks, config.sink_settings, os.environ),
        ),
        tree_of=folders.top,
    )


def make_saying(
    config: EngineConfig,
    providers: ProviderRegistry,
    journal: Journal,
    files: WorkspaceFiles,
) -> Saying:
    """Return what makes texts of what a person says."""
    settings, state_dir = config.settings, config.state_dir
    return Saying(providers, settings, journal, config.workspace, state_dir, files)


def make_budgets(journal: Journal) -> BudgetLedger:
    """Return what knows what is spent; what is near its limit is told."""

    def tell(alert: BudgetAlert) -> None:
        from prsm_core.engine.spending.alerts import tell_alert  # once much is spent

        tell_alert(journal, alert)

    return BudgetLedger(on_alert=tell)


async def compact_late(*of: Any, **more: Any) -> None:
    """Compact a conversation; what does so is loaded once one is too long."""
    from prsm_core.engine.agents.compacting import Compaction

    await Compaction(*of, **more).run()


def make_shell(
    config: EngineConfig,
    permits: Permits,
    standing: Standing,
    quiet: QuietMoment,
    sandbox: CommandSandbox,
    folders: Folders,
) -> Shell:
    """Return what runs the commands of `run_bash`."""
    return Shell(
        permits=permits,
        standing=standing,
        broker=config.broker,
        quiet=quiet,
        sandbox=sandbox,
        launcher=config.launcher,
        clock=config.clock,
        env=config.shell_env,
        variables_of=folders.variables,
        limit_s=config.settings.engine.tool_timeout_seconds,
    )


def make_tools(
    config: EngineConfig,
    handlers: Mapping[str, Handler],
    journal: Journal,
    program_of: Callable[[str], str | None],
    **of_plugins: Any,
) -> Callable[[AgentDescriptor], ToolSet]:
    """Return what deals agents their tools; `of_plugins` is what calls of plugins' tools use."""
    table, settings = config.tools.handled_by(handlers), config.settings
    if not table.added:
        return lambda agent: table.for_agent(agent, settings)
    from prsm_core.engine.tools.plugged import PluginTools  # where plugins add some
    from prsm_core.engine.tools.plugin_call import PluginCallParts

    parts = PluginCallParts(
        broker=config.broker,
        ids=config.ids,
        clock=config.clock,
        workspace=config.workspace,
        **of_plugins,
    )
    plugged = PluginTools(table.added, parts, journal, program_of)
    dealt = table.handled_by(plugged.handlers)
    return lambda agent: plugged.deal(dealt, agent, settings)
