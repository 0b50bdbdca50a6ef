"""The composition root, the only module that knows all others: it makes an engine from settings."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_core.config import ledger_path
from prsm_core.config.own_rules import OwnRules
from prsm_core.config.paths import SkillPlaces, user_home, written_path
from prsm_core.config.policy_file import read_policy
from prsm_core.config.secrets import known_secrets
from prsm_core.domain.agents import AgentRole
from prsm_core.domain.ids import Ids
from prsm_core.domain.record import Record
from prsm_core.engine.assembly import EngineConfig
from prsm_core.engine.control.server import ControlServer
from prsm_core.engine.door.local import LocalApp
from prsm_core.engine.engine import OrchestrationEngine
from prsm_core.engine.processes.executor import choose_executor
from prsm_core.engine.providers.listings import (
    Listings,
    NameFinding,
    ProviderReport,
    ask_for,
    judge_names,
    set_names,
)
from prsm_core.engine.providers.registry import Owned, ProviderRegistry, open_owned, open_registry
from prsm_core.engine.requests import HumanPolicy
from prsm_core.engine.tools.table import ToolTable
from prsm_core.engine.workspace_files import KEEP, WorkspaceFiles
from prsm_core.errors import PluginError
from prsm_core.interfaces.files import WorkspaceFilesSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import AgentHost, ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.kit.clocks import SystemClock
from prsm_core.permissions import PermissionBroker, Redactor, build_policy
from prsm_core.plugins.needed import check_needed, chosen
from prsm_core.policies.port import CommandPolicySpec
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.config import Paths, Settings
    from prsm_core.config.snapshot import Snapshot
    from prsm_core.domain.tools import McpEndpoint
    from prsm_core.engine.agents.life import OpenEndpoint
    from prsm_core.engine.processes.table import ProcessIdentity
    from prsm_core.engine.workspace_files import OpenFiles
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
    from prsm_core.plugins import PluginManager
    from prsm_core.policies.own_state import OwnState

_log = logging.getLogger("prsm.app")


@asynccontextmanager
async def open_app(
    options: RunOptions,
    settings: Settings,
    plugins: PluginManager,
    *,
    paths: Paths,
    frontend: FrontendSpec,
    trusted: bool = False,
    snapshot: Snapshot | None = None,
    keeps_rules: bool = True,
    external: ProviderSpec | None = None,
    leaders: tuple[ProcessIdentity, ...] = (),
    owned: Owned | None = None,
) -> AsyncIterator[LocalApp]:
    """Own a session, a new one or the one of `options`; leaving stops all that it started.

    `external` drives the master, `leaders` start no people. Raises SessionOwnedError, PluginError.
    """
    named = options.provider or settings.defaults.provider
    check_needed(plugins, named, settings.permissions.required)
    root = _Root(options, settings, plugins, paths, trusted, external)
    async with AsyncExitStack() as stack:
        if owned is None:
            owned = await stack.enter_async_context(root.own(leaders))
        ledger = ledger_path(paths, repo_identity(paths.workspace).key)
        store = await stack.enter_async_context(await SqliteStore.open(ledger, late=True))
        session = owned.lock.session
        bridge = _bridge(paths.state / "bridge" / f"{session}.sock", owned.clock)
        config = root.engine_config(
            owned,
            store,
            await stack.enter_async_context(bridge),
            frontend,
            snapshot,
            OwnRules.of(paths) if keeps_rules else None,
        )
        async with (
            OrchestrationEngine(config) as engine,
            aclosing(LocalApp(engine, options, store, session, state_dir=paths.state)) as app,
            ControlServer(
                app,
                owned.lock,
                start_soon=engine.start_soon,
                clock=owned.clock,
                end=app.aclose,
                parting=owned.parting,
                visits=app.visits,
            ),
        ):
            yield app


class _Root(Record, frozen=True):
    options: RunOptions
    settings: Settings
    plugins: PluginManager
    paths: Paths
    trusted: bool
    external: ProviderSpec | None

    def own(self, leaders: tuple[ProcessIdentity, ...]) -> AbstractAsyncContextManager[Owned]:
        clock = SystemClock()
        return open_owned(
            self.paths,
            self.settings,
            self.plugins.collect(ProviderSpec),
            session=self.options.session or Ids(clock.time).ulid(),
            clock=clock,
            leaders=leaders,
            external=self.external,
            absent=self.plugins.absent(ProviderSpec),
            executor=choose_executor(self.plugins, self.settings),
        )

    def engine_config(
        self,
        owned: Owned,
        store: SqliteStore,
        endpoint: OpenEndpoint,
        frontend: FrontendSpec,
        snapshot: Snapshot | None,
        own_rules: OwnRules | None,
    ) -> EngineConfig:
        settings, plugins, tools = self.settings, self.plugins, self._tools()
        collect = plugins.collect
        return EngineConfig(
            settings=settings,
            workspace=str(self.paths.workspace),
            session_id=owned.lock.session,
            store=store,
            launcher=owned.launcher,
            providers=collect(ProviderSpec),
            broker=self._broker(tools, owned.clock, snapshot),
            tools=tools,
            human=HumanPolicy(
                interactive=frontend.interactive,
                on_ask=self.options.on_ask,
                timeout_s=settings.engine.human_timeout_seconds,
                unattended_s=self.options.unattended_s,
            ),
            clock=owned.clock,
            ids=Ids(owned.clock.time),
            state_dir=owned.state_dir,
            redactor=owned.redactor,
            trusted=self.trusted,
            external=self.external,
            scorers=tuple(collect(ModelScorerSpec).values()),
            checks=tuple(collect(PermissionCheckSpec).values()),
            sinks=(*collect(EventSinkSpec).values(), *_notifying(settings)),
            sink_settings=settings.sinks,
            command_line=self.options.command_line,
            told_at_start=_quarantined(plugins),
            open_endpoint=endpoint,
            absent=plugins.absent(ProviderSpec),
            executor=choose_executor(plugins, settings),
            registry=owned.registry,
            own_rules=own_rules,
            files=_open_files(settings, plugins, self.paths),
            skills=self._skill_places(),
            parting=owned.parting,
        )

    def _tools(self) -> ToolTable:
        tools = ToolTable().with_added(self.plugins.collect(ToolContribution).values())
        if self.external is None:
            return tools
        # A master that is driven from outside ends by leaving.
        return tools.without("task_complete", AgentRole.MASTER)

    def _broker(
        self, tools: ToolTable, clock: Clock, snapshot: Snapshot | None
    ) -> PermissionBroker:
        permissions = self.settings.permissions
        commands = build_policy(
            self.plugins.collect(CommandPolicySpec),
            permissions,
            read_policy(self.paths, snapshot),
            own=self._own_state,
            written=written_path(self.paths),
        )
        return PermissionBroker(
            permissions,
            checks=self.plugins.collect(PermissionCheckSpec),
            orchestration=tools.names,
            commands=commands,
            own=self._own_state,
            now=clock.now,
        )

    def _own_state(self) -> OwnState:
        from prsm_core.permissions.own_state import own_state  # with the first path or command

        collect = self.plugins.collect
        providers, sinks = collect(ProviderSpec), collect(EventSinkSpec)
        return own_state(providers.values(), sinks.values(), self.settings.sinks)

    def _skill_places(self) -> SkillPlaces | None:
        if not self.settings.context.skills:
            return None
        workspace = str(self.paths.workspace)
        return SkillPlaces(workspace=workspace, home=user_home(), trusted=self.trusted)


def _quarantined(plugins: PluginManager) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("plugin_quarantined", {"plugin": record.name, "error": record.fault})
        for record in plugins.quarantined
    ]


def _open_files(settings: Settings, plugins: PluginManager, paths: Paths) -> OpenFiles:
    """Return what opens the engine's files; raise PluginError if a required gate lacks it."""
    spec = chosen(plugins, WorkspaceFilesSpec, settings.workspace.files, "workspace.files")
    if spec is None:
        if gates := [name for name, gate in settings.gates.items() if gate.required]:
            raise PluginError(
                f"gates.{gates[0]} is required, and no package that runs gates is installed",
                hint=f"{KEEP}, or take the gates out of the configuration",
                code="gate_is_missing",
            )
        return WorkspaceFiles
    opens: OpenFiles = plugins.implementation(spec)(paths)
    return opens


@asynccontextmanager
async def _bridge(path: Path, clock: Clock) -> AsyncIterator[OpenEndpoint]:
    """Yield what opens endpoints of a bridge, which is started by the first of them."""
    opened: OpenEndpoint | None = None
    opening = asyncio.Lock()
    async with AsyncExitStack() as stack:

        @asynccontextmanager
        async def open_endpoint(
            host: AgentHost, agent: str, *, patience_s: float | None = None
        ) -> AsyncIterator[McpEndpoint]:
            nonlocal opened
            async with opening:
                if opened is None:
                    # Looked for late: some vendors take tools otherwise than by MCP.
                    from prsm_core.plugins.tool_server import tool_server

                    bridge = await stack.enter_async_context(tool_server()(path, clock))
                    opened = bridge
            async with opened(host, agent, patience_s=patience_s) as endpoint:
                yield endpoint

        yield open_endpoint


def _notifying(settings: Settings) -> tuple[EventSinkSpec, ...]:
    if settings.notify == type(settings.notify)():
        return ()
    from prsm_core.builtin.notify_sink import notify_sinks  # few people have it set

    return notify_sinks(settings.notify)


async def survey_providers(
    settings: Settings,
    plugins: PluginManager,
    *,
    paths: Paths,
    with_models: bool = False,
    only: str | None = None,
) -> Mapping[str, ProviderReport]:
    """Look at all installed and configured providers at once, or at one; see engine.survey.

    A provider that runs only by name is left out unless the settings name it. Raises PluginError
    for an unknown `only`.
    """
    from prsm_core.engine.providers.listings import survey

    async with _look(settings, plugins, paths) as registry:
        if only is not None and only not in registry.names:
            plugins.get(ProviderSpec, only)
        names = registry.offered if only is None else [only]
        redact = Redactor(known_secrets(settings, os.environ)).text
        return await survey(registry, names, with_models=with_models, redact=redact)


async def check_set_names(
    settings: Settings, plugins: PluginManager, *, paths: Paths
) -> list[NameFinding]:
    """Return findings on the providers and models that the settings name."""
    async with _look(settings, plugins, paths) as registry:
        listings = Listings(registry, settings, SystemClock(), paths.state / "models.json")
        base = await registry.choose_any()
        found = list(set_names(listings.names, base, base))
        await ask_for(found, listings)
        return judge_names(found, listings)


def _look(
    settings: Settings, plugins: PluginManager, paths: Paths
) -> AbstractAsyncContextManager[ProviderRegistry]:
    return open_registry(
        paths,
        settings,
        plugins.collect(ProviderSpec),
        SystemClock(),
        absent=plugins.absent(ProviderSpec),
        executor=choose_executor(plugins, settings),
    )
