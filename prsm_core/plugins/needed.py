"""What must be active before a run begins: what was named, and every check that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from prsm_core.errors import ConfigError, PluginError
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.plugins.records import MORE_TIME, WORDS, PluginState, Spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.plugins.manager import PluginManager

S = TypeVar("S", bound=Spec)


def check_needed(plugins: PluginManager, provider: str | None, checks: Sequence[str]) -> None:
    """Refuse to run without what the user named: a missing policy must not fail open.

    Raises PluginError for the provider's plugin, a required check, and any check that is lost.
    """
    if provider is not None:
        plugins.check_not_refused(ProviderSpec, provider)
    check_required(plugins, checks)
    _check_no_guard_is_lost(plugins)


def check_required(plugins: PluginManager, checks: Sequence[str]) -> None:
    """Raise PluginError when a permission check that the settings require is not active."""
    for name in checks:
        try:
            plugins.implementation(plugins.get(PermissionCheckSpec, name))
        except PluginError as error:
            idle = [f"plugin {r.name} is {r.state}: {r.error}" for r in plugins.records if r.error]
            raise PluginError(
                f"permissions.required: {error.message}", hint="; ".join(idle) or error.hint
            ) from error


def chosen(plugins: PluginManager, kind: type[S], named: str | None, setting: str) -> S | None:
    """Return an engine's one record of a kind: the named one, or the only one; None without any.

    Raises PluginError for an unknown or lost name, ConfigError if `setting` must choose among
    several.
    """
    if named is not None:
        return plugins.get(kind, named)
    specs = plugins.collect(kind)
    if len(specs) > 1:
        message = f"{', '.join(specs)}: more than one {WORDS[kind]} is installed"
        raise ConfigError(message, hint=f"name one of them: {setting}")
    for name in plugins.lost(kind):
        plugins.get(kind, name)
    return next(iter(specs.values()), None)


def _check_no_guard_is_lost(plugins: PluginManager) -> None:
    """Refuse to run while a check lacks its settings, or its plugin is known to be quarantined."""
    for spec, problem in plugins.unsettled():
        if isinstance(spec, PermissionCheckSpec):
            raise problem
    lost = [record for record in plugins.quarantined if record.brings_checks]
    if lost:
        names = [record.name for record in lost]
        is_slow = all(record.state is PluginState.SLOW for record in lost)
        raise PluginError(
            "; ".join(f"plugin {r.name} ({r}) is {r.state}: {r.error}{r.loss}" for r in lost),
            hint=f"{MORE_TIME if is_slow else 'mend it'}, or run without it: "
            f"{' '.join(f'--without-plugin {n}' for n in names)}, "
            f"or for good plugins.disabled: [{', '.join(names)}]",
            code="check_is_missing",
        )
