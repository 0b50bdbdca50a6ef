"""The provider: one app-server for all agents of a configuration, or one process for each turn.

Which versions of Codex this plugin works with.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_codex import models
from prsm_codex.app_server import AppServer, check_key, user_login
from prsm_codex.command import check_servers
from prsm_codex.config import CodexConfig
from prsm_codex.features import Features
from prsm_codex.first_home import make_home
from prsm_codex.hooks import denial
from prsm_core import (
    HookGate,
    Provider,
    ProviderCapabilities,
    ProviderNotAvailableError,
    ProviderSession,
    ProviderStatus,
    VersionRange,
    require_folder,
    runnable,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_codex.exec_session import ExecSession
    from prsm_core import AgentHost, ModelInfo, ProviderServices, SessionRequest

_LOGIN = "Run `codex login`, or set `api_key_env`."
_TRUSTS = (
    "Run `codex app-server` by hand, or `codex doctor`. Without its hook the backend exec runs "
    "with `enforcement: auto` alone, and where the policy denies nothing."
)
_NEWER = "Update Codex, or set `enforcement: auto` to do without its tool hook."


def build(settings: Mapping[str, Any], services: ProviderServices) -> CodexProvider:
    """Build the provider from its section of the configuration."""
    return CodexProvider(CodexConfig.from_settings(settings), services)


class CodexProvider(Provider):
    """Codex: an agent is a thread of `codex app-server`, or each of its turns a `codex exec`.

    Its capabilities are those of a recent version until the real one is known. `gate` is where
    the tool hook asks; by default one in the private folder.
    """

    def __init__(
        self, config: CodexConfig, services: ProviderServices, *, gate: HookGate | None = None
    ) -> None:
        self._config = config
        self._services = services
        self._server: AppServer | None = None
        self._features: Features | None = None
        self._has_hook = False  # Codex has been seen to run it
        self._refused: ProviderNotAvailableError | None = None  # why it could not be prepared
        self._asking = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._gate = gate or HookGate(services.state_dir, services, refusal=denial)
        self._one_shots: set[ExecSession] = set()
        self.capabilities = _capabilities(config, Features.of(config, None))
        self.known_models = config.models

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open an agent's session; see Provider."""
        require_folder("codex", request.cwd)  # the app-server itself has another
        check_servers(request, self._config)
        features = await self._checked()
        opened = self._open_exec if self._config.backend == "exec" else self._open_thread
        async with AsyncExitStack() as stack:
            yield await opened(request, host, features, stack)

    async def _open_thread(
        self, request: SessionRequest, host: AgentHost, features: Features, stack: AsyncExitStack
    ) -> ProviderSession:
        from prsm_codex.session import CodexSession  # Codex has been started, and needs longer

        session = CodexSession(request, host, self._config, features, self._services, self._running)
        await session.open()
        stack.push_async_callback(session.close)
        return session

    async def _open_exec(
        self, request: SessionRequest, host: AgentHost, features: Features, stack: AsyncExitStack
    ) -> ProviderSession:
        from prsm_codex.exec_session import ExecSession  # for those who want no app-server

        features = await self._prepare_exec(request, features)
        endpoint = await stack.enter_async_context(host.mcp_endpoint()) if host.tools else None
        session = ExecSession(
            request, host, self._config, features, self._services, self._gate, endpoint
        )
        self._one_shots.add(session)
        stack.callback(self._one_shots.discard, session)
        stack.push_async_callback(session.close)
        return session

    async def _prepare_exec(self, request: SessionRequest, features: Features) -> Features:
        """Have the hook trusted and the home made; return what is used of Codex.

        Both need an app-server. Where it does not start, `codex exec` makes the home itself, and
        runs without the hook unless that is needed: then ProviderNotAvailableError is raised.
        """
        check_key(self._config, os.environ)
        needs_hook = self._config.enforcement == "pre_tool" or request.must_ask
        if features.untrusted and needs_hook:
            raise ProviderNotAvailableError(features.untrusted_text, hint=_TRUSTS)
        try:
            if features.hooked and not self._has_hook:
                await self._running()  # the trust of the hook can only be written down by this one
                await self._end_server()
            async with self._starting:
                if not features.untrusted:
                    await make_home(self._config, self._services, features)
        except ProviderNotAvailableError as error:
            if not features.hooked:
                return features
            self._features = features = features.without_hook(error.message)
            self.capabilities = _capabilities(self._config, features)
            if needs_hook:
                raise ProviderNotAvailableError(features.untrusted_text, hint=_TRUSTS) from error
        return features

    async def prepare(self) -> None:
        """Start the app-server; see Provider."""
        if self._config.backend == "exec" or self._logged_in() is False:
            return
        try:
            await self._running()
        except ProviderNotAvailableError as error:
            self._refused = error  # the first session need not wait for the same once more
            raise

    async def probe(self) -> ProviderStatus:
        """Look for the program, its version and a login; see Provider."""
        logged_in = self._logged_in()
        try:
            version = await VERSIONS.found(self._config.command, self._services)
            features = self._learn(version)
            check_key(self._config, os.environ)
        except ProviderNotAvailableError as error:
            return ProviderStatus(
                available=False,
                tested=str(VERSIONS),
                reason=error.message,
                hint=error.hint,
                logged_in=logged_in,
                gaps=(self._features or Features.of(self._config, None)).gaps,
            )
        reason, hint = None, None
        if logged_in is False:
            reason = "codex is not logged in"
            hint = runnable(_LOGIN, {"codex": self._config.command})
        else:
            reason = VERSIONS.untested(version)
        return ProviderStatus(
            available=logged_in is not False,
            version=version,
            tested=str(VERSIONS),
            reason=reason,
            hint=hint,
            logged_in=logged_in,
            gaps=features.gaps,
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the configured models, else those Codex lists; see Provider.

        Where Codex cannot be asked, those that it has kept for its user.
        """
        if self._config.models or self._config.base_url:
            return self._config.models  # Codex lists its own vendor's only
        try:
            return await models.listed((await self._running()).rpc)
        except ProviderNotAvailableError:
            kept = user_login(self._config, os.environ).with_name(models.CACHE)
            found = models.cached(kept, self._services.clock.time())
            if not found:
                raise
            return found
        finally:
            if self._config.backend == "exec":
                await self._end_server()

    async def aclose(self) -> None:
        """End the app-server and what else runs; see Provider."""
        try:
            for session in tuple(self._one_shots):
                await session.close()
            await self._end_server()
        finally:  # what ends too late is cancelled, and leaves no socket
            await self._gate.aclose()

    async def _end_server(self) -> None:
        async with self._starting:
            server, self._server = self._server, None
            if server is not None and not server.closed:
                await server.aclose()

    async def _checked(self) -> Features:
        """Return what this version of Codex can do; ask it once."""
        async with self._asking:
            if self._features is None:
                return self._learn(await VERSIONS.found(self._config.command, self._services))
            return self._features

    def _learn(self, version: str | None) -> Features:
        features = Features.of(self._config, version)
        if self._features is not None and self._features.untrusted and features.hooked:
            features = features.without_hook(self._features.untrusted)
        self.capabilities = _capabilities(self._config, features)
        if features.too_old and self._config.enforcement == "pre_tool":
            raise ProviderNotAvailableError(features.too_old_text, hint=_NEWER)
        self._features = features
        return features

    async def _running(self) -> AppServer:
        """Return the running app-server; start one if there is none or it has ended."""
        async with self._starting:
            refused, self._refused = self._refused, None
            if refused is not None:
                raise refused
            features = await self._checked()
            if self._server is None or self._server.closed:
                await make_home(self._config, self._services, features)
                gate = self._gate if features.hooked else None
                self._server = await AppServer.start(self._config, self._services, features, gate)
                self._has_hook = features.hooked
            return self._server

    def _logged_in(self) -> bool | None:
        if self._config.api_key_env:
            return self._config.key(os.environ) is not None
        return None if self._config.base_url else user_login(self._config, os.environ).exists()


# Of which Codex tells its model. Its own home, which may hold more, is PRSM's.
SKILLS = frozenset({".agents/skills", ".codex/skills", "~/.agents/skills"})


def _capabilities(config: CodexConfig, features: Features) -> ProviderCapabilities:
    keeps = config.backend == "app-server"
    return ProviderCapabilities(
        enforcement=features.enforcement,
        resume="call" if keeps else "rebuild",
        steer=keeps,
        streams=keeps,
        shell_reads=True,
        asks_edits=features.enforcement != "sandbox",
        tokens_told="step" if keeps else "turn",
        images=keeps,
        skills=SKILLS,
        compacts=keeps,  # its thread, at nine tenths of the window that it knows of
    )


VERSIONS = VersionRange(
    program="codex",
    oldest=(0, 160, 0),
    tested_from=(0, 160, 0),
    below=(0, 175, 0),
    install="npm install -g @openai/codex",
)
