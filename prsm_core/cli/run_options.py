"""Options of the commands that run agents."""

from __future__ import annotations

import math

import click

from prsm_core.domain.agents import PermissionMode


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Return a number greater than 0; raise BadParameter for any other."""
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise click.BadParameter(f"{value} is not a number greater than 0")
    return value


mode_option = click.option(
    "--mode",
    type=click.Choice([mode.value for mode in PermissionMode]),
    help="How much runs without asking.",
)
on_ask_option = click.option(
    "--on-ask",
    type=click.Choice(["deny", "allow"]),
    help="Answer requests so, and questions, without asking a person.",
)
UNATTENDED_SECONDS = 300.0
unattended_option = click.option(
    "--unattended",
    "unattended_s",
    type=float,
    callback=finite,
    metavar="SECONDS",
    help="Refuse a request after this time without an attached terminal, rather than after "
    f"{UNATTENDED_SECONDS:.0f}.",
)
trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Let the workspace's own .prism count in this run, as `prsm trust` does for good.",
)
without_plugin_option = click.option(
    "--without-plugin",
    "without",
    multiple=True,
    metavar="NAME",
    help="Leave out a plugin, and the permission checks that it brings.",
)
budget_usd_option = click.option(
    "--budget-usd",
    type=float,
    callback=finite,
    metavar="DOLLARS",
    help="End the run once this is spent, as far as providers tell it.",
)
budget_tokens_option = click.option(
    "--budget-tokens",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="End the run once these tokens are used.",
)
set_option = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a value, as YAML."
)
