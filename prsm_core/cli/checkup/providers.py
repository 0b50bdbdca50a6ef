"""Checks of the providers: program, version, login, and what they cannot enforce."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import broken, ok, warning
from prsm_core.cli.surveying import ask_providers
from prsm_core.engine.providers.registry import configured_specs, how_to_get, kind_of
from prsm_core.interfaces.provider import ProviderSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.cli.checkup.setup import CheckedSetup
    from prsm_core.config import Paths, Settings
    from prsm_core.interfaces.provider import ProviderStatus
    from prsm_core.plugins import PluginManager


def check_providers(
    setup: CheckedSetup, paths: Paths, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Ask every provider whether it can be used, all at once."""
    settings, plugins = setup.settings, setup.plugins
    named = {name for name in (*settings.providers, settings.defaults.provider) if name}
    for name in sorted(named - configured_specs(plugins.collect(ProviderSpec), settings).keys()):
        cure = f"name another{how_to_get(kind_of(name, settings))}"
        yield broken("providers", f"the configuration names {name}, which is not installed", cure)
    found = _probe(settings, plugins, paths)
    if not found:
        cure = (
            "install one, for example `prsm install codex`; `prsm plugins` shows what keeps one off"
        )
        yield broken("providers", "none is loaded", cure)
    nothing_works = not any(status.available for status in found.values())
    for name, status in sorted(found.items()):
        yield _finding(f"provider {name}", status, is_needed=nothing_works or name in named)
        for gap in status.gaps:
            yield ok(f"provider {name}", f"cannot enforce: {gap}")
    yield from _missing_keys(settings, found, environ)


def _probe(
    settings: Settings, plugins: PluginManager, paths: Paths
) -> Mapping[str, ProviderStatus]:
    # With a state of their own: what a provider prepares for its programs is no change here.
    with TemporaryDirectory(prefix="prsm-doctor-", ignore_cleanup_errors=True) as folder:
        elsewhere = replace(paths, state=Path(folder))
        found = ask_providers(settings, plugins, elsewhere)
    return {name: report.status for name, report in found.items()}


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
    settings: Settings, found: Mapping[str, ProviderStatus], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Tell of keys that are not set, where the provider itself does not."""
    for name, section in settings.providers.items():
        key = section.api_key_env
        if key and not environ.get(key) and name in found and found[name].available:
            text = f"{key} is not set, which api_key_env names"
            yield warning(f"provider {name}", text, f"export {key}=…")
