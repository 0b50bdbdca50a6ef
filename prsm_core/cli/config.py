"""`prsm config`: the settings in force, their schema, and where everything lies."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option
from prsm_core.config.secrets import SECRET_NAME

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch

HIDDEN = "(hidden)"

_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


@click.group(short_help="Show the configuration and where it lives.")
def config() -> None:
    """Show the configuration and where it lives."""


@config.command(short_help="Print the settings in force.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set one more value.")
@workspace_option
@json_option
@click.pass_obj
@agents_may
def show(launch: Launch, sets: tuple[str, ...], workspace: str, as_json: bool) -> None:
    """Print the settings in force as YAML, values that may be secret left out.

    What names a program, a folder or a tool that is not there is told on stderr.
    """
    from prsm_core.cli.checkup.values import check_values
    from prsm_core.cli.setup import load_setup
    from prsm_core.config.secrets import known_secrets
    from prsm_core.kit.text import escape_prose
    from prsm_core.permissions import Redactor, build_policy
    from prsm_core.policies.port import CommandPolicySpec

    setup = load_setup(launch, workspace, sets=sets)
    settings = setup.settings
    redactor = Redactor(known_secrets(settings, os.environ))
    if any((settings.mcp_servers, *(each.mcp_servers for each in settings.experts.values()))):
        from prsm_core.cli.checkup.values import refused_names

        for line in refused_names(settings, setup.plugins):
            click.echo(f"note: {line}", err=True)
    shown = hide_secrets(settings.as_json(), also=frozenset(settings.plugin_secrets))
    values = redactor.value(shown)
    if as_json:
        click.echo(json.dumps(values, indent=2))
    else:
        from prsm_core.config.document import dump_document

        click.echo(dump_document(values), nl=False)
    commands = build_policy(setup.plugins.collect(CommandPolicySpec), settings.permissions)
    for finding in check_values(settings, setup.paths, commands):
        click.echo(f"prsm: note: {escape_prose(redactor.text(finding.message))}", err=True)


@config.command(short_help="Print the JSON Schema of a configuration file.")
@click.option("--door", "of_door", is_flag=True, help="That of what frontends are answered.")
@workspace_option
@click.pass_obj
@agents_may
def schema(launch: Launch, of_door: bool, workspace: str) -> None:
    """Print the JSON Schema of a configuration file, for editors, with what plugins take.

    With --door it is that of the records which frontends are answered, each by its name.
    """
    if of_door:
        click.echo(json.dumps(_door_schema(), indent=2))
        return
    from prsm_core.cli.plugin_sections import plugin_sections
    from prsm_core.cli.setup import load_plugins
    from prsm_core.config.plugin_settings import full_schema

    plugins = load_plugins(launch, workspace)
    click.echo(json.dumps(full_schema(plugin_sections(plugins)), indent=2))


def _door_schema() -> dict[str, Any]:
    """Return one JSON Schema of all records of `prsm_core.door`, by their names in `$defs`."""
    from msgspec.json import schema_components

    from prsm_core import door

    kinds = {name: getattr(door, name) for name in dir(door)}
    shapes, parts = schema_components(kinds.values(), ref_template="#/$defs/{name}")
    unions = {name: shape for name, shape in zip(kinds, shapes, strict=True) if name not in parts}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": parts | unions}


@config.command(short_help="Print where configuration and state lie.")
@workspace_option
@json_option
@agents_may
def path(workspace: str, as_json: bool) -> None:
    """Print where the configuration files, the data and this repository's ledger lie."""
    from prsm_core.cli.places import workspace_ledger, workspace_paths
    from prsm_core.terminal.table import format_table

    paths = workspace_paths(workspace)
    values = {
        "user": str(paths.user_config),
        "workspace": str(paths.workspace_config),
        "data": str(paths.data),
        "ledger": str(workspace_ledger(workspace)),
    }
    if as_json:
        click.echo(json.dumps(values))
    else:
        click.echo(format_table(("WHAT", "WHERE"), list(values.items())))


def hide_secrets(value: Any, key: str = "", *, also: frozenset[str] = frozenset()) -> Any:
    """Return settings without what may be secret.

    Hidden are values of `env` and `headers`, texts whose key sounds secret or that are in `also`,
    and the user part of addresses. Names of environment variables stay.
    """
    if isinstance(value, dict):
        if key in {"env", "headers"}:
            return dict.fromkeys(value, HIDDEN)
        return {name: hide_secrets(item, name, also=also) for name, item in value.items()}
    if isinstance(value, list | tuple):
        # The environment of a profile holds names of variables, never values.
        return value if key == "profiles" else [hide_secrets(v, key, also=also) for v in value]
    if isinstance(value, str):
        is_secret = bool(SECRET_NAME.search(key)) or value in also
        return HIDDEN if is_secret else _USER_INFO.sub(HIDDEN, value)
    return HIDDEN if str(value) in also else value
