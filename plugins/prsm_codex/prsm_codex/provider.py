"""The provider: one app-server for all agents of a configuration, or one process for each turn.

Codex makes its databases when it first starts in a home. If it is killed meanwhile, no Codex starts
there for a quarter of an hour: a database says that somebody is filling it. So Codex first starts
in a folder aside. By its answer to `initialize` the databases are whole. It keeps using the path it
was started with, so it is ended before the folder gets the home's name.

The engine that makes a folder aside locks it. The kernel releases the lock however the engine ends,
and the next engine removes the folder.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_codex.app_server import HOME, AppServer, check_key, user_login
from prsm_codex.command import check_servers
from prsm_codex.config import CodexConfig, Features
from prsm_codex.hooks import denial
from prsm_codex.rpc import RpcError
from prsm_core import (
    ModelInfo,
    Provider,
    ProviderCapabilities,
    ProviderNotAvailableError,
    ProviderSession,
    ProviderStatus,
)
from prsm_core.kit import HookGate, VersionRange, make_private, require_folder, runnable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from prsm_codex.exec_session import ExecSession
    from prsm_codex.rpc import Rpc
    from prsm_core import AgentHost, ProviderServices, SessionRequest

_LOGIN = "Run `codex login`, or set `api_key_env`."
_TRUSTS = (
    "Run `codex app-server` by hand, or `codex doctor`. Without its hook the backend exec runs "
    "with `enforcement: auto` alone, and where the policy denies nothing."
)
_NEWER = "Update Codex, or set `enforcement: auto` to do without its tool hook."
_ASIDE = f"{HOME}-in-the-making-"
_HAS_A_HOME = (errno.ENOTEMPTY, errno.EEXIST)  # of a rename onto one
CACHE = "models_cache.json"  # in the user's CODEX_HOME; not every login makes one
_FRESH_SECONDS = 24 * 3600.0
_MAX_PAGES = 20

# Codex tells its model of these. Its own home, which may hold more, is PRSM's.
SKILLS = frozenset({".agents/skills", ".codex/skills", "~/.agents/skills"})
VERSIONS = VersionRange(
    program="codex",
    oldest=(0, 160, 0),
    tested_from=(0, 160, 0),
    below=(0, 175, 0),
    install="npm install -g @openai/codex",
)


def build(settings: Mapping[str, Any], services: ProviderServices) -> CodexProvider:
    """Build the provider from its section of the configuration."""
    return CodexProvider(CodexConfig.from_settings(settings), services)


class CodexProvider(Provider):
    """Runs an agent as a thread of `codex app-server`, or each of its turns as a `codex exec`.

    Until the real version is known, its capabilities are those of a recent one. The tool hook asks
    at `gate`, by default one in the private folder.
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
        stack.push_async_callback(session.interrupt)
        return session

    async def _prepare_exec(self, request: SessionRequest, features: Features) -> Features:
        """Trust the hook and make the home; return the features that remain.

        Both need an app-server. If it does not start, `codex exec` makes the home itself and runs
        without the hook. Raises ProviderNotAvailableError if the hook is needed.
        """
        check_key(self._config, os.environ)
        needs_hook = self._config.enforcement == "pre_tool" or request.must_ask
        if features.untrusted and needs_hook:
            raise ProviderNotAvailableError(features.untrusted_text, hint=_TRUSTS)
        try:
            if features.hooked and not self._has_hook:
                await self._running()  # only the app-server can save the trust of the hook
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
        status = partial(ProviderStatus, tested=str(VERSIONS), logged_in=logged_in)
        try:
            version = await VERSIONS.found(self._config.command, self._services)
            features = self._learn(version)
            check_key(self._config, os.environ)
        except ProviderNotAvailableError as error:
            gaps = (self._features or Features.of(self._config, None)).gaps
            return status(available=False, reason=error.message, hint=error.hint, gaps=gaps)
        status = partial(status, version=version, gaps=features.gaps)
        if logged_in is False:
            hint = runnable(_LOGIN, {"codex": self._config.command})
            return status(available=False, reason="codex is not logged in", hint=hint)
        return status(available=True, reason=VERSIONS.untested(version))

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the configured models, else those Codex lists or has cached; see Provider."""
        if self._config.models or self._config.base_url:
            return self._config.models  # Codex lists its own vendor's only
        try:
            return await listed((await self._running()).rpc)
        except ProviderNotAvailableError:
            cache = user_login(self._config, os.environ).with_name(CACHE)
            models = cached(cache, self._services.clock.time())
            if not models:
                raise
            return models
        finally:
            if self._config.backend == "exec":
                await self._end_server()

    async def aclose(self) -> None:
        """End the app-server and every session; see Provider."""
        try:
            for session in tuple(self._one_shots):
                await session.interrupt()
            await self._end_server()
        finally:  # what ends too late is cancelled, and leaves no socket
            await self._gate.aclose()

    async def _end_server(self) -> None:
        async with self._starting:
            server, self._server = self._server, None
            if server is not None and not server.closed:
                await server.aclose()

    async def _checked(self) -> Features:
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
        """Return the running app-server; start one if none is running."""
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
        compacts=keeps,  # its thread, at nine tenths of the window that it knows
    )


async def make_home(config: CodexConfig, services: ProviderServices, features: Features) -> None:
    """Make the private home, unless there is one, by starting Codex once.

    If several engines make it at the same time, all use the home of the first. Raises
    ProviderNotAvailableError, and makes no home, if Codex cannot be started.
    """
    state_dir = make_private(services.state_dir)
    await asyncio.to_thread(_remove_leftovers, state_dir)
    home = state_dir / HOME
    if home.is_dir():
        return
    with _folder_aside(state_dir) as folder:
        server = await AppServer.start(config, services, features, None, folder)
        await server.aclose()
        try:
            folder.rename(home)
        except OSError as error:
            if error.errno not in _HAS_A_HOME:
                raise


@contextmanager
def _folder_aside(state_dir: Path) -> Iterator[Path]:
    """Lend out a locked folder; remove it afterwards unless it was renamed."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=state_dir))
        with _locked(folder) as is_locked:
            # Before it was locked, another engine may have removed it as left over.
            if is_locked and folder.is_dir():
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)  # the next start removes the rest
                return


def _remove_leftovers(state_dir: Path) -> None:
    """Remove the folders of engines that were killed while they made a home."""
    for folder in state_dir.glob(f"{_ASIDE}*"):
        with _locked(folder) as is_locked:
            if is_locked:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a folder for the block; yield whether that worked."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:  # it was removed, or has the home's name by now
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_locked = False
        else:
            is_locked = True
        yield is_locked
    finally:
        os.close(descriptor)


async def listed(rpc: Rpc) -> tuple[ModelInfo, ...]:
    """Return the models of a running app-server; raise ProviderNotAvailableError if it refuses."""
    models: list[ModelInfo] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        try:
            page = await rpc.request("model/list", {"cursor": cursor, "includeHidden": True})
        except RpcError as error:
            raise ProviderNotAvailableError(f"codex lists no models: {error.message}") from error
        models += [_listed(entry) for entry in page.get("data") or ()]
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return tuple(models)


def _listed(entry: Mapping[str, Any]) -> ModelInfo:
    efforts = entry.get("supportedReasoningEfforts") or ()
    return ModelInfo(
        model_id=str(entry.get("model") or entry.get("id")),
        display_name=entry.get("displayName"),
        reasoning_efforts=tuple(str(effort.get("reasoningEffort")) for effort in efforts),
        hidden=bool(entry.get("hidden")),
    )


def cached(path: Path, now: float) -> tuple[ModelInfo, ...]:
    """Return the visible models of a cache, named with its date if that is a day before `now`."""
    try:
        cache = json.loads(path.read_text(encoding="utf-8"))
        entries = [dict(entry) for entry in cache["models"] if entry.get("visibility") == "list"]
        fetched = datetime.fromisoformat(str(cache["fetched_at"]))
        return tuple(_cached(entry, _age_mark(fetched, now)) for entry in entries)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ()


def _age_mark(fetched: datetime, now: float) -> str:
    fetched = fetched if fetched.tzinfo else fetched.replace(tzinfo=UTC)
    if now - fetched.timestamp() <= _FRESH_SECONDS:
        return ""
    return f" (as of {fetched:%Y-%m-%d})"


def _cached(entry: Mapping[str, Any], mark: str) -> ModelInfo:
    window = entry.get("context_window")
    levels = entry.get("supported_reasoning_levels") or ()
    slug = str(entry["slug"])
    return ModelInfo(
        model_id=slug,
        display_name=f"{entry.get('display_name') or slug}{mark}",
        context_window=window if type(window) is int and window > 0 else None,
        reasoning_efforts=tuple(str(level["effort"]) for level in levels),
    )
