"""Runs a frontend on an engine in this process, from the settings to the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping  # noqa: TC003 - of the fields of a Request, as `convert` reads them
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import asdict, replace

from prsm_core.catalog.packages import OWN_PACKAGES
from prsm_core.cli.logs import log_to_file
from prsm_core.cli.places import deletion_notes, workspace_paths
from prsm_core.cli.plugin_sections import with_defaults
from prsm_core.cli.run_options import to_keep
from prsm_core.cli.saying import say
from prsm_core.cli.setup import Setup, load_setup, tell_quarantined
from prsm_core.config.secrets import known_secrets
from prsm_core.distributions import distribution_of
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.ids import Ids
from prsm_core.domain.record import Record
from prsm_core.engine.processes.executor import choose_executor
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.engine.providers.registry import Owned, open_owned
from prsm_core.errors import PluginError, PrsmError, StoreError
from prsm_core.interfaces.frontend import AppHandle, Frontend, FrontendSpec, RunOptions
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.kit.clocks import SystemClock
from prsm_core.loop.interrupts import note_interrupt
from prsm_core.loop.output import hurry_output, write_aside
from prsm_core.loop.run import run_to_end
from prsm_core.permissions import Redactor
from prsm_core.plugins.guard import Guest
from prsm_core.plugins.needed import check_needed
from prsm_core.plugins.printing import stdout_kept, stdout_shared
from prsm_core.terminal.follow import RunFrontend
from prsm_core.terminal.foreground import leaving_nothing_typed, stdin_descriptor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import FrameType

    from prsm_core.cli.launch import Launch
    from prsm_core.engine.door.local import LocalApp
    from prsm_core.interfaces.hub import Hub
    from prsm_core.plugins import PluginManager

    Make = Callable[[], Frontend]
    Build = Callable[[Setup], tuple[FrontendSpec, Make]]

_log = logging.getLogger("prsm.cli")

CONSOLE = "console"
_NO_CONSOLE = (
    "prsm: no console is there, so events are printed as JSON; `prsm install console` brings it"
)
LEAVE_SECONDS = 10.0  # how long a frontend that is interrupted may take to end
MAX_CODE = 255
PRIVATE = 0o077  # nothing the engine writes is for other users


class Request(Record, frozen=True, kw_only=True):
    """The command line of `prsm run`; None where it says nothing."""

    task: str | None  # None: no run is begun, other processes are answered
    workspace: str
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    ui: str | None = None
    session: str | None = None
    on_ask: str | None = None
    trust: bool = False
    timeout_s: float | None = None
    unattended_s: float | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    sets: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    solo: bool | None = None  # the master works itself; None: as is configured
    resumes: bool = False  # go on with the session's newest run
    continues: bool = False  # give the task to the session's last master
    idle_s: float = 60.0  # how long nobody asks anything before an owner without a task ends


def run_task(launch: Launch, request: Request) -> int:
    """Run the task and return the exit code.

    Raises KeyboardInterrupt where one of `ending_signals` came; all was shut down in order.
    """

    def build(setup: Setup) -> tuple[FrontendSpec, Make]:
        spec = choose_frontend(setup.plugins, request.ui, on_ask=request.on_ask)
        if spec.name != CONSOLE:  # which tells it by the run's events
            tell_quarantined(setup.plugins)
        return spec, partial(build_frontend, setup.plugins, spec)

    write_aside()
    return run_in(launch, request, build)


def run_in(launch: Launch, request: Request, build: Build) -> int:
    """Do what `run_task` does, in the frontend that `build` makes once the provider begins."""
    os.umask(PRIVATE)
    if deletion_notes(workspace_paths(request.workspace).state):
        from prsm_core.cli.sessions.unfinished import finish  # hardly ever

        finish(launch)
    setup = setup_of(launch, request, skips_seen=True)
    install_child_watcher()
    with leaving_nothing_typed(stdin_descriptor()):
        return run_to_end(_run(setup, request, build))


def setup_of(launch: Launch, request: Request, *, skips_seen: bool = False) -> Setup:
    """Load what a run works with, by what its command line says."""
    flags = {
        "budgets.usd": request.budget_usd,
        "budgets.tokens": request.budget_tokens,
        "engine.master": "solo" if request.solo else None,
    }
    return load_setup(
        launch,
        request.workspace,
        sets=request.sets,
        flags=flags,
        trust=request.trust,
        without=request.without,
        begins_run=True,
        skips_seen=skips_seen,
    )


def choose_frontend(
    plugins: PluginManager, ui: str | None, *, on_ask: str | None = None
) -> FrontendSpec:
    """Return the frontend that was asked for, else the one that fits.

    On a terminal that is the installed interactive frontend of highest priority, otherwise the
    console. Where the console is missing it is `json`, and the person is told. Nobody can be asked
    when --on-ask answers already, or when no frontend was asked for by name and stdin is no
    terminal: then it counts as not interactive.
    """
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    known = plugins.collect(FrontendSpec)
    offered = [spec for spec in known.values() if spec.interactive and spec.scope == "session"]
    if ui is None and on_terminal and offered:
        spec = max(offered, key=lambda spec: spec.priority)
    elif ui is None and CONSOLE not in known:
        say(_NO_CONSOLE, err=True)
        spec = session_frontend(plugins, "json")
    else:
        spec = session_frontend(plugins, ui or CONSOLE)
    if on_ask is not None or (ui is None and not on_terminal):
        spec = replace(spec, interactive=False)
    return spec


def session_frontend(plugins: PluginManager, name: str) -> FrontendSpec:
    """Return the frontend of this name; raises PluginError for none, and for one of a hub."""
    spec = frontend_named(plugins, name)
    if spec.scope == "session":
        return spec
    raise PluginError(f"frontend {name} is for many sessions", hint=f"open it: prsm --ui {name}")


def frontend_named(plugins: PluginManager, name: str) -> FrontendSpec:
    """Return a frontend; of one that is not installed the error tells which package brings it."""
    spec = plugins.collect(FrontendSpec).get(name)
    plugins.check_not_refused(FrontendSpec, name)
    package = OWN_PACKAGES.get(name)
    # What is on by default is missing also where the plugins of others are off.
    is_off = plugins.switched_off and name != CONSOLE
    if spec is None and package is not None and not (package.is_provider or is_off):
        raise PluginError(
            f"frontend {name} is not installed: the package {package.distribution} brings it",
            hint=f"prsm install {name}",
            code="not_installed",
        )
    return plugins.get(FrontendSpec, name)  # which says what there is


def build_frontend(
    plugins: PluginManager, spec: FrontendSpec, *, replays: bool = False
) -> GuardedFrontend:
    """Build the chosen frontend, which may replay in a time of its own; PluginError if it fails."""
    registered = with_defaults(plugins, plugins.get(FrontendSpec, spec.name))
    factory, guest = plugins.implementation(registered), Guest.of(registered)
    with guest.calling("its factory", (PrsmError,)):
        frontend = factory({"interactive": spec.interactive, "replays": replays})
    if not callable(getattr(frontend, "run", None)):
        what = "HubFrontend" if spec.scope == "hub" else "Frontend"
        raise guest.wrong("its factory", f"gave a {type(frontend).__name__}, which is no {what}")
    return GuardedFrontend(frontend, guest)


class GuardedFrontend(Frontend):
    """A frontend of a plugin: what it does wrong is its own failure, by its name."""

    def __init__(self, frontend: Any, guest: Guest) -> None:
        self.inner = frontend
        self._guest = guest

    async def run(self, app: AppHandle | Hub) -> int:
        """Drive the application and return an exit code; None of a frontend counts as 1.

        One that is cancelled has a moment to end. Raises PluginError for one that fails, and for
        what is no exit code.
        """
        run = partial(self._run, app)
        code: object = await self._guest.within(
            None, "run", run, passes=(PrsmError,), grace=LEAVE_SECONDS
        )
        if code is None:
            return 1
        if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= MAX_CODE:
            raise self._guest.wrong(
                "run", f"gave {code!r}, which is no exit code (0 to {MAX_CODE})"
            )
        return code

    def check_started(self, *, is_started: bool) -> None:
        """Raise PluginFaultError for a frontend that has ended without starting its task."""
        if not is_started:
            raise self._guest.wrong("run", "ended without starting the task")

    async def _run(self, app: AppHandle | Hub) -> object:
        """Run it; of a group that holds errors of ours alone, as of its tasks, raise the first."""
        try:
            return await self.inner.run(app)
        except ExceptionGroup as group:
            if group.split(PrsmError)[1] is not None:
                raise
            raise first_leaf(group) from group


def first_leaf(error: BaseException) -> BaseException:
    """Return the first error in a group that is none."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def drive(
    setup: Setup, options: RunOptions, spec: FrontendSpec, make: Make, *, tells_rest: bool = True
) -> int:
    """Run a frontend on an engine of its own and return the exit code.

    It is made, and the engine imported, while the provider of a new run starts: until there is a
    frontend stdout is nobody's. What plugins print does not get there. Of a run that is interrupted
    the frontend tells what is kept, unless it is not to.
    """
    with run_log(setup):
        async with AsyncExitStack() as until_made:
            with stdout_kept():
                owned = await until_made.enter_async_context(_begun(setup, options))
            frontend = make()
            rest = until_made.pop_all()
        with stdout_of(frontend):
            try:
                async with rest, _opened(setup, options, spec, owned) as app:
                    code = await frontend.run(app)
                    if options.task is not None and isinstance(frontend, GuardedFrontend):
                        frontend.check_started(is_started=app.runs.has_started)
                    return code
            except asyncio.CancelledError:
                hurry_output(even_results=True)
                shown = unguarded(frontend)
                if tells_rest and isinstance(shown, RunFrontend):
                    await _print_rest(shown, options.workspace)
                raise


@contextmanager
def stdout_of(frontend: Frontend) -> Iterator[None]:
    """Keep stdout for a frontend."""
    shown = unguarded(frontend)
    if isinstance(shown, RunFrontend):
        with stdout_kept() as out:
            shown.write_to(out)
            yield
    else:
        with stdout_shared(distribution_of(type(shown).__module__)):
            yield


def unguarded(frontend: Frontend) -> Frontend:
    """Return the frontend itself, without the guard around one of a plugin."""
    return frontend.inner if isinstance(frontend, GuardedFrontend) else frontend


@asynccontextmanager
async def _begun(setup: Setup, options: RunOptions) -> AsyncIterator[Owned]:
    """Own the session; a new run's provider begins, unless the run is refused."""
    clock, defaults = SystemClock(), setup.settings.defaults
    named = options.provider or defaults.provider
    check_needed(setup.plugins, named, setup.settings.permissions.required)
    async with open_owned(
        setup.paths,
        setup.settings,
        setup.plugins.collect(ProviderSpec),
        session=options.session or Ids(clock.time).ulid(),
        clock=clock,
        absent=setup.plugins.absent(ProviderSpec),
        executor=choose_executor(setup.plugins, setup.settings),
    ) as owned:
        if options.task is not None and options.session is None:  # else the ledger knows whose
            model = options.model or defaults.master_model or defaults.model
            await owned.prepare(options.provider, model)
        yield owned


@asynccontextmanager
async def _opened(
    setup: Setup, options: RunOptions, spec: FrontendSpec, owned: Owned
) -> AsyncIterator[LocalApp]:
    root = await asyncio.to_thread(import_module, "prsm_core.app")
    async with root.open_app(
        options,
        setup.settings,
        setup.plugins,
        paths=setup.paths,
        frontend=spec,
        trusted=setup.trusted,
        snapshot=setup.snapshot,
        keeps_rules=setup.keeps_rules,
        owned=owned,
    ) as app:
        yield app


async def _print_rest(frontend: RunFrontend, workspace: str) -> None:
    from prsm_core.cli.ledger import open_ledger  # hardly ever

    try:
        async with open_ledger(workspace) as store:
            await frontend.print_rest(store)
    except StoreError as error:
        if error.code != "no_ledger":  # it was interrupted before the run began
            raise


@contextmanager
def run_log(setup: Setup) -> Iterator[None]:
    """Keep what is logged inside in the state folder, without the secrets of the settings."""
    with log_to_file(setup.paths.state / "logs", _redactor(setup).text):
        _log.info("a run begins in %s", setup.paths.workspace)
        yield
        _log.info("the run ends")


def _redactor(setup: Setup) -> Redactor:
    return Redactor(known_secrets(setup.settings, os.environ))


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a run: SIGHUP, too, unless `nohup` or the like set it aside."""
    ends = (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ends
    return (*ends, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let one of `ending_signals` cancel the running task, which then raises KeyboardInterrupt.

    A second SIGINT or SIGTERM ends the process at once. SIGHUP never does: a terminal that goes
    sends it more than once, and means no haste.
    """
    interrupt = _Interrupt()
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        interrupt.forget()


class _Interrupt:
    def __init__(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        # Not the loop's own handlers: while the loop is busy they take two signals for one.
        self._before = {n: signal.signal(n, self._came) for n in ending_signals()}
        self._is_over = False

    def forget(self) -> None:
        if not self._is_over:
            self._is_over = True
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        note_interrupt()
        for other in self._before:
            if other == signal.SIGHUP:
                signal.signal(other, signal.SIG_IGN)
            elif number != signal.SIGHUP:
                # Not Python's own handler of SIGINT: its KeyboardInterrupt would wait for all tasks
                # and threads. The kernel tells the children's shims that their engine is dead.
                signal.signal(other, signal.SIG_DFL)
        if not self._is_over:
            self._is_over = True
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _run(setup: Setup, request: Request, build: Build) -> int:
    spec, make = build(setup)
    with interruptible():
        return await drive(setup, await run_options(setup, request), spec, make)


async def run_options(setup: Setup, request: Request) -> RunOptions:
    """Return what the run is told; raises PrsmError where its session cannot go on."""
    session, mode = None, request.mode
    if request.session is not None or request.continues:
        # Once a session goes on.
        from prsm_core.cli.ledger import open_session, require_current
        from prsm_core.engine.agents.resuming import last_master

        async with open_session(request.workspace, request.session) as (store, info):
            require_current(info, request.session)
            session = info.session_id
            if mode is None and (request.continues or request.task is None):
                master = last_master(await store.agents(session))
                mode = None if master is None else master.descriptor.run_mode.value
    return RunOptions(
        task=request.task,
        workspace=str(setup.paths.workspace),
        provider=request.provider,
        model=request.model,
        mode=PermissionMode(mode or setup.settings.defaults.mode),
        session=session,
        on_ask=request.on_ask or "deny",
        timeout_s=request.timeout_s,
        unattended_s=request.unattended_s,
        images=request.images,
        labels=request.labels,
        resumes=request.resumes,
        continues=request.continues,
        command_line=to_keep(asdict(request), _redactor(setup).text),
    )
