"""`prsm run`: one task, one tree of agents."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.options import workspace_option
from prsm_core.domain.agents import PermissionMode

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


def _finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise click.BadParameter(f"{value} is not a number greater than 0")
    return value


def _read_stdin() -> str:
    if sys.stdin is None:
        raise click.UsageError("there is no stdin to read the task from")
    return sys.stdin.buffer.read().decode(errors="replace")


@click.command(short_help="Run a task with a tree of agents.")
@click.argument("task")
@workspace_option
@click.option("--provider", metavar="NAME", help="Provider of the master.")
@click.option("--model", help="Model of the master: an alias, provider/model, or an id.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in PermissionMode]),
    help="How much runs without asking.",
)
@click.option("--ui", metavar="NAME", help="Frontend; console if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print one event a line; nobody is asked.")
@click.option("--session", metavar="ID", help="Run in this session.")
@click.option("--new", is_flag=True, help="Run in a new session, which is the default.")
@click.option(
    "--on-ask",
    type=click.Choice(["deny", "allow"]),
    help="Answer permission requests so, without asking a person.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    callback=_finite,
    metavar="SECONDS",
    help="End the run after this time.",
)
@click.option(
    "--budget-usd",
    type=float,
    callback=_finite,
    metavar="DOLLARS",
    help="Launch nothing more once this is spent, as far as providers tell it.",
)
@click.option(
    "--budget-tokens",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="Launch nothing more once these tokens are used.",
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a value, as YAML.")
@click.pass_obj
def run(
    launch: Launch, /, task: str, ui: str | None, as_json: bool, new: bool, **options: Any
) -> int:
    """Run TASK; "-" reads it from stdin.

    Progress goes to stderr, the summary to stdout. Exits with 0 when the task is completed, 1
    when it failed, 2 for usage and configuration, 3 without a usable provider, 4 when it failed
    and something was refused because nobody could be asked, 130 when interrupted.
    """
    if new and options["session"] is not None:
        raise click.UsageError("--new and --session exclude each other")
    if as_json and ui not in {None, "json"}:
        raise click.UsageError(f"--json and --ui {ui} exclude each other")
    if task == "-":
        task = _read_stdin()
    if not task.strip():
        raise click.UsageError("the task is blank")
    from prsm_core.cli.running import Request, run_task

    return run_task(launch, Request(task=task, ui="json" if as_json else ui, **options))
