"""The provider: it chooses the backend, and reads known models from the program itself."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import (
    ModelInfo,
    Provider,
    ProviderCapabilities,
    ProviderNotAvailableError,
    ProviderStatus,
    PrsmError,
)
from prsm_core.kit import HookGate, VersionRange, deadline, runnable
from prsm_gemini import home as homes
from prsm_gemini.config import Backend, GeminiConfig
from prsm_gemini.headless import HeadlessSession
from prsm_gemini.turn import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from prsm_core import AgentHost, ProviderServices, ProviderSession, SessionRequest
    from prsm_gemini.acp import GeminiAcp

_LOGIN = "Set GEMINI_API_KEY or `api_key_env`, or run `gemini` once and log in."
_LISTING_SECONDS = 12.0  # of the 20 that the engine waits; reading the program takes the rest
_ACP = "prsm_acp"

PACKAGE = "@google/gemini-cli"
VERSIONS = VersionRange(
    program="gemini",
    oldest=(0, 61, 0),
    tested_from=(0, 61, 0),
    below=(0, 62, 0),
    install=f"npm install -g {PACKAGE}",
    package=PACKAGE,
)
_MENTIONS = "files that the workspace's GEMINI.md mentions are read, unasked"
HEADLESS_GAPS = (
    "the system settings of Gemini CLI can switch its hooks off: a turn is then stopped, but only "
    "once its model has begun to speak",
    _MENTIONS,
)
ACP_GAPS = (
    "what is asked of a search, or of a tool of another MCP server, does not tell its arguments",
    _MENTIONS,
)
_BEGIN = re.compile(r"^// packages/core/\S*src/config/models\.[jt]s$")
_MODEL = re.compile(r'^(?:var|const|export const) \w+ = "((?:gemini|gemma)-[\w.-]+)";$')
_SHORT = frozenset({"auto", "pro", "flash", "flash-lite"})
_LINES = 120  # of the module, from its beginning
_SOURCES = ("bundle/chunk-*.js", "dist/src/config/models.js")
_CORE = "gemini-cli-core"


def build(settings: Mapping[str, Any], services: ProviderServices) -> GeminiProvider:
    """Build the provider from its section of the configuration."""
    return GeminiProvider(GeminiConfig.from_settings(settings), services)


class GeminiProvider(Provider):
    """Runs Gemini CLI by one of two backends; see Backend."""

    def __init__(self, config: GeminiConfig, services: ProviderServices) -> None:
        self._config = config
        self._services = services
        self._sessions: set[HeadlessSession] = set()
        self._acp = None if is_headless(config) else _acp(config, services)
        self._gate = HookGate(services.state_dir, services, refusal=refusal)
        self._has_program = False
        self.known_models = config.models
        self.capabilities = (
            self._acp.capabilities
            if self._acp is not None
            else ProviderCapabilities(
                enforcement="pre_tool",
                resume="native",
                tokens_told="turn",
                parameters=homes.PARAMETERS,
                skills=homes.SKILLS,
                boxes=True,
            )
        )

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open an agent's session; see Provider."""
        if self._acp is not None:
            with self._acp.knowing(request.agent_id, (tool.name for tool in host.tools)):
                async with self._acp.open_session(request, host) as over_acp:
                    yield over_acp
            return
        session = HeadlessSession(request, host, self._config, self._services, self._gate)
        if not self._has_program:
            env = homes.env(self._config, os.environ)
            await VERSIONS.found(self._config.command, self._services, env)
            self._has_program = True
        await session.open()
        self._sessions.add(session)
        try:
            yield session
        finally:
            self._sessions.discard(session)
            await session.interrupt()

    async def probe(self) -> ProviderStatus:
        """Look for the program, its version and a login; see Provider."""
        gaps = ACP_GAPS if self._acp is not None else HEADLESS_GAPS
        logged_in = self._logged_in()
        status = partial(ProviderStatus, tested=str(VERSIONS), logged_in=logged_in, gaps=gaps)
        try:
            env = homes.env(self._config, os.environ)
            version = await VERSIONS.found(self._config.command, self._services, env)
        except ProviderNotAvailableError as error:
            return status(available=False, reason=error.message, hint=error.hint)
        status = partial(status, version=version)
        if not logged_in:
            hint = runnable(_LOGIN, {"gemini": self._config.command})
            return status(available=False, reason="gemini is not logged in", hint=hint)
        return status(available=True, reason=VERSIONS.untested(version))

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the configured models, else those of the account, else those of the program."""
        if self._config.models:
            return self._config.models
        acp = self._acp or _acp(self._config, self._services)
        try:
            async with deadline(self._services, _LISTING_SECONDS):
                listed = await acp.list_models()
        except (PrsmError, TimeoutError):
            listed = ()  # such as without a login
        return listed or await asyncio.to_thread(known_models, self._config.command)

    async def knows_model(self, model: str) -> bool:
        """Return whether Gemini CLI takes a model that is not listed; see Provider."""
        if self._config.models:
            return False  # those are all that may be used
        return await asyncio.to_thread(is_known, self._config.command, model)

    async def aclose(self) -> None:
        """End every process; see Provider."""
        try:
            if self._acp is not None:
                await self._acp.aclose()
            for session in tuple(self._sessions):
                await session.interrupt()
        finally:  # what ends too late is cancelled, and leaves no socket
            await self._gate.aclose()

    def _logged_in(self) -> bool:
        try:
            login = homes.login_folder(self._config, os.environ)
        except ProviderNotAvailableError:
            return False
        return login is None or login.joinpath("oauth_creds.json").exists()


def is_headless(config: GeminiConfig) -> bool:
    """Return whether a configuration means the headless backend."""
    if config.backend is Backend.AUTO:
        return importlib.util.find_spec(_ACP) is None
    return config.backend is Backend.HEADLESS


def _acp(config: GeminiConfig, services: ProviderServices) -> GeminiAcp:
    from prsm_gemini.acp import GeminiAcp  # the headless backend needs none of it

    return GeminiAcp(config, services)


def known_models(command: Sequence[str]) -> tuple[ModelInfo, ...]:
    """Return the models that the program names, without those for embeddings.

    The program is one file in which a comment marks each module. In older ones the models are a
    module of the package gemini-cli-core. This reads tens of megabytes.
    """
    files = chain.from_iterable(map(_files, _packages(command)))
    models = (dict.fromkeys(_models_in(file)) for file in files)
    return tuple(ModelInfo(model_id=name) for name in next(filter(None, models), ()))


def is_known(command: Sequence[str], model: str) -> bool:
    """Return whether Gemini CLI takes a name that an account does not list."""
    plain = model.removeprefix("models/")
    return plain in _SHORT or any(known.model_id == plain for known in known_models(command))


def _packages(command: Sequence[str]) -> Iterator[Path]:
    for word in command:
        program = shutil.which(word) or word
        for parent in Path(program).resolve().parents:
            if (parent / "package.json").is_file():
                yield parent
                yield parent.parent / _CORE
                yield parent / "node_modules" / "@google" / _CORE
                break


def _files(package: Path) -> Iterator[Path]:
    for pattern in _SOURCES:
        yield from sorted(package.glob(pattern), key=lambda path: -path.stat().st_size)


def _models_in(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        module = iter(file)
        if path.name != "models.js":
            for line in module:
                if _BEGIN.match(line.rstrip()):
                    break
        for line in islice(module, _LINES):
            match = _MODEL.match(line.strip())
            if match and "embedding" not in match[1]:
                yield match[1]
