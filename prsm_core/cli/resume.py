"""`prsm resume`: go on with a run that was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.options import workspace_option
from prsm_core.cli.run_options import (
    UNATTENDED_SECONDS,
    budget_tokens_option,
    budget_usd_option,
    finite,
    on_ask_option,
    set_option,
    trust_option,
    unattended_option,
    without_plugin_option,
)

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


@click.command(short_help="Go on with a run that was cut off.")
@click.argument("session", required=False)
@workspace_option
@click.option("--ui", metavar="NAME", help="Frontend; console if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print one event a line; nobody is asked.")
@click.option("--detach", is_flag=True, help="Return once the run goes on, and print its session.")
@on_ask_option
@trust_option
@without_plugin_option
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    callback=finite,
    metavar="SECONDS",
    help="End the run this long from here; what is left of its own limit if not given.",
)
@unattended_option
@budget_usd_option
@budget_tokens_option
@set_option
@click.pass_obj
def resume(
    launch: Launch, /, *, as_json: bool, detach: bool, ui: str | None, **options: Any
) -> int:
    """Go on with the newest run of SESSION, the newest session if not given.

    A run is cut off when its process dies, or is interrupted. All agents go on as they were: what
    they waited for they wait for again, no finished child is run again, and a question is asked
    once. First it is told, of each agent, how it goes on.

    The options that `prsm run` was given hold again, but for --trust; those given here are laid
    over them, here and in later resumes. Its time limit and its budget count from the run's
    beginning; time in which no process worked on it does not count, and a --timeout that is given
    here counts from here. Files of the configuration are read as they are now.

    A run that is finished is not run again: its own exit code is given. Otherwise exits as
    `prsm run` does.
    """
    if as_json and ui not in {None, "json"}:
        raise click.UsageError(f"--json and --ui {ui} exclude each other")
    if detach and ui is not None:
        raise click.UsageError(f"--detach and --ui {ui} exclude each other")
    if options["unattended_s"] is not None and not detach:
        raise click.UsageError("--unattended is for --detach")
    if detach and options["unattended_s"] is None:
        options["unattended_s"] = UNATTENDED_SECONDS
    from prsm_core.cli.resuming import resume_session

    if not detach:
        ui = "json" if as_json else ui
    return resume_session(launch, ui=ui, detach=detach, as_json=as_json, **options)
