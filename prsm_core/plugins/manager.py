"""The plugins of a process: what became of each, and what the active ones contribute."""

from __future__ import annotations

import logging
from collections import defaultdict
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_core.distributions import CORE
from prsm_core.domain.tools import ORCHESTRATION_TOOLS
from prsm_core.errors import ConfigError, PluginError
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.plugins.absent import Absent
from prsm_core.plugins.discovery import apply_lists, builtin, installed
from prsm_core.plugins.objects import load_object
from prsm_core.plugins.records import (
    WORDS,
    Key,
    PluginRecord,
    PluginState,
    Spec,
    not_active,
    unknown,
)
from prsm_core.plugins.settings import (
    SECTIONS,
    WithSettings,
    reference_of,
    section_of,
    settings_model,
)
from prsm_core.plugins.settings import with_settings as given
from prsm_core.policies.port import CommandPolicySpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from prsm_core.distributions import EntryPoint
    from prsm_core.domain.turns import Notice
    from prsm_core.errors import PrsmError
    from prsm_core.plugins.candidate import Candidate

S = TypeVar("S", bound=Spec)

DEADLINE_SECONDS = 5.0  # for the import of one plugin and all its hooks
MAX_DEADLINE = 3600.0

_log = logging.getLogger(__name__)


class PluginManager:
    """The plugins of this process and their contributions; fixed once loaded."""

    def __init__(
        self,
        plugins: Iterable[Candidate],
        notices: Sequence[Notice] = (),
        *,
        switched_off: bool = False,
    ) -> None:
        self.notices = tuple(notices)
        self.switched_off = switched_off  # none was looked for but the built-in ones
        self._specs: dict[type, dict[str, Spec]] = {kind: {} for kind in WORDS}
        self._owners: dict[Key, PluginRecord] = {}
        self._refused: dict[str, tuple[PluginRecord, BaseException | None]] = {}
        self._lost: dict[Key, str] = {}
        self._given: dict[PluginRecord, tuple[Spec, ...]] = {}
        records = []
        for plugin in sorted(plugins, key=lambda p: (p.name, p.distribution)):
            record = plugin.record()
            records.append(record)
            self._given[record] = tuple(plugin.specs.values())
            if plugin.state is PluginState.ACTIVE:
                for (kind, name), spec in plugin.specs.items():
                    self._specs[kind][name] = spec
                    self._owners[kind, name] = record
            else:
                self._refused[plugin.name] = (record, plugin.failure)
                self._lost.update(dict.fromkeys(plugin.specs, plugin.name))
        self._specs = {kind: dict(sorted(specs.items())) for kind, specs in self._specs.items()}
        self.records = tuple(records)
        self.quarantined = tuple(record for record in records if record.is_quarantined)

    @classmethod
    def load(
        cls,
        *,
        environ: Mapping[str, str],
        disabled: Collection[str] = (),
        without: Collection[str] = (),
        builtins: Iterable[tuple[str, str]] = (),
        enabled: bool = True,
        entry_points: Iterable[EntryPoint] | None = None,
    ) -> PluginManager:
        """Import every plugin that may run and ask its hooks, each once.

        Never raises because of a plugin: see `records` and `notices` for what went wrong. Raises
        ConfigError where PRSM_PLUGIN_TIMEOUT is no number of seconds.

        Args:
            environ: PRSM_PLUGINS names the only installed plugins to load (empty: none),
                PRSM_DISABLED_PLUGINS those not to load, both separated by commas;
                PRSM_PLUGIN_TIMEOUT is how many seconds each may take (default 5);
                PRSM_TRACE_PLUGINS=1 logs at INFO what is done.
            disabled: `plugins.disabled` of the configuration.
            without: `--without-plugin` of the command line.
            builtins: (name, module) of the plugins that the core brings along.
            enabled: False loads the built-in plugins only, and those of default packages.
            entry_points: Instead of those that are installed.
        """
        seconds = loading_seconds(environ)
        plugins = [builtin(name, module) for name, module in builtins]
        plugins += installed(entry_points, defaults_only=not enabled)
        notices = apply_lists(plugins, environ, disabled, without)
        _refuse_clashes(plugins, lambda plugin: [("plugin", plugin.name)])
        plugins = [p.activated(seconds) if p.state is PluginState.ACTIVE else p for p in plugins]
        # The core itself takes names, too: those of its tools.
        _refuse_clashes([builtin(CORE, "prsm_core"), *plugins], _claims)
        manager = cls(plugins, notices, switched_off=not enabled)
        if environ.get("PRSM_TRACE_PLUGINS") == "1":
            for record in manager.records:
                _log.info("%s (%s): %s", record.name, record, record.error or record.state.value)
            for (kind, name), owner in sorted(manager._owners.items(), key=lambda item: item[0][1]):
                _log.info("%s %s from %s (%s)", WORDS[kind], name, owner.name, owner)
        return manager

    def collect(self, kind: type[S]) -> Mapping[str, S]:
        """Return the active records of a kind by name, in order of name."""
        return {name: spec for name, spec in self._specs[kind].items() if isinstance(spec, kind)}

    def get(self, kind: type[S], name: str) -> S:
        """Return one record. Raises PluginError with its plugin's error or the nearest names."""
        spec = self._specs[kind].get(name)
        if isinstance(spec, kind):
            return spec
        self.check_not_refused(kind, name)
        names = list(self._specs[kind])
        lost = self.quarantined
        raise unknown(WORDS[kind], name, names, switched_off=self.switched_off, lost=lost)

    def check_not_refused(self, kind: type[S], name: str) -> None:
        """Raise PluginError if the plugin that has `name` is inactive; unknown names pass."""
        owner = self._lost.get((kind, name), name)
        if name not in self._specs[kind] and owner in self._refused:
            record, failure = self._refused[owner]
            raise not_active(record, WORDS[kind], name) from failure

    def absent(self, kind: type[S]) -> Absent:
        """Return why a record of this kind may not be there."""
        named = {name: record for name, (record, _) in self._refused.items()}
        had = {name: named[owner] for (of, name), owner in self._lost.items() if of is kind}
        owners = {
            name: record
            for name, record in {**named, **had}.items()
            if name not in self._specs[kind]
        }
        return Absent(
            word=WORDS[kind], owners=owners, lost=self.quarantined, switched_off=self.switched_off
        )

    def lost(self, kind: type) -> Sequence[str]:
        """Return the names of a kind's records that quarantined plugins would have."""
        quarantined = {record.name for record in self.quarantined}
        return [
            name for (of, name), owner in self._lost.items() if of is kind and owner in quarantined
        ]

    def owner_of(self, spec: Spec) -> PluginRecord:
        """Return the plugin that contributed a record."""
        return self._owners[type(spec), spec.name]

    def contributions(self, plugin: PluginRecord) -> Sequence[Spec]:
        """Return a plugin's records; those of an inactive one are not used."""
        return self._given[plugin]

    def implementation(self, spec: Spec, seconds: float | None = None) -> Any:
        """Return a record's factory, check or score function, imported if it is a string.

        Raises PluginError when the import fails, SlowPluginError when it takes more than `seconds`.
        """
        reference = reference_of(spec)
        if isinstance(reference, WithSettings):
            reference.resolved()
            return reference
        return load_object(reference, plugin=self.owner_of(spec).name, seconds=seconds)

    def settings_models(
        self, frontends: Collection[str] | None = None
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the structs of active records by section and name.

        None for a record without one and for a frontend not in `frontends`; a PluginError for a
        model that cannot be loaded.
        """

        def is_wanted(kind: type, name: str) -> bool:
            return frontends is None or kind is not SECTIONS["frontends"] or name in frontends

        return {
            section: {
                name: self._model(spec) if is_wanted(kind, name) else None
                for name, spec in self._specs[kind].items()
                if section_of(spec) == name
            }
            for section, kind in SECTIONS.items()
        }

    def provider_models(self, names: Collection[str] | None = None) -> Mapping[str, Any]:
        """Return the structs of active providers' sections, of all or of those named.

        None for a provider without one, a PluginError for one that cannot be loaded.
        """
        specs = self.collect(ProviderSpec)
        wanted = [name for name in specs if names is None or name in names]
        return {name: self._model(specs[name]) for name in wanted}

    def with_settings(self, found: Mapping[tuple[str, str], Any]) -> PluginManager:
        """Return these plugins with settings for their records, by section and name.

        Each is an instance of the record's model, or the error for whoever uses it.
        """
        manager = copy(self)
        manager._specs = dict(self._specs)
        for section, kind in SECTIONS.items():
            manager._specs[kind] = {
                name: given(spec, found[section, own], plugin=self.owner_of(spec).name)
                if (section, own := section_of(spec)) in found
                else spec
                for name, spec in self.collect(kind).items()
            }
        return manager

    def defaults_of(self, spec: Spec) -> Any:
        """Return the model of the settings that a record still needs, if any."""
        if isinstance(spec, CommandPolicySpec) or isinstance(reference_of(spec), WithSettings):
            return None
        return self._model(self._specs[type(spec)][section_of(spec)])

    def unsettled(self) -> Iterator[tuple[Spec, PrsmError]]:
        """Yield the records that still need settings, and what is missing."""
        for specs in self._specs.values():
            for spec in specs.values():
                reference = reference_of(spec)
                if isinstance(reference, WithSettings) and reference.problem is not None:
                    yield spec, reference.problem

    def _model(self, spec: Any) -> Any:
        try:
            return settings_model(spec, plugin=self.owner_of(spec).name)
        except PluginError as error:
            return error


def _claims(plugin: Candidate) -> Iterable[tuple[str, str]]:
    """Return the names that no other plugin may have: of records, and of what labels begin with."""
    if plugin.name == CORE and plugin.is_builtin:
        return [(WORDS[ToolContribution], name) for name in ORCHESTRATION_TOOLS]
    prefixes = dict.fromkeys(filter(None, map(_prefix, plugin.specs.values())))
    names = [(WORDS[kind], name) for kind, name in plugin.specs]
    return [*names, *(("label prefix", prefix) for prefix in prefixes)]


def _prefix(spec: Spec) -> str:
    """Return what labels begin with that are set by what a record registers alone."""
    if isinstance(spec, ProviderSpec) and spec.program:
        return spec.name
    return spec.labels if isinstance(spec, ToolContribution) else ""


def loading_seconds(environ: Mapping[str, str]) -> float:
    """Return the seconds that each plugin has; raise ConfigError for what is no such number."""
    text = environ.get("PRSM_PLUGIN_TIMEOUT")
    if text is None:
        return DEADLINE_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_DEADLINE:
        raise ConfigError(
            f"PRSM_PLUGIN_TIMEOUT is {text!r}",
            hint=f"give seconds: more than 0, {MAX_DEADLINE:g} at most",
        )
    return seconds


def _refuse_clashes(
    plugins: Sequence[Candidate], claims: Callable[[Candidate], Iterable[tuple[str, str]]]
) -> None:
    # Those that clash with the core go first: they take no other plugin down with them.
    for against_builtin in (True, False):
        claimed: defaultdict[tuple[str, str], list[Candidate]] = defaultdict(list)
        for plugin in plugins:
            if plugin.state is PluginState.ACTIVE:
                for claim in claims(plugin):
                    claimed[claim].append(plugin)
        for (word, name), owners in claimed.items():
            has_builtin = any(plugin.is_builtin for plugin in owners)
            if len(owners) > 1 and has_builtin == against_builtin:
                by = " and ".join(f"{each.distribution} {each.version}" for each in owners)
                what = f"{word} {name!r} is registered by {by}"
                error = PluginError(what, hint="disable one of them")
                for plugin in owners:
                    if not plugin.is_builtin:
                        plugin.reject(PluginState.BROKEN, error.message, error)
