"""Finds plugins, quarantines the broken ones, and hands out what the others contribute.

A plugin is active whole or not at all: whatever goes wrong with it, nothing of it is used, the
error is kept for `prsm plugins` and for whoever asks for it by name, and the rest go on. Of two
plugins that register the same name neither wins, except that a built-in one always keeps its
name.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import operator
import re
import traceback
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from prsm_core import hookspecs
from prsm_core.errors import PluginError
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint

GROUP = "prsm"
CORE = "prsm-core"

Spec = ProviderSpec | PermissionCheckSpec | ModelScorerSpec | EventSinkSpec | FrontendSpec
S = TypeVar("S", bound=Spec)
_Key = tuple[type, str]

_HOOKS: Mapping[str, type[Spec]] = {
    "prsm_providers": ProviderSpec,
    "prsm_permission_checks": PermissionCheckSpec,
    "prsm_model_scorers": ModelScorerSpec,
    "prsm_event_sinks": EventSinkSpec,
    "prsm_frontends": FrontendSpec,
}
_WORDS: Mapping[type, str] = {
    ProviderSpec: "provider",
    PermissionCheckSpec: "permission check",
    ModelScorerSpec: "model scorer",
    EventSinkSpec: "event sink",
    FrontendSpec: "frontend",
}

_PIN = re.compile(r"prsm[-_.]+core\s*(?:\[[^]]*\]\s*)?\(?([^;()@]*)\)?\s*", re.IGNORECASE)
_BOUND = re.compile(r"(<=|>=|<|>)\s*(\d[\w.]*)")
_BOUNDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

_log = logging.getLogger(__name__)


class PluginState(StrEnum):
    """What became of a plugin."""

    ACTIVE = "active"
    DISABLED = "disabled"
    BROKEN = "broken"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRecord:
    """One plugin as `prsm plugins` shows it; `error` says why it is not active."""

    name: str
    distribution: str
    version: str
    state: PluginState
    hooks: tuple[str, ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


class PluginManager:
    """The plugins of this process and their contributions; fixed once loaded."""

    def __init__(self, plugins: Iterable[_Plugin], notices: Sequence[str] = ()) -> None:
        self.notices = tuple(notices)
        self._specs: dict[type, dict[str, Spec]] = {kind: {} for kind in _WORDS}
        self._owners: dict[_Key, PluginRecord] = {}
        self._refused: dict[str, tuple[PluginRecord, BaseException | None]] = {}
        self._lost: dict[_Key, str] = {}
        records = []
        for plugin in sorted(plugins, key=lambda p: (p.name, p.distribution)):
            record = plugin.record()
            records.append(record)
            if plugin.state is PluginState.ACTIVE:
                self._add(plugin, record)
            else:
                self._refused[plugin.name] = (record, plugin.failure)
                self._lost.update(dict.fromkeys(plugin.specs, plugin.name))
        self.records = tuple(records)

    @classmethod
    def load(
        cls,
        *,
        environ: Mapping[str, str],
        disabled: Collection[str] = (),
        builtins: Iterable[tuple[str, str]] = (),
        enabled: bool = True,
        entry_points: Iterable[EntryPoint] | None = None,
    ) -> PluginManager:
        """Import every plugin that may run and ask its hooks, each once.

        Never raises because of a plugin: see `records` and `notices` for what went wrong.

        Args:
            environ: PRSM_PLUGINS names the only installed plugins to load (empty: none),
                PRSM_DISABLED_PLUGINS those not to load, both separated by commas;
                PRSM_TRACE_PLUGINS=1 logs at INFO what is done.
            disabled: More names not to load: `plugins.disabled` of the configuration.
            builtins: (name, module) of the plugins that the core brings along.
            enabled: False loads the built-in plugins only and looks for no others.
            entry_points: Instead of those that are installed.
        """
        plugins = [_builtin(name, module) for name, module in builtins]
        if enabled:
            plugins += _installed(entry_points)
        notices = _apply_lists(plugins, environ, disabled)
        _refuse_clashes(plugins, lambda plugin: [("plugin", plugin.name)])
        for plugin in plugins:
            if plugin.state is PluginState.ACTIVE:
                plugin.activate()
        _refuse_clashes(plugins, lambda plugin: [(_WORDS[k], name) for k, name in plugin.specs])
        manager = cls(plugins, notices)
        if environ.get("PRSM_TRACE_PLUGINS") == "1":
            manager._trace()
        return manager

    def collect(self, kind: type[S]) -> Mapping[str, S]:
        """Return the active records of a kind by name, in order of name."""
        return {name: spec for name, spec in self._specs[kind].items() if isinstance(spec, kind)}

    def get(self, kind: type[S], name: str) -> S:
        """Return one record.

        Raises PluginError: from its own error when its plugin is not active, else with the
        nearest name and those there are.
        """
        spec = self._specs[kind].get(name)
        if isinstance(spec, kind):
            return spec
        owner = self._lost.get((kind, name), name)
        if owner in self._refused:
            record, failure = self._refused[owner]
            raise _not_active(record, _WORDS[kind], name) from failure
        raise _unknown(_WORDS[kind], name, list(self._specs[kind]))

    def owner_of(self, spec: Spec) -> PluginRecord:
        """Return the plugin that contributed a record."""
        return self._owners[type(spec), spec.name]

    def implementation(self, spec: Spec) -> Any:
        """Return a record's factory, check or score function, imported if it is a string.

        Raises PluginError that names the plugin when the import fails.
        """
        return load_object(_reference(spec), plugin=self.owner_of(spec).name)

    def _add(self, plugin: _Plugin, record: PluginRecord) -> None:
        for (kind, name), spec in plugin.specs.items():
            self._specs[kind][name] = spec
            self._owners[kind, name] = record
        for kind, specs in self._specs.items():
            self._specs[kind] = dict(sorted(specs.items()))

    def _trace(self) -> None:
        for record in self.records:
            _log.info("%s (%s): %s", record.name, record, record.error or record.state.value)
        for (kind, name), owner in sorted(self._owners.items(), key=lambda item: item[0][1]):
            _log.info("%s %s from %s (%s)", _WORDS[kind], name, owner.name, owner)


def plugin_names() -> tuple[str, ...]:
    """Return the names of the installed plugins without importing any of them."""
    return tuple(sorted({point.name for point in _scan()}))


def load_object(reference: object, *, plugin: str) -> Any:
    """Return what "package.module:attribute" names; anything but text is returned as it is.

    Raises PluginError that names the plugin.
    """
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    if not (module and attribute):
        raise PluginError(f"plugin {plugin}: {reference!r} is not written package.module:attribute")
    try:
        value: Any = importlib.import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(
            f"plugin {plugin}: cannot import {reference!r}: {_one_line(error)}",
            hint=f"reinstall the plugin, or disable it: PRSM_DISABLED_PLUGINS={plugin}",
        ) from error
    return value


class _IncompatibleError(PluginError):
    """A plugin was written for another version of the core."""


@dataclass(slots=True, kw_only=True)
class _Plugin:
    """A plugin on its way from discovery to a record."""

    name: str
    distribution: str
    version: str
    load: Callable[[], object]
    is_builtin: bool = False
    core_pins: tuple[str, ...] = ()
    state: PluginState = PluginState.ACTIVE
    hooks: tuple[str, ...] = ()
    specs: dict[_Key, Spec] = field(default_factory=dict)
    error: str | None = None
    failure: BaseException | None = None

    def reject(self, state: PluginState, reason: str, failure: BaseException | None = None) -> None:
        self.state = state
        self.error = reason
        self.failure = failure

    def record(self) -> PluginRecord:
        return PluginRecord(
            name=self.name,
            distribution=self.distribution,
            version=self.version,
            state=self.state,
            hooks=self.hooks,
            error=self.error,
        )

    def activate(self) -> None:
        """Import the plugin and ask its hooks; whatever it raises rejects it."""
        try:
            self._check_pins()
            implementations = _implementations(self.load(), self.name)
            self.hooks = tuple(sorted({hook for hook, _ in implementations}))
            for hook, function in implementations:
                self._ask(hook, function)
        except KeyboardInterrupt:
            raise
        except (_IncompatibleError, pluggy.PluginValidationError) as error:
            self.reject(PluginState.INCOMPATIBLE, _one_line(error), error)
        except BaseException as error:  # noqa: BLE001 - a plugin may even exit at its import
            self.reject(PluginState.BROKEN, _one_line(error), error)

    def _check_pins(self) -> None:
        core = _core_version()
        for pin in self.core_pins:
            if not _satisfies(core, pin):
                raise _IncompatibleError(f"needs {CORE} {pin}; this is {core}")

    def _ask(self, hook: str, function: Callable[..., Any]) -> None:
        kind = _HOOKS[hook]
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{hook} is async; hooks are plain functions")
        for spec in function():
            if not isinstance(spec, kind):
                raise TypeError(f"{hook} gave a {type(spec).__name__}, not a {kind.__name__}")
            if (kind, spec.name) in self.specs:
                raise PluginError(f"{_WORDS[kind]} {spec.name!r} is registered twice")
            self.specs[kind, spec.name] = spec


def _builtin(name: str, module: str) -> _Plugin:
    return _Plugin(
        name=name,
        distribution=CORE,
        version=_core_version(),
        load=partial(importlib.import_module, module),
        is_builtin=True,
    )


def _installed(entry_points: Iterable[EntryPoint] | None) -> list[_Plugin]:
    plugins = []
    for point in _scan() if entry_points is None else entry_points:
        dist = point.dist
        plugins.append(
            _Plugin(
                name=point.name,
                distribution=(dist and dist.name) or "?",
                version=(dist and dist.version) or "?",
                load=point.load,
                core_pins=tuple(_core_pins(dist.requires or () if dist else ())),
            )
        )
    # The scan gives the order of the file system.
    return sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution))


def _scan() -> Iterable[EntryPoint]:
    # Imported late: it costs as much as all of this module.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


@cache
def _core_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(CORE)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "?"


def _apply_lists(
    plugins: Sequence[_Plugin], environ: Mapping[str, str], disabled: Collection[str]
) -> list[str]:
    """Reject what the lists exclude; return notices on names that no plugin has."""
    only = _names(environ["PRSM_PLUGINS"]) if "PRSM_PLUGINS" in environ else None
    blocked = {
        "plugins.disabled": set(disabled),
        "PRSM_DISABLED_PLUGINS": _names(environ.get("PRSM_DISABLED_PLUGINS", "")),
    }
    for plugin in plugins:
        if only is not None and plugin.name not in only and not plugin.is_builtin:
            plugin.reject(PluginState.DISABLED, "not in PRSM_PLUGINS")
        for source, names in blocked.items():
            if plugin.name in names:
                plugin.reject(PluginState.DISABLED, f"disabled by {source}")
    known = [plugin.name for plugin in plugins]
    return [
        f"{source}: {_unknown('plugin', name, known).message}"
        for source, names in {"PRSM_PLUGINS": only or set(), **blocked}.items()
        for name in sorted(names.difference(known))
    ]


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",")} - {""}


def _refuse_clashes(
    plugins: Sequence[_Plugin], claims: Callable[[_Plugin], Iterable[tuple[str, str]]]
) -> None:
    """Reject every plugin that claims a name another one claims."""
    # Those that clash with the core go first: they take no other plugin down with them.
    for against_builtin in (True, False):
        claimed: defaultdict[tuple[str, str], list[_Plugin]] = defaultdict(list)
        for plugin in plugins:
            if plugin.state is PluginState.ACTIVE:
                for claim in claims(plugin):
                    claimed[claim].append(plugin)
        for (word, name), owners in claimed.items():
            has_builtin = any(plugin.is_builtin for plugin in owners)
            if len(owners) > 1 and has_builtin == against_builtin:
                _reject_all(owners, word, name)


def _reject_all(owners: Sequence[_Plugin], word: str, name: str) -> None:
    by = " and ".join(f"{plugin.distribution} {plugin.version}" for plugin in owners)
    error = PluginError(f"{word} {name!r} is registered by {by}", hint="disable one of them")
    for plugin in owners:
        if not plugin.is_builtin:
            plugin.reject(PluginState.BROKEN, error.message, error)


def _implementations(plugin: object, name: str) -> list[tuple[str, Callable[..., Any]]]:
    """Return the plugin's (hook, function) pairs after pluggy has checked their signatures."""
    # A manager of its own: what pluggy left of a plugin it refused cannot touch another.
    manager = pluggy.PluginManager(hookspecs.hookspec.project_name)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name)
    implementations = []
    for caller in manager.get_hookcallers(plugin) or ():
        for impl in caller.get_hookimpls():
            if caller.name not in _HOOKS:
                if impl.optionalhook:
                    continue
                raise _IncompatibleError(_unknown("hook", caller.name, list(_HOOKS)).message)
            if impl.wrapper or impl.hookwrapper:
                raise _IncompatibleError(f"{caller.name} is a wrapper, which hooks cannot be")
            implementations.append((caller.name, impl.function))
    implemented = {hook for hook, _ in implementations}
    for hook in _HOOKS:
        if hook not in implemented and callable(getattr(plugin, hook, None)):
            raise PluginError(f"{hook} is not marked with @hookimpl")
    if not implementations:
        raise PluginError("implements no hook")
    return implementations


def _reference(spec: Spec) -> object:
    match spec:
        case PermissionCheckSpec():
            return spec.check
        case ModelScorerSpec():
            return spec.score
        case _:
            return spec.factory


def _not_active(record: PluginRecord, word: str, name: str) -> PluginError:
    hint = (
        "take it off that list"
        if record.state is PluginState.DISABLED
        else "`prsm plugins` lists all plugins; --debug shows the traceback"
    )
    return PluginError(
        f"{word} {name!r}: plugin {record.name} ({record}) is {record.state}: {record.error}",
        hint=hint,
    )


def _unknown(word: str, name: str, known: Sequence[str]) -> PluginError:
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, n=1)
    return PluginError(
        f"there is no {word} {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""),
        hint=f"installed: {', '.join(sorted(known)) or 'none'}",
    )


def _one_line(error: BaseException) -> str:
    if isinstance(error, PluginError):
        return error.message
    return " ".join("".join(traceback.format_exception_only(error)).split())


def _core_pins(requirements: Iterable[str]) -> Iterator[str]:
    """Yield the version clauses that a distribution puts on the core.

    Requirements with a marker are left to the installer, which has its context.
    """
    for requirement in requirements:
        pin = _PIN.fullmatch(requirement)
        if pin and pin[1].strip():
            yield pin[1].strip()


def _satisfies(version: str, pin: str) -> bool:
    """Hold a version against the bounds of a pin; other clauses are the installer's affair."""
    if not version[:1].isdigit():  # a source tree that is not installed
        return True
    bounds = [_BOUND.fullmatch(clause.strip()) for clause in pin.split(",")]
    return all(_BOUNDS[b[1]](_release(version), _release(b[2])) for b in bounds if b)


def _release(version: str) -> list[int]:
    """Return the numbers of a release without trailing zeros: 0.2, 0.2.0 and 0.2.0.dev1 agree."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers
