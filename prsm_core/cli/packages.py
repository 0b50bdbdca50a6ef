"""`prsm install`, `uninstall`: add a package of this project, and show how to remove all of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from prsm_core.catalog.packages import OWN_PACKAGES
from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


_HELP = f"""Install NAME beside the core, which is one of: {", ".join(OWN_PACKAGES)}.

In a clone of the repository it is taken from there. Any other name is refused, with the line
that installs it if you want that: what a name leads to is yours to know. What was not
installed whole is taken away again. Where pipx or uv manages the environment they do it.
"""


@click.command(help=_HELP, short_help="Install a package of this project.")
@click.argument("name", metavar="NAME")
@click.option("--cli", "with_cli", is_flag=True, help="Install the vendor's program too, with npm.")
@click.option(
    "--prefix",
    type=click.Path(file_okay=False),
    default="~/.local",
    show_default=True,
    metavar="DIR",
    help="Where npm puts that program: in its folder `bin`.",
)
@click.pass_obj
def install(launch: Launch, name: str, with_cli: bool, prefix: str) -> int:
    """Install one of OWN_PACKAGES; return the exit code."""
    from prsm_core.cli.installing import install_package

    return install_package(name, debug=launch.debug, with_cli=with_cli, prefix=prefix)


@click.command(short_help="Show what is on disk, and how to remove it.")
@json_option
@agents_may
def uninstall(as_json: bool) -> None:
    """Show what PRSM has on this disk and the lines that remove it. Nothing is removed.

    The .prism folders of your repositories are theirs, and are not listed.
    """
    from prsm_core.cli.installing import find_places, removal_lines
    from prsm_core.cli.saying import print_table

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
