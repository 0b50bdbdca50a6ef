"""The provider: one app-server for all agents of a configuration."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_codex import probe
from prsm_codex.app_server import AppServer, check_key, user_login
from prsm_codex.config import CodexConfig
from prsm_codex.rpc import RpcError
from prsm_codex.session import CodexSession
from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import Provider, ProviderCapabilities, ProviderStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core.interfaces.provider import AgentHost, ProviderServices, SessionRequest

_MAX_PAGES = 20
_LOGIN = "Run `codex login`, or set `api_key_env`."


def build(settings: Mapping[str, Any], services: ProviderServices) -> CodexProvider:
    """Build the provider from its section of the configuration."""
    return CodexProvider(CodexConfig.from_settings(settings), services)


class CodexProvider(Provider):
    """Codex by `codex app-server`: an agent is a thread, the orchestration tools are its own."""

    capabilities = ProviderCapabilities(
        enforcement="approval", resume="native", steer=True, shell_reads=True
    )

    def __init__(self, config: CodexConfig, services: ProviderServices) -> None:
        self._config = config
        self._services = services
        self._server: AppServer | None = None
        self._checked = False
        self._starting = asyncio.Lock()

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[CodexSession]:
        """Open an agent's thread; see Provider."""
        session = CodexSession(request, host, self._config, self._services, self._running)
        await session.open()
        try:
            yield session
        finally:
            await session.close()

    async def probe(self) -> ProviderStatus:
        """Look for the program, its version and a login; see Provider."""
        logged_in = self._logged_in()
        try:
            version = await probe.version(self._config.command, self._services)
            check_key(self._config, os.environ)
        except ProviderNotAvailableError as error:
            return ProviderStatus(
                available=False,
                tested=probe.TESTED,
                reason=error.message,
                hint=error.hint,
                logged_in=logged_in,
                gaps=probe.GAPS,
            )
        reason, hint = None, None
        if logged_in is False:
            reason, hint = "codex is not logged in", _LOGIN
        elif not probe.is_tested(version):
            reason = f"version {version or 'unknown'} was not tested"
        return ProviderStatus(
            available=logged_in is not False,
            version=version,
            tested=probe.TESTED,
            reason=reason,
            hint=hint,
            logged_in=logged_in,
            gaps=probe.GAPS,
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the configured models, else those Codex lists; see Provider."""
        if self._config.models or self._config.base_url:
            return self._config.models  # Codex lists its own vendor's only
        server = await self._running()
        models: list[ModelInfo] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            try:
                page = await server.rpc.request("model/list", {"cursor": cursor})
            except RpcError as error:
                raise ProviderNotAvailableError(
                    f"codex lists no models: {error.message}"
                ) from error
            models += [_model(entry) for entry in page.get("data") or ()]
            cursor = page.get("nextCursor")
            if not cursor:
                break
        return models

    async def aclose(self) -> None:
        """End the app-server; see Provider."""
        async with self._starting:
            server, self._server = self._server, None
            if server is not None and not server.closed:
                await server.aclose()

    async def _running(self) -> AppServer:
        """Return the running app-server; start one if there is none or it has ended."""
        async with self._starting:
            if not self._checked:
                await probe.version(self._config.command, self._services)
                self._checked = True
            if self._server is None or self._server.closed:
                self._server = await AppServer.start(self._config, self._services)
            return self._server

    def _logged_in(self) -> bool | None:
        if self._config.api_key_env:
            return bool(os.environ.get(self._config.api_key_env))
        return None if self._config.base_url else user_login(os.environ).exists()


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    efforts = entry.get("supportedReasoningEfforts") or ()
    return ModelInfo(
        model_id=str(entry.get("model") or entry.get("id")),
        display_name=entry.get("displayName"),
        reasoning_efforts=tuple(str(effort.get("reasoningEffort")) for effort in efforts),
        hidden=bool(entry.get("hidden")),
    )
