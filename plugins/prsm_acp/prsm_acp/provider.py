"""The provider: one process of an ACP agent for each agent of PRSM."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_acp import handshake
from prsm_acp.config import AcpConfig
from prsm_acp.connection import Connection
from prsm_acp.errors import METHOD_NOT_FOUND, AcpError
from prsm_acp.launch import Launch, discard, prepare
from prsm_acp.manifest import DEFAULT_MODEL, Manifest, McpPlace, ModelChoice
from prsm_acp.manifests import find_manifest
from prsm_acp.session import AcpSession
from prsm_core import (
    ConfigError,
    ModelNotAvailableError,
    Provider,
    ProviderCapabilities,
    ProviderNotAvailableError,
    ProviderStatus,
)
from prsm_core.kit import VersionRange, require_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core import AgentHost, McpEndpoint, ModelInfo, ProviderServices, SessionRequest

_SECRET_BYTES = 24

GAPS = (
    "the agent itself decides which of its tools it asks leave for",
    "tools that an agent of PRSM was not given are refused when they are asked for, not withheld",
)


def build(settings: Mapping[str, Any], services: ProviderServices) -> AcpProvider:
    """Build the provider from its section of the configuration."""
    config = AcpConfig.from_settings(settings)
    return AcpProvider(config, manifest_of(config), services)


def manifest_of(config: AcpConfig) -> Manifest:
    """Return a section's built-in manifest, or one of its command; raise ConfigError without."""
    if config.agent is not None:
        return find_manifest(config.agent)
    if not config.command:
        raise ConfigError(
            f"providers.{config.section}: it does not say which agent",
            hint="Set `agent` to one that PRSM knows, or `command` to one of your own.",
        )
    return Manifest(name=Path(config.command[0]).name, command=config.command)


class AcpProvider(Provider):
    """An ACP agent. A subclass overrides `launch` and may use the public attributes."""

    def __init__(self, config: AcpConfig, manifest: Manifest, services: ProviderServices) -> None:
        self.known_models = config.models
        self.config = config
        self.manifest = replace(manifest, command=config.command or manifest.command)
        self.services = services
        self._sessions: set[AcpSession] = set()
        self.capabilities = ProviderCapabilities(
            supports_master=manifest.mcp is not McpPlace.NONE,
            enforcement="approval",
            resume="native" if manifest.quirks.loads else "rebuild",
            asks_edits=manifest.asks_edits,
            tokens_told="turn" if manifest.tells_tokens else "none",
            images=True,  # of an agent that says so as it starts; any other one's session warns
            own_process=True,
            boxes=True,
            skills=manifest.skills | (manifest.user_skills if config.home is None else frozenset()),
        )

    def launch(
        self, request: SessionRequest | None, home: Path, endpoint: McpEndpoint | None
    ) -> Launch:
        """Return how a process is started.

        Args:
            request: The agent's; None for a process that only lists models.
            home: The agent's private folder, which exists until its session is closed.
            endpoint: PRSM's tools by MCP, if the agent has any. With McpPlace.LAUNCH this method
                puts it where the agent finds it; otherwise session/new names it.
        """
        manifest, config = self.manifest, self.config
        argv = manifest.command
        if config.api_key_env is not None or config.base_url is not None:
            argv = (*argv, *manifest.key_arguments)
        model = request.model if request is not None else DEFAULT_MODEL
        if manifest.model is ModelChoice.ARGUMENT and model != DEFAULT_MODEL:
            argv = (*argv, manifest.model_argument, model)
        cwd = request.cwd if request is not None else str(home)
        env, settings = self.environment(), manifest.settings
        if settings is None:
            return Launch(argv=argv, cwd=cwd, env=env)
        path = home / "settings.json"
        if settings.variable is not None:
            env.setdefault(settings.variable, str(path))
        argv = (*argv, *(word.format(path=path) for word in settings.arguments))
        is_place = manifest.mcp is McpPlace.LAUNCH
        own = handshake.own_server(endpoint) if endpoint is not None and is_place else None
        others = tuple(request.mcp_servers) if request is not None else ()
        files = {path: json.dumps(settings.content(own, others))}
        return Launch(argv=argv, cwd=cwd, env=env, files=files)

    def environment(self) -> dict[str, str]:
        """Return every process's variables; raise ProviderNotAvailableError or ConfigError."""
        manifest, config = self.manifest, self.config
        passed = (*manifest.passes, *config.pass_env)
        env = {name: os.environ[name] for name in passed if name in os.environ}
        env |= manifest.variables
        if manifest.secret_variable is not None:
            env[manifest.secret_variable] = secrets.token_urlsafe(_SECRET_BYTES)
        if config.api_key_env is not None:
            variable = manifest.key_variable or config.api_key_env
            env[variable] = require_key(config.api_key_env, config.env, os.environ)
        if config.base_url is not None:
            if manifest.url_variable is None:
                raise ConfigError(
                    f"providers.{config.section}: {manifest.name} takes no base_url",
                    hint="Set the agent's own variable under `env`.",
                )
            env[manifest.url_variable] = config.base_url
        if config.home is not None:
            env[manifest.home_variable] = str(Path(config.home).expanduser())
        return {**env, **config.env}

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[AcpSession]:
        """Start an agent and open its session; see Provider."""
        if self.manifest.needs_model and request.model == DEFAULT_MODEL:
            raise ModelNotAvailableError(
                f"{self.manifest.name} must be told its model",
                hint="its own choice may be a hosted model that nobody asked for; name one",
            )
        home = self._home(request.agent_id)
        session = AcpSession(
            request,
            host,
            config=self.config,
            manifest=self.manifest,
            services=self.services,
            launch=self.launch,
            home=home,
        )
        self._sessions.add(session)
        try:
            await session.open()
            yield session
        finally:
            await session.close()
            self._sessions.discard(session)
            if not self.manifest.quirks.loads:
                await discard(home)

    async def probe(self) -> ProviderStatus:
        """Look for the program and its version; see Provider."""
        manifest = self.manifest
        status = partial(ProviderStatus, tested=manifest.tested, gaps=(*GAPS, *manifest.gaps))
        versions = versions_of(manifest)
        try:
            env = self.environment()
            version = await versions.found(manifest.command, self.services, env)
        except ProviderNotAvailableError as error:
            return status(available=False, reason=error.message, hint=error.hint)
        reason = None
        if version is None:
            reason = f"{manifest.name} told no version"
        elif not versions.is_tested(version):
            reason = f"version {version} of {manifest.name} was not tested"
        return status(available=True, version=version, reason=reason)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the configured models, else those the agent lists; see Provider."""
        if self.config.models or self.manifest.needs_model:
            return self.config.models
        home = self._home("models")
        launch = self.launch(None, home, None)
        await prepare(launch, home)
        name = self.manifest.name
        process = await self.services.start_process(
            launch.argv, name=f"{name} models", cwd=launch.cwd, env=launch.env
        )
        connection = Connection(name, process, self.services, _Mute())
        try:
            await handshake.greet(connection, self.config, self.manifest)
            opened = await handshake.new_session(connection, self.manifest, str(home), ())
        finally:
            await connection.aclose(politely=False)
            await discard(home)
        return opened.models

    async def aclose(self) -> None:
        """End every process; see Provider."""
        for session in tuple(self._sessions):
            await session.end()

    def _home(self, name: str) -> Path:
        return self.services.state_dir / "agents" / name


class _Mute:
    """A client that answers nothing: no turn is run."""

    async def on_notification(self, method: str, params: dict[str, Any]) -> None:
        return

    async def on_request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise AcpError(f"{method} is not supported", number=METHOD_NOT_FOUND)


def versions_of(manifest: Manifest) -> VersionRange:
    """Return the versions of an agent; tested is its manifest's, whatever the last number."""
    major, minor = map(int, (manifest.tested or "0.0").split("."))
    return VersionRange(
        program=manifest.name,
        tested_from=(major, minor, 0),
        below=(major, minor + 1, 0) if manifest.tested else (0, 0, 0),
        cure=f"Install it: {manifest.install}." if manifest.install else "Set `command`.",
        package=manifest.package,
    )
