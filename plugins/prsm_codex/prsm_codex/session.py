"""A provider session: one agent is one thread of the app-server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsm_codex import approvals, command
from prsm_codex.errors import agent_error, readable_tail, stop_reason
from prsm_codex.events import Translator
from prsm_codex.prompt import COMPLETED_NOTE, turn_text
from prsm_codex.rpc import METHOD_NOT_FOUND, RpcClosedError, RpcError, ServerRequest
from prsm_codex.turn import Turn
from prsm_core.domain.permissions import Answer, Deny, PermissionRequest
from prsm_core.domain.turns import (
    AgentError,
    ErrorKind,
    Notice,
    ProviderEvent,
    StopReason,
    TurnEnded,
)
from prsm_core.errors import OrchestrationError, ProviderNotAvailableError, PrsmError
from prsm_core.interfaces.provider import ProviderSession

if TYPE_CHECKING:
    from prsm_codex.app_server import AppServer
    from prsm_codex.config import CodexConfig
    from prsm_core.domain.turns import AssembledContext
    from prsm_core.interfaces.provider import AgentHost, ProviderServices, SessionRequest

_THREAD_SECONDS = 120.0  # MCP servers start meanwhile
_INTERRUPT_SECONDS = 2.0
_CLEAN_SECONDS = 2.0
_SIBLING_SECONDS = 0.05  # a call beside task_complete still runs: do not wait for it
_USAGE_SECONDS = 2.0
_TOLD_ONCE = frozenset({"warning", "configWarning", "deprecationNotice"})
_HAS_COMPLETED = "This agent has completed; nothing more is done for it."
_TERMINAL = (
    "commands with a terminal are not allowed here, because input to them cannot be checked; "
    "run it without tty"
)


class CodexSession(ProviderSession):
    """One agent's thread; `open_server` gives the running app-server or starts a new one."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: CodexConfig,
        services: ProviderServices,
        open_server: Callable[[], Awaitable[AppServer]],
    ) -> None:
        self._request = request
        self._host = host
        self._config = config
        self._services = services
        self._open_server = open_server
        self._server: AppServer | None = None
        self._translator = Translator()
        self._turn: Turn | None = None
        self._unsent: tuple[str, str] | None = None  # text and id of a prompt that may be lost
        self._kept = request.resume_token is not None  # the thread is known to be on disk
        self._completed_before = False  # the last turn was ended by task_complete
        self._told: set[ProviderEvent] = set()
        self._handlers: dict[str, Callable[[Turn, ServerRequest], Awaitable[dict[str, Any]]]] = {
            approvals.COMMAND: self._command,
            approvals.FILE_CHANGE: self._file_change,
            approvals.ELICITATION: self._elicitation,
            approvals.USER_INPUT: self._user_input,
        }
        self.resume_token = request.resume_token

    # --- the thread ------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the thread, or resume it.

        Raises ProviderNotAvailableError; its code is `resume_failed` when Codex does not know
        the thread any more.
        """
        server = await self._open_server()
        try:
            if self.resume_token is None:
                await self._start_thread(server)
            else:
                await self._resume_thread(server, self.resume_token)
        except RpcError as error:
            code = "resume_failed" if self.resume_token else None
            raise ProviderNotAvailableError(
                f"codex could not open a thread: {error.message}",
                hint=error.hint or "Look at the model, its server and the MCP servers.",
                code=code,
            ) from error

    async def close(self) -> None:
        """Interrupt what runs, end the commands it left behind, and leave the thread."""
        server, thread = self._server, self.resume_token
        if self._turn is not None:
            await self._stop(self._turn)
        if server is None or thread is None:
            return
        server.detach(thread)
        if not server.closed:
            await self._ask("thread/backgroundTerminals/clean", timeout_s=_CLEAN_SECONDS)

    async def _start_thread(self, server: AppServer) -> None:
        params = command.thread_start(self._request, self._host.tools, self._config)
        result = await server.rpc.request("thread/start", params, timeout_s=_THREAD_SECONDS)
        self.resume_token = str(result["thread"]["id"])
        self._server = server
        server.attach(self.resume_token, self)

    async def _resume_thread(self, server: AppServer, thread_id: str) -> None:
        params = command.thread_resume(thread_id, self._request, self._config)
        server.attach(thread_id, self)  # before: the token total comes with the answer
        try:
            result = await server.rpc.request("thread/resume", params, timeout_s=_THREAD_SECONDS)
        except RpcError:
            server.detach(thread_id)
            raise
        self._server = server
        self._kept = True
        self._translator.raw = False
        last = _last_turn(result)
        self._completed_before = _was_completed(last)
        if self._unsent and any(i.get("clientId") == self._unsent[1] for i in _items(last)):
            self._unsent = None

    async def _ready(self) -> AppServer:
        """Return a running server that knows the thread, after a crash a new one."""
        if self._server is not None and not self._server.closed:
            return self._server
        if self._server is not None:
            self._server.detach(self.resume_token or "")
        server = await self._open_server()
        try:
            await self._resume_thread(server, self.resume_token or "")
        except RpcClosedError:
            raise
        except RpcError:
            if self._kept:
                raise
            await self._start_thread(server)  # the first turn never reached the disk
        return server

    # --- turns -----------------------------------------------------------------------------

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Run one turn; see ProviderSession."""
        if self._turn is not None:
            raise OrchestrationError(f"{self._request.name}: a turn is running already")
        turn = self._turn = Turn()
        try:
            await self._begin(turn, context)
            while True:
                event = await turn.next()
                yield event
                if isinstance(event, TurnEnded):
                    return
        finally:
            if not turn.over.is_set():
                await self._stop(turn)
            turn.leave()
            self._turn = None

    async def _begin(self, turn: Turn, context: AssembledContext) -> None:
        try:
            server = await self._ready()  # a resume tells whether the last prompt has arrived
            text, message_id = self._prompt(context), str(uuid.uuid4())
            self._unsent = (text, message_id) if text else None
            params = command.turn_start(self.resume_token or "", text, self._request, message_id)
            turn.sent = True
            result = await server.rpc.request("turn/start", params)
        except RpcClosedError as error:
            await self.on_closed(error)
        except PrsmError as error:
            failed = AgentError(kind=ErrorKind.UNKNOWN, message=f"codex: {error.message}")
            await turn.put([TurnEnded(StopReason.ERROR, failed)])
        else:
            turn.begin(str(result["turn"]["id"]))

    def _prompt(self, context: AssembledContext) -> str | None:
        """Return the text to send: a prompt that was lost in a crash comes first."""
        lost = self._unsent[0] if self._unsent else None
        text = turn_text(context)
        if text is not None and self._completed_before:
            text = COMPLETED_NOTE + text
        parts = [part for part in (lost if lost != text else None, text) if part]
        return "\n\n".join(parts) or None

    async def steer(self, text: str) -> bool:
        """Put text into the running turn; see ProviderSession."""
        turn = self._turn
        if turn is None or turn.id is None or turn.over.is_set() or turn.completing:
            return False
        given = [{"type": "text", "text": text}]
        return await self._ask("turn/steer", expectedTurnId=turn.id, input=given)

    async def interrupt(self) -> None:
        """End the running turn within two seconds; see ProviderSession."""
        if self._turn is not None:
            await self._stop(self._turn)

    async def _stop(self, turn: Turn) -> None:
        """Interrupt a turn; end it ourselves where Codex does not."""
        if turn.over.is_set() or turn.interrupting:
            return
        turn.interrupting = True
        if not turn.sent:
            await self._finish(turn, StopReason.ABORTED, None)
            return
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await turn.known.wait()
                await self._ask("turn/interrupt", turnId=turn.id)
                await turn.over.wait()
        except TimeoutError:
            self.reusable = False  # Codex may still be in that turn
            notice = Notice("warning", "Codex did not confirm the end of the turn.")
            await self._finish(turn, self._stopped(turn), None, notice)

    def _stopped(self, turn: Turn) -> StopReason:
        return StopReason.END_TURN if turn.completing else StopReason.ABORTED

    async def _finish(
        self, turn: Turn, reason: StopReason, error: AgentError | None, *notices: Notice
    ) -> None:
        self._completed_before = turn.completing is not None
        ended = TurnEnded(reason, error)
        await turn.put([*notices, *self._translator.finish(), ended])

    async def _ask(self, method: str, *, timeout_s: float = 10.0, **params: Any) -> bool:
        """Ask something about the thread whose refusal changes nothing; return whether it went."""
        if self._server is None:
            return False
        params["threadId"] = self.resume_token
        try:
            await self._server.rpc.request(method, params, timeout_s=timeout_s)
        except RpcError:
            return False  # `no active turn`, or the server has ended: what was wanted
        return True

    # --- what the app-server says ----------------------------------------------------------

    async def on_notification(self, method: str, params: dict[str, Any]) -> None:
        """Translate a notification into events of the running turn."""
        turn = self._turn
        ours = turn is not None and turn.concerns(params.get("turnId"))
        if turn is not None and ours and turn.completing:
            await self._watch_completion(turn, method, params)
        events = self._translator.feed(method, params)
        if turn is None or not ours:
            return
        if method in _TOLD_ONCE:
            events = [event for event in events if self._is_news(event)]
        await turn.put(events)
        if method == "turn/started":
            turn.begin(str(params["turn"]["id"]))
        elif method == "turn/completed":
            await self._turn_completed(turn, params["turn"])

    async def on_closed(self, error: RpcClosedError) -> None:
        """End the running turn: the next one starts a new process and resumes the thread."""
        turn = self._turn
        if turn is None or turn.over.is_set():
            return
        tail = readable_tail(error.tail)
        notice = Notice("error", f"{error.message}\n{tail}".strip())
        if turn.completing:
            await self._finish(turn, StopReason.END_TURN, None, notice)
            return
        failed = AgentError(kind=ErrorKind.MODEL_ERROR, message=error.message, retryable=True)
        await self._finish(turn, StopReason.ERROR, failed, notice)

    def _is_news(self, event: ProviderEvent) -> bool:
        known = event in self._told
        self._told.add(event)
        return not known

    async def _turn_completed(self, turn: Turn, ended: Mapping[str, Any]) -> None:
        self._unsent = None
        self._kept = True
        status = ended.get("status")
        if status == "failed" and not turn.completing:
            error = agent_error(ended.get("error") or {})
            await self._finish(turn, stop_reason(error), error)
        elif status == "interrupted":
            await self._finish(turn, self._stopped(turn), None)
        else:
            await self._finish(turn, StopReason.END_TURN, None)

    async def _watch_completion(self, turn: Turn, method: str, params: Mapping[str, Any]) -> None:
        """Interrupt once task_complete's output is in the thread and no request follows yet.

        Earlier the output is lost, a few milliseconds later the model is asked once more: so this
        writes at once.
        """
        if method == "item/completed" and params["item"].get("id") == turn.completing:
            turn.completed = True
            late = _SIBLING_SECONDS if self._translator.open_calls else _USAGE_SECONDS
            turn.timer = self._services.start_soon(
                self._stop_after, turn, late, name="codex completion"
            )
        elif self._server and not turn.interrupting and _is_recorded(turn, method, params):
            wanted = {"threadId": self.resume_token, "turnId": turn.id}
            await self._server.rpc.post("turn/interrupt", wanted)
            self._services.start_soon(self._stop, turn, name="codex completion")

    async def _stop_after(self, turn: Turn, seconds: float) -> None:
        await self._services.clock.sleep(seconds)
        await self._stop(turn)

    # --- what the app-server asks ----------------------------------------------------------

    async def on_request(self, request: ServerRequest) -> None:
        """Answer a request of the thread; what this does not know is refused."""
        turn = self._turn
        refusal = approvals.refusal(request.method, _HAS_COMPLETED)
        if refusal is None:
            await request.refuse(METHOD_NOT_FOUND, f"{request.method} is not supported")
        elif (
            turn is None
            or turn.over.is_set()
            or turn.completing
            or not turn.concerns(request.params.get("turnId"))
        ):
            await request.answer(refusal)
        else:
            await self._work(turn, request, refusal)

    async def _work(self, turn: Turn, request: ServerRequest, refusal: dict[str, Any]) -> None:
        turn.opened(request)
        try:
            if request.method == approvals.TOOL_CALL:
                await self._call(turn, request)
            else:
                handler = self._handlers.get(request.method)
                await request.answer(await handler(turn, request) if handler else refusal)
        finally:
            turn.closed(request)

    async def _call(self, turn: Turn, request: ServerRequest) -> None:
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
            await turn.refuse_others(request, _HAS_COMPLETED)
        answer = approvals.tool_answer(outcome.text, success=not outcome.is_error)
        await request.answer(answer)

    async def _command(self, turn: Turn, request: ServerRequest) -> dict[str, Any]:
        params, item_id = request.params, str(request.params.get("itemId"))
        if params.get("kind", "command") != "command":
            return await self._deny(turn, item_id, "Input", _TERMINAL)
        wanted = approvals.command_request(self._request.agent_id, params, self._request.cwd)
        known = item_id in self._translator.terminals
        if known or (not self._translator.raw and approvals.interactive(wanted.command or "")):
            return await self._deny(turn, item_id, f"`{wanted.command}`", _TERMINAL)
        return await self._authorize(turn, item_id, f"`{wanted.command}`", wanted)

    async def _file_change(self, turn: Turn, request: ServerRequest) -> dict[str, Any]:
        item_id = str(request.params.get("itemId"))
        item = self._translator.open_calls.get(item_id)
        if item is None:
            return await self._deny(turn, item_id, "The change", "its files are not known")
        wanted = approvals.edit_request(self._request.agent_id, item, self._request.cwd)
        return await self._authorize(turn, item_id, f"The change of {wanted.paths}", wanted)

    async def _authorize(
        self, turn: Turn, item_id: str, what: str, wanted: PermissionRequest
    ) -> dict[str, Any]:
        verdict = await self._host.authorize(wanted)
        if isinstance(verdict, Deny):
            return await self._deny(turn, item_id, what, verdict.reason)
        return approvals.ACCEPT

    async def _deny(self, turn: Turn, item_id: str, what: str, reason: str) -> dict[str, Any]:
        """Decline; the reason goes into the turn, for Codex itself says no more than "rejected"."""
        self._translator.reasons[item_id] = reason
        if turn is self._turn:
            await self.steer(f"[prsm] {what} was refused: {reason}")
        return approvals.DECLINE

    async def _elicitation(self, _: Turn, request: ServerRequest) -> dict[str, Any]:
        agent, cwd = self._request.agent_id, self._request.cwd
        wanted = approvals.mcp_request(agent, request.params, cwd)
        denied = wanted is None or isinstance(await self._host.authorize(wanted), Deny)
        return {"action": "decline" if denied else "accept", "content": None}

    async def _user_input(self, _: Turn, request: ServerRequest) -> dict[str, Any]:
        given: dict[str, Answer] = {}
        for name, question in approvals.questions(request.params):
            given[name] = await self._host.ask_user(question)
        return approvals.answers(given)


def _is_recorded(turn: Turn, method: str, params: Mapping[str, Any]) -> bool:
    """Whether this says that the output of the call that ends the turn is in the thread.

    The raw item says so, some milliseconds later the usage; a resumed thread has no raw items.
    """
    if method == "thread/tokenUsage/updated":
        return turn.completed
    item = params["item"] if method == "rawResponseItem/completed" else {}
    return item.get("call_id") == turn.completing and item.get("type") == "function_call_output"


def _last_turn(resumed: Mapping[str, Any]) -> Mapping[str, Any]:
    page = (resumed.get("initialTurnsPage") or {}).get("data") or ()
    return page[0] if page else {}


def _items(turn: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return turn.get("items") or ()


def _was_completed(turn: Mapping[str, Any]) -> bool:
    """Whether the turn was interrupted because its task_complete had been answered."""
    done = [item for item in _items(turn) if item.get("tool") == "task_complete"]
    return turn.get("status") == "interrupted" and any(item.get("success") for item in done)
