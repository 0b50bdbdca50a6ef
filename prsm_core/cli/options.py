"""Options that several commands share; light, because every --help imports them."""

from __future__ import annotations

import click

workspace_option = click.option(
    "-C",
    "--workspace",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    default=".",
    show_default=True,
    metavar="DIR",
    help="The folder to work in.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
