"""`prsm answer`: answers permission requests and questions of sessions that run elsewhere."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option


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
