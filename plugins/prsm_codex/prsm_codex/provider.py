"""The provider: one app-server for all agents of a configuration, or one process for each turn.

Which versions of Codex this plugin works with.

The private home, which gets its name once Codex has started in it.

Codex makes its databases when it first starts in a home. Killed over that, it leaves one that says
for a quarter of an hour that somebody is filling it, and no Codex starts there. So it starts first
in a folder aside, and by its answer to `initialize` the databases are whole. It then keeps to the
path that it was started with: that one is ended before the folder gets the home's name.

A folder aside is locked by the engine that makes it. The kernel lets go of the lock however the
engine ends, and the next one removes the folder.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import tempfile
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_codex.app_server import HOME, AppServer, check_key, user_login
from prsm_codex.command import check_servers
from prsm_codex.config import CodexConfig
from prsm_codex.features import Features
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
_HAS_A_HOME = (errno.ENOTEMPTY, errno.EEXIST)  # what a rename onto one says


CACHE = "models_cache.json"  # in the user's CODEX_HOME; not every login makes one
_FRESH_SECONDS = 24 * 3600.0
_MAX_PAGES = 20


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
            return await listed((await self._running()).rpc)
        except ProviderNotAvailableError:
            kept = user_login(self._config, os.environ).with_name(CACHE)
            found = cached(kept, self._services.clock.time())
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


async def make_home(config: CodexConfig, services: ProviderServices, features: Features) -> None:
    """Make the private home where there is none, by a start of Codex that is ended again.

    Of engines that make it at the same time one wins, and the others take its home. Raises
    ProviderNotAvailableError where Codex cannot be started; there is no home then.
    """
    state_dir = make_private(services.state_dir)
    await asyncio.to_thread(_remove_leftovers, state_dir)
    home = state_dir / HOME
    if home.is_dir():
        return
    with _folder_aside(state_dir) as folder:
        server = await AppServer.start(config, services, features, None, folder)
        await server.aclose()
        _give_name(folder, home)


def _give_name(folder: Path, home: Path) -> None:
    try:
        folder.rename(home)
    except OSError as error:
        if error.errno not in _HAS_A_HOME:
            raise


@contextmanager
def _folder_aside(state_dir: Path) -> Iterator[Path]:
    """Lend out a folder that is locked; what has kept its name is removed."""
    with ExitStack() as stack:
        folder = _make_locked(state_dir, stack)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what stays the next start removes


def _make_locked(state_dir: Path, stack: ExitStack) -> Path:
    """Make a folder and lock it: before that another engine may take it for left over."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=state_dir))
        with ExitStack() as until_locked:
            if _lock(folder, until_locked) and folder.is_dir():
                stack.push(until_locked.pop_all())
                return folder


def _remove_leftovers(state_dir: Path) -> None:
    """Remove what engines have left that were killed while they made a home."""
    for folder in state_dir.glob(f"{_ASIDE}*"):
        with ExitStack() as stack:
            if _lock(folder, stack):
                shutil.rmtree(folder, ignore_errors=True)  # as above


def _lock(folder: Path, stack: ExitStack) -> bool:
    """Return whether nobody has the folder; it is then locked until `stack` is left."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False  # it was removed, or has its name by now
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def listed(rpc: Rpc) -> tuple[ModelInfo, ...]:
    """Return what a running app-server lists.

    Raises ProviderNotAvailableError when it lists nothing.
    """
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
    """Return the visible models of a cache, none where there is none that can be read.

    `now` is Unix seconds. Those of a list older than a day carry its date in their names.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        entries = [dict(entry) for entry in kept["models"] if entry.get("visibility") == "list"]
        fetched = datetime.fromisoformat(str(kept["fetched_at"]))
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
