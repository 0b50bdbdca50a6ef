"""The provider registry: builds each configured provider once, with its services and logins.

The owner of a session has its lock, launcher and providers before there is an engine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.catalog.packages import EXAMPLE, how_to_get
from prsm_core.config import private_dir
from prsm_core.config.secrets import known_secrets
from prsm_core.domain.record import Record
from prsm_core.domain.turns import ErrorKind
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.guarded.provider import (
    ANSWERS,
    CLOSE_SECONDS,
    PROBE_SECONDS,
    GuardedProvider,
    Limits,
)
from prsm_core.engine.processes.executor import NO_EXECUTOR, ProgramBoxes, end_left_boxes
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.processes.table import recorded_processes
from prsm_core.engine.providers.levels import check_level
from prsm_core.engine.providers.model_names import kind_of
from prsm_core.engine.providers.residents import Residents
from prsm_core.errors import ConfigError, PluginError, ProviderNotAvailableError, PrsmError
from prsm_core.interfaces.provider import ProviderCapabilities
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import Parting, first_of
from prsm_core.permissions import Redactor
from prsm_core.plugins.absent import PRESENT
from prsm_core.plugins.guard import Guest, PluginFaultError, TooLateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.config import Paths, Settings
    from prsm_core.domain.boxes import Box
    from prsm_core.domain.turns import AgentError
    from prsm_core.engine.processes.executor import ChosenExecutor
    from prsm_core.engine.processes.table import ProcessIdentity, ProcessRecord
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import BackgroundTask, Process, ProviderSpec, ProviderStatus
    from prsm_core.plugins.absent import Absent

    OnStart = Callable[[int, int], None]


LIMITED_SECONDS = 60.0  # how long a login rests that was rate limited and was told no time
REFUSED_SECONDS = 3600.0  # … that the vendor did not accept: it does not mend by itself
NOT_LOGGED_IN = "not_logged_in"  # the code of a session that its login keeps from being opened
EXHAUSTED = frozenset({ErrorKind.AUTH_FAILURE, ErrorKind.RATE_LIMIT})


class AuthProfiles:
    """Which login of a provider all its agents use; `names` come in order of preference."""

    def __init__(self, clock: Clock, names: Sequence[str] = ()) -> None:
        self._clock = clock
        self._rests_until = dict.fromkeys(names, 0.0)  # monotonic seconds

    @property
    def current(self) -> str | None:
        """The first login that does not rest, else the one with the shortest rest."""
        if not self._rests_until:  # the provider has only its own
            return None
        now = self._clock.now()
        rests = {name: max(until - now, 0.0) for name, until in self._rests_until.items()}
        return min(rests, key=rests.__getitem__, default=None)

    @property
    def fresh_in(self) -> float | None:
        """Seconds until a login stops resting; None if there are none."""
        if not self._rests_until:
            return None
        return max(min(self._rests_until.values()) - self._clock.now(), 0.0)

    def retire(self, name: str | None, error: AgentError) -> bool:
        """Let a login rest after an error; return whether another one can take over."""
        if name not in self._rests_until or error.kind not in EXHAUSTED:
            return False
        least = REFUSED_SECONDS if error.kind is ErrorKind.AUTH_FAILURE else LIMITED_SECONDS
        now = self._clock.now()
        until = now + max(least, error.retry_after_s or 0.0)
        self._rests_until[name] = max(until, self._rests_until[name])
        return any(until <= now for until in self._rests_until.values())


def profile_names(section: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a provider section's profiles, in order of preference."""
    return tuple(str(profile["name"]) for profile in section.get("profiles", ()))


def with_profile(
    section: Mapping[str, Any], name: str | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return a provider section with one of its profiles applied.

    A profile names, for each variable the vendor's program reads, the variable that holds its
    value. The one named by `api_key_env` only changes its name, so the value stays where it is; any
    other value goes into `env`. Raises ProviderNotAvailableError if a variable is not set.
    """
    settings = {key: value for key, value in section.items() if key != "profiles"}
    for profile in section.get("profiles", ()):
        if profile["name"] == name:
            _apply(settings, profile, environ)
    return settings


def _apply(
    settings: dict[str, Any], profile: Mapping[str, Any], environ: Mapping[str, str]
) -> None:
    env = dict(settings.get("env") or {})
    for read, held in (profile.get("env") or {}).items():
        if not environ.get(held):
            raise ProviderNotAvailableError(
                f"auth profile {profile['name']!r}: the variable {held} is not set",
                hint=f"set {held}, or take the profile out of the configuration",
                code=NOT_LOGGED_IN,
            )
        if settings.get("api_key_env") == read:
            settings["api_key_env"] = held
        else:
            env[read] = environ[held]
    if env:
        settings["env"] = env
    if profile.get("home"):
        settings["home"] = profile["home"]
        if not profile.get("env"):
            settings.pop("api_key_env", None)  # a key would be used instead of the login there


_log = logging.getLogger("prsm.engine")


class EngineServices(Struct, eq=False):
    """ProviderServices of one provider."""

    _launcher: ProcessLauncher
    _background: Background
    clock: Clock
    state_dir: Path
    _residents: Residents
    _redactor: Redactor
    _boxes: ProgramBoxes
    _guest: Guest  # whose services these are

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of each process."""
        return self._launcher.environment()

    async def start_process(
        self,
        argv: Sequence[str],
        *,
        name: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        box: Box | None = None,
    ) -> Process:
        """Start a process under the shim; raise AgentSpawnError if there is no room."""
        async with self._residents.place():
            return await self._boxes.start(argv, name=name, cwd=cwd, env=env, box=box)

    def start_soon(
        self, fn: Callable[..., Awaitable[object]], *args: Any, name: str
    ) -> BackgroundTask:
        """Run `fn(*args)` in the engine's task group."""

        async def run() -> None:
            with self._guest.calling(name, ANSWERS):
                await fn(*args)

        return self._background.start(run(), name=name)

    def shielded(self, argv: Sequence[str]) -> Sequence[str]:
        """Return argv under the reaper shim."""
        return self._launcher.shielded(argv)

    def redact(self, value: Any) -> Any:
        """Return a JSON value without known secrets."""
        return self._redactor.value(value)


class ProviderRegistry:
    """Owns an engine's providers: installed ones, and those that settings make of them."""

    def __init__(
        self,
        specs: Mapping[str, ProviderSpec],
        settings: Settings,
        *,
        launcher: ProcessLauncher,
        background: Background,
        clock: Clock,
        state_dir: Path,
        external: ProviderSpec | None = None,
        absent: Absent = PRESENT,
        redactor: Redactor | None = None,
        executor: ChosenExecutor = NO_EXECUTOR,
    ) -> None:
        limit = settings.engine.max_resident_processes
        self.residents = Residents(limit, lambda: launcher.of_agents, clock)
        self.boxes = ProgramBoxes(launcher, state_dir, executor)
        self.absent = absent
        self.background = background
        self._specs = configured_specs(specs, settings)
        self.names = frozenset(self._specs)
        self._external = external
        self._settings = settings
        self.launcher = launcher
        self._clock = clock
        self._state_dir = state_dir
        self._redactor = redactor or Redactor(())
        self._built: dict[tuple[str, str | None], GuardedProvider] = {}  # by name and auth profile
        self._spoilt: dict[str, PrsmError] = {}  # what kept those from beginning early
        self._profiles: dict[str, AuthProfiles] = {}
        self.statuses: dict[str, ProviderStatus] = {}  # of those that `choose` has probed
        self._preparing: asyncio.Task[None] | None = None

    @property
    def offered(self) -> list[str]:
        """The names of those that may be used unnamed, or that have a section."""
        named = self._settings.providers
        return [name for name, spec in self._specs.items() if spec.selectable or name in named]

    @property
    def summaries(self) -> dict[str, str]:
        """What each installed provider is good for, for agents."""
        return {name: spec.good_for or spec.summary for name, spec in self._specs.items()}

    def is_external(self, name: str) -> bool:
        """Return whether somebody else drives this provider's agents; see EngineConfig."""
        return self._external is not None and self._external.name == name

    def program_of(self, name: str) -> str | None:
        """Return the program that a provider is, by its own name; None for a model's."""
        spec = self._specs.get(name)
        if spec is None or not spec.program or self.is_external(name):
            return None
        return kind_of(name, self._settings)

    async def get(self, name: str) -> GuardedProvider:
        """Return a provider, built at first use; raise ProviderNotAvailableError or ConfigError."""
        if (spoilt := self._spoilt.pop(name, None)) is not None:
            raise spoilt
        login = self.profiles(name).current
        if (name, login) not in self._built:
            spec = self._external if self.is_external(name) else self._specs.get(name)
            if spec is None:
                raise self._not_installed(name)
            section = with_profile(self._settings.provider_settings(name), login, os.environ)
            try:
                self._built[name, login] = self._build(spec, section, login)
            except ConfigError as error:
                raise self._under_its_name(error, name) from error
            except PluginFaultError as error:
                raise ProviderNotAvailableError(error.message, hint=error.hint) from error
        return self._built[name, login]

    async def prepare(self, provider: str | None, model: str | None) -> asyncio.Task[None] | None:
        """Have the provider that a run will likely choose begin what its sessions share.

        It is the named one, the model's, or the first. It is built by the return. The returned task
        continues, None for none: nothing begins before a probe has found, as in `choose`, that a
        run takes this one.
        """
        if model is not None:
            said, found, _ = model.partition("/")
            provider = said if found else provider
        elif provider is None:
            provider = self._settings.defaults.provider or next(iter(self._candidates()), None)
        if provider not in self.names:
            return None
        try:
            await self.get(provider)
        except PrsmError as error:  # whoever needs it first hears of it, and who tries again tries
            self._spoilt[provider] = error
            return None
        work = self._prepare(provider)
        self._preparing = self.background.start(work, name=f"preparing {provider}")
        return self._preparing

    async def _prepare(self, provider: str) -> None:
        try:
            await self.choose(provider)
        except PrsmError as error:  # whoever chooses it hears of it
            _log.info("%s", error)
        else:
            await (await self.get(provider)).prepare()

    def _build(
        self, spec: ProviderSpec, section: Mapping[str, Any], login: str | None
    ) -> GuardedProvider:
        guest = Guest.of(spec)
        factory = guest.load()
        services = self._make_services(spec.name, login, guest)
        with guest.calling("its factory", ANSWERS):
            provider = factory(section, services)
        limits = Limits(open=self._settings.engine.open_timeout_seconds)
        return GuardedProvider(provider, guest, self._clock, limits)

    def _make_services(self, name: str, login: str | None, guest: Guest) -> EngineServices:
        names = profile_names(self._settings.provider_settings(name))
        folder = name if login is None else f"{name}@{names.index(login)}"
        private = self._state_dir / "providers" / folder
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        return EngineServices(
            self.launcher,
            self.background,
            self._clock,
            private,
            self.residents,
            self._redactor,
            self.boxes,
            guest,
        )

    def _not_installed(self, name: str) -> ProviderNotAvailableError:
        kind = kind_of(name, self._settings)
        if (why := self.absent.why(kind)) is not None:
            of = "" if kind == name else f"provider {name!r} is of the kind {kind!r}: "
            return ProviderNotAvailableError(f"{of}{why.message}", hint=why.hint)
        needs = "" if kind == name else f": it is of the kind {kind!r}, which no plugin has"
        there = ", ".join(sorted(self._specs)) or "none"
        return ProviderNotAvailableError(
            f"provider {name!r} is not {self._present}{needs}",
            hint=f"{self._present}: {there}{self.absent.hint or how_to_get(kind)}",
        )

    @property
    def _present(self) -> str:
        return "loaded" if self.absent.switched_off else "installed"

    def _under_its_name(self, error: ConfigError, name: str) -> ConfigError:
        told = f"providers.{kind_of(name, self._settings)}"
        message = error.message.replace(told, f"providers.{name}", 1)
        return ConfigError(message, hint=error.hint)

    def profiles(self, name: str) -> AuthProfiles:
        """Return the logins of a provider."""
        if name not in self._profiles:
            names = profile_names(self._settings.provider_settings(name))
            self._profiles[name] = AuthProfiles(self._clock, names)
        return self._profiles[name]

    def refused_server(self, provider: str, server: str) -> str:
        """Return why a provider refuses an MCP server's name, or a blank."""
        spec = self._specs.get(provider)
        return "" if spec is None else refused_server(spec, server)

    def capabilities(self, name: str) -> ProviderCapabilities:
        """Return a provider's capabilities; the defaults before it is built."""
        provider = self._a_built(name)
        return ProviderCapabilities() if provider is None else provider.capabilities

    def _a_built(self, name: str) -> GuardedProvider | None:
        built = (provider for (known, _), provider in self._built.items() if known == name)
        return next(built, None)

    def context_window(self, name: str, model: str) -> int | None:
        """Return a model's window in tokens from the settings, or as its provider knows it now."""
        registered = self._settings.model_registry.get(model)
        if registered is not None and registered.max_context:
            return registered.max_context
        known = () if (provider := self._a_built(name)) is None else provider.known_models
        windows = (info.context_window for info in known if info.model_id == model)
        return next(windows, None)

    async def probe(self, name: str) -> ProviderStatus:
        """Probe one provider for at most six seconds; every failure is a PrsmError."""
        provider = await self.get(name)
        try:
            return await provider.probe()
        except TooLateError as error:
            raise ProviderNotAvailableError(
                f"provider {name}: the probe did not end within {PROBE_SECONDS:.0f} s",
                hint="run its command by hand with --version",
            ) from error
        except PluginFaultError as error:
            raise ProviderNotAvailableError(error.message, hint=error.hint) from error

    def is_ready(self, name: str) -> bool:
        """Whether `choose` found a provider available, and not logged out."""
        status = self.statuses.get(name)
        return status is not None and status.available and status.logged_in is not False

    async def choose(self, wanted: str | None, *, leads: bool = True) -> str:
        """Return the master's provider, after a probe: the wanted or the first that works.

        Raises ProviderNotAvailableError that says what is missing and how to get it. A provider
        does not work if it enforces less than `permissions.require` or cannot lead. With `leads`
        false somebody else drives the master, and this is its children's.
        """
        names = [wanted] if wanted is not None else self._candidates()
        reasons: list[PrsmError] = []
        for name in names:
            try:
                status = self.statuses[name] = await self.probe(name)
                if status.available:
                    self._check(name, status, leads=leads)
            except PrsmError as error:
                reasons.append(error)
                continue
            if status.available:
                return name
            why = f"provider {name} cannot be used: {status.reason or 'no reason given'}"
            reasons.append(ProviderNotAvailableError(why, hint=status.hint))
        if not reasons:
            cure = self.absent.hint.removeprefix("; ") or f"install one, for example: {EXAMPLE}"
            raise ProviderNotAvailableError(
                f"no provider is {self._present}", hint=f"{cure}; prsm demo needs none"
            )
        raise reasons[0]

    async def choose_any(self) -> str | None:
        """Return the provider that a run would take by itself, working or not, if any."""
        wanted = self._settings.defaults.provider
        try:
            return await self.choose(wanted)
        except PrsmError:  # whoever begins a run hears of it
            return wanted or next(iter(self._candidates()), None)

    def _check(self, name: str, status: ProviderStatus, *, leads: bool) -> None:
        capabilities = self.capabilities(name)
        check_level(name, self._settings.permissions, capabilities, status)
        if leads and not capabilities.supports_master:
            raise ProviderNotAvailableError(
                f"provider {name} cannot lead a run: its agents do not get the tools for it",
                hint="name another one with --provider; children may still use this one",
            )

    def _candidates(self) -> list[str]:
        selectable = {name for name, spec in self._specs.items() if spec.selectable}
        configured = [name for name in self._settings.providers if name in selectable]
        return [*configured, *sorted(selectable - set(configured))]

    async def aclose(self) -> None:
        """Close every built provider; a failing one does not hold up the others."""
        preparing, self._preparing = self._preparing, None
        if preparing is not None and not preparing.done():
            preparing.cancel()
            await asyncio.wait({preparing})
        built, self._built = self._built, {}
        seconds = self.background.parting.most(CLOSE_SECONDS)
        await asyncio.gather(*(_close(provider, seconds) for provider in built.values()))
        self.boxes.close()


async def _close(provider: GuardedProvider, seconds: float) -> None:
    try:
        await provider.aclose(seconds)
    except PluginError as error:
        _log.warning("%s", error)


def configured_specs(
    specs: Mapping[str, ProviderSpec], settings: Settings
) -> dict[str, ProviderSpec]:
    """Return the installed providers, and those that settings derive by `kind`."""
    found = dict(specs)
    for name, section in settings.providers.items():
        spec = None if section.kind is None else specs.get(section.kind)
        if spec is None:
            continue  # an ordinary section, or a kind that is told to be missing when it is used
        try:
            found[name] = replace(spec, name=name, selectable=True)
        except ValueError as error:
            raise ConfigError(f"providers.{name}: {error}", hint="rename the section") from error
    return found


def refused_server(spec: ProviderSpec, server: str) -> str:
    """Return why a provider refuses an MCP server's name, or a blank."""
    if re.fullmatch(spec.server_names, server):
        return ""
    return f"{spec.name} takes no MCP server of the name {server!r}; give it another"


BEGIN_SECONDS = 0.1  # for which a provider that begins is waited for, to start its program


class Owned(Record, frozen=True, kw_only=True):
    """What the owner of a session holds until `open_owned` is left."""

    lock: SessionLock
    launcher: ProcessLauncher
    registry: ProviderRegistry  # with a background of its own, until there is an engine
    state_dir: Path
    redactor: Redactor
    clock: Clock
    begun: asyncio.Event  # a process was started, or will not be soon
    parting: Parting

    async def prepare(self, provider: str | None, model: str | None) -> None:
        """Have the provider that a run will likely choose begin; see `ProviderRegistry`.

        Return once its program starts, or it has begun without one. Imports before that would delay
        it: one thread runs at a time, and the program takes longest of all.
        """
        preparing = await self.registry.prepare(provider, model)
        if preparing is not None:
            preparing.add_done_callback(lambda _: self.begun.set())
            await first_of(self.clock, BEGIN_SECONDS, self.begun.wait)


@asynccontextmanager
async def open_owned(
    paths: Paths,
    settings: Settings,
    specs: Mapping[str, ProviderSpec],
    *,
    session: str,
    clock: Clock,
    leaders: tuple[ProcessIdentity, ...] = (),
    external: ProviderSpec | None = None,
    absent: Absent = PRESENT,
    executor: ChosenExecutor = NO_EXECUTOR,
) -> AsyncIterator[Owned]:
    """Become the owner of a session; raise SessionOwnedError if another process is."""
    begun, parting = asyncio.Event(), Parting(clock)
    with (
        SessionLock.take(paths.state, session, since=clock.time(), leaders=leaders) as lock,
        _recorded(paths.state, executor) as processes,
    ):
        redactor = Redactor((*known_secrets(settings, os.environ), lock.key))
        opening = open_registry(
            paths,
            settings,
            specs,
            clock,
            on_start=_noting(processes.add, begun),
            parting=parting,
            external=external,
            absent=absent,
            redactor=redactor,
            executor=executor,
        )
        async with opening as registry:
            yield Owned(
                lock=lock,
                launcher=registry.launcher,
                registry=registry,
                state_dir=private_dir(paths.state),
                redactor=redactor,
                clock=clock,
                begun=begun,
                parting=parting,
            )


@asynccontextmanager
async def open_registry(
    paths: Paths,
    settings: Settings,
    specs: Mapping[str, ProviderSpec],
    clock: Clock,
    *,
    on_start: OnStart | None = None,
    parting: Parting | None = None,
    external: ProviderSpec | None = None,
    absent: Absent = PRESENT,
    redactor: Redactor | None = None,
    executor: ChosenExecutor = NO_EXECUTOR,
) -> AsyncIterator[ProviderRegistry]:
    """Make providers with their own launcher and background, without an engine."""
    launching = ProcessLauncher(
        clock,
        pass_env=settings.pass_env,
        workspace=paths.workspace,
        on_start=on_start,
        parting=parting,
        places=paths.marked_folders,
    )
    async with launching as launcher, Background(_log_surprise, clock, parting) as background:
        registry = ProviderRegistry(
            specs,
            settings,
            launcher=launcher,
            background=background,
            clock=clock,
            state_dir=private_dir(paths.state),
            external=external,
            absent=absent,
            redactor=redactor,
            executor=executor,
        )
        try:
            yield registry
        finally:
            await registry.aclose()


@contextmanager
def _recorded(state_dir: Path, executor: ChosenExecutor) -> Iterator[ProcessRecord]:
    with recorded_processes(state_dir) as record:
        if boxes := end_left_boxes(state_dir, executor):
            _log.warning("removed %d boxes that a dead engine had left behind", boxes)
        yield record


def _noting(add: OnStart, begun: asyncio.Event) -> OnStart:
    def on_start(pid: int, start_time: int) -> None:
        add(pid, start_time)
        begun.set()

    return on_start


def _log_surprise(name: str, error: Exception) -> None:
    _log.error("%s failed", name, exc_info=error)
