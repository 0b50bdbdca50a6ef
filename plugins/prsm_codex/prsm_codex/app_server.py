"""One running `codex app-server`, shared by the threads of all agents; how Codex is started."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prsm_codex import command, hooks
from prsm_codex.rpc import METHOD_NOT_FOUND, Peer, Rpc, RpcClosedError, RpcError, ServerRequest
from prsm_core import Notice, ProviderNotAvailableError
from prsm_core.kit import as_object, first_of, link_login, make_private, require_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_codex.config import CodexConfig, Features
    from prsm_core import Process, ProviderServices
    from prsm_core.kit import HookGate


HOME = "codex-home"  # the private home, below the provider's private folder
THREAD_SECONDS = 120.0  # MCP servers start meanwhile
_START_SECONDS = 20.0
_CLOSE_SECONDS = 2.0
_STOP_GRACE = 2.0  # it ends within a tenth of a second where nothing is wrong
_CLIENT = {
    "clientInfo": {"name": "prsm", "title": "PRSM", "version": "0.1"},
    "capabilities": {"experimentalApi": True},
}

# npm installs a launcher that only looks for Codex, and names the package manager. Node takes as
# long to start as Codex does, and stays in memory for as long as Codex runs.
_PACKAGE = "@openai/codex"
_LAUNCHER = ("bin", "codex.js")  # in the package
_BUILDS = {
    ("linux", "x86_64"): ("linux-x64", "x86_64-unknown-linux-musl"),
    ("linux", "aarch64"): ("linux-arm64", "aarch64-unknown-linux-musl"),
    ("darwin", "x86_64"): ("darwin-x64", "x86_64-apple-darwin"),
    ("darwin", "arm64"): ("darwin-arm64", "aarch64-apple-darwin"),
}

# Codex that is killed in its very first start leaves a database that says for a quarter of an hour
# that somebody is filling it, and no Codex starts there. If it is gone Codex makes another one at
# once, from the threads' own files.
_DATABASES = "state_*.sqlite"
_FILLING_SECONDS = 5.0  # what fills an empty one takes less than one of them
_LOOK_SECONDS = 0.2
_NOTICE = (
    "Codex was killed while it started here for the first time. Its database was set aside, "
    "as {name}: Codex makes another one of its threads."
)


class Thread(Peer, Protocol):
    """Listens to one thread."""

    async def refusal_of(self, payload: Mapping[str, Any]) -> str | None:
        """Decide about a call; return why it may not run, None when it may."""


class AppServer:
    """Routes what the process says to the threads that are attached to it."""

    rpc: Rpc
    _process: Process

    def __init__(self, services: ProviderServices, home: Path, gate: HookGate | None) -> None:
        self.home = home
        self._services = services
        self._gate = gate
        self._threads: dict[str, Thread] = {}
        self._news: list[Notice] = []
        # How many threads are starting, and what was said of those nobody listens to, by id.
        self._starting = 0
        self._early: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self._ended = asyncio.Event()

    @classmethod
    async def start(
        cls,
        config: CodexConfig,
        services: ProviderServices,
        features: Features,
        gate: HookGate | None,
        home: Path | None = None,
    ) -> AppServer:
        """Start and greet the process, in the private home or in one that is being made.

        With a gate its hook asks there before each call. Raises ProviderNotAvailableError if it
        cannot be started, lacks its key or refuses, or if its hook would not run.
        """
        name = "codex" if home is None else "codex, first start"
        home, env = child_home(config, services, home)
        server = cls(services, home, gate)
        try:
            if gate is not None:
                env |= await gate.admit(server.on_hook)
            if (notice := await unstick(home, services)) is not None:
                server._news.append(notice)
            variables = services.environment
            argv = unwrapped(command.app_server_argv(config, features, variables))
            process = await services.start_process(argv, name=name, cwd=str(home), env=env)
            server._process = process
            server.rpc = Rpc(process, services, server)
            server.rpc.start()
            await server._greet()
        except BaseException:
            server._dismiss()
            raise
        return server

    def _dismiss(self) -> None:
        if self._gate is not None:
            self._gate.dismiss(self.on_hook)

    async def on_hook(self, event: Mapping[str, Any]) -> str:
        """Let a call's thread decide about it. A call of no known thread does not run."""
        thread = self._threads.get(str(event.get("session_id")))
        refusal = "no such thread here" if thread is None else await thread.refusal_of(event)
        return hooks.answer(refusal)

    async def _greet(self) -> None:
        try:
            await self.rpc.request("initialize", _CLIENT, timeout_s=_START_SECONDS)
            await self.rpc.send({"method": "initialized"})
            if self._gate is not None:
                await self._trust_hook()
        except RpcError as error:
            self._process.kill()
            why = error.why if isinstance(error, RpcClosedError) else error.message
            raise ProviderNotAvailableError(
                f"codex app-server did not start: {why}",
                hint="Run `codex app-server` by hand, or `codex doctor`.",
            ) from error

    async def _trust_hook(self) -> None:
        """Trust the hook in the private home: Codex silently leaves out one that is not trusted."""
        hook = await self._hook()
        if hook is not None and not hooks.runs(hook):
            await self.rpc.request("config/batchWrite", hooks.trust(hook))
            hook = await self._hook()
        if not hooks.runs(hook):
            self._process.kill()
            raise ProviderNotAvailableError(
                "codex does not run the hook that asks before each call",
                hint="Set `enforcement: approval` to do without the hook.",
                code="no_hook",
            )

    async def _hook(self) -> Mapping[str, Any] | None:
        folders = {"cwds": [str(self._services.state_dir)]}
        return hooks.find_own(await self.rpc.request("hooks/list", folders))

    def take_news(self) -> list[Notice]:
        """Return the notices about the start, once."""
        news, self._news = self._news, []
        return news

    @property
    def closed(self) -> bool:
        """Whether the process has ended."""
        return self.rpc.closed is not None

    async def start_thread(self, params: Mapping[str, Any], thread: Thread) -> str:
        """Start a thread that `thread` listens to; return its id, or raise RpcError.

        What Codex says of the thread before its id has arrived, for example of an MCP server that
        failed, is kept and handed on in order.
        """
        self._starting += 1
        try:
            result = await self.rpc.request("thread/start", params, timeout_s=THREAD_SECONDS)
            thread_id = id_of(result, "thread")
            self.attach(thread_id, thread)
            try:
                for method, early in self._early.pop(thread_id, []):
                    await thread.on_notification(method, early)
            except BaseException:
                self.detach(thread_id)
                raise
        finally:
            self._starting -= 1
            if not self._starting:
                self._early.clear()
        return thread_id

    def attach(self, thread_id: str, thread: Thread) -> None:
        """Let `thread` hear what concerns a thread."""
        self._threads[thread_id] = thread

    def detach(self, thread_id: str) -> None:
        """Stop listening to a thread."""
        self._threads.pop(thread_id, None)

    async def aclose(self) -> None:
        """End the process.

        With agents still attached it is killed: a polite end would note in their threads that their
        pending calls were cancelled, which a resume cannot undo.
        """
        self._dismiss()
        if self._threads:
            self._process.kill()
        else:
            await self._process.stop(_STOP_GRACE)
        # On a timeout nobody reads any more.
        await first_of(self._services.clock, _CLOSE_SECONDS, self._ended.wait)

    async def on_notification(self, method: str, params: dict[str, Any]) -> None:
        """Hand a notification to its thread, or to all if it names none."""
        thread_id = params.get("threadId")
        if thread_id is None:
            for thread in tuple(self._threads.values()):
                await thread.on_notification(method, params)
        elif thread_id in self._threads:
            await self._threads[thread_id].on_notification(method, params)
        elif self._starting:
            self._early.setdefault(thread_id, []).append((method, params))

    async def on_request(self, request: ServerRequest) -> None:
        """Hand a request to its thread; refuse one of no known thread."""
        thread = self._threads.get(str(request.params.get("threadId")))
        if thread is None:
            await request.refuse(METHOD_NOT_FOUND, f"{request.method}: no such thread here")
        else:
            await thread.on_request(request)

    async def on_closed(self, error: RpcClosedError) -> None:
        """Tell every thread."""
        self._dismiss()
        self._ended.set()
        for thread in tuple(self._threads.values()):
            await thread.on_closed(error)


def id_of(result: Mapping[str, Any], kind: str) -> str:
    """Return the id of the thread or turn that an answer names; raise RpcError if it does not."""
    value = as_object(result.get(kind)).get("id")
    if not isinstance(value, str):
        raise RpcError(f"codex answered without the id of the {kind}")
    return value


def check_key(config: CodexConfig, environ: Mapping[str, str]) -> None:
    """Raise ProviderNotAvailableError when the configured key variable is not set."""
    if config.api_key_env:
        require_key(config.api_key_env, config.env, environ)


def user_login(config: CodexConfig, environ: Mapping[str, str]) -> Path:
    """Return the file of the login of `codex login`. It is linked, never read."""
    home = config.home or environ.get("CODEX_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".codex") / "auth.json"


def child_home(
    config: CodexConfig, services: ProviderServices, home: Path | None = None
) -> tuple[Path, dict[str, str]]:
    """Return a Codex process's home, by default the private one, and environment; see check_key."""
    home = prepare_home(home or services.state_dir / HOME, config)
    temp = make_private(services.state_dir / "tmp")
    check_key(config, os.environ)
    return home, command.child_env(config, os.environ, home=home, temp=temp)


def prepare_home(home: Path, config: CodexConfig) -> Path:
    """Make a CODEX_HOME, with the user's login linked in if it is used; return the home."""
    make_private(home)
    link_login(home / "auth.json", None if config.custom_server else user_login(config, os.environ))
    return home


def unwrapped(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with Codex in place of its launcher, if that is what it runs."""
    first = shutil.which(argv[0])
    program = None if first is None else _behind(Path(first).resolve())
    return tuple(argv) if program is None else (str(program), *argv[1:])


def _behind(launcher: Path) -> Path | None:
    build = _BUILDS.get((sys.platform, os.uname().machine))
    if build is None or launcher.parts[-2:] != _LAUNCHER or not _is_codex(launcher.parents[1]):
        return None
    package, target = build
    # Node looks for a package beside each of the folders that the launcher is in.
    places = (folder / "node_modules" / f"{_PACKAGE}-{package}" for folder in launcher.parents)
    installed = (folder for folder in places if (folder / "package.json").is_file())
    program = next(installed, launcher.parents[1]) / "vendor" / target / "bin" / "codex"
    return program if program.is_file() and os.access(program, os.X_OK) else None


def _is_codex(folder: Path) -> bool:
    try:
        about = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(about, dict) and about.get("name") == _PACKAGE


async def unstick(home: Path, services: ProviderServices) -> Notice | None:
    """Set a stuck database aside and return a notice. Another Codex has 5 s to fill it first."""
    waited = 0.0
    while (file := await asyncio.to_thread(_being_filled, home)) is not None:
        if waited >= _FILLING_SECONDS:
            return await asyncio.to_thread(_set_aside, file)
        await services.clock.sleep(_LOOK_SECONDS)
        waited += _LOOK_SECONDS
    return None


def _being_filled(home: Path) -> Path | None:
    return next((file for file in sorted(home.glob(_DATABASES)) if _is_being_filled(file)), None)


def _is_being_filled(file: Path) -> bool:
    """Whether a database says so. Of one that cannot be read Codex itself will tell."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=1.0)) as database:
            return ("running",) in database.execute("SELECT status FROM backfill_state").fetchall()
    except sqlite3.Error:
        return False


def _set_aside(file: Path) -> Notice:
    for part in (file, *(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm"))):
        if part.exists():
            part.replace(part.with_name(f"stuck-{part.name}"))
    return Notice("warning", _NOTICE.format(name=f"stuck-{file.name}"))
