"""`prsm demo`: a scripted team on a sample project, on the real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.commands import agents_may, without_plugin_option

if TYPE_CHECKING:
    from prsm_core.commands import Launch


@click.command(short_help="Watch a scripted team at work: no model, no key.")
@click.option("--ui", metavar="NAME", help="Frontend; console if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print one event a line; nobody is asked.")
@click.option("--keep", is_flag=True, help="Keep the project when the next demo begins.")
@without_plugin_option
@click.pass_obj
@agents_may
def demo(
    launch: Launch, ui: str | None, as_json: bool, keep: bool, without: tuple[str, ...]
) -> int:
    """Watch a scripted team mend a small Python project.

    What the agents say is written down; everything else is real: the engine, the tools, the
    permissions, the ledger, the edits and the test run. It needs no provider, no key and no
    network, and takes seconds. The project is a copy in a temporary folder.

    On a terminal you are asked for a permission, and the team waits for your answer; where nobody
    can be asked the demo answers. Exits with 0 when every agent has completed its task. A demo
    that is interrupted leaves nothing behind, unless it is to be kept.
    """
    if as_json and ui not in {None, "json"}:
        raise click.UsageError(f"--json and --ui {ui} exclude each other")
    from prsm_demo.show import run_demo

    return run_demo(launch, ui="json" if as_json else ui, keep=keep, without=without)
