"""`prsm plugins`: what is installed and what became of it; `new` writes the package of one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch

KINDS = ("provider", "check", "scorer", "sink", "frontend", "tool")


@click.group(short_help="List the plugins, or write a new one.", invoke_without_command=True)
@workspace_option
@json_option
@click.pass_context
@agents_may
def plugins(ctx: click.Context, workspace: str, as_json: bool) -> int:
    """List the plugins: active, disabled, broken, slow or incompatible, and why.

    Below them stands each record that they contribute: providers, permission checks with their
    priority and whether they hold in the mode bypass, model scorers, event sinks, frontends, tools.

    Exits with 1 if any is broken, slow or incompatible.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from prsm_core.cli.plugin_rows import plugin_values, print_plugins
    from prsm_core.cli.setup import load_setup

    manager = load_setup(ctx.obj, workspace).plugins
    if as_json:
        click.echo(json.dumps(plugin_values(manager), indent=2))
    else:
        print_plugins(manager)
    return 1 if manager.quarantined else 0


@plugins.command(short_help="Write the package of a new plugin.")
@click.argument("kind", type=click.Choice(KINDS), metavar=f"[{'|'.join(KINDS)}]")
@click.argument("name")
@click.option(
    "--dir",
    "parent",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    metavar="DIR",
    help="Where the folder of the package goes.",
)
@click.pass_obj
@agents_may
def new(launch: Launch, kind: str, name: str, parent: Path) -> None:
    """Write the package of a plugin that passes the contract of its kind as it stands.

    It is a folder `prsm-NAME` with pyproject.toml, README.md, a module of a few lines and its
    tests; change it from there. NAME is what `prsm plugins` and the configuration call it. Nothing
    that is there already is written over.
    """
    import os

    from prsm_core.builtin import BUILTINS
    from prsm_core.cli.scaffold import check_free, write_skeleton
    from prsm_core.plugins import PluginManager

    enabled = launch.load_plugins
    check_free(
        kind, name, PluginManager.load(environ=os.environ, builtins=BUILTINS, enabled=enabled)
    )
    folder = write_skeleton(kind, name, parent)
    python = shlex.quote(_shown(Path(sys.executable)))
    place = shlex.quote(_shown(folder))
    click.echo(f"{place} is written: it passes the contract of its kind. Try it:", err=True)
    click.echo(f"{python} -m pip install -e {shlex.quote(f'{_shown(folder)}[test]')}")
    click.echo(f"{python} -m pytest {place}")
    click.echo(f"{shlex.quote(_own_program())} plugins")


def _own_program() -> str:
    """Return what a person types for the `prsm` of this environment."""
    import shutil

    own = Path(sys.executable).with_name("prsm")
    found = shutil.which("prsm")
    is_found = found is not None and Path(found).absolute() == own.absolute()
    return "prsm" if is_found or not own.exists() else _shown(own)


def _shown(path: Path) -> str:
    """Return a path as it is written here: relative where it lies below the current folder."""
    here, path = Path.cwd(), path.absolute()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
