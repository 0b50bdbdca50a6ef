"""A provider session: the turns of one agent's conversation."""

from __future__ import annotations

import asyncio
import os
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from prsm_claude import command, naming
from prsm_claude.control import Callbacks, Hook
from prsm_claude.errors import agent_error, is_cut
from prsm_claude.events import Translator, TurnResult, UsageMeter
from prsm_claude.home import Held, find_transcript, held, holds, read_transcript
from prsm_claude.link import RESUME_FAILED, Link
from prsm_claude.notes import read_notes
from prsm_claude.tools import ToolServer
from prsm_core import (
    AgentError,
    Deny,
    ErrorKind,
    Notice,
    Provenance,
    ProviderNotAvailableError,
    PrsmError,
    StopReason,
    TurnEnded,
)
from prsm_core.kit import (
    SeenImages,
    Turn,
    TurnSession,
    as_object,
    first_of,
    quote_conversation,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from prsm_claude.config import ClaudeConfig
    from prsm_claude.link import CliEndedError, Listener
    from prsm_core import (
        AgentHost,
        AssembledContext,
        Carried,
        Image,
        ProviderServices,
        SessionRequest,
        ToolOutcome,
    )

    Json = dict[str, Any]

T = TypeVar("T")
_PARK_SECONDS = 5.0
_STOPPED = "it was stopped"
_DEFERRED = "tool_deferred"
_ABORTED = frozenset({"aborted_streaming", "aborted_tools"})
NOTES = ("CLAUDE.md", ".claude/CLAUDE.md")  # by which a repository speaks to Claude
HOOK_SECONDS = 7 * 24 * 3600  # a hook may wait for other agents; the engine's own clocks end it
HAS_COMPLETED = "This agent has completed; nothing more is done for it."
_TURN_OVER = "This turn is over."
GO_ON = "Continue where the conversation stopped."


def text_id(known_as: str) -> str:
    """Return the id of a text of the ledger in a transcript, where it must be a UUID."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, known_as))


class _Waiting(Struct, eq=False):
    task: asyncio.Task[Any] | None
    may_park: bool
    instead: Json | None = None  # its answer, once it is to wait no longer


class ClaudeTurn(Turn):
    """State of one turn. The session decides, this keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, _Waiting] = {}
        self.takes_text = False  # its prompt has been sent
        self.texts: set[str] = set()  # ids of the texts sent in it
        self.completing: str | None = None  # the answered call that ends the turn
        self.parked: str | None = None  # the call that was let go of

    @property
    def is_ending(self) -> bool:
        """Whether it is over or about to end."""
        return any((self.over.is_set(), self.stopping, self.completing, self.parked))

    @property
    def stopped(self) -> StopReason:
        """Why it stopped, if the vendor does not say."""
        return StopReason.END_TURN if self.completing else StopReason.ABORTED

    def new_text(self, known_as: str | None = None) -> str:
        """Return an id for a text, made of the ledger's. The turn lasts until the model has it."""
        message_id = str(uuid.uuid4()) if known_as is None else text_id(known_as)
        self.texts.add(message_id)
        return message_id

    @property
    def to_park(self) -> str | None:
        """The id of the only waiting call, if it may be let go of."""
        if len(self._waiting) != 1:
            return None
        ((call_id, waiting),) = self._waiting.items()
        return call_id if waiting.may_park else None

    async def wait_for(
        self, call_id: str, work: Awaitable[T], *, may_park: bool = False
    ) -> T | Json:
        """Await the answer to a call, or return what `let_go` sets instead."""
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        self._waiting[call_id] = waiting = _Waiting(task, may_park)
        try:
            return await work
        except asyncio.CancelledError:
            if waiting.instead is None or task is None or task.uncancel() > before:
                raise
            return waiting.instead
        finally:
            self._waiting.pop(call_id, None)

    def let_go(self, call_id: str, instead: Json) -> None:
        """Let a waiting call return this at once, and cancel its work."""
        waiting = self._waiting[call_id]
        if waiting.task is not None and waiting.instead is None:
            waiting.instead = instead
            waiting.task.cancel()

    def let_all_go(self, instead: Json) -> None:
        """Let every waiting call return this."""
        for call_id in tuple(self._waiting):
            self.let_go(call_id, instead)


class ClaudeSession(TurnSession[ClaudeTurn]):
    """One agent. It runs one turn at a time."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: ClaudeConfig,
        services: ProviderServices,
        program: tuple[str, ...],
        home: Path,
    ) -> None:
        super().__init__(request.name, services)
        # The CLI reckons the cost by its own vendor's prices.
        meter = UsageMeter(Provenance.ESTIMATED if config.base_url else Provenance.REPORTED)
        self._translator = Translator(meter)
        self._tools = ToolServer(host.tools)
        self._gate = Gate(
            request=request,
            host=host,
            services=services,
            translator=self._translator,
            tools=self._tools,
            settle=self._withdraw,
        )
        self._conversation = Conversation(
            request, config, services, program, home, meter, orchestrates=bool(host.tools)
        )
        self._callbacks = Callbacks(
            hooks=self._gate.hooks,
            can_use_tool=self._gate.can_use_tool,
            serve=self._tools.answer,
        )
        self.resume_token = request.resume_token
        self._carried = request.carried if request.resume_token is not None else None
        self._is_parked = False  # it is closed next and resumed later, so not interrupted

    async def open(self) -> None:
        """Start the CLI, or let it resume the conversation; see Conversation.start."""
        await self._ready()
        if self._carried is not None:
            self.taken = await self._conversation.taken(self._carried)

    async def close(self) -> None:
        """Interrupt the turn and end the CLI."""
        await self.interrupt()
        await self._conversation.close()

    def kill(self) -> None:
        """End the CLI at once, so that its conversation is resumed as it is now."""
        self._conversation.kill(_STOPPED)

    async def _ready(self) -> Link:
        link = await self._conversation.start(self._callbacks, self)
        self.resume_token = self._conversation.id
        return link

    def new_turn(self) -> ClaudeTurn:
        """Return what keeps a turn; see TurnSession."""
        return ClaudeTurn()

    def closed(self, turn: ClaudeTurn) -> None:
        """Let no more calls of the turn through."""
        self._gate.close(turn)

    async def begin(self, turn: ClaudeTurn, context: AssembledContext) -> None:
        """Start the turn; see TurnSession."""
        link = await self._ready()
        self._translator.begin()
        self._gate.open(turn)
        turn.sent = True
        await self._prompt(link, turn, context)
        turn.takes_text = True

    async def _prompt(self, link: Link, turn: ClaudeTurn, context: AssembledContext) -> None:
        """Send the text of the turn. The CLI asks about a call that was let go of by itself."""
        self._conversation.images.see(context)
        text = self._conversation.with_lost(turn_text(context))
        deferred, self._conversation.deferred = self._conversation.deferred, None
        if text is None and deferred is not None:
            return
        message = context.current_message
        message_id = turn.new_text(None if message is None else message.id)
        await self._conversation.send(link, text or GO_ON, message_id)

    async def refused(self, turn: ClaudeTurn, error: PrsmError) -> None:
        """End a turn that could not begin."""
        if error.code == RESUME_FAILED:
            self.resume_token, self.reusable = None, False  # to be rebuilt
        ended = AgentError(
            kind=ErrorKind.UNKNOWN, message=error.message, retryable=not self.reusable
        )
        await turn.put([TurnEnded(StopReason.ERROR, ended)])

    async def steer(self, text: str, images: Sequence[Image] = ()) -> bool:
        """Put text into the running turn; see ProviderSession."""
        turn, link = self.turn, self._conversation.link
        if turn is None or not turn.takes_text or turn.is_ending:
            return False
        if link is None or link.is_over:
            return False
        await link.send(text, turn.new_text(), images)
        return True

    async def park(self) -> bool:
        """Let go of the one waiting call; see ProviderSession.

        Of several the vendor would keep only the last. With a queued text it would go on by itself.
        If none is let go of the CLI is killed: it would note an interrupt.
        """
        self._is_parked = True
        turn, link = self.turn, self._conversation.link
        if turn is None or link is None or turn.is_ending or turn.texts - link.taken:
            return False
        turn.parked = turn.to_park
        if turn.parked is None:
            return False
        turn.let_go(turn.parked, DEFER)
        is_over = await first_of(self.services.clock, _PARK_SECONDS, turn.over.wait)
        if not is_over:
            await self.stop(turn)
        return is_over

    async def ask_to_end(self, turn: ClaudeTurn) -> None:
        """Interrupt a turn; see TurnSession."""
        link = self._conversation.link
        if link is None:
            await self.aborted(turn)
        elif self._is_parked:
            link.kill(_STOPPED)
        else:
            self.services.start_soon(self._interrupt, turn, link, name="claude interrupt")

    async def aborted(self, turn: ClaudeTurn) -> None:
        """End a turn that the CLI knows nothing of."""
        await self._finish(turn, StopReason.ABORTED)

    async def unconfirmed(self, turn: ClaudeTurn) -> None:
        """End a turn that the CLI did not end, and the CLI with it."""
        self._conversation.kill("it did not confirm the end of the turn")
        notice = Notice("warning", "Claude did not confirm the end of the turn.")
        await self._finish(turn, turn.stopped, None, notice)

    async def _interrupt(self, turn: ClaudeTurn, link: Link) -> None:
        await self._withdraw(turn)
        await link.interrupt()

    async def _withdraw(self, turn: ClaudeTurn) -> None:
        """Take back the texts that came too late for a turn that ends."""
        if self._conversation.link is not None:
            await self._conversation.link.withdraw(turn.texts)

    async def _finish(
        self,
        turn: ClaudeTurn,
        reason: StopReason,
        error: AgentError | None = None,
        *notices: Notice,
        result: TurnResult | None = None,
    ) -> None:
        events = self._translator.finish(result)
        await turn.put([*notices, *events, TurnEnded(reason, error)])

    async def on_message(self, link: Link, message: dict[str, Any]) -> None:
        """Translate a message into events of the running turn. A result ends it."""
        turn = self.turn
        if turn is None:
            return
        if message.get("type") == "result":
            await self._ended(turn, link, TurnResult.read(message))
        elif events := self._translator.feed(message):
            await turn.put(events)

    async def on_ended(self, error: CliEndedError) -> None:
        """End the running turn. The next one starts a new CLI, which resumes."""
        turn = self.turn
        if turn is None or not turn.sent or turn.over.is_set():
            return
        notice = Notice("error", f"{error.message}\n{error.tail}".strip())
        if turn.is_ending:
            await self._finish(turn, turn.stopped, None, notice)
            return
        failed = AgentError(kind=ErrorKind.MODEL_ERROR, message=error.message, retryable=True)
        await self._finish(turn, StopReason.ERROR, failed, notice)

    async def _ended(self, turn: ClaudeTurn, link: Link, result: TurnResult) -> None:
        """End the turn, unless the CLI holds a text that the model was not given yet."""
        self._conversation.arrived(link.taken)
        if turn.texts - link.taken:
            if not turn.is_ending:
                await turn.put(self._translator.finish(result))
                return
            link.kill(_STOPPED)  # it would begin a turn with that text
        reason, error = self._outcome(turn, result)
        await self._finish(turn, reason, error, result=result)

    def _outcome(
        self, turn: ClaudeTurn, result: TurnResult
    ) -> tuple[StopReason, AgentError | None]:
        if turn.completing or turn.stopping or result.terminal_reason in _ABORTED:
            return turn.stopped, None
        if result.terminal_reason == _DEFERRED:
            return StopReason.TOOL_USE, None
        if not result.is_error:
            cut = result.stop_reason == "max_tokens"
            return StopReason.MAX_TOKENS if cut else StopReason.END_TURN, None
        resets = self._translator.resets_at
        error = agent_error(
            result.text,
            reason=result.terminal_reason,
            status=result.status,
            word=self._translator.word,
            retry_after_s=resets and max(resets - self.services.clock.time(), 0.0),
        )
        return StopReason.MAX_TOKENS if is_cut(error.message) else StopReason.ERROR, error


def turn_text(context: AssembledContext) -> str | None:
    """Return the prompt of a turn, or None if the conversation only goes on."""
    message = context.current_message.content if context.current_message else None
    if not context.history:
        return message
    earlier = quote_conversation((m.role, m.content) for m in context.history)
    return f"{earlier}\n\n{message or GO_ON}"


class Conversation:
    """Owns the CLI. One that has died is started again and resumes.

    id: The vendor's id of the conversation.
    deferred: A call that was let go of. The CLI asks about it again by itself.
    """

    def __init__(
        self,
        request: SessionRequest,
        config: ClaudeConfig,
        services: ProviderServices,
        program: tuple[str, ...],
        home: Path,
        meter: UsageMeter,
        *,
        orchestrates: bool,
    ) -> None:
        self._request = request
        self._config = config
        self._services = services
        self._program = program
        self._meter = meter
        self._orchestrates = orchestrates
        self._home = home
        self.images = SeenImages()
        self._unsure: tuple[str, str] | None = None  # text and id of a prompt that may be lost
        self._resumes = self._kept = request.resume_token is not None
        self.id = request.resume_token or str(uuid.uuid4())
        self.deferred: str | None = None
        self.link: Link | None = None

    async def start(self, callbacks: Callbacks, listener: Listener) -> Link:
        """Start the CLI or return the running one; see Link.open for errors."""
        if self.link is not None:
            if not self.link.is_over:
                return self.link
            await self.close()
            self._choose_beginning()
        if self._resumes:
            await self._recall(find_transcript(self._home, self.id))
        self.link = await self._open(callbacks, listener)
        return self.link

    def _choose_beginning(self) -> None:
        """Resume, or begin anew if the first turn was never saved."""
        self._resumes = find_transcript(self._home, self.id) is not None
        if self._resumes:
            return
        if self._kept:
            raise ProviderNotAvailableError(
                "claude has lost the transcript of the conversation",
                hint="The conversation is rebuilt from the ledger.",
                code=RESUME_FAILED,
            )
        self.id = str(uuid.uuid4())
        self._meter.spent_usd = 0.0

    async def send(self, link: Link, text: str, message_id: str) -> None:
        """Send the text of a turn, and the images that it cites."""
        self._unsure = (text, message_id)
        await link.send(text, message_id, self.images.of(text))

    def with_lost(self, text: str | None) -> str | None:
        """Return the text of a turn, after a prompt that was lost in a crash."""
        lost = self._unsure[0] if self._unsure else None
        parts = [part for part in (lost if lost != text else None, text) if part]
        return "\n\n".join(parts) or None

    def arrived(self, taken: set[str]) -> None:
        """Note, at the end of a turn, which texts the model has."""
        self._kept = True
        if self._unsure and self._unsure[1] in taken:
            self._unsure = None

    async def taken(self, carried: Carried) -> frozenset[str]:
        """Return the prompts and calls of a turn that goes on which the transcript has.

        A call that was let go of is answered once the CLI asks about it. A text that was put into
        the running turn had no id of the ledger's and is known by its words.
        """
        prompts = {text_id(name): name for name in carried.prompts}
        answered = {call.call_id for call in carried.calls if call.outcome is not None}
        path = find_transcript(self._home, self.id)
        heard = {name: text for name, text in carried.prompts.items() if name in carried.heard}
        wanted = (*prompts, *(call.call_id for call in carried.calls))
        saved = Held() if path is None else await held(path, wanted, heard.values())
        by_words = {name for name, text in heard.items() if text in saved.texts}
        let_go = answered & {self.deferred}
        return frozenset(prompts.get(one, one) for one in saved.ids) | by_words | let_go

    def kill(self, why: str) -> None:
        """End the CLI at once, so that the conversation is resumed as it is now."""
        if self.link is not None:
            self.link.kill(why)

    async def close(self) -> None:
        """End the CLI, even if this is cancelled."""
        link, self.link = self.link, None
        if link is not None:
            closed = asyncio.Event()
            self._services.start_soon(_closed, link, closed, name="claude close")
            await closed.wait()

    async def _open(self, callbacks: Callbacks, listener: Listener) -> Link:
        request = self._request
        with command.mcp_config(self._services.state_dir, request, self.id) as servers:
            argv = command.cli_argv(
                self._program,
                request,
                servers,
                session_id=self.id,
                resume=self._resumes,
                orchestrates=self._orchestrates,
            )
            env = command.cli_env(self._config, os.environ, self._home)
            env |= command.model_env(request)
            env |= request.variables
            role = await self._role()
            process = await self._services.start_process(
                argv,
                name="claude",
                cwd=request.cwd,
                env=env,
                box=request.box and request.box.opened(str(self._home)),
            )
            return await Link.open(self._services, callbacks, process, listener, role=role)

    async def _role(self) -> str:
        """Return the system prompt, with the repository's notes for agents that may read files."""
        request = self._request
        if not self._config.project_notes or "Read" not in request.native_tools:
            return request.system_prompt
        workspace = request.workspace or request.cwd
        notes = await asyncio.to_thread(read_notes, workspace, request.cwd, NOTES)
        return request.prompt_with(notes) if notes else request.system_prompt

    async def _recall(self, path: Path | None) -> None:
        """Read from the transcript what the CLI does not say."""
        if path is None:
            return  # the CLI will say that there is none
        known = await read_transcript(path)
        self._meter.spent_usd = known.spent_usd
        self.deferred = known.deferred
        if self._unsure is not None:
            has_arrived = await holds(path, self._unsure[1])
            self._unsure = None if has_arrived else self._unsure


async def _closed(link: Link, done: asyncio.Event) -> None:
    try:
        await link.close()
    finally:
        done.set()


def _decision(permission: str, reason: str | None = None) -> Json:
    output = {"hookEventName": "PreToolUse", "permissionDecision": permission}
    if reason is not None:
        output["permissionDecisionReason"] = reason
    return {"hookSpecificOutput": output}


ALLOW = _decision("allow")
DEFER = _decision("defer")


def deny(reason: str) -> Json:
    """Return a hook's answer that forbids a call."""
    return _decision("deny", reason)


def _permitted(given: Json) -> Json:
    return {"behavior": "allow", "updatedInput": given}


def _refused(reason: str) -> Json:
    return {"behavior": "deny", "message": reason}


@dataclass(slots=True, kw_only=True, eq=False)
class Gate:
    """The hooks and callbacks of one session. `settle(turn)` is awaited once it completes.

    `_allowed` are the ids of the turn's calls that may run.
    """

    request: SessionRequest
    host: AgentHost
    services: ProviderServices
    translator: Translator
    tools: ToolServer
    settle: Callable[[ClaudeTurn], Awaitable[None]]
    _turn: ClaudeTurn | None = field(default=None, init=False)
    _has_turn: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _allowed: set[str] = field(default_factory=set, init=False)

    @property
    def hooks(self) -> dict[str, Hook]:
        """The hooks to register. If the one that judges calls fails, the call is forbidden."""
        return {
            "PreToolUse": Hook(run=self.before_tool, seconds=HOOK_SECONDS, must_hold=True),
            "PostToolUse": Hook(run=self.after_tool, matcher=f"mcp__{naming.SERVER}__.*"),
        }

    def open(self, turn: ClaudeTurn) -> None:
        """Let calls through, for this turn."""
        self._turn = turn
        self._has_turn.set()

    def close(self, turn: ClaudeTurn) -> None:
        """End all that still waits for a turn that is over."""
        turn.let_all_go(deny(_TURN_OVER))
        self._turn = None
        self._has_turn.clear()
        self._allowed.clear()
        self.tools.forget()

    async def before_tool(self, given: Any, use_id: str | None) -> Json:
        """Answer the PreToolUse hook of any tool."""
        turn = await self._current()
        name, call_id = str(given.get("tool_name")), str(use_id)
        arguments = as_object(given.get("tool_input"))
        if turn.completing is not None:
            self.translator.reasons[call_id] = HAS_COMPLETED
            return deny(HAS_COMPLETED)
        if naming.is_question(name):
            return {}  # can_use_tool gives the answers
        if naming.is_ours(name):
            return await self._orchestrate(turn, call_id, naming.plain(name), arguments)
        cwd = str(given.get("cwd") or self.request.cwd)
        await turn.put(self.translator.started(call_id, naming.canonical(name), arguments))
        work = self._authorize(name, arguments, cwd, call_id)
        return await turn.wait_for(call_id, work)

    async def after_tool(self, _given: Any, use_id: str | None) -> Json:
        """End the turn after the answer to the call that completes the agent."""
        turn = self._turn
        if turn is None or turn.completing is None or turn.completing != use_id:
            return {}
        return {"continue": False, "stopReason": "task complete"}

    async def can_use_tool(self, name: str, given: Json, call_id: str) -> Json:
        """Answer what the CLI asks beyond the hook: questions to the person, and its own doubts."""
        turn = await self._current()
        if naming.is_question(name):
            answered = await turn.wait_for(call_id, self._answers(given, call_id))
            return _permitted(answered) if "answers" in answered else _refused(_TURN_OVER)
        if call_id not in self._allowed:
            work = self._authorize(name, given, self.request.cwd, call_id)
            await turn.wait_for(call_id, work)
        if call_id in self._allowed:
            return _permitted(given)
        return _refused(self.translator.reasons.get(call_id, _TURN_OVER))

    async def _current(self) -> ClaudeTurn:
        """Return the running turn. A resumed CLI asks before there is one."""
        while self._turn is None:
            await self._has_turn.wait()
        return self._turn

    async def _orchestrate(
        self, turn: ClaudeTurn, call_id: str, name: str, arguments: Mapping[str, Any]
    ) -> Json:
        """Run an orchestration call. The one that completes the agent settles all others."""
        if step := self.translator.begun(call_id):
            # In a task of its own: the engine must know of the call before the step ends.
            self.services.start_soon(turn.put, step, name="claude step")
        work = self._outcome(call_id, name, arguments)
        outcome = await turn.wait_for(call_id, work, may_park=True)
        if isinstance(outcome, dict):
            return outcome
        if outcome.ends_turn:
            turn.completing = call_id
            turn.let_all_go(deny(HAS_COMPLETED))
            await self.settle(turn)
        await self.tools.prepare(name, arguments, outcome)
        return ALLOW

    async def _outcome(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        known = self.request.answers.get(call_id)
        if known is not None:
            return known
        return await self.host.call_tool(name, arguments, call_id=call_id)

    async def _authorize(
        self, name: str, arguments: Mapping[str, Any], cwd: str, call_id: str
    ) -> Json:
        wanted = naming.permission(self.request.agent_id, name, arguments, cwd, call_id)
        verdict = await self.host.authorize(wanted)
        if isinstance(verdict, Deny):
            self.translator.reasons[call_id] = verdict.reason
            return deny(verdict.reason)
        self._allowed.add(call_id)
        return ALLOW

    async def _answers(self, given: Json, call_id: str) -> Json:
        answers = {
            key: naming.answer_text(await self.host.ask_user(replace(question, call_id=call_id)))
            for key, question in naming.questions(given)
        }
        return {**given, "answers": answers}
