"""`prsm plugins`: what is installed and what became of it."""

from __future__ import annotations

import json

import click

from prsm_core.cli.callers import agents_may, guard
from prsm_core.cli.options import json_option, workspace_option


class _Plugins(click.Group):
    """Has one command below it, which the package for authors of plugins brings."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return its name."""
        return ["new"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import it; raises PluginError where the package is not installed."""
        if cmd_name != "new":
            return None
        from prsm_core.cli.group import load_command, only_one
        from prsm_core.distributions import COMMANDS, entry_points
        from prsm_core.errors import PluginError

        offers = [point for point in entry_points(COMMANDS) if point.name == "plugins.new"]
        try:
            return guard(load_command(only_one("plugins new", offers, "prsm-testing")))
        except PluginError:
            if ctx.resilient_parsing:  # a line that is completed says nothing
                return None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its summary, also where the package is not installed."""
        with formatter.section("Commands"):
            formatter.write_dl([("new", "Write the package of a new plugin.")])


@click.group(
    cls=_Plugins, short_help="List the plugins, or write a new one.", invoke_without_command=True
)
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
