"""`prsm plugins`: what is installed and what became of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from prsm_core.cli.options import json_option, workspace_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch
    from prsm_core.plugins import PluginRecord


@click.command(short_help="List the plugins and what became of them.")
@workspace_option
@json_option
@click.pass_obj
def plugins(launch: Launch, workspace: str, as_json: bool) -> int:
    """List the plugins: active, disabled, broken or incompatible, and why.

    Exits with 1 if any is broken or incompatible.
    """
    from prsm_core.cli.setup import load_setup
    from prsm_core.cli.table import print_table

    records = load_setup(launch, workspace).plugins.records
    if as_json:
        click.echo(json.dumps([_values(record) for record in records], indent=2))
    else:
        headers = ("NAME", "DISTRIBUTION", "VERSION", "STATE", "HOOKS", "ERROR")
        rows = [
            (r.name, r.distribution, r.version, r.state, " ".join(r.hooks) or None, r.error)
            for r in records
        ]
        print_table(headers, rows)
    return 1 if any(record.is_quarantined for record in records) else 0


def _values(record: PluginRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "state": record.state.value,
        "hooks": list(record.hooks),
        "error": record.error,
    }
