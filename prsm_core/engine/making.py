"""Parts of an engine that are made of its configuration, and of few others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.config import resolve_paths
from prsm_core.engine.agents.failover import FailoverParts
from prsm_core.engine.agents.saying import Saying
from prsm_core.engine.agents.skills import Skills
from prsm_core.engine.evidence.gates import GateRunner
from prsm_core.engine.files.folders import Workspaces
from prsm_core.engine.files.keeper import FilesKeeper
from prsm_core.engine.files.late import Trees
from prsm_core.engine.files.prompts import PromptSnapshots
from prsm_core.engine.processes.sandbox import Sandbox
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
    import asyncio
    from collections.abc import Callable, Mapping

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.config import EngineConfig
    from prsm_core.engine.evidence.witness import Witness
    from prsm_core.engine.files.late import LateWatch
    from prsm_core.engine.files.quiet import QuietMoment
    from prsm_core.engine.files.trees import TreeKeeper
    from prsm_core.engine.journal.feed import Feed
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.spending.budgets import BudgetAlert
    from prsm_core.engine.state import Roster
    from prsm_core.engine.tools.table import ToolSet
    from prsm_core.engine.turns.call import Handler
    from prsm_core.engine.turns.permits import Permits
    from prsm_core.engine.turns.standing import Standing
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


def make_workspaces(config: EngineConfig) -> Workspaces:
    """Return what tells which folder is the workspace of an agent."""
    return Workspaces(config.workspace, None if config.shadows is None else config.shadows.trees)


def make_sandbox(config: EngineConfig, workspaces: Workspaces) -> Sandbox:
    """Return the sandbox of commands."""
    paths = resolve_paths(Path(config.workspace), os.environ)
    return Sandbox(
        config.settings.sandbox,
        workspace=config.workspace,
        launcher=config.launcher,
        state_dir=config.state_dir,
        private=(
            *(paths.user_config.parent, paths.data, paths.state, paths.trees),
            *unseen_folders(config.sinks, config.sink_settings, os.environ),
        ),
        tree_of=workspaces.top,
    )


def make_files(
    config: EngineConfig, background: Background, journal: Journal
) -> FilesKeeper | None:
    """Return what owns git and the shadows; None where no snapshots are wanted."""
    if config.shadows is None:
        return None
    return FilesKeeper(config.shadows, config.launcher, config.clock, background, journal)


def make_saying(
    config: EngineConfig,
    providers: ProviderRegistry,
    journal: Journal,
    snapshots: PromptSnapshots | None,
) -> Saying:
    """Return what makes texts of what a person says."""
    settings, state_dir = config.settings, config.state_dir
    return Saying(providers, settings, journal, config.workspace, state_dir, snapshots)


def make_witness(
    config: EngineConfig, watch: LateWatch | None, files: FilesKeeper | None, roster: Roster
) -> Callable[[], Witness] | None:
    """Return what knows the files by what was found, once asked; None: nobody watches them."""
    if watch is None or files is None:
        return None

    def make() -> Witness:
        from prsm_core.engine.evidence.witness import Witness  # at the first claim

        return Witness(
            watch,
            files,
            config.store,
            roster,
            session=config.session_id,
            workspace=config.workspace,
        )

    return make


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


def make_gates(config: EngineConfig, sandbox: Sandbox, workspaces: Workspaces) -> GateRunner:
    """Return what runs the gates."""
    return GateRunner(
        config.settings.gates,
        workspace=config.workspace,
        launcher=config.launcher,
        clock=config.clock,
        env=config.shell_env,
        variables_of=workspaces.variables,
        sandbox=sandbox,
    )


def make_snapshots(
    config: EngineConfig,
    files: FilesKeeper | None,
    quiet: QuietMoment,
    background: Background,
    journal: Journal,
    feed: Feed,
) -> PromptSnapshots | None:
    """Return what takes snapshots before prompts; None where none are wanted."""
    if files is None or config.settings.workspace.snapshots == "off":
        return None
    return PromptSnapshots(
        files,
        quiet,
        journal,
        feed,
        config.store,
        background,
        config.clock,
        config.settings.workspace,
    )


def make_trees(
    config: EngineConfig,
    files: FilesKeeper | None,
    workspaces: Workspaces,
    roster: Roster,
    quiet: QuietMoment,
    background: Background,
    journal: Journal,
    sandbox: Sandbox,
    task_of: Callable[[str], asyncio.Task[None] | None],
) -> Trees:
    """Return what gives agents worktrees, and merges them."""

    def make() -> TreeKeeper:
        # Once there is one.
        from prsm_core.engine.files.furnishing import Furnishing
        from prsm_core.engine.files.trees import TreeKeeper, TreeParts

        furnishing = Furnishing(
            settings=config.settings.workspace,
            trusted=config.trusted,
            launcher=config.launcher,
            clock=config.clock,
            env=config.shell_env,
            sandbox=sandbox,
        )
        return TreeKeeper(
            TreeParts(
                keeper=files,
                where=workspaces.where,
                workspaces=workspaces,
                roster=roster,
                quiet=quiet,
                journal=journal,
                store=config.store,
                clock=config.clock,
                background=background,
                furnishing=furnishing,
                task_of=task_of,
            )
        )

    return Trees(workspaces, roster, config.settings.workspace.worktrees, make)


def make_shell(
    config: EngineConfig,
    permits: Permits,
    standing: Standing,
    quiet: QuietMoment,
    sandbox: Sandbox,
    workspaces: Workspaces,
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
        variables_of=workspaces.variables,
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
