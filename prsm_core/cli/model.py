"""`prsm model`: lets an agent of a session that another process runs go on with another model."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import workspace_option


@click.command(short_help="Let an agent of a running session go on with another model.")
@click.argument("agent")
@click.argument("model")
@click.option("--session", metavar="ID", help="Its session; the newest that runs if not given.")
@workspace_option
@agents_may
def model(agent: str, model: str, session: str | None, workspace: str) -> None:
    """Let AGENT, a name or the beginning of an id, go on with MODEL.

    MODEL is an alias, PROVIDER/MODEL, a provider for its default, or a model of the agent's own
    provider; `prsm models list` tells them. The turn that runs is not touched: the next one is of
    that model, with the conversation. A resume keeps it. Exits with 1 when no such agent runs, with
    3 when there is no such model, or its provider is not there.
    """
    from prsm_core.cli.control import set_model
    from prsm_core.loop.run import run_to_end

    run_to_end(set_model(workspace, session, agent, model))
