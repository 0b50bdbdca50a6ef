"""Serves the MCP client that has started `prsm mcp` and leads the run, on stdin and stdout.

What waits for a person is put to the client's user as forms. They offer only what ends with the
run: a client cannot vouch that a person, not an agent, makes rules that outlive it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core import Answer, ConfigError
from prsm_core.commands import lead
from prsm_core.door import OpenQuestion
from prsm_core.kit import command_lines, escape_command, escape_exact, escape_prose, whole_number
from prsm_mcp.elicitation import Form
from prsm_mcp.server import load_mcp, serve
from prsm_mcp.wire import LineReader, open_streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core import AgentHost, AppHandle, ToolOutcome, ToolSpec
    from prsm_core.commands import Launch
    from prsm_core.door import OpenPermission, OpenRequest
    from prsm_core.kit import Wire
    from prsm_mcp.elicitation import Asker
    from prsm_mcp.server import ToolHost

PATIENCE_SECONDS = 300.0
_LIMIT = "MCP_TOOL_TIMEOUT"  # ms: how Claude Code is told to cut calls off
_MARGIN = 0.9  # of that limit: the answer has to arrive within it
BEGINS = "a client starts this command: claude mcp add --scope user prsm -- prsm mcp"

INSTRUCTIONS = """\
PRSM runs coding agents as your children. Give each a complete task with spawn_child, or several \
at once with spawn_children_parallel: a child sees nothing of this conversation. Then call \
wait_for_message with all, for all results together. A question ends it early: answer at once with \
respond_to_child, and wait again. An answer of type `pending` is no failure: the work goes on, \
and wait_for_message with its token gives the answer. A `notice` is for your user: pass it on. \
When your session ends, the children that still run are killed."""
BEAT_SECONDS = 1.0  # between two signs that somebody is asked
_BEGINNINGS = frozenset({"permission_requested", "question_asked"})
_ENDS = frozenset({"permission_resolved", "question_answered"})
_WORDS = {"once": "allow once", "always": "always allow, in this run", "deny": "deny"}
_VERDICTS = {words: verdict for verdict, words in _WORDS.items()}
_LONGEST_VIA = 80


def serve_client(
    launch: Launch, options: Mapping[str, Any], patience_s: float | None, environ: Mapping[str, str]
) -> int:
    """Serve the client until it leaves and return the exit code.

    A call that takes longer than `patience_s`, by default as the environment says, is answered
    `pending`. Raises ConfigError if there is no client or the environment's limit is no number.
    """
    speak = partial(_speak, patience_s or patience_of(environ))
    return lead(launch, options, speak, client="MCP client", hint=BEGINS)


def patience_of(environ: Mapping[str, str]) -> float:
    """Return how many seconds a call may take according to the environment."""
    limit = environ.get(_LIMIT)
    if limit is None:
        return PATIENCE_SECONDS
    milliseconds = whole_number(limit)
    if not milliseconds:
        raise ConfigError(
            f"{_LIMIT} is {limit!r}", hint="it is a number of milliseconds, such as 600000"
        )
    return min(PATIENCE_SECONDS, milliseconds / 1000 * _MARGIN)


async def _speak(
    patience_s: float, host: AgentHost, app: AppHandle, wire: Wire, brief: str
) -> None:
    asker = ClientAsker(app)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(asker.follow(), name="what waits for the client's user")
        await serve_stdio(
            ClientHost(host, app),
            wire,
            patience_s=patience_s,
            instructions="\n\n".join(filter(None, (INSTRUCTIONS, brief))),
            asker=asker,
        )
        following.cancel()


class ClientHost:
    """The master's tools as the client sees them, with notices of what waits for a person."""

    def __init__(self, host: AgentHost, app: AppHandle) -> None:
        self._host = host
        self._app = app

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools of the master."""
        return self._host.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], **options: Any
    ) -> ToolOutcome:
        """Call a tool; see AgentHost."""
        outcome = await self._host.call_tool(name, arguments, **options)
        # An outcome is given only once: if this were cut off from here on, it would be lost.
        waiting = await self._app.requests.open()
        return outcome.with_notice(_notice(waiting)) if waiting else outcome


def _notice(requests: Sequence[OpenRequest]) -> str:
    asks = "; ".join(_subject(request) for request in requests)
    return (
        f"Waiting for your user: {asks}. Tell them that `prsm attach` in a second terminal lets "
        "them answer; without an answer it will be refused."
    )


def _subject(request: OpenRequest) -> str:
    if isinstance(request, OpenQuestion):
        return f"{request.name} asks: {request.question}"
    what = request.command or ", ".join(request.paths) or request.reason
    return f"{request.name} asks permission for {request.tool}: {what}"


async def serve_stdio(
    host: ToolHost,
    wire: Wire,
    *,
    patience_s: float | None = None,
    instructions: str | None = None,
    asker: Asker | None = None,
) -> None:
    """Serve the tools of an agent until the client closes its side; see `serve`."""
    await load_mcp()
    async with (
        wire.open() as (reader, writer),
        open_streams(LineReader(reader), writer) as pair,
    ):
        await serve(host, *pair, patience_s=patience_s, instructions=instructions, asker=asker)


class ClientAsker:
    """Owns the forms that were put to the client's user, and takes the answers.

    To decline a form is to refuse. One that is cancelled or left empty is no answer: the request
    stays open for `prsm attach` and `prsm answer`, and is not put again.
    """

    def __init__(self, app: AppHandle) -> None:
        self._app = app
        self._put: dict[str, Mapping[str, Any]] = {}
        self._shown: set[str] = set()  # requests whose forms are still open
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Follow requests until cancelled. While a form is shown, somebody attends."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._attend(), name="attend")
            async for event in self._app.events():
                if event.type in _ENDS:
                    self._shown.discard(event.data["request"])
                if event.type in _ENDS | _BEGINNINGS:
                    self._changed.set()
                    self._changed = asyncio.Event()

    async def waiting(self) -> Sequence[Form]:
        """Return what waits and was not put to the user yet; see Asker."""
        rows = [row for row in await self._app.requests.open() if row.request not in self._put]
        return [_question(r) if isinstance(r, OpenQuestion) else _permission(r) for r in rows]

    async def until_waiting(self) -> None:
        """Return once something waits that was not put to the user yet; see Asker."""
        while True:
            changed = self._changed
            if await self.waiting():
                return
            await changed.wait()

    def put(self, forms: Sequence[Form]) -> None:
        """Note that these are put to the user now; see Asker."""
        for form in forms:
            self._put[form.request] = form.fields
            self._shown.add(form.request)

    async def take(self, request: str, action: str, content: Mapping[str, Any], via: str) -> None:
        """Take the end of a form that was put; see Asker."""
        fields = self._put.get(request)
        self._shown.discard(request)
        if fields is None or action not in {"accept", "decline"}:
            return
        via = escape_exact(via[:_LONGEST_VIA])
        if "permission" in fields:
            await self._take_verdict(request, action, content, via)
        elif action == "decline":
            await self._app.requests.answer(request, Answer(), via=via)
        elif (answer := _answer(fields, content)) is not None:
            await self._app.requests.answer(request, answer, via=via)

    async def _take_verdict(
        self, request: str, action: str, content: Mapping[str, Any], via: str
    ) -> None:
        offered = self._put[request]["permission"]["enum"]
        words = "deny" if action == "decline" else content.get("permission")
        if words in offered or action == "decline":
            await self._app.requests.resolve(request, _VERDICTS[str(words)], via=via)

    async def _attend(self) -> None:
        while True:
            if self._shown:
                await self._app.requests.attend()
            await asyncio.sleep(BEAT_SECONDS)


def _answer(fields: Mapping[str, Any], content: Mapping[str, Any]) -> Answer | None:
    choice, text = content.get("choice"), content.get("text")
    offered = fields.get("choice", {}).get("enum", ())
    choices = (choice,) if isinstance(choice, str) and choice in offered else ()
    words = text.strip() if isinstance(text, str) else ""
    return Answer(choices=choices, text=words) if choices or words else None


def _permission(row: OpenPermission) -> Form:
    offered = [words for verdict, words in _WORDS.items() if verdict in row.options]
    field = {"type": "string", "title": "May it?", "enum": offered}
    return Form(
        request=row.request,
        message="\n".join(_asks(row)),
        fields={"permission": field},
        required=("permission",),
    )


def _asks(row: OpenPermission) -> Iterator[str]:
    """Yield the lines of a permission request. What an agent wrote stands behind a bar."""
    yield f"{escape_exact(row.name)} asks permission for {escape_exact(row.tool)}:"
    yield from (f"  | {line}" for line in command_lines(row.command or "") if line)
    yield from (f"  | {escape_exact(path)}" for path in row.paths)
    if row.check:
        yield f"asked by the check {escape_exact(row.check)}"
    if row.reason:
        yield f"why you are asked: {escape_command(row.reason)}"


def _question(row: OpenQuestion) -> Form:
    options = list(row.options)
    text = {"type": "string", "title": "Or in your own words" if options else "Your answer"}
    fields: dict[str, Any] = {"text": text}
    if options:
        fields = {"choice": {"type": "string", "title": "Choice", "enum": options}, **fields}
    lines = escape_prose(row.question).split("\n")
    return Form(
        request=row.request,
        message="\n".join((f"{escape_exact(row.name)} asks:", *(f"  | {x}" for x in lines))),
        fields=fields,
        required=() if options else ("text",),
    )
