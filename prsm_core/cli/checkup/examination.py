"""Makes every check in turn; a check that fails is itself a finding."""

from __future__ import annotations

import codecs
import os
import platform
import sys
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.builtin import BUILTINS
from prsm_core.catalog.packages import EXAMPLE, how_to_get
from prsm_core.cli.checkup.finding import Finding, broken, ok, warning
from prsm_core.cli.checkup.folders import check_disk, check_folders, format_size
from prsm_core.cli.checkup.values import check_values, refused_names
from prsm_core.cli.plugin_sections import plugin_sections
from prsm_core.cli.setup import CURE, provider_names
from prsm_core.cli.surveying import ask_for_names, ask_providers
from prsm_core.config import (
    LoadedSettings,
    Paths,
    Settings,
    ledger_path,
    load_settings,
    resolve_paths,
)
from prsm_core.config.explain import one_by_one
from prsm_core.config.paths import SkillPlaces, user_home
from prsm_core.config.schema import SandboxSettings
from prsm_core.config.trust import Standing, check_trust
from prsm_core.distributions import CORE, GROUP, Distribution, distributions
from prsm_core.domain.boxes import Box
from prsm_core.engine.agents.skills import section, skills_in
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.engine.processes.executor import (
    CommandSandbox,
    ProgramBoxes,
    choose_executor,
    find_left_boxes,
)
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.processes.table import find_lineage, find_orphans, is_alive
from prsm_core.engine.providers.listings import DEFAULT_PROVIDER, place_of_name
from prsm_core.engine.providers.model_names import kind_of
from prsm_core.engine.providers.registry import configured_specs
from prsm_core.engine.turns.context import describe_ignored
from prsm_core.errors import ConfigError, ControlError, PluginError, PrsmError, StoreError
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec, ProviderStatus
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.environment import must_be_named, not_passed
from prsm_core.loop.run import run_to_end
from prsm_core.permissions import build_policy
from prsm_core.permissions.skills import find_skills
from prsm_core.plugins import PluginManager, PluginRecord, PluginState
from prsm_core.plugins.manager import loading_seconds
from prsm_core.plugins.pins import core_pins, satisfies
from prsm_core.plugins.records import MORE_TIME, WORDS, SlowPluginError, Spec
from prsm_core.plugins.settings import reference_of
from prsm_core.policies.port import CommandPolicySpec
from prsm_core.store.connection import has_begun, sqlite_version
from prsm_core.store.inspection import LedgerReport, inspect_ledger
from prsm_core.version import __version__
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core.engine.providers.listings import ProviderReport
    from prsm_core.executors import BoxState, SandboxState

LARGE_WAL_BYTES = 256 << 20
SHOWN = 5  # names or numbers in one line

_NEVER_IN_IT = "vendors' own programs never are"


def examine(workspace: str, *, load_plugins: bool) -> Iterator[Finding]:
    """Yield the findings of all checks; changes nothing and contacts nobody itself."""
    yield from _made("python", _check_python)
    yield from _made("packages", check_packages)
    yield from _made("folders", _check_place, workspace, load_plugins)
    yield from _made("answers", _check_answers)
    yield from _made("terminal", check_terminal, sys.stdout.encoding)


def _check_place(workspace: str, load_plugins: bool) -> Iterator[Finding]:
    paths = resolve_paths(Path(workspace), os.environ)
    ledger = ledger_path(paths, repo_identity(Path(workspace)).key)
    setup = check_setup(paths, os.environ, load_plugins=load_plugins)
    yield from setup.findings
    policies = setup.plugins.collect(CommandPolicySpec)
    commands = build_policy(policies, setup.settings.permissions)
    yield from _made("config", check_values, setup.settings, paths, commands)
    if load_plugins:
        yield from _made("providers", _check_providers, setup, paths, os.environ)
        yield from _made("names", check_names, setup, paths)
    else:
        yield warning("providers", "not looked at: --no-plugins", "leave that option out")
    yield from _made("skills", _check_skills, setup, paths)
    yield from _made("environment", check_environment, setup.settings.pass_env, os.environ)
    yield from _made("folders", check_folders, paths, ledger, os.environ)
    yield from _made("disk", check_disk, paths)
    yield from _made("ledger", check_ledger, ledger)
    yield from _made("sessions", _check_sessions, paths.state)
    yield from _made("processes", _check_processes, paths.state)
    yield from _made("sandbox", _check_sandbox, setup, paths)
    yield from _made("boxes", _check_left_boxes, setup, paths.state)
    yield from _made("boxes", _check_boxes, setup)


def _made(name: str, check: Callable[..., Iterable[Finding]], *args: object) -> Iterator[Finding]:
    try:
        yield from check(*args)
    except PrsmError as error:
        yield broken(name, error.message, error.hint or "see what the message names")
    except OSError as error:
        yield broken(name, f"cannot be checked: {error}", "see what the message names")


_MOST = 10  # mistakes that are told one by one


def _check_skills(setup: CheckedSetup, paths: Paths) -> Iterator[Finding]:
    if not setup.settings.context.skills:
        yield ok("skills", "agents are told of none: context.skills is false")
        return
    places = SkillPlaces(workspace=str(paths.workspace), home=user_home(), trusted=setup.trusted)
    found = find_skills(places)
    for mistake in islice(found.mistakes, _MOST):
        yield warning("skills", mistake, "mend it or move it away; agents are not told of it")
    if (more := len(found.mistakes) - _MOST) > 0:
        yield warning("skills", f"{more} more do not count", "mend those above first")
    names = [skill.name for skill in skills_in(section(found.skills))]
    if (left_out := len(found.skills) - len(names)) > 0:
        text = f"there is no room to tell agents of {left_out} of {len(found.skills)} skills"
        yield warning("skills", text, "move away what nobody uses, or shorten descriptions")
    of = "" if setup.trusted else "; those of the workspace count once it is trusted"
    yield ok("skills", f"{', '.join(names) or 'there are none'}{of}")


def check_environment(pass_env: Sequence[str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Name the variables that are set but not passed on, never their values."""
    names = not_passed(environ, pass_env)
    if not names:
        yield ok("environment", "all that is set reaches shells, MCP servers and gates of agents")
        return
    text = (
        f"set, and not passed to shells, MCP servers and gates of agents: {', '.join(names)}; "
        "`pass_env` in the configuration passes on what it names"
    )
    if whole := [name for name in names if must_be_named(name, environ[name])]:
        text += f"; no pattern of it takes {', '.join(whole)}: name them in full"
    yield ok("environment", text)


def check_ledger(path: Path) -> Iterator[Finding]:
    """Look whether the repository's ledger can be read and is intact."""
    try:
        report = inspect_ledger(path) if has_begun(path) else None
    except StoreError as error:
        finding = warning if error.code == "older_ledger" else broken
        yield finding("ledger", error.message, error.hint or _set_aside(path))
        return
    if report is None or (report.version == 0 and not report.problems and not report.unchecked):
        yield ok("ledger", f"there is none yet; the first run makes {path}")
        return
    yield from _judge(path, report)


def _check_sessions(state: Path) -> Iterator[Finding]:
    running, left = 0, []
    for lock in sorted((state / "runs").glob("*.lock")):
        session = lock.stem
        try:
            owner = find_owner(state, session)
        except ControlError as error:
            yield warning("sessions", error.message, error.hint or "end that process")
            continue
        if owner is None:
            left.append(lock)
        elif is_alive(owner.process):
            running += 1
        else:
            text = f"session {session} is held by process {owner.process.pid} in another container"
            yield warning("sessions", text, "end its run there, or wait for its end")
    if not left:
        yield ok("sessions", f"{running} running")
        return
    count = "a lock" if len(left) == 1 else f"{len(left)} locks"
    text = f"engines died and left {count}: {_some([lock.stem for lock in left])}"
    takes = "nothing is lost: a run in such a session takes it over"
    yield warning("sessions", text, f"{takes}; or remove {left[0].parent}/SESSION.lock")


def _check_processes(state: Path) -> Iterator[Finding]:
    orphans = find_orphans(state)
    for found in orphans:
        text = f"engine {found.engine} is dead and left processes: {_some(found.pids)}"
        yield warning("processes", text, "the next `prsm run` ends them")
    if not orphans:
        yield ok("processes", "no dead engine left any behind")


def _check_left_boxes(setup: CheckedSetup, state: Path) -> Iterator[Finding]:
    if names := find_left_boxes(state, choose_executor(setup.plugins, setup.settings)):
        count = "a box" if len(names) == 1 else f"{len(names)} boxes"
        text = f"dead engines left {count}: {_some(names)}"
        yield warning("boxes", text, "the next `prsm run` removes them")


def _judge(path: Path, report: LedgerReport) -> Iterator[Finding]:
    size = f"{format_size(report.size)} and {format_size(report.wal_size)} of write-ahead log"
    if report.problems:
        yield broken("ledger", f"{path} is damaged: {report.problems[0]}", _set_aside(path))
    elif report.unchecked:
        cure = "`prsm tree` opens it; then run `prsm doctor` again"
        yield warning("ledger", f"{path} was not checked: {report.unchecked}", cure)
    elif report.wal_size > LARGE_WAL_BYTES:
        cure = f"end what reads it for long: fuser {path}-wal"
        yield warning("ledger", f"{path}: {size}", cure)
    else:
        age = "" if report.version == report.newest else ", which the next run upgrades"
        yield ok("ledger", f"intact, version {report.version}{age}, {size}")


def _set_aside(path: Path) -> str:
    return f"move {path.parent} away; the next run begins a new ledger"


def _some(values: Sequence[object]) -> str:
    more = ", …" if len(values) > SHOWN else ""
    return ", ".join(map(str, values[:SHOWN])) + more


def _check_providers(
    setup: CheckedSetup, paths: Paths, environ: Mapping[str, str]
) -> Iterator[Finding]:
    settings, plugins = setup.settings, setup.plugins
    absent = plugins.absent(ProviderSpec)
    named = {name for name in (*settings.providers, settings.defaults.provider) if name}
    for name in sorted(named - configured_specs(plugins.collect(ProviderSpec), settings).keys()):
        path = ("providers", name) if name in settings.providers else ("defaults", "provider")
        where, kind = f"{place_of_name(settings, path)} ", kind_of(name, settings)
        cure = f"name another{how_to_get(kind)}"
        if kind in absent.owners:
            owner = absent.owners[kind]
            text = f"plugin {owner.name}, which has it, is {owner.state}: {owner.error}"
            cure = f"see to plugin {owner.name}, or name another"
            yield broken("providers", f"{where}names {name}: {text}", cure)
        else:
            yield broken("providers", f"{where}names {name}, which is not installed", cure)
    with _elsewhere(paths) as place:
        found = ask_providers(settings, plugins, place)
    if not found:
        cure = f"install one, for example `{EXAMPLE}`; `prsm plugins` shows what keeps one off"
        yield broken("providers", "none is loaded", cure)
    nothing_works = not any(report.status.available for report in found.values())
    for name, report in sorted(found.items()):
        status = report.status
        yield _finding(f"provider {name}", status, is_needed=nothing_works or name in named)
        for gap in status.gaps:
            yield ok(f"provider {name}", f"cannot enforce: {gap}")
        can = report.capabilities if status.available else None
        if can is not None and (ignored := describe_ignored(name, settings, can)):
            yield warning(f"provider {name}", ignored, "take it out, or use another provider")
    yield from _missing_keys(settings, found, environ)


def check_names(setup: CheckedSetup, paths: Paths) -> Iterator[Finding]:
    """Check that the providers and models named in the settings exist."""
    with _elsewhere(paths) as place:
        found = ask_for_names(setup.settings, setup.plugins, place)
    for line in refused_names(setup.settings, setup.plugins):
        yield warning("names", line, "agents of that provider do not have the server until then")
    for finding in found:
        if finding.path == DEFAULT_PROVIDER:
            continue  # told among the providers
        message = f"{finding.place}: {finding.message}"
        if not finding.is_wrong:
            yield ok("names", message)
        else:
            yield warning("names", message, finding.hint or "name another")
    if not any(finding.is_wrong for finding in found):
        yield ok("names", "the settings name no provider or model that there surely is not")


@contextmanager
def _elsewhere(paths: Paths) -> Iterator[Paths]:
    """Give providers a temporary state folder, so that looking changes nothing."""
    with TemporaryDirectory(prefix="prsm-doctor-", ignore_cleanup_errors=True) as folder:
        yield replace(paths, state=Path(folder))


def _finding(check: str, status: ProviderStatus, *, is_needed: bool) -> Finding:
    if not status.available:
        tell = broken if is_needed else warning
        cure = status.hint or "the provider does not say; its README may"
        return tell(check, status.reason or "cannot be used", cure)
    version = f"version {status.version or 'unknown'}"
    if status.reason or status.hint:
        cure = status.hint or f"use a version that was tested: {status.tested or 'none was'}"
        return warning(check, status.reason or version, cure)
    tested = f", tested with {status.tested}" if status.tested else ""
    login = ", logged in" if status.logged_in else ""
    return ok(check, f"{version}{tested}{login}")


def _missing_keys(
    settings: Settings, found: Mapping[str, ProviderReport], environ: Mapping[str, str]
) -> Iterator[Finding]:
    for name, settled in settings.providers.items():
        key = settled.api_key_env
        if key and not environ.get(key) and name in found and found[name].status.available:
            text = f"{key} is not set, which api_key_env names"
            yield warning(f"provider {name}", text, f"export {key}=…")


def _check_python() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.platform != "linux" or not Path("/proc/self/stat").exists():
        yield broken("python", f"{system} has no /proc", "run PRSM on Linux, with /proc mounted")
        return
    try:
        yield ok("python", f"{python} with SQLite {sqlite_version()} on {system}")
    except StoreError as error:
        yield broken("python", error.message, error.hint or "install a newer Python")


def check_packages(installed: Iterable[Distribution] | None = None) -> Iterator[Finding]:
    """Check that PRSM's packages are of one release and installed once each."""
    found: defaultdict[str, list[Distribution]] = defaultdict(list)
    for dist in distributions(sys.path) if installed is None else installed:
        if dist.name == CORE or GROUP in dist.places:
            found[dist.name].append(dist)
    bad = [finding for dists in found.values() for finding in _problems(dists)]
    if CORE not in found:
        cure = "install it as the README says; without that no plugin can be found"
        bad.append(warning("packages", f"{CORE} is not installed, it runs from its sources", cure))
    yield from bad
    if not bad:
        listed = sorted(f"{name} {dists[0].version}" for name, dists in found.items())
        yield ok("packages", ", ".join(listed))


def _check_sandbox(setup: CheckedSetup, paths: Paths) -> Iterator[Finding]:
    state = run_to_end(_sandbox_state(setup, paths))
    if state.is_active and not state.gaps:
        yield ok("sandbox", f"shell commands and gates can be shut in; {_NEVER_IN_IT}")
    elif state.is_active:
        cure = "allow user namespaces on this machine"
        yield warning("sandbox", f"it has gaps here: {'; '.join(state.gaps)}; {_NEVER_IN_IT}", cure)
    else:
        why = f"shell commands and gates run without one: {state.reason}; {_NEVER_IN_IT}"
        cure = "mend what it names, or set sandbox.mode to off"
        yield warning("sandbox", why, cure) if state.is_wanting else ok("sandbox", why)


async def _sandbox_state(setup: CheckedSetup, paths: Paths) -> SandboxState:
    async with ProcessLauncher(SystemClock()) as launcher:
        sandbox = CommandSandbox(
            SandboxSettings(),
            executor=choose_executor(setup.plugins, setup.settings),
            workspace=str(paths.workspace),
            launcher=launcher,
            state_dir=paths.state,
        )
        try:
            return await sandbox.examine()
        finally:
            sandbox.close()


def _check_boxes(setup: CheckedSetup) -> Iterator[Finding]:
    state = run_to_end(_box_state(setup))
    gaps = state.gaps(Box(memory=2**30, cpus=1, pids=100))
    if not gaps:
        yield ok("boxes", f"agents can be put in boxes by {state.runtime}, with all limits")
    elif not state.is_wanting:
        yield ok("boxes", f"{'; '.join(gaps)}")
    else:
        cure = "hand control groups to this user, or do without box.agents"
        yield warning("boxes", "; ".join(gaps), cure)


async def _box_state(setup: CheckedSetup) -> BoxState:
    executor = choose_executor(setup.plugins, setup.settings)
    with TemporaryDirectory(prefix="prsm-doctor-boxes-") as folder:
        async with ProcessLauncher(SystemClock()) as launcher:
            boxes = ProgramBoxes(launcher, Path(folder), executor)
            try:
                return await boxes.examine()
            finally:
                boxes.close()


def _check_answers() -> Iterator[Finding]:
    if find_lineage(os.getpid()) is None:
        text = "the ancestors of a process cannot be seen, so nobody can answer by `prsm answer`"
        yield warning("answers", text, "mount /proc without hidepid, or with gid= of your group")
        return
    yield ok(
        "answers",
        "what agents start may not answer for people; a guarantee in the sandbox only: elsewhere "
        "they can read the key, or have tmux, at, cron or systemd-run start something",
    )


def check_terminal(encoding: str | None) -> Iterator[Finding]:
    """Check that stdout can show what agents write."""
    try:
        name = codecs.lookup(encoding or "utf-8").name
    except LookupError:
        name = str(encoding)
    if name == "utf-8":
        yield ok("terminal", "takes UTF-8")
    else:
        yield warning("terminal", f"takes {name} only, agents write UTF-8", "export LC_ALL=C.UTF-8")


def _problems(dists: list[Distribution]) -> Iterator[Finding]:
    name, versions = dists[0].name, [dist.version for dist in dists]
    for dist in dists:
        if dist.problem is not None:
            yield broken("packages", dist.problem, "install what that folder is of again")
    for pin in core_pins(dists[0].requires):
        if not satisfies(__version__, pin):
            yield broken(
                "packages",
                f"{name} {versions[0]} needs {CORE} {pin}; this is {__version__}",
                f"install {CORE} and {name} together, of one release",
            )
    if len(versions) > 1:
        yield warning(
            "packages",
            f"{name} is installed {len(versions)} times: {', '.join(versions)}",
            f"pip uninstall {name}, once for each, then install it again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSetup:
    """Settings (the defaults if the configuration is wrong), plugins and findings."""

    settings: Settings
    plugins: PluginManager
    findings: tuple[Finding, ...]
    trusted: bool  # whether the workspace is


def check_setup(paths: Paths, environ: Mapping[str, str], *, load_plugins: bool) -> CheckedSetup:
    """Load configuration and plugins as a run does, and carry on where a run would stop."""
    standing, trust = _check_trust(paths)
    load = partial(_load, paths, environ, standing)
    loaded, problems = load()
    plugins, refused = _load_plugins(environ, loaded.settings, load_plugins=load_plugins)
    if load_plugins and not problems and not refused:
        # Once more: only the plugins know which names may have a section, and what it may hold.
        loaded, problems = load(
            known_plugins=provider_names(plugins),
            plugin_sections=plugin_sections(plugins, begins_run=True),
        )
        plugins = plugins.with_settings(loaded.of_plugins)
    settings = loaded.settings
    found = refused or _plugin_findings(plugins, settings, loading_seconds(environ))
    files = [path for path in (paths.user_models, paths.user_config) if path.exists()]
    read = ", ".join(map(str, files)) or f"there is no {paths.user_config}; the defaults hold"
    findings = (*found, *(problems or [ok("config", read)]), trust)
    trusted = standing is not None and standing.trusted
    return CheckedSetup(settings=settings, plugins=plugins, findings=findings, trusted=trusted)


def _load_plugins(
    environ: Mapping[str, str], settings: Settings, *, load_plugins: bool
) -> tuple[PluginManager, list[Finding]]:
    """Load the plugins, or only the built-in ones if a variable about them is wrong."""
    load = partial(PluginManager.load, builtins=BUILTINS)
    try:
        disabled = settings.plugins.disabled
        return load(environ=environ, disabled=disabled, enabled=load_plugins), []
    except ConfigError as error:
        finding = broken("plugins", error.message, error.hint or "correct that variable")
        return load(environ={}, enabled=False), [finding]


def _load(
    paths: Paths, environ: Mapping[str, str], standing: Standing | None, **known: Any
) -> tuple[LoadedSettings, list[Finding]]:
    try:
        loaded = load_settings(
            paths=paths,
            environ=environ,
            trusted=standing is not None and standing.trusted,
            snapshot=None if standing is None else standing.snapshot,
            **known,
        )
    except ConfigError as error:
        cure = error.hint or CURE
        wrong = [broken("config", problem, cure) for problem in one_by_one(error)]
        return LoadedSettings(settings=Settings(), sources={}, notices=()), wrong
    return loaded, [warning("config", text, "correct it there") for text in loaded.mistakes]


def _check_trust(paths: Paths) -> tuple[Standing | None, Finding]:
    folder = paths.workspace_dir
    try:
        standing = check_trust(paths)
    except ConfigError as error:
        return None, broken("trust", error.message, error.hint or f"make {folder} readable")
    if standing.trusted and standing.snapshot.is_there:
        return standing, ok("trust", f"{folder} is trusted as it is now")
    if not os.path.lexists(folder):
        told = "; the workspace is trusted without one" if standing.trusted else ""
        return standing, ok("trust", f"there is no {folder}{told}")
    why = f" ({standing.lost})" if standing.lost else ""
    message = f"{folder} is not trusted{why}: only its deny and ask rules hold"
    return standing, warning("trust", message, "`prsm trust` shows what is in it, and trusts it")


def _plugin_findings(
    plugins: PluginManager, settings: Settings, seconds: float
) -> Iterator[Finding]:
    for record in plugins.records:
        if record.is_quarantined:
            yield _refused(record)
    for name in settings.permissions.required:
        if name not in plugins.collect(PermissionCheckSpec):
            text = f"permissions.required names {name}, which no active plugin brings"
            yield broken("plugins", text, "install its plugin; until then no run starts")
    for spec, problem in plugins.unsettled():
        tell = broken if isinstance(spec, PermissionCheckSpec) else warning
        yield tell("plugins", problem.message, problem.hint or CURE)
    yield from _check_code(plugins, seconds)
    for notice in plugins.notices:
        yield warning("plugins", notice.text, "correct the name there")
    active = [record.name for record in plugins.records if record.state is PluginState.ACTIVE]
    off = [record.name for record in plugins.records if record.state is PluginState.DISABLED]
    text = f"active: {', '.join(active) or 'none'}"
    yield ok("plugins", f"{text}; disabled: {', '.join(off)}" if off else text)


def _refused(record: PluginRecord) -> Finding:
    # A run says it too, and refuses to start if checks are known to be missing.
    may_run = record.state is PluginState.SLOW and not record.brings_checks
    tell = warning if may_run else broken
    return tell(
        "plugins",
        f"{record.name} ({record}) is {record.state}: {record.error}{record.loss}",
        record.cure,
    )


def _check_code(plugins: PluginManager, seconds: float) -> Iterator[Finding]:
    """Check that what records name by text can be imported."""
    for kind, word in WORDS.items():
        specs: Mapping[str, Spec] = plugins.collect(kind)
        for name, spec in specs.items():
            if isinstance(reference_of(spec), str):
                owner = plugins.owner_of(spec)
                what = f"{word} {name} of {owner.name} ({owner})"
                yield from _check_import(plugins, spec, what, seconds)


def _check_import(
    plugins: PluginManager, spec: Spec, what: str, seconds: float
) -> Iterator[Finding]:
    owner = plugins.owner_of(spec)
    leave_out = f"or leave it out: PRSM_DISABLED_PLUGINS={owner.name}"
    try:
        found = plugins.implementation(spec, seconds)
    except SlowPluginError as error:
        yield warning("plugins", f"{what} is slow: {error.message}", f"{MORE_TIME}, {leave_out}")
        return
    except PluginError as error:
        problem = error.message
    else:
        if callable(found):
            return
        problem = f"{reference_of(spec)!r} cannot be called"
    yield broken("plugins", f"{what}: {problem}", f"reinstall {owner.distribution}, {leave_out}")
