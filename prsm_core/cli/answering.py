"""List what agents of running sessions ask a person, and answer it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from msgspec import UNSET, to_builtins

from prsm_core.cli.control import running_sessions
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.saying import print_table, say
from prsm_core.domain.permissions import Answer
from prsm_core.door import OpenPermission, OpenRequest, RequestOutcome
from prsm_core.engine.control.client import ControlClient, open_control
from prsm_core.errors import ControlError
from prsm_core.kit.text import escape_command, escape_exact
from prsm_core.terminal.owner import GONE
from prsm_core.terminal.wording import parse_answer, parse_verdict, request_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager


T = TypeVar("T")

SHOWN = 8  # characters of an id
ALL = "all"  # in place of an id
VIA = "prsm answer"
_COMMON = ("kind", "agent", "name", "opened_at")  # fields of every request


class Place(NamedTuple):
    """A workspace, or one session of it."""

    workspace: str
    session: str | None


async def print_requests(place: Place, *, as_json: bool) -> None:
    """Print what waits for a person, as a table or as a JSON list."""
    requests = await _open_requests(place)
    if as_json:
        click.echo(json.dumps([_told(*asked) for asked in requests], indent=2))
    elif requests:
        headers = ("REQUEST", "AGENT", "KIND", "ANSWERS", "ASKS")
        print_table(headers, [_row(request) for _, request in requests])
    else:
        click.echo("prsm: nothing waits for an answer", err=True)


def _told(session: str, request: OpenRequest) -> Mapping[str, Any]:
    told = to_builtins(request)
    common = {name: told.pop(name) for name in _COMMON}
    return {"session": session, **told, **common}


async def print_request(place: Place, prefix: str) -> None:
    """Print all that is known of the one open request whose id begins with `prefix`."""
    _, request = await _find(place, prefix)
    kind = "permission_requested" if isinstance(request, OpenPermission) else "question_asked"
    for line in request_lines(kind, escape_exact(request.name), to_builtins(request)):
        click.echo(line)
    click.echo(f"  answers: {', '.join(map(escape_exact, request.options)) or 'a text'}")


async def answer_request(place: Place, prefix: str, words: Sequence[str]) -> None:
    """Give the answer to the one request whose id begins with `prefix`."""
    session, request = await _find(place, prefix)
    async with _owner(place, session) as owner:
        if not await _give(owner, request, words):
            raise _refusal(request.request, await owner.requests.outcome(request.request))
    click.echo(f"answered {_short(request.request)}")


async def answer_all(place: Place, words: Sequence[str]) -> bool:
    """Give one verdict to all open permissions and print each; return whether all took it."""
    requests = await _open_requests(place)
    asked = [
        (session, request) for session, request in requests if isinstance(request, OpenPermission)
    ]
    if not asked:
        say("prsm: no permission waits for an answer", err=True)
    taken = [await _give_one_of_all(place, *one, words) for one in asked]
    if left := len(requests) - len(asked):
        say(f"prsm: questions that still wait: {left}", err=True)
    return all(taken)


async def _give_one_of_all(
    place: Place, session: str, request: OpenPermission, words: Sequence[str]
) -> bool:
    id_, options = request.request, request.options
    if parse_verdict(" ".join(words), options) is None:
        what = f"left open {_short(id_)}: it takes {_offered(options)}"
        say(f"prsm: {what}", err=True)
        return False
    async with _owner(place, session) as owner:
        if await _give(owner, request, words):
            click.echo(f"answered {_short(id_)}, {request.name}: {_what(request)}")
            return True
        refusal = _refusal(id_, await owner.requests.outcome(id_))
    say(f"prsm: {refusal.message}", err=True)
    return False


async def _give(owner: ControlClient, request: OpenRequest, words: Sequence[str]) -> bool:
    id_, options = request.request, request.options
    if isinstance(request, OpenPermission):
        verdict = parse_verdict(" ".join(words), options)
        if verdict is None:
            raise click.UsageError(f"the answer to {_short(id_)} is {_offered(options)}")
        return await owner.requests.resolve(id_, verdict)
    said = read_answer(words, options)
    if said is None:
        raise click.UsageError(f"the answer to {_short(id_)} is {_offered(options)}, or a text")
    return await owner.requests.answer(id_, said)


def read_answer(words: Sequence[str], options: Sequence[str]) -> Answer | None:
    """Return the choices if every word is one, else the words as a text."""
    choices = [answer.choices for word in words if (answer := parse_answer(word, options))]
    if len(choices) == len(words) and all(choices):
        return Answer(choices=tuple(dict.fromkeys(name for chosen in choices for name in chosen)))
    return parse_answer(" ".join(words), options)


async def _open_requests(place: Place) -> list[tuple[str, OpenRequest]]:
    told = await _ask_owners(place, lambda owner: owner.requests.open())
    return [(session, request) for session, found in told for request in found]


async def _ask_owners(
    place: Place, ask: Callable[[ControlClient], Awaitable[T]]
) -> list[tuple[str, T]]:
    """Ask the owner of each session that runs; one that ends meanwhile is left out."""
    told = []
    for session in await running_sessions(*place):
        try:
            async with _owner(place, session, via="") as owner:
                told.append((session, await ask(owner)))
        except ControlError as error:
            if place.session is not None or error.code not in GONE:
                raise
    return told


async def _find(place: Place, prefix: str) -> tuple[str, OpenRequest]:
    requests = await _open_requests(place)
    # A blank one is a variable that nobody has set, and chooses none.
    found = [asked for asked in requests if prefix and asked[1].request.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ControlError(
            f"{prefix!r} is the beginning of {len(found)} requests",
            hint=f"give more of the id: {', '.join(request.request for _, request in found[:5])}",
            code="ambiguous_request",
        )
    for _, outcome in await _ask_owners(place, lambda owner: owner.requests.outcome(prefix)):
        if outcome is not None:
            raise _refusal(outcome.request, outcome)
    raise ControlError(
        f"no open request begins with {prefix!r}",
        hint="`prsm answer` lists what is open",
        code="unknown_request",
    )


def _owner(
    place: Place, session: str, via: str = VIA
) -> AbstractAsyncContextManager[ControlClient]:
    return open_control(workspace_paths(place.workspace).state, session, via=via)


def _refusal(request: str, outcome: RequestOutcome | None) -> ControlError:
    verdict, by = "", "somebody"
    if outcome is not None:
        verdict = "" if outcome.verdict is UNSET else f": {outcome.verdict}"
        by = ", ".join(filter(None, (outcome.by, outcome.via))) or by
    return ControlError(
        f"request {_short(request)} was answered already{verdict} (by {by})",
        hint="the first answer counts",
        code="already_answered",
    )


def _row(request: OpenRequest) -> tuple[str, ...]:
    options = request.options
    if isinstance(request, OpenPermission):
        asks, answers = _what(request), ", ".join(options)
    else:
        asks = request.question
        answers = ", ".join(f"{n} {option}" for n, option in enumerate(options, 1)) or "a text"
    return _short(request.request), request.name, request.kind, answers, asks


def _what(request: OpenPermission) -> str:
    """Return what a permission is for. It is never cut: its end may matter."""
    what = request.command or ", ".join(request.paths) or request.reason or ""
    return f"{escape_exact(request.tool)}: {escape_command(what)}"


def _offered(options: Sequence[str]) -> str:
    return " or ".join(escape_exact(option) for option in options) or "not empty"


def _short(request: str) -> str:
    return request[:SHOWN]
