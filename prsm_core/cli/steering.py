"""`prsm kill`, `model`, `prompt`, `answer`, `attach`: act on a session that runs elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import image_option, json_option, text_argument, workspace_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


@click.command(short_help="Kill an agent of a running session.")
@click.argument("agent")
@click.option("--session", metavar="ID", help="Its session; the newest that runs if not given.")
@workspace_option
@agents_may
def kill(agent: str, session: str | None, workspace: str) -> None:
    """Kill AGENT, a name or the beginning of an id, and all its descendants.

    What they said so far is kept. Killing the master ends the run. Exits with 1 when no such
    agent runs.
    """
    from prsm_core.cli.control import kill_agent
    from prsm_core.loop.run import run_to_end

    run_to_end(kill_agent(workspace, session, agent))


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


@click.command(short_help="Tell something to an agent of a running session.")
@click.argument("agent")
@text_argument("text", "TEXT")
@click.option(
    "--delivery",
    type=click.Choice(["inject", "queue", "interrupt"]),
    default="inject",
    show_default=True,
    help="Into its running turn, at its next wait or turn, or in place of the running turn.",
)
@image_option
@click.option("--session", metavar="ID", help="Its session; the newest that runs if not given.")
@workspace_option
@agents_may
def prompt(**given: Any) -> None:
    """Tell TEXT to AGENT, a name or the beginning of an id.

    @PATH in it shows the model a file of the workspace, @PATH:10-40 some of its lines, a folder
    what is in it.

    What cannot be put into the running turn, because its provider takes nothing there, is read at
    the agent's next wait or turn. Exits with 1 when no such agent runs, with 2 for an image that
    is none, or that its provider takes none of.
    """
    from prsm_core.cli.control import prompt_agent
    from prsm_core.loop.run import run_to_end

    run_to_end(prompt_agent(**given))


@click.command(short_help="Answer what agents ask of a person.")
@click.argument("request", required=False)
@click.argument("words", metavar="[ANSWER]...", nargs=-1)
@click.option("--session", metavar="ID", help="Only this session; all that run if not given.")
@workspace_option
@json_option
@agents_may
def answer(
    request: str | None, words: tuple[str, ...], session: str | None, workspace: str, as_json: bool
) -> None:
    """Answer REQUEST, the beginning of its id; "all" stands for every open permission.

    Without an ANSWER the request is shown in full, without REQUEST all that wait are listed.

    A permission takes what the list offers: once, always (this session, the agent and its
    children), deny; allow_project and allow_global store the rule that is shown, deny_project and
    deny_global forbid the exact command for good. With "all", allow stands for once. A question
    takes numbers or words of its options, or free text.

    The first answer counts; a later one exits with 1 and says whose was first.
    """
    from prsm_core.cli import answering
    from prsm_core.loop.run import run_to_end

    place = answering.Place(workspace, session)
    if request is None:
        run_to_end(answering.print_requests(place, as_json=as_json))
        return
    if as_json:
        raise click.UsageError("--json is for the list")
    if request == answering.ALL:
        if not words:
            raise click.UsageError("the answer is missing: allow or deny")
        if not run_to_end(answering.answer_all(place, words)):
            click.get_current_context().exit(1)
    elif words:
        run_to_end(answering.answer_request(place, request, words))
    else:
        run_to_end(answering.print_request(place, request))


@click.command(short_help="Follow a running session and answer it.")
@click.argument("session", required=False)
@click.option("--ui", metavar="NAME", help="Show it in this frontend, rather than line by line.")
@workspace_option
@click.pass_obj
@agents_may
def attach(launch: Launch, session: str | None, ui: str | None, workspace: str) -> int:
    """Show what happens in a session that runs elsewhere, and answer what its agents ask.

    SESSION may be the beginning of an id; without it, it is the newest session of this repository
    that runs. Requests are put to you as in `prsm run`; whoever answers first counts. Ctrl-C or
    the end of input leaves, and the run goes on. Where stdin is no terminal nothing is asked.
    With --ui an installed frontend does all that over the session's socket; one that ends with its
    run, as json does, is given the run that is open.

    Exits as `prsm run` would with the run that ended last, with 0 if you leave before, with 1 if
    the process of the session died.
    """
    from prsm_core.cli.attaching import attach_frontend

    return attach_frontend(launch, workspace, session, ui)
