"""The provider: a CLI of its own for each agent of a configuration; and which models there are."""

from __future__ import annotations

import asyncio
import mmap
import os
import re
import shutil
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_claude import command, home
from prsm_claude.config import ClaudeConfig
from prsm_claude.control import Callbacks
from prsm_claude.link import Link
from prsm_claude.session import ClaudeSession
from prsm_core import (
    ModelInfo,
    Provider,
    ProviderCapabilities,
    ProviderNotAvailableError,
    ProviderStatus,
)
from prsm_core.kit import VersionRange, as_objects, deadline, runnable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from prsm_core import AgentHost, ProviderServices, SessionRequest

_LISTING_SECONDS = 12.0  # to greet, of the 20 that a survey waits: a scan takes the rest
_LOGIN = "Run `claude` and log in, or set `api_key_env`."

VERSIONS = VersionRange(
    program="claude",
    oldest=(2, 1, 248),  # the first that takes a prompt as it is written
    tested_from=(2, 1, 330),
    below=(2, 2, 0),
    install="pip install claude-agent-sdk",
)
GAPS = (
    "a command that was allowed runs without a sandbox",
    "commands and MCP servers see the variable that holds the API key, where one is configured",
)
_NAME = re.compile(rb"claude-(?:opus|sonnet|haiku)-\d[\w.@-]*")
_ID = re.compile(r"claude-[a-z0-9][\w.@-]*", re.ASCII)
_PART = re.compile(rb"[\w.@-]")  # beside a name that is part of a longer one
_SHORT = frozenset({"default", "best", "sonnet", "opus", "haiku", "opusplan"})
_LONG = "[1m]"  # after a name: with the longer context
_OTHER_SPELLING = re.compile(r"@|-v\d|-20\d{6}|[.-]$")  # of other clouds, or of one day
_OLD = re.compile(r"claude-\w+-3(?:[.-]|$)")


def build(settings: Mapping[str, Any], services: ProviderServices) -> ClaudeProvider:
    """Build the provider from its section of the configuration."""
    return ClaudeProvider(ClaudeConfig.from_settings(settings), services)


class ClaudeProvider(Provider):
    """Claude Code: the orchestration tools are an MCP server inside this process."""

    capabilities = ProviderCapabilities(
        enforcement="pre_tool",
        resume="call",
        steer=True,
        parameters=frozenset({"max_response_tokens"}),
        tokens_told="step",
        cost_told="turn",
        compacts=True,
        images=True,
        own_process=True,
        boxes=True,
    )

    def __init__(self, config: ClaudeConfig, services: ProviderServices) -> None:
        self.known_models = config.models
        self._config = config
        self._services = services
        self._program = program(config)
        self._sessions: set[ClaudeSession] = set()
        self._checking = asyncio.Lock()
        self._checked = False
        self._home: Path | None = None

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ClaudeSession]:
        """Open an agent's conversation; see Provider."""
        await self._check()
        session = ClaudeSession(
            request, host, self._config, self._services, self._program, self._prepared_home()
        )
        self._sessions.add(session)
        try:
            await session.open()
            yield session
        finally:
            self._sessions.discard(session)
            await session.close()

    async def probe(self) -> ProviderStatus:
        """Look for the program, its version and a login; see Provider."""
        logged_in = home.is_logged_in(self._config, os.environ)
        try:
            version = await VERSIONS.found(self._program, self._services)
            home.check_key(self._config, os.environ)
        except ProviderNotAvailableError as error:
            return self._status(logged_in, available=False, reason=error.message, hint=error.hint)
        if logged_in is False:
            why = "claude is not logged in"
            hint = runnable(_LOGIN, {"claude": self._program})
            return self._status(logged_in, available=False, version=version, reason=why, hint=hint)
        reason = VERSIONS.untested(version)
        return self._status(logged_in, available=True, version=version, reason=reason)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the configured models, else those Claude lists; see Provider."""
        if self._config.models or self._config.base_url:
            return self._config.models  # Claude lists only its own vendor's
        await self._check()
        try:
            async with deadline(self._services, _LISTING_SECONDS):
                models: Sequence[ModelInfo] = listed(await self._greeting())
        except (ProviderNotAvailableError, TimeoutError) as error:
            if not (models := await self._scanned()):
                why = str(error) or f"it did not greet within {_LISTING_SECONDS:g} s"
                raise ProviderNotAvailableError(f"claude lists no models: {why}") from error
        return models or await self._scanned()

    async def knows_model(self, model: str) -> bool:
        """Return whether Claude Code takes a model that it does not list; see Provider."""
        if self._config.models or self._config.base_url:
            return False  # those are all that may be used
        return await asyncio.to_thread(is_known, self._program[0], model)

    async def _scanned(self) -> Sequence[ModelInfo]:
        """Return the models that the program's file names, even if it does not greet."""
        return await asyncio.to_thread(scanned, self._program[0])

    async def aclose(self) -> None:
        """End every CLI at once. A polite end would change conversations that are resumed."""
        for session in tuple(self._sessions):
            session.kill()

    def _status(self, logged_in: bool | None, **fields: Any) -> ProviderStatus:
        return ProviderStatus(tested=str(VERSIONS), logged_in=logged_in, gaps=GAPS, **fields)

    async def _check(self) -> None:
        """Check the key and, once, the version before a CLI is started."""
        async with self._checking:
            home.check_key(self._config, os.environ)
            if not self._checked:
                await VERSIONS.found(self._program, self._services)
                self._checked = True

    def _prepared_home(self) -> Path:
        """Return the home. The user's login may come later, so look for it every time."""
        if self._home is None or not self._config.custom_server:
            self._home = home.prepare_home(self._services.state_dir, self._config, os.environ)
        return self._home

    async def _greeting(self) -> Mapping[str, Any]:
        """Start a CLI only to greet it. No model is asked."""
        folder = self._prepared_home()
        process = await self._services.start_process(
            command.greeting_argv(self._program),
            name="claude",
            cwd=str(folder),
            env=command.cli_env(self._config, os.environ, folder),
        )
        link = await Link.open(self._services, Callbacks(), process)
        try:
            return link.greeting
        finally:
            await link.close()


def listed(info: Mapping[str, Any]) -> list[ModelInfo]:
    """Return the models in the CLI's greeting, the default one first."""
    return [_model(entry) for entry in as_objects(info.get("models")) if entry.get("value")]


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    efforts = entry.get("supportedEffortLevels")
    name, resolved = entry.get("displayName"), entry.get("resolvedModel")
    return ModelInfo(
        model_id=str(entry["value"]),
        display_name=str(name) if name else None,
        reasoning_efforts=tuple(map(str, efforts)) if isinstance(efforts, list) else (),
        aliases=(resolved,) if isinstance(resolved, str) and resolved else (),
    )


def is_known(program: str, model: str) -> bool:
    """Return whether Claude Code takes a name: a short one, or one that its whole file holds."""
    plain = model.removesuffix(_LONG)
    if plain in _SHORT:
        return True
    return _ID.fullmatch(plain) is not None and _names(program, plain.encode())


def _names(program: str, model: bytes) -> bool:
    with _content(program) as content:
        start = content.find(model)
        while start >= 0:
            end = start + len(model)
            around = content[max(start - 1, 0) : start] + content[end : end + 1]
            if not _PART.search(around):
                return True
            start = content.find(model, end)
    return False


def scanned(program: str) -> list[ModelInfo]:
    """Return the models that a program's file names. This reads hundreds of megabytes."""
    with _content(program) as content:
        names = {match.decode() for match in _NAME.findall(content)}
    return [ModelInfo(model_id=name) for name in current(names)]


@contextmanager
def _content(program: str) -> Iterator[mmap.mmap | bytes]:
    """Yield the content of a program's file; nothing if it cannot be found."""
    path = shutil.which(program)
    if path is None or Path(path).stat().st_size == 0:
        yield b""
        return
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        yield content


def current(names: Iterable[str]) -> list[str]:
    """Return the sorted names without those of old families and other clouds."""
    return sorted(name for name in names if not (_OTHER_SPELLING.search(name) or _OLD.match(name)))


def program(config: ClaudeConfig) -> tuple[str, ...]:
    """Return the command of the CLI: the configured one, or that of the SDK, never imported."""
    if config.command is not None:
        return config.command
    sdk = find_spec("claude_agent_sdk")
    places = () if sdk is None else sdk.submodule_search_locations or ()
    bundled = (Path(place, "_bundled", "claude") for place in places)
    return next(((str(path),) for path in bundled if path.is_file()), ("claude",))
