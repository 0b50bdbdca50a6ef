"""What the app-server asks of one agent, answered by the agent's host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from prsm_codex import approvals
from prsm_codex.deciding import HAS_COMPLETED
from prsm_codex.rpc import METHOD_NOT_FOUND, ServerRequest
from prsm_core import (
    Answer,
    Deny,
    PermissionRequest,
)
from prsm_core.kit import read_urls

if TYPE_CHECKING:
    from prsm_codex.events import Translator
    from prsm_codex.features import Features
    from prsm_codex.turn import CodexTurn
    from prsm_core import (
        AgentHost,
        ProviderServices,
        SessionRequest,
    )

Json = dict[str, Any]
_NO_TERMINAL = (
    "commands with a terminal are not allowed here, because input to them cannot be checked; "
    "run it without tty"
)
_NO_EXTRAS = "permissions beyond the command itself are not given"


class Responder:
    """Answers tool calls, approvals and questions; `explain` puts a text into the turn.

    `complete` ends a turn whose task_complete was accepted: that call is never answered.

    Where there is a tool hook, only what it was asked about, `allowed`, is approved.
    """

    def __init__(
        self,
        session: SessionRequest,
        host: AgentHost,
        translator: Translator,
        services: ProviderServices,
        explain: Callable[[str], Awaitable[object]],
        complete: Callable[[CodexTurn, str], Awaitable[None]],
        *,
        features: Features,
        allowed: Container[str],
    ) -> None:
        self._features = features
        self._allowed = allowed
        self._session = session
        self._host = host
        self._translator = translator
        self._services = services
        self._explain = explain
        self._complete = complete
        self._handlers: dict[str, Callable[[Json], Awaitable[Json]]] = {
            approvals.COMMAND: self._command,
            approvals.FILE_CHANGE: self._file_change,
            approvals.ELICITATION: self._elicitation,
            approvals.USER_INPUT: self._user_input,
        }

    async def respond(self, turn: CodexTurn | None, request: ServerRequest) -> None:
        """Answer a request; after task_complete, or outside its turn, with a refusal."""
        refusal = approvals.refusal(request.method, HAS_COMPLETED)
        if refusal is None:
            await request.refuse(METHOD_NOT_FOUND, f"{request.method} is not supported")
        elif turn is None or not turn.takes(request.params.get("turnId")):
            await request.answer(refusal)
        else:
            await self._work(turn, request, refusal)

    async def _work(self, turn: CodexTurn, request: ServerRequest, refusal: Json) -> None:
        turn.opened(request)
        try:
            handler = self._handlers.get(request.method)
            if request.method == approvals.TOOL_CALL:
                await self._call(turn, request)
            else:
                await request.answer(await handler(request.params) if handler else refusal)
        finally:
            turn.closed(request)

    async def _call(self, turn: CodexTurn, request: ServerRequest) -> None:
        """Run an orchestration call; task_complete settles all others first."""
        call_id = str(request.params.get("callId"))
        arguments = request.params.get("arguments")
        ended = self._translator.begun(call_id)
        if ended:  # a task of its own: the engine must know of the call when it hears of the end
            self._services.start_soon(turn.put, ended, name="codex step")
        outcome = await self._host.call_tool(
            str(request.params.get("tool")),
            arguments if isinstance(arguments, Mapping) else {},
            call_id=call_id,
        )
        if outcome.ends_turn:
            turn.completing = call_id
            await turn.refuse_others(request, HAS_COMPLETED)
            await self._complete(turn, outcome.text)
            return
        urls = await read_urls(outcome.images)
        answer = approvals.tool_answer(outcome.text, success=not outcome.is_error, images=urls)
        await request.answer(answer)

    async def _command(self, params: Json) -> Json:
        item_id = str(params.get("itemId"))
        wanted = approvals.command_request(self._session.agent_id, params, self._session.cwd)
        what = f"`{wanted.command}`"
        if params.get("kind", "command") != "command" or self._is_interactive(item_id, wanted):
            return await self._deny(item_id, what, _NO_TERMINAL)
        if not wanted.command or approvals.wants_more(params):
            return await self._deny(item_id, what, _NO_EXTRAS)
        return await self._authorize(item_id, what, wanted)

    def _is_interactive(self, item_id: str, wanted: PermissionRequest) -> bool:
        """Whether input could follow that nobody is asked about."""
        if self._features.no_terminals:
            return False
        if self._translator.raw:
            return item_id in self._translator.terminals
        return approvals.interactive(wanted.command or "") is not None

    async def _file_change(self, params: Json) -> Json:
        item_id = str(params.get("itemId"))
        item = self._translator.open_calls.get(item_id)
        if item is None:
            return await self._deny(item_id, "The change", "its files are not known")
        wanted = approvals.edit_request(self._session.agent_id, item, self._session.cwd)
        what = f"The change of {', '.join(wanted.paths)}"
        if approvals.wants_more(params):
            return await self._deny(item_id, what, _NO_EXTRAS)
        return await self._authorize(item_id, what, wanted)

    async def _authorize(self, item_id: str, what: str, wanted: PermissionRequest) -> Json:
        if self._features.hooked:
            if item_id in self._allowed:
                return approvals.ACCEPT  # it stays in the sandbox
            return await self._deny(item_id, what, _NO_EXTRAS)
        verdict = await self._host.authorize(wanted)
        if isinstance(verdict, Deny):
            return await self._deny(item_id, what, verdict.reason)
        return approvals.ACCEPT

    async def _deny(self, item_id: str, what: str, reason: str) -> Json:
        """Decline; the reason goes into the turn, for Codex says no more than "rejected"."""
        self._translator.reasons[item_id] = reason
        await self._explain(f"[prsm] {what} was refused: {reason}")
        return approvals.DECLINE

    async def _elicitation(self, params: Json) -> Json:
        wanted = approvals.mcp_request(self._session.agent_id, params, self._session.cwd)
        if wanted is None:
            return approvals.elicitation(accepted=False)
        verdict = await self._host.authorize(wanted)
        if isinstance(verdict, Deny):
            await self._explain(f"[prsm] {wanted.tool} was refused: {verdict.reason}")
        return approvals.elicitation(accepted=not isinstance(verdict, Deny))

    async def _user_input(self, params: Json) -> Json:
        given: dict[str, Answer] = {}
        for name, question in approvals.questions(params):
            given[name] = await self._host.ask_user(question)
        return approvals.answers(given)
