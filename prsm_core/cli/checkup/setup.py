"""Checks of the configuration, the workspace's trust and the plugins; keeps what of it works."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.builtin import BUILTINS
from prsm_core.cli.checkup.finding import broken, ok, warning
from prsm_core.cli.plugin_sections import plugin_sections
from prsm_core.cli.setup import CURE, provider_names
from prsm_core.config import Settings, load_settings
from prsm_core.config.explain import one_by_one
from prsm_core.config.trust import check_trust
from prsm_core.errors import ConfigError, PluginError
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.plugins import PluginManager, PluginState
from prsm_core.plugins.manager import loading_seconds
from prsm_core.plugins.records import MORE_TIME, WORDS, SlowPluginError
from prsm_core.plugins.settings import reference_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.config import LoadedSettings, Paths
    from prsm_core.config.trust import Standing
    from prsm_core.plugins import PluginRecord
    from prsm_core.plugins.records import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSetup:
    """The settings (those built in, if the configuration is wrong), plugins and findings."""

    settings: Settings
    plugins: PluginManager
    findings: tuple[Finding, ...]
    trusted: bool  # whether the workspace is


def check_setup(paths: Paths, environ: Mapping[str, str], *, load_plugins: bool) -> CheckedSetup:
    """Load the configuration and the plugins as a run does, and go on where a run would end."""
    standing, trust = _check_trust(paths)
    settings, problems = _load(paths, environ, standing)
    plugins, refused = _load_plugins(environ, settings, load_plugins=load_plugins)
    if load_plugins and not problems and not refused:
        settings, problems, plugins = _load_for(plugins, paths, environ, standing)
    found = refused or _plugin_findings(plugins, settings, loading_seconds(environ))
    findings = (*found, *(problems or [_config_is_ok(paths)]), trust)
    trusted = standing is not None and standing.trusted
    return CheckedSetup(settings=settings, plugins=plugins, findings=findings, trusted=trusted)


def _load_plugins(
    environ: Mapping[str, str], settings: Settings, *, load_plugins: bool
) -> tuple[PluginManager, list[Finding]]:
    """Load the plugins; only the built-in ones where a variable about them is wrong."""
    load = partial(PluginManager.load, builtins=BUILTINS)
    try:
        disabled = settings.plugins.disabled
        return load(environ=environ, disabled=disabled, enabled=load_plugins), []
    except ConfigError as error:
        finding = broken("plugins", error.message, error.hint or "correct that variable")
        return load(environ={}, enabled=False), [finding]


def _load(
    paths: Paths, environ: Mapping[str, str], standing: Standing | None, **known: Any
) -> tuple[Settings, list[Finding]]:
    loaded, findings = _loaded(paths, environ, standing, **known)
    return (Settings() if loaded is None else loaded.settings), findings


def _load_for(
    plugins: PluginManager, paths: Paths, environ: Mapping[str, str], standing: Standing | None
) -> tuple[Settings, list[Finding], PluginManager]:
    """Load the settings with what these plugins take, and give it to them."""
    loaded, findings = _loaded(
        paths,
        environ,
        standing,
        known_plugins=provider_names(plugins),
        plugin_sections=plugin_sections(plugins, begins_run=True),
    )
    if loaded is None:
        return Settings(), findings, plugins
    return loaded.settings, findings, plugins.with_settings(loaded.of_plugins)


def _loaded(
    paths: Paths, environ: Mapping[str, str], standing: Standing | None, **known: Any
) -> tuple[LoadedSettings | None, list[Finding]]:
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
        return None, [broken("config", problem, cure) for problem in one_by_one(error)]
    return loaded, [warning("config", text, "correct it there") for text in loaded.mistakes]


def _config_is_ok(paths: Paths) -> Finding:
    files = [path for path in (paths.user_models, paths.user_config) if path.exists()]
    read = ", ".join(map(str, files)) or f"there is no {paths.user_config}; the defaults hold"
    return ok("config", read)


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
    """Look whether what the records name by text can be imported, as it would be when used."""
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
