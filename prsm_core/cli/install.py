"""`prsm install`: puts one of this project's own packages beside the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.catalog.packages import OWN_PACKAGES

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
