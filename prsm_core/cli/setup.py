"""Loads what a command works with: the workspace's paths, the settings, the plugins."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.builtin import BUILTINS
from prsm_core.cli.logs import configure_logging
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.plugin_sections import plugin_sections
from prsm_core.cli.saying import say
from prsm_core.config import LoadedSettings, Paths, Settings, load_settings
from prsm_core.config.trust import check_trust
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.kit.text import escape_prose
from prsm_core.plugins import PluginManager

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_core.cli.launch import Launch
    from prsm_core.config.snapshot import Snapshot


_log = logging.getLogger("prsm.cli")

CURE = "correct it; `prsm config schema` prints what is allowed"


class Setup(Record, frozen=True, kw_only=True):
    """What a command works with."""

    paths: Paths
    settings: Settings
    plugins: PluginManager
    trusted: bool
    snapshot: Snapshot | None = None  # of the workspace's `.prism`: what `trusted` is about
    keeps_rules: bool = True  # of a person's answers


def load_setup(
    launch: Launch,
    workspace: str,
    *,
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    trust: bool = False,
    without: Sequence[str] = (),
    begins_run: bool = False,
    once: Once | None = None,
    skips_seen: bool = False,
) -> Setup:
    """Load settings and plugins, and tell on stderr what the user should know.

    `flags` are the values of named flags by dotted key; None where one was not given. `trust` lets
    the workspace's own configuration count, though the user may not have trusted it for good.
    Plugins named by `without` are left out. If it `begins_run`, no check with settings is missing.
    What `once` has done is not done again. With `skips_seen` lasting notices are not repeated.

    Raises ConfigError for what is wrong in the configuration. A plugin never makes this fail.
    """
    configure_logging(debug=launch.debug)
    paths = workspace_paths(workspace)
    standing = check_trust(paths, given=trust)
    load = partial(
        _load,
        paths=paths,
        environ=os.environ,
        sets=sets,
        overrides=flags,
        trusted=standing.trusted,
        snapshot=standing.snapshot,
    )
    once, first, seen = once or Once(), load().settings, paths.state if skips_seen else None
    plugins = once.plugins(launch, disabled=first.plugins.disabled, without=without)
    # Once more: only the plugins know which names may have a section, and what it may hold.
    known = provider_names(plugins) if launch.load_plugins else None
    sections = plugin_sections(plugins, begins_run=begins_run, settings=first)
    loaded = load(known_plugins=known, plugin_sections=sections)
    _log_sources(loaded, plugins)
    lost = (f"{paths.workspace}: {standing.lost}",) if standing.lost else ()
    once.tell((*lost, *loaded.notices, *loaded.mistakes, *_texts(plugins, seen)))
    return Setup(
        paths=paths,
        settings=loaded.settings,
        plugins=plugins.with_settings(loaded.of_plugins),
        trusted=standing.trusted,
        snapshot=standing.snapshot,
    )


def _texts(plugins: PluginManager, state: Path | None) -> list[str]:
    notices = plugins.notices
    if state is None or not any(notice.once for notice in notices):
        return [notice.text for notice in notices]
    from prsm_core.config.seen import SeenWarnings  # hardly ever

    seen = SeenWarnings(state)
    new = [notice.text for notice in notices if not notice.once or seen.is_new(notice.text)]
    seen.save()
    return new


def load_plugins(launch: Launch, workspace: str) -> PluginManager:
    """Load the plugins alone; with a wrong configuration only the built-in ones, and say so."""
    configure_logging(debug=launch.debug)
    paths = workspace_paths(workspace)
    standing = check_trust(paths)
    load = partial(PluginManager.load, environ=os.environ, builtins=BUILTINS)
    try:
        settings = load_settings(
            paths=paths, environ=os.environ, trusted=standing.trusted, snapshot=standing.snapshot
        ).settings
    except ConfigError as error:
        text = f"what plugins take is left out, since they are not loaded: {error.message}"
        say(f"prsm: note: {escape_prose(text)}", err=True)
        return load(enabled=False)
    return load(disabled=settings.plugins.disabled, enabled=launch.load_plugins)


def _log_sources(loaded: LoadedSettings, plugins: PluginManager) -> None:
    for key, source in loaded.sources.items():
        _log.debug("%s is set by %s", key, source)
    for record in plugins.records:
        _log.debug("plugin %s (%s): %s", record.name, record, record.error or record.state.value)


class Once:
    """What is done once, for however many workspaces: plugins are imported, notices are told."""

    def __init__(self) -> None:
        self._plugins: dict[frozenset[str], PluginManager] = {}
        self._told: set[str] = set()

    def plugins(
        self, launch: Launch, *, disabled: Sequence[str], without: Sequence[str]
    ) -> PluginManager:
        """Load the plugins, but for those of the two lists."""
        key = frozenset((*disabled, *without))
        if key not in self._plugins:
            self._plugins[key] = PluginManager.load(
                environ=os.environ,
                disabled=disabled,
                without=without,
                builtins=BUILTINS,
                enabled=launch.load_plugins,
            )
        return self._plugins[key]

    def tell(self, notices: Sequence[str]) -> None:
        """Say on stderr what has not been said."""
        for notice in notices:
            if notice not in self._told:
                self._told.add(notice)
                say(f"prsm: note: {escape_prose(notice)}", err=True)


def tell_quarantined(plugins: PluginManager) -> None:
    """Say on stderr which plugins are not used though nobody left them out."""
    for record in plugins.quarantined:
        text = f"plugin {record.name} ({record}) is not used, it is {record.state}: {record.fault}"
        say(f"prsm: warning: {escape_prose(text)}", err=True)


def _load(**given: Any) -> LoadedSettings:
    try:
        return load_settings(**given)
    except ConfigError as error:
        raise ConfigError(error.message, hint=error.hint or CURE, code=error.code) from error


def provider_names(plugins: PluginManager) -> list[str]:
    """Return the registered providers, and the plugins that could not register theirs."""
    silent = {record.name for record in plugins.records if record.error is not None}
    return sorted(silent.union(plugins.collect(ProviderSpec)))
