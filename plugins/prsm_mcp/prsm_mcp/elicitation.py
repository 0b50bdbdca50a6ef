"""Asks the user of an MCP client what waits for a person, by elicitation.

A client says whether it can ask its user. With the older protocol the server sends it a request
while a call runs. With the newer one the answer to a call asks: the client repeats the call with
its user's answer, and the call, whose work has gone on meanwhile, continues.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core import OrchestrationError, ToolOutcome
from prsm_core.kit import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    import mcp_types
    from mcp.server.context import ServerRequestContext


_log = logging.getLogger("prsm.toolserver")

ROUNDS = 8  # of one call: clients give up after ten


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A question to a client's user.

    request: Its id.
    message: The text to show.
    fields: The fields to fill in, as properties of a flat JSON schema.
    required: The names of fields that must be filled in.
    """

    request: str
    message: str
    fields: Mapping[str, Any]
    required: tuple[str, ...] = ()


class Asker(Protocol):
    """Knows what waits for a person, and takes their answers."""

    async def waiting(self) -> Sequence[Form]:
        """Return what waits and was not put to the user yet."""

    async def until_waiting(self) -> None:
        """Return once something waits that was not put to the user yet."""

    def put(self, forms: Sequence[Form]) -> None:
        """Note that these are put to the user now."""

    async def take(self, request: str, action: str, content: Mapping[str, Any], via: str) -> None:
        """Take the end of a form that was put; `action` is accept, decline or cancel."""


def can_elicit(context: ServerRequestContext) -> bool:
    """Return whether the client says that it can show forms to its user."""
    capabilities = context.session.client_capabilities
    kinds = capabilities.elicitation if capabilities is not None else None
    # Older clients declare no kinds, and mean forms.
    return kinds is not None and (kinds.form is not None or kinds.url is None)


class Elicitation:
    """Asks the user of one connection, beside its calls."""

    def __init__(self, asker: Asker, tasks: asyncio.TaskGroup) -> None:
        self._asker = asker
        self._tasks = tasks
        self._dialogs: set[asyncio.Task[None]] = set()

    async def call(
        self,
        context: ServerRequestContext,
        params: mcp_types.CallToolRequestParams,
        run: Callable[[], Coroutine[Any, Any, ToolOutcome]],
    ) -> ToolOutcome | mcp_types.InputRequiredResult:
        """Run a call, which must be repeatable by its patience, and ask the user meanwhile."""
        await self._take_responses(context, params.input_responses)
        rounds = _rounds(params.request_state)
        by_request = not _is_modern(context)
        running: asyncio.Task[ToolOutcome] | None = None
        try:
            while True:
                forms = await self._asker.waiting() if by_request or rounds < ROUNDS else ()
                if running is not None and running.done():
                    return ended(running)  # an outcome is given only once
                if forms:
                    self._asker.put(forms)
                    if not by_request:
                        return _input_required(forms, rounds + 1)
                    self._ask(context, forms)
                if running is None:
                    running = self._tasks.create_task(run(), name=f"call {params.name}")
                await self._first(running, may_ask=by_request or rounds < ROUNDS)
        finally:
            if running is not None:
                running.cancel()

    def close(self) -> None:
        """Ask nothing more: the client has left."""
        for dialog in self._dialogs:
            dialog.cancel()

    async def _first(self, running: asyncio.Task[ToolOutcome], *, may_ask: bool) -> None:
        if not may_ask:
            await asyncio.wait({running})
            return
        waiting = self._tasks.create_task(self._asker.until_waiting(), name="until something waits")
        try:
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def _ask(self, context: ServerRequestContext, forms: Sequence[Form]) -> None:
        """Ask by requests of our own, which outlive the call."""
        for form in forms:
            dialog = self._tasks.create_task(self._dialog(context, form), name="elicitation")
            self._dialogs.add(dialog)
            dialog.add_done_callback(self._dialogs.discard)

    async def _dialog(self, context: ServerRequestContext, form: Form) -> None:
        action, content = "cancel", {}
        try:
            reply = await context.session.elicit_form(form.message, _schema(form))
            action, content = reply.action, reply.content or {}
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a client answers
            _log.warning("the client could not ask its user: %s", error)
        await self._asker.take(form.request, action, content, _via(context))

    async def _take_responses(
        self, context: ServerRequestContext, responses: Mapping[str, Any] | None
    ) -> None:
        import mcp_types

        for request, reply in (responses or {}).items():
            if isinstance(reply, mcp_types.ElicitResult):
                await self._asker.take(request, reply.action, reply.content or {}, _via(context))


def ended(task: asyncio.Task[ToolOutcome]) -> ToolOutcome:
    """Return the outcome of a call that has ended. One that was cut off has ended the turn."""
    if task.cancelled():
        return ToolOutcome.failed(OrchestrationError("the call was cut off", code="turn_over"))
    return task.result()


def _is_modern(context: ServerRequestContext) -> bool:
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def _input_required(forms: Sequence[Form], rounds: int) -> mcp_types.InputRequiredResult:
    import mcp_types

    requests: dict[str, mcp_types.InputRequest] = {
        form.request: mcp_types.ElicitRequest(
            params=mcp_types.ElicitRequestFormParams(
                message=form.message, requested_schema=_schema(form)
            )
        )
        for form in forms
    }
    return mcp_types.InputRequiredResult(input_requests=requests, request_state=str(rounds))


def _rounds(state: str | None) -> int:
    """Return how often the user was asked in this call. A state that is no number ends asking."""
    if state is None:
        return 0
    rounds = whole_number(state)
    return ROUNDS if rounds is None else rounds


def _schema(form: Form) -> dict[str, Any]:
    return {"type": "object", "properties": dict(form.fields), "required": list(form.required)}


def _via(context: ServerRequestContext) -> str:
    """Return where an answer comes from: the client by its own name."""
    params = context.session.client_params
    return f"elicitation, {params.client_info.name}" if params is not None else "elicitation"
