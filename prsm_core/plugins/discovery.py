"""Which plugins there are, and which of them the user's lists leave on."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING

from prsm_core.distributions import CORE, DEFAULT_PACKAGES, GROUP, PARTS, EntryPoint, entry_points
from prsm_core.domain.turns import Notice
from prsm_core.errors import PluginError
from prsm_core.plugins.candidate import Candidate
from prsm_core.plugins.pins import core_pins
from prsm_core.plugins.records import PluginState, nearest, unknown
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

# The lists of plugins to leave out that hold for more than one run.
_LASTING = ("plugins.disabled", "PRSM_DISABLED_PLUGINS")


def plugin_names() -> tuple[str, ...]:
    """Return the names of the installed plugins without importing any of them."""
    return tuple(sorted({point.name for point in entry_points(GROUP)}))


def builtin(name: str, module: str) -> Candidate:
    """Return a plugin that the core brings along."""
    return Candidate(
        name=name,
        distribution=CORE,
        version=__version__,
        load=partial(importlib.import_module, module),
        is_builtin=True,
    )


def installed(points: Iterable[EntryPoint] | None, *, defaults_only: bool) -> list[Candidate]:
    """Return the plugins of entry points (None: all) by name, or only those of default packages."""
    plugins = [
        _candidate(point)
        for point in (entry_points(GROUP) if points is None else points)
        if not defaults_only or point.distribution.name in DEFAULT_PACKAGES
    ]
    # The scan gives the order of the file system.
    return sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution))


def _candidate(point: EntryPoint) -> Candidate:
    dist = point.distribution
    plugin = Candidate(
        name=point.name,
        distribution=dist.name,
        version=dist.version,
        load=point.load,
        is_builtin=dist.name in DEFAULT_PACKAGES,
        core_pins=tuple(core_pins(dist.requires)),
        brings_parts=not PARTS.isdisjoint(dist.places),
    )
    problem = dist.problem
    if not point.module:
        problem = f"its entry point is {point.place!r}, and names no module"
    if problem is not None:
        plugin.reject(PluginState.BROKEN, problem, PluginError(problem))
    return plugin


def apply_lists(
    plugins: Sequence[Candidate],
    environ: Mapping[str, str],
    disabled: Collection[str],
    without: Collection[str],
) -> list[Notice]:
    """Reject what the lists exclude; return notices on names that no plugin has.

    A name that an installed and a built-in plugin share means the installed one. A notice is shown
    once only if it is harmless: not for a near miss, a list of this run, or a plugin that should be
    there, which may bring a check.
    """
    only = _names(environ["PRSM_PLUGINS"]) if "PRSM_PLUGINS" in environ else None
    blocked = {
        "plugins.disabled": set(disabled),
        "PRSM_DISABLED_PLUGINS": _names(environ.get("PRSM_DISABLED_PLUGINS", "")),
        "--without-plugin": set(without),
    }
    found = {plugin.name for plugin in plugins if not plugin.is_builtin}
    for plugin in plugins:
        if only is not None and plugin.name not in only and not plugin.is_builtin:
            plugin.reject(PluginState.DISABLED, "not in PRSM_PLUGINS")
        for source, names in blocked.items():
            if plugin.name in names and not (plugin.is_builtin and plugin.name in found):
                plugin.reject(PluginState.DISABLED, f"disabled by {source}")
    known = [plugin.name for plugin in plugins]
    return [
        Notice(
            "warning",
            f"{source}: {unknown('plugin', name, known).message}",
            once=source in _LASTING and nearest(name, known) is None,
        )
        for source, names in {"PRSM_PLUGINS": only or set(), **blocked}.items()
        for name in sorted(names.difference(known))
    ]


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",")} - {""}
