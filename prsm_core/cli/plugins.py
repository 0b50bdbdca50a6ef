"""`prsm plugins`: what is installed and what became of it; `new` writes the package of one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option
from prsm_core.cli.saying import print_table
from prsm_core.executors import ExecutorSpec
from prsm_core.interfaces.files import WorkspaceFilesSpec
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.plugins import PluginState
from prsm_core.plugins.records import WORDS
from prsm_core.policies.port import CommandPolicySpec

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch
    from prsm_core.plugins import PluginManager, PluginRecord
    from prsm_core.plugins.records import Spec


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


_PLAIN = (str, int, float, bool, type(None))


def plugin_values(manager: PluginManager) -> list[dict[str, Any]]:
    """Return the plugins as `prsm plugins --json` prints them.

    `records` has what an active plugin contributes. Of one that is not active it has what it would
    contribute, as far as that is known: none of it is used.
    """
    return [
        {
            "name": record.name,
            "distribution": record.distribution,
            "version": record.version,
            "state": record.state.value,
            "hooks": list(record.hooks),
            "error": record.error,
            "records": [record_values(spec) for spec in _sorted(manager, record)],
        }
        for record in manager.records
    ]


def record_values(spec: Spec) -> dict[str, Any]:
    """Return a record's kind, and those of its fields that are plain values."""
    values: dict[str, Any] = {"kind": WORDS[type(spec)]}
    for name in spec.__struct_fields__:
        value = getattr(spec, name)
        if isinstance(value, frozenset | tuple):
            value = sorted(map(str, value))
        if isinstance(value, (*_PLAIN, list)):
            values[name] = value
    return values


def print_plugins(manager: PluginManager) -> None:
    """Print a table of the plugins, and below it one of their records."""
    headers = ("NAME", "DISTRIBUTION", "VERSION", "STATE", "HOOKS", "ERROR")
    rows = [
        (r.name, r.distribution, r.version, r.state, " ".join(r.hooks) or None, r.error)
        for r in manager.records
    ]
    print_table(headers, rows)
    below = [
        (WORDS[type(spec)], str(spec.name), _plugin(record), _details(spec), str(spec.summary))
        for record in manager.records
        for spec in _sorted(manager, record)
    ]
    if below:
        click.echo()
        print_table(("RECORD", "NAME", "PLUGIN", "DETAILS", "SUMMARY"), below)


def _sorted(manager: PluginManager, record: PluginRecord) -> list[Spec]:
    """Return the records of a plugin by kind; checks in the order in which they are asked."""

    def place(spec: Spec) -> tuple[str, float, str]:
        first = spec.priority if isinstance(spec, PermissionCheckSpec) else 0
        return WORDS[type(spec)], first, spec.name

    return sorted(manager.contributions(record), key=place)


def _plugin(record: PluginRecord) -> str:
    is_used = record.state is PluginState.ACTIVE
    return record.name if is_used else f"{record.name} ({record.state}: not used)"


def _details(spec: Spec) -> str | None:
    """Return what decides when a record of its kind is used."""
    match spec:
        case PermissionCheckSpec():
            where = "in bypass too" if spec.in_bypass else "not in bypass"
            tools = ", PRSM's own tools too" if spec.orchestration else ""
            return f"priority {spec.priority}, {where}{tools}"
        case FrontendSpec():
            return f"priority {spec.priority}, {'' if spec.interactive else 'not '}interactive"
        case ModelScorerSpec():
            return f"weight {spec.weight}"
        case EventSinkSpec():
            return "all events" if spec.kinds is None else f"{len(spec.kinds)} types of events"
        case ToolContribution():
            sets = f", sets labels {spec.labels}/" if spec.labels else ""
            return f"for {', '.join(sorted(spec.roles))}{sets}"
        case WorkspaceFilesSpec() | CommandPolicySpec():
            return None
        case ProviderSpec():
            return None if spec.selectable else "by name only"
        case ExecutorSpec():
            return "by name only"
