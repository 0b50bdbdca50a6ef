"""`prsm answer`: answers permission requests and questions of sessions that run elsewhere."""

from __future__ import annotations

import click

from prsm_core.cli.options import json_option, workspace_option


@click.command(short_help="Answer what agents ask of a person.")
@click.argument("request", required=False)
@click.argument("words", metavar="[ANSWER]...", nargs=-1)
@click.option("--session", metavar="ID", help="Only this session; all that run if not given.")
@workspace_option
@json_option
def answer(
    request: str | None, words: tuple[str, ...], session: str | None, workspace: str, as_json: bool
) -> None:
    """Answer REQUEST, the beginning of its id; without it, list what waits for an answer.

    A permission takes once, always or deny, as far as the list offers them. A question takes
    numbers or words of its options, or free text. The first answer counts; a later one exits
    with 1.
    """
    import asyncio

    from prsm_core.cli.control import answer_request, print_requests

    if request is None:
        asyncio.run(print_requests(workspace, session, as_json=as_json))
        return
    if not words:
        raise click.UsageError("the answer is missing")
    if as_json:
        raise click.UsageError("--json is for the list")
    asyncio.run(answer_request(workspace, session, request, words))
