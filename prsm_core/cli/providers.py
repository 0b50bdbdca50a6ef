"""`prsm providers`: which can be used here, and what stops the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.options import json_option, workspace_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.cli.launch import Launch
    from prsm_core.interfaces.provider import ProviderStatus


@click.command(short_help="Look which providers can be used.")
@workspace_option
@json_option
@click.pass_obj
def providers(launch: Launch, workspace: str, as_json: bool) -> None:
    """Look which providers can be used: program, version, login, and what they cannot enforce."""
    import asyncio

    from prsm_core.app import probe_providers
    from prsm_core.cli.setup import load_setup
    from prsm_core.engine.processes import install_child_watcher

    setup = load_setup(launch, workspace)
    install_child_watcher()
    found = asyncio.run(probe_providers(setup.settings, setup.plugins, paths=setup.paths))
    if as_json:
        click.echo(json.dumps([_values(name, found[name]) for name in sorted(found)], indent=2))
    elif found:
        click.echo(_table(found))
    else:
        click.echo("prsm: no provider is installed", err=True)


def _values(name: str, status: ProviderStatus) -> dict[str, Any]:
    return {
        "name": name,
        "available": status.available,
        "version": status.version,
        "tested": status.tested,
        "logged_in": status.logged_in,
        "reason": status.reason,
        "hint": status.hint,
        "gaps": list(status.gaps),
    }


def _table(found: Mapping[str, ProviderStatus]) -> str:
    from prsm_core.cli.table import format_table

    headers = ("NAME", "AVAILABLE", "VERSION", "TESTED", "REASON")
    rows = [
        (name, "yes" if s.available else "no", s.version, s.tested, s.reason)
        for name, s in sorted(found.items())
    ]
    notes = []
    for name, status in sorted(found.items()):
        notes += [f"{name}: {status.hint}"] if status.hint and not status.available else []
        notes += [f"{name} cannot enforce: {gap}" for gap in status.gaps]
    return "\n".join([format_table(headers, rows), *notes])
