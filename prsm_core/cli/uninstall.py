"""`prsm uninstall`: what PRSM has on this disk, and the lines that remove it."""

from __future__ import annotations

import json

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option


@click.command(short_help="Show what is on disk, and how to remove it.")
@json_option
@agents_may
def uninstall(as_json: bool) -> None:
    """Show what PRSM has on this disk and the lines that remove it. Nothing is removed.

    The .prism folders of your repositories are theirs, and are not listed.
    """
    from prsm_core.cli.removing import find_places, removal_lines
    from prsm_core.cli.table import print_table

    places, lines = find_places(), removal_lines()
    if as_json:
        rows = [{"what": p.what, "path": str(p.path), "bytes": p.size} for p in places]
        click.echo(json.dumps({"places": rows, "lines": lines}, indent=2))
        return
    print_table(("WHAT", "WHERE", "SIZE"), [place.row for place in places])
    click.echo(
        "\nNothing was removed. `prsm sessions list` shows what still runs, and `prsm export`\n"
        "keeps a session in a file. These lines remove all of it:\n"
    )
    for line in lines:
        click.echo(f"  {line}")
