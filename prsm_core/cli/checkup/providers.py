"""Checks of the providers: program, version, login, and what they cannot enforce."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.catalog.packages import EXAMPLE, how_to_get
from prsm_core.cli.checkup.finding import broken, ok, warning
from prsm_core.cli.server_names import refused_names
from prsm_core.cli.surveying import ask_for_names, ask_providers
from prsm_core.engine.providers.configured_names import DEFAULT_PROVIDER, place_of_name
from prsm_core.engine.providers.registry import configured_specs, kind_of
from prsm_core.engine.turns.model_parameters import describe_ignored
from prsm_core.interfaces.provider import ProviderSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.cli.checkup.setup import CheckedSetup
    from prsm_core.config import Paths, Settings
    from prsm_core.engine.providers.survey import ProviderReport
    from prsm_core.interfaces.provider import ProviderStatus
    from prsm_core.plugins import PluginManager


def check_providers(
    setup: CheckedSetup, paths: Paths, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Ask every provider whether it can be used, all at once."""
    settings, plugins = setup.settings, setup.plugins
    absent = plugins.absent(ProviderSpec)
    named = {name for name in (*settings.providers, settings.defaults.provider) if name}
    for name in sorted(named - configured_specs(plugins.collect(ProviderSpec), settings).keys()):
        cure = f"name another{how_to_get(kind_of(name, settings))}"
        where, kind = _place(name, settings), kind_of(name, settings)
        if kind in absent.owners:
            owner = absent.owners[kind]
            text = f"plugin {owner.name}, which has it, is {owner.state}: {owner.error}"
            cure = f"see to plugin {owner.name}, or name another"
            yield broken("providers", f"{where}names {name}: {text}", cure)
        else:
            yield broken("providers", f"{where}names {name}, which is not installed", cure)
    found = _probe(settings, plugins, paths)
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


def _place(name: str, settings: Settings) -> str:
    is_section = name in settings.providers
    path = ("providers", name) if is_section else ("defaults", "provider")
    return f"{place_of_name(settings, path)} "


def check_names(setup: CheckedSetup, paths: Paths) -> Iterator[Finding]:
    """Look whether the settings name providers and models that there are."""
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


def _probe(
    settings: Settings, plugins: PluginManager, paths: Paths
) -> Mapping[str, ProviderReport]:
    with _elsewhere(paths) as place:
        return ask_providers(settings, plugins, place)


@contextmanager
def _elsewhere(paths: Paths) -> Iterator[Paths]:
    """Give providers a state of their own: what they prepare for their programs is no change."""
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
    """Tell of keys that are not set, where the provider itself does not."""
    for name, section in settings.providers.items():
        key = section.api_key_env
        if key and not environ.get(key) and name in found and found[name].status.available:
            text = f"{key} is not set, which api_key_env names"
            yield warning(f"provider {name}", text, f"export {key}=…")
