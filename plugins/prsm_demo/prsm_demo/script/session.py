"""A scripted agent's session: prompts in, the steps of its lane out, each really carried out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prsm_core import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    ProviderSession,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    TurnEnded,
    UsageReported,
)
from prsm_core.kit import one_line
from prsm_demo.script.acts import Acts
from prsm_demo.script.going_on import GoingOn, reply_of, unanswered
from prsm_demo.script.playback import pieces
from prsm_demo.script.retold import OVERFLOW
from prsm_demo.script.steps import FOREVER
from prsm_demo.script.stream import EventStream
from prsm_demo.script.thread import Thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from prsm_core import (
        AgentHost,
        AssembledContext,
        BackgroundTask,
        ProviderEvent,
        ProviderServices,
        SessionRequest,
    )
    from prsm_demo.script.place import Outcome, Shelf
    from prsm_demo.script.playback import Player, Reply
    from prsm_demo.script.steps import Call, HttpError, Step

_ABORTED = TurnEnded(StopReason.ABORTED)
_DONE = TurnEnded(StopReason.END_TURN)
_KINDS = {401: ErrorKind.AUTH_FAILURE, 403: ErrorKind.AUTH_FAILURE, 429: ErrorKind.RATE_LIMIT}


class ScriptCrashError(RuntimeError):
    """A step wants the provider to break."""


class ScriptSession(ProviderSession):
    """One agent's session; the player knows its lane and how far that was played.

    With a `shelf` its thread is kept on disk; see `place`. Its pending calls can then be answered
    later, if it `takes_answers`; else they are told by the next prompt.
    """

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        player: Player,
        services: ProviderServices,
        *,
        shelf: Shelf | None = None,
        takes_answers: bool = True,
    ) -> None:
        self._name = request.name
        self._player = player
        self._services = services
        self._shelf = shelf
        self._acts = Acts(request, host, services)
        self._turn: _Turn | None = None
        self._thread = Thread(request)
        self._going_on: GoingOn | None = None  # until the turn has
        if shelf is not None:
            self._open(request, shelf, takes_answers=takes_answers)

    def _open(self, request: SessionRequest, shelf: Shelf, *, takes_answers: bool) -> None:
        """Begin a thread, or go on with one.

        Raises ProviderNotAvailableError where that is lost, or cannot be kept.
        """
        if request.resume_token is None:
            self.resume_token = shelf.new_token()
        else:
            self.resume_token = request.resume_token
            self._thread = Thread(request, shelf.read(request.resume_token))
            if request.carried is not None:
                self._going_on = GoingOn(request.carried)
                if takes_answers:
                    self._learn(self._going_on)
                self.taken = self._thread.held & self._going_on.ids
        self._keep()

    def _learn(self, going_on: GoingOn) -> None:
        """Take in the answers that the calls of the newest response have got."""
        response = self._thread.response
        reply = None if response is None else reply_of(response, self._player)
        if response is None or reply is None:
            return
        for call_id, call in unanswered(reply, response):
            answer = going_on.answer(call_id)
            if answer is not None:
                self._thread.learn(call_id, call.tool or call.kind, answer)

    def _keep(self) -> None:
        if self._shelf is not None and self.resume_token is not None:
            self._shelf.write(self.resume_token, self._thread.kept(self._player))

    def _hear(self, context: AssembledContext) -> GoingOn | None:
        """Take in what a turn begins with; return what it goes on from, if it does."""
        going_on, self._going_on = self._going_on, None
        if going_on is None:
            self._thread.forget_response()
        elif context.current_message is not None:
            self._learn(going_on)  # the prompt tells the answers that were not taken
        self._thread.hear(context)
        if context.history:
            self._player.skip(self._thread.conversation(), context.history)
        self._keep()
        return going_on

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Play steps until one ends the turn; see ProviderSession."""
        going_on = self._hear(context)
        turn = _Turn(self._player, self._thread, self._acts, self._services, self._keep)
        self._turn = turn
        if going_on is not None:
            turn.go_on_from(going_on, has_prompt=context.current_message is not None)
        turn.work = self._services.start_soon(turn.play, name=f"script of {self._name}")
        try:
            async for event in turn.stream.read():
                yield event
        finally:
            self._turn = None
            await turn.leave()

    async def interrupt(self) -> None:
        """End the running turn at once; see ProviderSession."""
        if self._turn is not None:
            self._turn.stop()

    async def close(self) -> None:
        """End the running turn and return once nothing of it is left."""
        if self._turn is not None:
            await self._turn.leave()


class _Turn:
    """Plays one turn."""

    def __init__(
        self,
        player: Player,
        thread: Thread,
        acts: Acts,
        services: ProviderServices,
        keep: Callable[[], None],
    ) -> None:
        self.stream = EventStream()
        self.work: BackgroundTask | None = None
        self._player = player
        self._thread = thread
        self._acts = acts
        self._clock = services.clock
        self._keep = keep
        self._going_on: GoingOn | None = None
        self._has_prompt = False
        self._began = False
        self._over = asyncio.Event()

    def go_on_from(self, going_on: GoingOn, *, has_prompt: bool) -> None:
        """Begin with what the thread's newest response has left, or had to be told of it."""
        self._going_on, self._has_prompt = going_on, has_prompt

    async def play(self) -> None:
        """Play to the end, which the stream tells; what breaks is raised to its reader."""
        self._began = True
        end: TurnEnded | Exception = _ABORTED
        try:
            end = await self._steps()
        except Exception as error:  # noqa: BLE001 - raised to the reader of the stream
            end = error
        finally:
            self.stream.end(end)
            self._over.set()

    def stop(self) -> None:
        """Abort the turn, whatever it waits for."""
        if self.work is not None:
            self.work.cancel()
        self.stream.end(_ABORTED)

    async def leave(self) -> None:
        """Return once nothing of the turn runs any more."""
        self.stop()
        if self._began:  # else it was cancelled before its first step
            await self._over.wait()

    async def _steps(self) -> TurnEnded:
        end = await self._rest()
        while end is None:
            reply = self._player.answer(self._thread.conversation())
            end = _refusal(reply)
            if end is None:
                self._thread.respond(reply)
            self._keep()
            if end is None:
                end = await self._give(reply)
        return end

    async def _rest(self) -> TurnEnded | None:
        """Give what a turn that goes on has not given of its newest response."""
        response, going_on = self._thread.response, self._going_on
        if response is None or going_on is None:
            return None
        reply = reply_of(response, self._player)
        if reply is None:
            raise ScriptCrashError(f"lane {response.lane} is another one than it was")
        end = await self._give(reply, is_known=going_on.knows(response))
        # A prompt that came after it began another turn, of which there is no response yet.
        is_asked = self._has_prompt or self._thread.has_unanswered
        return None if is_asked and not reply.step.calls else end

    async def _give(self, reply: Reply, *, is_known: bool = False) -> TurnEnded | None:
        if not is_known:
            await self._speak(reply.step)
        return _end(reply.step, await self._call_all(reply))

    async def _speak(self, step: Step) -> None:
        await self._clock.sleep(step.delay)
        if step.crash is not None:
            raise ScriptCrashError(step.crash)
        deltas: list[TextDelta | ThinkingDelta] = []
        deltas += [ThinkingDelta(piece) for piece in pieces(step.think or "") if piece]
        deltas += [TextDelta(piece) for piece in pieces(step.say or "") if piece]
        middle = len(deltas) // 2
        for delta in deltas[:middle]:
            await self.stream.tell(delta)
        await self._hang(step.hang)
        for delta in deltas[middle:]:
            await self.stream.tell(delta)
        if deltas:
            self._thread.say(step.say or "")
            await self.stream.tell(AssistantMessage(step.say or "", step.think))
        used = _usage(step.usage)
        await self.stream.tell(UsageReported(used, context_used=used.total_tokens or None))

    async def _hang(self, seconds: float) -> None:
        if seconds == FOREVER:
            await asyncio.Event().wait()
        await self._clock.sleep(seconds)

    async def _call_all(self, reply: Reply) -> Sequence[Outcome]:
        """Begin all calls of a step together and wait for every answer that it has not got."""
        response = self._thread.response
        if response is None:
            raise RuntimeError("calls are of a response")
        calls = unanswered(reply, response)
        for call_id, call in calls:
            started = self._acts.started(call, call_id)
            if started is not None:
                await self.stream.tell(started)
        try:
            async with asyncio.TaskGroup() as group:
                for call_id, call in calls:
                    group.create_task(self._call(call, call_id))
                await asyncio.sleep(0)  # in its first step each call reaches the host
                await self.stream.tell(StepEnded())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [response.outcomes[call_id] for call_id in reply.call_ids]

    async def _call(self, call: Call, call_id: str) -> None:
        outcome = await self._acts.carry_out(call, call_id)
        self._thread.learn(call_id, call.tool or call.kind, outcome)
        self._keep()
        finished = self._acts.finished(call, call_id, outcome)
        if finished is not None:
            await self.stream.tell(finished)


def _refusal(reply: Reply) -> TurnEnded | None:
    """Return the error that a reply stands for, if any."""
    if reply.error is not None:
        return TurnEnded(StopReason.ERROR, _http_error(reply.error))
    if reply.failure is not None:
        failure = reply.failure
        return _failed(
            failure.message,
            kind=failure.kind,
            retryable=failure.retryable,
            retry_after_s=failure.retry_after_s,
        )
    if reply.is_over:
        return _failed(
            f"the script of lane {reply.lane} has no step left: its last one should call "
            "task_complete, or only say something"
        )
    return None


def _end(step: Step, outcomes: Sequence[Outcome]) -> TurnEnded | None:
    """Return how a step ends the turn; None when the next step follows."""
    if not outcomes or any(outcome.ends_turn for outcome in outcomes):
        return _DONE
    reactions = {"denied": step.on_denied, "failed": step.on_error}
    for outcome in outcomes:
        if reactions.get(outcome.status) == "fail":
            return _failed(f"a call of the script was {outcome.status}: {outcome.reason}")
    return None


def _failed(message: str, *, kind: ErrorKind = ErrorKind.UNKNOWN, **fields: Any) -> TurnEnded:
    return TurnEnded(StopReason.ERROR, AgentError(kind=kind, message=message, **fields))


def _http_error(error: HttpError) -> AgentError:
    """Return what a vendor's adapter would make of an HTTP error."""
    kind = _KINDS.get(error.status, ErrorKind.MODEL_ERROR)
    if error.code == OVERFLOW:
        kind = ErrorKind.CONTEXT_OVERFLOW
    retryable = error.status == 429 or error.status >= 500
    return AgentError(
        kind=kind,
        message=one_line(error.message),
        retryable=retryable,
        retry_after_s=error.retry_after,
    )


def _usage(counts: Mapping[str, int] | None) -> TokenUsage:
    """Return the tokens a step says it used; without a word it is a fact that there were none."""
    counts = counts or {}
    sent, answered = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    return TokenUsage(
        input_tokens=sent,
        output_tokens=answered,
        cached_input_tokens=counts.get("cached_input_tokens", 0),
        reasoning_tokens=counts.get("reasoning_tokens", 0),
        total_tokens=sent + answered,
    )
