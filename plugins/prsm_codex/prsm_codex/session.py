"""A provider session: each agent is a thread of the app-server.

When a thread goes on with a turn that was cut off, each of its calls gets exactly one output before
the model is asked again. A call that has an answer gets that: the model does not notice anything.
One that nobody saw had no effect. What Codex runs itself may have run.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_codex import approvals, command, hooks, rollout
from prsm_codex.app_server import THREAD_SECONDS, id_of
from prsm_codex.confined import Sandbox
from prsm_codex.errors import agent_error, stop_reason
from prsm_codex.events import Translator
from prsm_codex.rpc import METHOD_NOT_FOUND, RpcClosedError, RpcError, ServerRequest
from prsm_codex.turn import (
    COMPLETED_NOTE,
    HAS_COMPLETED,
    CodexTurn,
    ToolDecider,
    runs_as_asked,
    turn_text,
)
from prsm_core import (
    AgentError,
    Answer,
    AssistantMessage,
    Deny,
    ErrorKind,
    Notice,
    PermissionRequest,
    ProviderEvent,
    ProviderNotAvailableError,
    PrsmError,
    StopReason,
    TurnEnded,
)
from prsm_core.kit import (
    SeenImages,
    TurnSession,
    as_object,
    as_objects,
    first_of,
    one_line,
    read_urls,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
    from pathlib import Path

    from prsm_codex.app_server import AppServer
    from prsm_codex.config import CodexConfig, Features
    from prsm_codex.rollout import PendingCall, Rollout
    from prsm_core import (
        AgentHost,
        AssembledContext,
        Carried,
        Image,
        ProviderServices,
        SessionRequest,
    )

_HUNG_SECONDS = 15.0  # to answer what it answers at once
_CLEAN_SECONDS = 2.0
_HELPER_SECONDS = 2.0  # until the helper of a killed sandbox has died
# For a response to end after the call that ends its turn: its tokens are told at its end.
_RESPONSE_SECONDS = 2.0
_UNSEEN_SECONDS = 0.5  # the same where a thread does not tell of that end
_NOTE_SECONDS = 1.0  # within the two that a turn has to end in
_ASKED_ITEMS = frozenset({"commandExecution", "fileChange", "imageView", "mcpToolCall"})
_TOLD_ONCE = frozenset({"warning", "configWarning", "deprecationNotice"})

_NO_EFFECT = "This call was lost and had no effect. Make it again."
_MAY_HAVE_RUN = "This call was cut off: it may have run. Look first, before you make it again."
_NO_TERMINAL = (
    "commands with a terminal are not allowed here, because input to them cannot be checked; "
    "run it without tty"
)
_NO_EXTRAS = "permissions beyond the command itself are not given"

STATUS = "mcpServer/startupStatus/updated"
_FIRST_SECONDS = 5.0  # for the first status; an older Codex sends none
_MORE_SECONDS = 60.0  # they began before, when PRSM tried them

Json = dict[str, Any]


class CodexSession(TurnSession[CodexTurn]):
    """One agent's thread; `open_server` gives the running app-server or starts a new one."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: CodexConfig,
        features: Features,
        services: ProviderServices,
        open_server: Callable[[], Awaitable[AppServer]],
    ) -> None:
        super().__init__(request.name, services)
        self._request = request
        self._host = host
        self._config = config
        self._features = features
        self._open_server = open_server
        self._server: AppServer | None = None
        self._translator = Translator()
        self._unsent: tuple[str, str] | None = None  # text and id of a prompt that may be lost
        self._images = SeenImages()
        self._kept = request.resume_token is not None  # the thread is known to be on disk
        self._last_word: str | None = None  # of the turn that goes on; None: it has not ended
        self._note: str | None = None  # of an accepted task_complete, until the thread holds it
        self._news: list[Notice] = []  # for the next turn
        self._servers = StartingServers(request, services)
        self._told: set[ProviderEvent] = set()
        self._is_distrusted = False  # Codex ran something without leave: that must not be repeated
        self._sandbox = Sandbox.of(request, config, services)
        self._decider = ToolDecider(
            session=request,
            host=host,
            services=services,
            orchestration=frozenset(tool.name for tool in host.tools),
            key=lambda call_id, _: call_id,
            sandbox=self._sandbox,
            setting="`enforcement: approval` of the provider",
            escalated=lambda: self._translator.escalated if self._translator.raw else None,
        )
        self._translator.allowed = self._decider.allowed
        self._responder = Responder(
            session=request,
            host=host,
            translator=self._translator,
            services=services,
            explain=self.steer,
            complete=self._complete,
            features=features,
            allowed=self._decider.allowed,
        )
        self.resume_token = request.resume_token

    async def open(self) -> None:
        """Start or resume the thread; raise ProviderNotAvailableError (`resume_failed`)."""
        await self._sandbox.clean(self.services.clock, seconds=0)
        server = await self._open_server()
        self._news += server.take_news()
        try:
            if self.resume_token is None:
                await self._start_thread(server)
            else:
                await self._resume_thread(server, self.resume_token)
                if self._request.carried is not None:
                    await self._go_on(server, self._request.carried)
        except RpcError as error:
            is_lost = self.resume_token is not None and not isinstance(error, RpcClosedError)
            code = "resume_failed" if is_lost else None
            raise ProviderNotAvailableError(
                f"codex could not open a thread: {error.message}",
                hint=error.hint or "Look at the model, its server and the MCP servers.",
                code=code,
            ) from error

    async def close(self) -> None:
        """Interrupt the turn, end the commands it left behind, and leave the thread."""
        server, thread = self._server, self.resume_token
        await self.interrupt()
        if server is None or thread is None:
            return
        server.detach(thread)
        await self._end_commands()

    async def _end_commands(self) -> None:
        await self._ask("thread/backgroundTerminals/clean", timeout_s=_CLEAN_SECONDS, vital=False)
        await self._sandbox.clean(self.services.clock, seconds=_HELPER_SECONDS)

    async def _start_thread(self, server: AppServer) -> None:
        self._servers = StartingServers(self._request, self.services)
        params = command.thread_start(
            self._request,
            self._host.tools,
            self._config,
            self._features,
            self.services.environment,
        )
        self.resume_token = await server.start_thread(params, self)
        self._server = server

    async def _go_on(self, server: AppServer, carried: Carried) -> None:
        """Give the thread the outputs that it lacks of the turn that goes on; note what it holds.

        The engine puts what cannot be given so into a prompt. Raises RpcError if the thread cannot
        be read.
        """
        held = await asyncio.to_thread(_read, server.home, self.resume_token or "")
        images = {
            call.call_id: await read_urls(call.outcome.images)
            for call in carried.calls
            if call.outcome is not None and call.outcome.images
        }
        items = outputs(carried, held, self._host.is_orchestration, images)
        if items:
            params = {"threadId": self.resume_token, "items": items}
            try:
                await server.rpc.request("thread/inject_items", params)
            except RpcClosedError:
                raise
            except RpcError as error:  # a Codex that does not know it
                self._news.append(Notice("warning", f"codex: {error.message}"))
                items = []
        self.taken = taken(carried, held, items)
        self._last_word = last_word(carried, held)

    async def _resume_thread(self, server: AppServer, thread_id: str) -> None:
        self._servers = StartingServers(self._request, self.services)
        params = command.thread_resume(
            thread_id, self._request, self._config, self._features, self.services.environment
        )
        server.attach(thread_id, self)  # early, since the token total comes with the answer
        try:
            result = await server.rpc.request("thread/resume", params, timeout_s=THREAD_SECONDS)
        except RpcError:
            server.detach(thread_id)
            raise
        self._server = server
        self._kept = True
        self._translator.raw = False
        turns = as_objects(as_object(result.get("initialTurnsPage")).get("data"))
        items = as_objects(turns[0].get("items")) if turns else []
        if self._unsent and any(item.get("clientId") == self._unsent[1] for item in items):
            self._unsent = None

    async def _ready(self) -> AppServer:
        """Return a running server that knows the thread; after a crash start one."""
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
                self.resume_token, self.reusable = None, False  # to be rebuilt
                raise
            await self._start_thread(server)  # the first turn never reached the disk
        return server

    def new_turn(self) -> CodexTurn:
        """Return what keeps a turn; see TurnSession."""
        return CodexTurn()

    def closed(self, turn: CodexTurn) -> None:
        """Let go of a turn; see TurnSession."""
        turn.close()

    async def begin(self, turn: CodexTurn, context: AssembledContext) -> None:
        """Start the turn; see TurnSession."""
        if self._features.too_old:
            self._news.append(Notice("warning", self._features.too_old_text))
        await self._tell_news(turn)
        text, self._last_word = self._last_word, None
        if text is not None and context.current_message is None:
            message = [AssistantMessage(text)] if text else []
            await turn.put([*message, TurnEnded(StopReason.END_TURN)])
            return
        server = await self._ready()  # a resume tells whether the last prompt has arrived
        await self._servers.until_begun()
        await self._tell_news(turn)
        # The ledger's id of the prompt, if it has one.
        message_id = self._unsent[1] if self._unsent else str(uuid.uuid4())
        if context.current_message is not None:
            message_id = context.current_message.id
        text = self._prompt(context)
        self._unsent = (text, message_id) if text else None
        self._images.see(context)
        params = command.turn_start(
            self.resume_token or "",
            text,
            self._request,
            message_id,
            self._config,
            self._features,
            self._images.of(text),
            command.effort_of(context),
        )
        turn.sent = True
        result = await server.rpc.request("turn/start", params)
        turn.begin(id_of(result, "turn"))

    async def _tell_news(self, turn: CodexTurn) -> None:
        news, self._news = self._news, []
        await turn.put(notice for notice in news if self._is_news(notice))

    async def refused(self, turn: CodexTurn, error: PrsmError) -> None:
        """End a turn that could not begin."""
        if isinstance(error, RpcClosedError):
            await self._ended_under(turn, error)
            return
        why = AgentError(
            kind=ErrorKind.UNKNOWN, message=f"codex: {error.message}", retryable=not self.reusable
        )
        await turn.put([TurnEnded(StopReason.ERROR, why)])

    def _prompt(self, context: AssembledContext) -> str | None:
        """Return the text to send. A prompt that was lost in a crash comes first."""
        lost = self._unsent[0] if self._unsent else None
        text = turn_text(context)
        note, self._note = self._note, None
        parts = [part for part in (note, lost if lost != text else None, text) if part]
        return "\n\n".join(parts) or None

    async def steer(self, text: str, images: Sequence[Image] = ()) -> bool:
        """Put text into the running turn; see ProviderSession."""
        turn = self.turn
        if turn is None or turn.id is None or turn.over.is_set() or turn.completing:
            return False
        shown = command.turn_input(text, images)
        return await self._ask("turn/steer", expectedTurnId=turn.id, input=shown)

    async def ask_to_end(self, turn: CodexTurn) -> None:
        """Interrupt a turn; see TurnSession."""
        self.services.start_soon(self._interrupt, turn, name="codex interrupt")

    async def aborted(self, turn: CodexTurn) -> None:
        """End a turn that Codex knows nothing of."""
        await self._finish(turn, StopReason.ABORTED, None)

    async def unconfirmed(self, turn: CodexTurn) -> None:
        """End a turn that Codex did not end."""
        self.reusable = False  # Codex may still be in that turn
        notice = Notice("warning", "Codex did not confirm the end of the turn.")
        await self._finish(turn, self._stopped(turn), None, notice)

    async def _interrupt(self, turn: CodexTurn) -> None:
        await turn.known.wait()
        if turn.id is not None:
            await self._ask("turn/interrupt", timeout_s=_HUNG_SECONDS, turnId=turn.id)

    def _stopped(self, turn: CodexTurn) -> StopReason:
        return StopReason.END_TURN if turn.completing else StopReason.ABORTED

    async def _finish(
        self, turn: CodexTurn, reason: StopReason, error: AgentError | None, *notices: Notice
    ) -> None:
        unseen = await self._unseen()
        await turn.put([*notices, *unseen, *self._translator.finish(), TurnEnded(reason, error)])

    async def _unseen(self) -> list[ProviderEvent]:
        """Return the events of calls that a resumed thread holds and Codex has not mentioned."""
        asked, self._decider.asked = self._decider.asked, []
        events: list[ProviderEvent] = []
        if self._translator.raw or not asked or (file := await self._file()) is None:
            return events
        for call_id in asked:
            item = await asyncio.to_thread(rollout.find_item, file, call_id, output=True)
            events += self._translator.unseen(call_id, item.get("output")) if item else []
        return events

    async def _file(self) -> Path | None:
        server, thread = self._server, self.resume_token
        if server is None or thread is None:
            return None
        return await asyncio.to_thread(rollout.find, server.home, thread)

    async def _ask(
        self, method: str, *, timeout_s: float = _HUNG_SECONDS, vital: bool = True, **params: Any
    ) -> bool:
        """Make a request about the thread; return whether it worked. A refusal changes nothing."""
        if self._server is None:
            return False
        params["threadId"] = self.resume_token
        try:
            await self._server.rpc.request(method, params, timeout_s=timeout_s, vital=vital)
        except RpcError:
            return False  # such as `no active turn`, or the server has ended
        return True

    async def on_notification(self, method: str, params: dict[str, Any]) -> None:
        """Translate a notification into events of the running turn."""
        if self._features.hooked and (call := self._unasked(method, params)):
            self._is_distrusted = True
            if self._server is not None:
                self._server.rpc.hang_up(f"it ran {call}, and was ended for that")
            return
        if method == STATUS and (notice := self._servers.note(params)) is not None:
            self._news.append(notice)
        turn = self.turn
        ours = turn is not None and turn.concerns(_turn_of(method, params))
        if turn is not None and ours:
            turn.hear(method, params)
        events = self._translator.feed(method, params)
        if turn is None or not ours:
            return
        if method in _TOLD_ONCE:
            events = [event for event in events if self._is_news(event)]
        await turn.put(events)
        if method == "turn/started":
            turn.begin(id_of(params, "turn"))
        elif method == "turn/completed":
            await self._turn_completed(turn, params["turn"])

    async def refusal_of(self, payload: Mapping[str, Any]) -> str | None:
        """Decide about a call of the running turn."""
        return await self._decider.decide(self.turn, payload)

    def _unasked(self, method: str, params: Mapping[str, Any]) -> str | None:
        """Return what Codex runs without permission, if this says that it does."""
        if method == "hook/completed" and hooks.failed_open(as_object(params.get("run"))):
            return "a call whose hook had failed"
        item = as_object(params.get("item")) if method == "item/started" else {}
        if str(item.get("type")) not in _ASKED_ITEMS:
            return None
        allowed = self._decider.allowed.get(str(item.get("id")))
        if not allowed:
            return f"a {item['type']} that nobody had been asked about"
        return None if runs_as_asked(item, allowed[0]) else "a command otherwise than it had asked"

    async def on_closed(self, error: RpcClosedError) -> None:
        """End the running turn. One that was not sent yet finds out by itself."""
        if self.turn is not None and self.turn.sent:
            await self._ended_under(self.turn, error)

    async def _ended_under(self, turn: CodexTurn, error: RpcClosedError) -> None:
        """End a turn so that the next one starts a new process and resumes the thread."""
        if turn.over.is_set():
            return
        notice = Notice("error", f"{error.message}\n{error.tail}".strip())
        if turn.completing:
            await self._finish(turn, StopReason.END_TURN, None, notice)
            return
        may_retry = not self._is_distrusted
        why = AgentError(kind=ErrorKind.MODEL_ERROR, message=error.message, retryable=may_retry)
        await self._finish(turn, StopReason.ERROR, why, notice)

    def _is_news(self, event: ProviderEvent) -> bool:
        is_news = event not in self._told
        self._told.add(event)
        return is_news

    async def _turn_completed(self, turn: CodexTurn, ended: Mapping[str, Any]) -> None:
        self._unsent = None
        self._kept = True
        status = ended.get("status")
        if status == "failed" and not turn.completing:
            error = agent_error(ended.get("error") or {}, self.services.clock.time())
            await self._finish(turn, stop_reason(error), error)
        elif status == "interrupted":
            # Not here: this runs in the reader, which has to go on to the answers.
            finish = self._finish_completed if turn.completing else self._finish_interrupted
            self.services.start_soon(finish, turn, name="codex interruption")
        else:
            await self._finish(turn, StopReason.END_TURN, None)

    async def _finish_interrupted(self, turn: CodexTurn) -> None:
        """End the commands of an interrupted turn, which Codex leaves running, then the turn."""
        await self._end_commands()
        await self._finish(turn, self._stopped(turn), None)

    async def _complete(self, turn: CodexTurn, answer: str) -> None:
        """End a turn whose task_complete was accepted: interrupt the call instead of answering it.

        After the last answer Codex would ask its model once more, at once. On a busy machine an
        interrupt then came too late for half of the agents.
        """
        self._note, seconds = COMPLETED_NOTE + answer, _RESPONSE_SECONDS
        if not self._translator.raw:
            turn.is_counted, seconds = False, _UNSEEN_SECONDS
        await first_of(self.services.clock, seconds, turn.has_responded.wait)
        await self.stop(turn)

    async def _finish_completed(self, turn: CodexTurn) -> None:
        """Note the answer in the thread and count its tokens, if Codex did not; end the turn."""
        if not turn.is_counted and (file := await self._file()) is not None:
            call_id = turn.completing or ""
            usage = await asyncio.to_thread(rollout.find_usage, file, call_id)
            await turn.put(self._translator.uncounted(usage))
        note = {"type": "input_text", "text": self._note}
        item = {"type": "message", "role": "developer", "content": [note]}
        if await self._ask(
            "thread/inject_items", timeout_s=_NOTE_SECONDS, vital=False, items=[item]
        ):
            self._note = None  # else the next prompt holds it
        await self._finish(turn, StopReason.END_TURN, None)

    async def on_request(self, request: ServerRequest) -> None:
        """Answer a request about the thread."""
        await self._responder.respond(self.turn, request)


def _read(home: Path, thread_id: str) -> rollout.Rollout:
    file = rollout.find(home, thread_id)
    if file is None:
        raise RpcError(f"the thread {thread_id} has no rollout in {home}")
    try:
        return rollout.read(file)
    except OSError as error:
        raise RpcError(f"{file} cannot be read: {error.strerror or error}") from error


def _turn_of(method: str, params: Mapping[str, Any]) -> object:
    """Return the id of the turn that a notification belongs to; None if it begins one."""
    if method == "turn/completed":
        return id_of(params, "turn")
    return None if method == "turn/started" else params.get("turnId")


def outputs(
    carried: Carried,
    held: Rollout,
    is_orchestration: Callable[[str], bool],
    images: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Return an output for each call of the thread without one, with the URLs of its `images`."""
    outcomes = {call.call_id: call.outcome for call in carried.calls}

    def output(call: PendingCall) -> str | list[dict[str, str]]:
        if (outcome := outcomes.get(call.call_id)) is not None:
            text = outcome.text
        else:
            text = _NO_EFFECT if is_orchestration(call.tool) else _MAY_HAVE_RUN
        shown = [{"type": "input_image", "image_url": url} for url in images.get(call.call_id, ())]
        return [{"type": "input_text", "text": text}, *shown] if shown else text

    return [
        {"type": call.output, "call_id": call.call_id, "output": output(call)}
        for call in held.pending.values()
    ]


def taken(carried: Carried, held: Rollout, given: list[dict[str, Any]]) -> frozenset[str]:
    """Return the carried prompts and calls that the thread holds, with these outputs.

    A text that was put into the running turn had no id and is known by its words. Some of Codex's
    own calls have no output there: they are lost only if the thread waits for one.
    """
    calls = held.answered | {str(item["call_id"]) for item in given}
    calls |= {
        call.call_id
        for call in carried.calls
        if call.heard and not call.orchestration and call.call_id not in held.pending
    }
    prompts = {
        name
        for name, text in carried.prompts.items()
        if name in held.prompt_ids
        or text in (held.all_prompts if name in carried.heard else held.prompts)
    }
    return frozenset(prompts | {c.call_id for c in carried.calls if c.call_id in calls})


def last_word(carried: Carried, held: Rollout) -> str | None:
    """Return the model's last message, blank if it was heard; None if the turn has not ended."""
    if held.said is None or held.pending:
        return None
    is_new = carried.prompts.keys() - carried.heard or not all(c.heard for c in carried.calls)
    return held.said if is_new else ""


@dataclass(slots=True, kw_only=True, eq=False)
class Responder:
    """Answers tool calls, approvals and questions.

    `explain` puts a text into the turn. `complete` ends a turn whose task_complete was accepted.
    With a tool hook, only the calls that it allowed, `allowed`, are approved.
    """

    session: SessionRequest
    host: AgentHost
    translator: Translator
    services: ProviderServices
    explain: Callable[[str], Awaitable[object]]
    complete: Callable[[CodexTurn, str], Awaitable[None]]
    features: Features
    allowed: Container[str]

    async def respond(self, turn: CodexTurn | None, request: ServerRequest) -> None:
        """Answer a request; refuse it after task_complete and outside its turn."""
        refusal = approvals.refusal(request.method, HAS_COMPLETED)
        if refusal is None:
            await request.refuse(METHOD_NOT_FOUND, f"{request.method} is not supported")
        elif turn is None or not turn.takes(request.params.get("turnId")):
            await request.answer(refusal)
        else:
            await self._work(turn, request, refusal)

    async def _work(self, turn: CodexTurn, request: ServerRequest, refusal: Json) -> None:
        handlers = {
            approvals.COMMAND: self._command,
            approvals.FILE_CHANGE: self._file_change,
            approvals.ELICITATION: self._elicitation,
            approvals.USER_INPUT: self._user_input,
        }
        handler = handlers.get(request.method)
        turn.opened(request)
        try:
            if request.method == approvals.TOOL_CALL:
                await self._call(turn, request)
            else:
                await request.answer(await handler(request.params) if handler else refusal)
        finally:
            turn.closed(request)

    async def _call(self, turn: CodexTurn, request: ServerRequest) -> None:
        """Run an orchestration call. One that completes the agent settles all others first."""
        call_id = str(request.params.get("callId"))
        tool, arguments = (
            str(request.params.get("tool")),
            as_object(request.params.get("arguments")),
        )
        if step := self.translator.begun(call_id):
            # In a task of its own: the engine must know of the call before the step ends.
            self.services.start_soon(turn.put, step, name="codex step")
        outcome = await self.host.call_tool(tool, arguments, call_id=call_id)
        if outcome.ends_turn:
            turn.completing = call_id
            await turn.refuse_others(request, HAS_COMPLETED)
            await self.complete(turn, outcome.text)
            return
        urls = await read_urls(outcome.images)
        answer = approvals.tool_answer(outcome.text, success=not outcome.is_error, images=urls)
        await request.answer(answer)

    async def _command(self, params: Json) -> Json:
        item_id = str(params.get("itemId"))
        wanted = approvals.command_request(self.session.agent_id, params, self.session.cwd)
        what = f"`{wanted.command}`"
        if params.get("kind", "command") != "command" or self._is_interactive(item_id, wanted):
            return await self._deny(item_id, what, _NO_TERMINAL)
        if not wanted.command or approvals.wants_more(params):
            return await self._deny(item_id, what, _NO_EXTRAS)
        return await self._authorize(item_id, what, wanted)

    def _is_interactive(self, item_id: str, wanted: PermissionRequest) -> bool:
        """Whether input may follow that nobody is asked about."""
        if self.features.no_terminals:
            return False
        if self.translator.raw:
            return item_id in self.translator.terminals
        return approvals.interactive(wanted.command or "") is not None

    async def _file_change(self, params: Json) -> Json:
        item_id = str(params.get("itemId"))
        item = self.translator.open_calls.get(item_id)
        if item is None:
            return await self._deny(item_id, "The change", "its files are not known")
        wanted = approvals.edit_request(self.session.agent_id, item, self.session.cwd)
        what = f"The change of {', '.join(wanted.paths)}"
        if approvals.wants_more(params):
            return await self._deny(item_id, what, _NO_EXTRAS)
        return await self._authorize(item_id, what, wanted)

    async def _authorize(self, item_id: str, what: str, wanted: PermissionRequest) -> Json:
        if self.features.hooked:
            if item_id in self.allowed:
                return approvals.ACCEPT  # it stays in the sandbox
            return await self._deny(item_id, what, _NO_EXTRAS)
        verdict = await self.host.authorize(wanted)
        if isinstance(verdict, Deny):
            return await self._deny(item_id, what, verdict.reason)
        return approvals.ACCEPT

    async def _deny(self, item_id: str, what: str, reason: str) -> Json:
        """Decline. The reason goes into the turn, since Codex only says "rejected"."""
        self.translator.reasons[item_id] = reason
        await self.explain(f"[prsm] {what} was refused: {reason}")
        return approvals.DECLINE

    async def _elicitation(self, params: Json) -> Json:
        wanted = approvals.mcp_request(self.session.agent_id, params, self.session.cwd)
        if wanted is None:
            return approvals.elicitation(accepted=False)
        verdict = await self.host.authorize(wanted)
        if isinstance(verdict, Deny):
            await self.explain(f"[prsm] {wanted.tool} was refused: {verdict.reason}")
        return approvals.elicitation(accepted=not isinstance(verdict, Deny))

    async def _user_input(self, params: Json) -> Json:
        answers: dict[str, Answer] = {}
        for name, question in approvals.questions(params):
            answers[name] = await self.host.ask_user(question)
        return approvals.answers(answers)


class StartingServers:
    """The MCP servers that Codex starts beside a thread.

    The first request waits for them, or it would lack their tools. They are not required instead:
    one that fails would then end the thread.
    """

    def __init__(self, request: SessionRequest, services: ProviderServices) -> None:
        self._services = services
        self._left = set(request.mcp_servers)
        limits = [server.start_seconds for server in request.mcp_servers.values()]
        self._seconds = max([_MORE_SECONDS, *limits])
        self._heard = asyncio.Event()
        self._begun = asyncio.Event()

    def note(self, params: Mapping[str, Any]) -> Notice | None:
        """Take note of a status; return a notice if the server did not start."""
        name, status = str(params.get("name")), params.get("status")
        self._heard.set()
        if status != "starting":
            self._left.discard(name)
        if not self._left:
            self._begun.set()
        if status not in {"failed", "cancelled"}:
            return None
        why = params.get("error") or status
        return Notice("warning", one_line(f"The MCP server {name} is not there: {why}"))

    async def until_begun(self) -> None:
        """Return once no server is starting any more, or has taken too long."""
        clock = self._services.clock
        if self._left and await first_of(clock, _FIRST_SECONDS, self._heard.wait):
            await first_of(clock, self._seconds, self._begun.wait)
        self._left.clear()
