"""Acts on sessions that another process runs: kills and prompts agents, answers requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from prsm_core.builtin.asking import parse_answer, parse_verdict
from prsm_core.builtin.text import escape_exact
from prsm_core.cli.ledger import choose_session, open_ledger
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.table import format_table
from prsm_core.domain.permissions import Answer
from prsm_core.engine.control_client import open_control
from prsm_core.engine.session_lock import find_owner
from prsm_core.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.engine.control_client import ControlClient

SHOWN = 8  # characters of an id


async def kill_agent(workspace: str, session: str | None, agent: str) -> None:
    """Kill an agent, and print the names of those that this ended.

    Raises:
        PrsmError: nothing runs, or no such agent.
    """
    async with await open_running(workspace, session) as owner:
        for name in await owner.kill(agent):
            click.echo(f"killed {escape_exact(name)}")


async def prompt_agent(
    workspace: str, session: str | None, agent: str, text: str, delivery: str
) -> None:
    """Send a prompt to an agent, and print how it is delivered.

    Raises:
        PrsmError: nothing runs, or no such agent.
    """
    async with await open_running(workspace, session) as owner:
        click.echo(await owner.prompt_agent(agent, text, delivery))


async def open_running(
    workspace: str, session: str | None
) -> AbstractAsyncContextManager[ControlClient]:
    """Connect to the owner of the session of this prefix, or of the newest that runs."""
    running = await _running(workspace, session)
    if not running:
        raise ControlError(
            "no session of this repository runs",
            hint="`prsm tree` shows the newest one; --workspace names another folder",
            code="no_owner",
        )
    return open_control(_state(workspace), running[0])


async def print_requests(workspace: str, session: str | None, *, as_json: bool) -> None:
    """Print what waits for a person, as a table or as a JSON list."""
    requests = await _open_requests(workspace, session)
    if as_json:
        click.echo(json.dumps(requests, indent=2))
    elif requests:
        headers = ("REQUEST", "AGENT", "KIND", "ANSWERS", "ASKS")
        click.echo(format_table(headers, [_row(request) for request in requests]))
    else:
        click.echo("prsm: nothing waits for an answer", err=True)


async def answer_request(
    workspace: str, session: str | None, prefix: str, words: Sequence[str]
) -> None:
    """Give the answer to the one request whose id begins with `prefix`.

    Raises:
        ControlError: it is not open, or was answered a moment ago.
        click.UsageError: the answer is none that it takes.
    """
    request = _choose(await _open_requests(workspace, session), prefix)
    async with open_control(_state(workspace), request["session"]) as owner:
        taken = await _give(owner, request, words)
    if not taken:
        raise ControlError(
            f"request {_short(request)} was answered already",
            hint="the first answer counts; `prsm events` shows it",
            code="already_answered",
        )
    click.echo(f"answered {_short(request)}")


async def _give(owner: ControlClient, request: Mapping[str, Any], words: Sequence[str]) -> bool:
    options = tuple(request["options"])
    if request["kind"] == "permission":
        verdict = parse_verdict(" ".join(words), options)
        if verdict is None:
            raise click.UsageError(f"the answer to {_short(request)} is {_offered(options)}")
        return await owner.resolve_permission(request["request"], verdict)
    said = _read_answer(words, options)
    if said is None:
        raise click.UsageError(f"the answer to {_short(request)} is {_offered(options)}, or a text")
    return await owner.answer(request["request"], said)


def _read_answer(words: Sequence[str], options: Sequence[str]) -> Answer | None:
    """Return the choices, when every word is one, else what was said as a whole."""
    choices = [answer.choices for word in words if (answer := parse_answer(word, options))]
    if len(choices) == len(words) and all(choices):
        return Answer(choices=tuple(dict.fromkeys(name for chosen in choices for name in chosen)))
    return parse_answer(" ".join(words), options)


async def _open_requests(workspace: str, session: str | None) -> list[dict[str, Any]]:
    """Return the open requests of the sessions that run, each with its `session`."""
    state = _state(workspace)
    found: list[dict[str, Any]] = []
    for running in await _running(workspace, session):
        async with open_control(state, running) as owner:
            found += [{"session": running, **request} for request in await owner.requests()]
    return found


async def _running(workspace: str, prefix: str | None) -> list[str]:
    """Return the session of this prefix, or without one all that have an owner, newest first."""
    async with open_ledger(workspace) as store:
        sessions = await store.sessions()
    if prefix is not None:
        return [choose_session(sessions, prefix).session_id]
    state = _state(workspace)
    return [s.session_id for s in sessions if find_owner(state, s.session_id) is not None]


def _choose(requests: Sequence[dict[str, Any]], prefix: str) -> dict[str, Any]:
    found = [request for request in requests if request["request"].startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ControlError(
            f"{prefix!r} is the beginning of {len(found)} requests",
            hint=f"give more of the id: {', '.join(r['request'] for r in found[:5])}",
            code="ambiguous_request",
        )
    raise ControlError(
        f"no open request begins with {prefix!r}",
        hint="it may have been answered; `prsm answer` lists what is open",
        code="unknown_request",
    )


def _row(request: Mapping[str, Any]) -> tuple[str, ...]:
    options = request["options"]
    if request["kind"] == "permission":
        what = request["command"] or ", ".join(request["paths"]) or request["reason"]
        asks = f"{request['tool']}: {what}"  # never cut: the end may be what matters
        answers = ", ".join(options)
    else:
        asks = request["question"]
        answers = ", ".join(f"{n} {option}" for n, option in enumerate(options, 1)) or "a text"
    return _short(request), request["name"], request["kind"], answers, asks


def _offered(options: Sequence[str]) -> str:
    return " or ".join(escape_exact(option) for option in options) or "not empty"


def _short(request: Mapping[str, Any]) -> str:
    return str(request["request"])[:SHOWN]


def _state(workspace: str) -> Path:
    return workspace_paths(workspace).state
