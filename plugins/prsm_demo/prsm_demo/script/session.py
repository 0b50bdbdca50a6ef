"""A scripted agent's session: prompts in, the steps of its lane out, each really carried out.

Whatever touches the machine asks `host.authorize` first; a denial is an answer like any other.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import (
    AgentError,
    AssistantMessage,
    Deny,
    ErrorKind,
    PermissionRequest,
    ProviderSession,
    PrsmError,
    Question,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.kit import one_line
from prsm_demo.script.place import KeptResponse, KeptThread, Outcome, given, image_words
from prsm_demo.script.playback import Conversation, Reply, pieces
from prsm_demo.script.retold import OVERFLOW
from prsm_demo.script.steps import FOREVER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from prsm_core import (
        AgentHost,
        AssembledContext,
        BackgroundTask,
        Carried,
        CarriedCall,
        Process,
        ProviderEvent,
        ProviderServices,
        SessionRequest,
    )
    from prsm_demo.script.place import Shelf
    from prsm_demo.script.playback import Player
    from prsm_demo.script.steps import Call, HttpError, Step

_ABORTED = TurnEnded(StopReason.ABORTED)
_DONE = TurnEnded(StopReason.END_TURN)
_KINDS = {401: ErrorKind.AUTH_FAILURE, 403: ErrorKind.AUTH_FAILURE, 429: ErrorKind.RATE_LIMIT}
_ROOM = 64  # events; whoever tells one waits until it was taken
_UNSEEN = "it was cut off and may have run: look before it is made again"
# What is kept of a command's output, in bytes: as much as of any tool's result.
OUTPUT_LIMIT = 64 * 1024
_BASH = ("bash", "--noprofile", "--norc", "-c", "--")


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
        """Begin a thread, or go on with one. Raises ProviderNotAvailableError where it is lost."""
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
        response = self._thread.kept.response
        reply = None if response is None else reply_of(response, self._player)
        if response is None or reply is None:
            return
        for call_id, call in unanswered(reply, response):
            if (answer := going_on.answer(call_id)) is not None:
                self._thread.learn(call_id, call.tool or call.kind, answer)

    def _keep(self) -> None:
        if self._shelf is not None and self.resume_token is not None:
            kept = self._thread.kept
            kept.replies, kept.calls = self._player.counted
            kept.place = self._player.place(self._thread.conversation())
            self._shelf.write(self.resume_token, kept)

    def _hear(self, context: AssembledContext) -> GoingOn | None:
        """Take in what a turn begins with; return what it goes on from, if it does."""
        going_on, self._going_on = self._going_on, None
        if going_on is None:
            self._thread.kept.response = None
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
        has_prompt = context.current_message is not None
        parts = (self._player, self._thread, self._acts, self._services, self._keep)
        self._turn = turn = _Turn(*parts, going_on, has_prompt=has_prompt)
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
    """Plays one turn; one that goes on begins with what the thread's newest response has left."""

    def __init__(
        self,
        player: Player,
        thread: Thread,
        acts: Acts,
        services: ProviderServices,
        keep: Callable[[], None],
        going_on: GoingOn | None,
        *,
        has_prompt: bool,
    ) -> None:
        self.stream = EventStream()
        self.work: BackgroundTask | None = None
        self._player = player
        self._thread = thread
        self._acts = acts
        self._clock = services.clock
        self._keep = keep
        self._going_on = going_on
        self._has_prompt = has_prompt
        self._began = False
        self._over = asyncio.Event()

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
            refusal = _refusal(reply)
            if refusal is None:
                self._thread.respond(reply)
            self._keep()
            end = refusal or await self._give(reply)
        return end

    async def _rest(self) -> TurnEnded | None:
        """Give what a turn that goes on has not given of its newest response."""
        response, going_on = self._thread.kept.response, self._going_on
        if response is None or going_on is None:
            return None
        reply = reply_of(response, self._player)
        if reply is None:
            raise ScriptCrashError(f"lane {response.lane} is another one than it was")
        end = await self._give(reply, is_known=going_on.knows(response))
        # A prompt that came after it began another turn, of which there is no response yet.
        is_asked = self._has_prompt or bool(self._thread.kept.unanswered)
        return None if is_asked and not reply.step.calls else end

    async def _give(self, reply: Reply, *, is_known: bool = False) -> TurnEnded | None:
        if not is_known:
            await self._speak(reply.step)
        return _end(reply.step, await self._call_all(reply))

    async def _speak(self, step: Step) -> None:
        await self._clock.sleep(step.delay)
        if step.crash is not None:
            raise ScriptCrashError(step.crash)
        deltas: list[TextDelta | ThinkingDelta]
        deltas = [ThinkingDelta(piece) for piece in pieces(step.think or "") if piece]
        deltas += [TextDelta(piece) for piece in pieces(step.say or "") if piece]
        middle = len(deltas) // 2
        for delta in deltas[:middle]:
            await self.stream.tell(delta)
        if step.hang == FOREVER:
            await asyncio.Event().wait()
        await self._clock.sleep(step.hang)
        for delta in deltas[middle:]:
            await self.stream.tell(delta)
        if deltas:
            self._thread.kept.texts.append(step.say or "")
            await self.stream.tell(AssistantMessage(step.say or "", step.think))
        used = _usage(step.usage)
        await self.stream.tell(UsageReported(used, context_used=used.total_tokens or None))

    async def _call_all(self, reply: Reply) -> Sequence[Outcome]:
        """Begin all calls of a step together and wait for every answer that it has not got."""
        response = self._thread.kept.response
        if response is None:
            raise RuntimeError("calls are of a response")
        calls = unanswered(reply, response)
        for call_id, call in calls:
            if (started := self._acts.started(call, call_id)) is not None:
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
        if (finished := self._acts.finished(call, call_id, outcome)) is not None:
            await self.stream.tell(finished)


def _refusal(reply: Reply) -> TurnEnded | None:
    """Return the error that a reply stands for, if any."""
    if reply.error is not None:
        return TurnEnded(StopReason.ERROR, _http_error(reply.error))
    if (failure := reply.failure) is not None:
        again = {"retryable": failure.retryable, "retry_after_s": failure.retry_after_s}
        return _failed(failure.message, kind=failure.kind, **again)
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
    return AgentError(
        kind=ErrorKind.CONTEXT_OVERFLOW if error.code == OVERFLOW else kind,
        message=one_line(error.message),
        retryable=error.status == 429 or error.status >= 500,
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


class Thread:
    """Owns an agent's conversation, which is `kept` on disk where the provider has a shelf."""

    def __init__(self, request: SessionRequest, kept: KeptThread | None = None) -> None:
        self._agent = request.name
        self._system = request.system_prompt
        self.kept = kept or KeptThread()

    def hear(self, context: AssembledContext) -> None:
        """Take in what a turn begins with: a rebuilt history, a prompt."""
        current, kept = context.current_message, self.kept
        for message in (*context.history, *((current,) if current is not None else ())):
            kept.texts.append(message.content)
            if message.role == "user":
                kept.prompts.append(message.content)
        kept.texts += image_words(context.images)
        if current is not None:
            kept.prompt_ids.append(current.id)
            kept.unanswered.append(current.id)

    def respond(self, reply: Reply) -> None:
        """Take in that the model answers all that it was told."""
        self.kept.response = KeptResponse(
            lane=reply.lane or "",
            step=reply.place,
            number=reply.number,
            say=reply.step.say,
            calls=tuple(
                (call_id, dict(call.arguments))
                for call, call_id in zip(reply.step.calls, reply.call_ids, strict=True)
            ),
            answers=tuple(self.kept.unanswered),
            outcomes={},
        )
        self.kept.unanswered.clear()

    def learn(self, call_id: str, tool: str, answer: Outcome) -> None:
        """Add the answer to a call."""
        kept = self.kept
        kept.texts.append(answer.text)
        kept.outputs.append((call_id, tool, answer.text))
        kept.unanswered.append(call_id)
        if kept.response is not None and any(call_id == one for one, _ in kept.response.calls):
            kept.response.outcomes[call_id] = answer

    @property
    def held(self) -> frozenset[str]:
        """Ids of the prompts, and of the calls with their answers, that the thread holds."""
        calls = (call_id for call_id, _, _ in self.kept.outputs)
        return frozenset((*self.kept.prompt_ids, *calls))

    def conversation(self) -> Conversation:
        """Return what the next request says."""
        return Conversation(
            user=tuple(self.kept.prompts),
            system=(self._system,),
            outputs=tuple(self.kept.outputs),
            text="\n".join((self._system, *self.kept.texts)),
            agent=self._agent,
        )


class EventStream:
    """One turn's events, in lock step; its end comes once, whoever brings it about."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[ProviderEvent | Exception] = asyncio.Queue(_ROOM)
        self._has_ended = False

    async def tell(self, event: ProviderEvent) -> None:
        """Return once the reader has taken the event and come back for the next one."""
        await self._events.put(event)
        await self._events.join()

    def end(self, how: TurnEnded | Exception) -> None:
        """End the stream, or make it raise; what was not read yet is dropped."""
        if self._has_ended:
            return
        self._has_ended = True
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(how)

    async def read(self) -> AsyncIterator[ProviderEvent]:
        """Yield the events up to the end."""
        while True:
            event = await self._events.get()
            if isinstance(event, Exception):
                raise event
            yield event
            if isinstance(event, TurnEnded):
                return
            self._events.task_done()


class GoingOn:
    """A turn that goes on."""

    def __init__(self, carried: Carried) -> None:
        self._calls = {call.call_id: call for call in carried.calls}
        self.ids = frozenset((*carried.prompts, *self._calls))
        heard = {call.call_id for call in carried.calls if call.heard}
        self._unheard = self.ids - heard - carried.heard

    def knows(self, response: KeptResponse) -> bool:
        """Whether the ledger has heard of a response: by a call, or since what it answers is old.

        In doubt it has not: what is said twice does no harm, and what is never said does.
        """
        if any(call_id in self._calls for call_id, _ in response.calls):
            return True
        return bool(response.answers) and self._unheard.isdisjoint(response.answers)

    def answer(self, call_id: str) -> Outcome | None:
        """Return what became of a call; None where the ledger never saw it."""
        call = self._calls.get(call_id)
        if call is None:
            return None
        if not call.orchestration:
            return _vendors_answer(call)
        # Without an outcome it is made again, and the engine knows what it has done.
        return None if call.outcome is None else given(call.outcome)


def _vendors_answer(call: CarriedCall) -> Outcome:
    """Return how a command ended; whatever of it was seen is in the thread before the ledger."""
    status = "failed" if call.outcome is None or call.outcome.is_error else "completed"
    return _outcome(status, reason=_UNSEEN if call.outcome is None else call.outcome.text)


def reply_of(response: KeptResponse, player: Player) -> Reply | None:
    """Return a response as it was given; None where the scenario is another one by now."""
    step = player.step_at(response.lane, response.step)
    if step is None or len(step.calls) != len(response.calls):
        return None
    calls = tuple(
        replace(call, arguments=arguments)
        for call, (_, arguments) in zip(step.calls, response.calls, strict=True)
    )
    return Reply(
        step=replace(step, calls=calls, say=response.say),
        number=response.number,
        lane=response.lane,
        place=response.step,
        call_ids=tuple(call_id for call_id, _ in response.calls),
    )


def unanswered(reply: Reply, response: KeptResponse) -> tuple[tuple[str, Call], ...]:
    """Return those calls of a response that have no answer yet, by their ids."""
    made = zip(reply.call_ids, reply.step.calls, strict=True)
    return tuple((call_id, call) for call_id, call in made if call_id not in response.outcomes)


def _outcome(
    status: str, *, result: str | None = None, reason: str | None = None, **data: Any
) -> Outcome:
    told = {"status": status, **({"reason": reason} if reason is not None else {}), **data}
    text, code = json.dumps(told), data.get("exit_code")
    return Outcome(text=text, status=status, result=result, reason=reason, exit_code=code)


class Acts:
    """What one agent can do."""

    def __init__(
        self, request: SessionRequest, host: AgentHost, services: ProviderServices
    ) -> None:
        self._request = request
        self._host = host
        self._services = services

    def started(self, call: Call, call_id: str) -> ToolCallStarted | None:
        """Return the event that announces a native tool; the engine tells of its own."""
        if call.kind == "shell":
            return ToolCallStarted(call_id, "Bash", {"command": call.arguments["cmd"]})
        if call.kind == "edit":
            return ToolCallStarted(call_id, *_edit_call(call))
        return None

    def finished(self, call: Call, call_id: str, outcome: Outcome) -> ToolCallFinished | None:
        """Return the event that ends what `started` announced."""
        if call.kind not in {"shell", "edit"}:
            return None
        status, code = outcome.status, outcome.exit_code
        return ToolCallFinished(call_id, status, outcome.result, outcome.reason, exit_code=code)

    async def carry_out(self, call: Call, call_id: str) -> Outcome:
        """Do what a call says; what goes wrong is its outcome."""
        if call.kind == "shell":
            return await self._shell(str(call.arguments["cmd"]), call_id)
        if call.kind == "edit":
            return await self._edit(call, call_id)
        if call.kind == "ask_user":
            return await self._ask(call.arguments, call_id)
        outcome = await self._host.call_tool(call.tool, call.arguments, call_id=call_id)
        return given(outcome)

    async def _denial(self, tool: str, arguments: Mapping[str, Any], **fields: Any) -> str | None:
        """Ask whether a native tool may run; return why it may not."""
        request = PermissionRequest(
            agent_id=self._request.agent_id,
            tool=tool,
            arguments=arguments,
            cwd=self._request.cwd,
            **fields,
        )
        verdict = await self._host.authorize(request)
        return verdict.reason if isinstance(verdict, Deny) else None

    async def _shell(self, command: str, call_id: str) -> Outcome:
        wanted = {"command": command}
        denial = await self._denial("Bash", wanted, command=command, call_id=call_id)
        if denial is not None:
            return _outcome("denied", reason=denial)
        try:
            return await self._run(command)
        except PrsmError as error:  # no bash, no folder, a line beyond all limits
            return _outcome("failed", reason=error.message)

    async def _run(self, command: str) -> Outcome:
        process = await self._services.start_process(
            (*_BASH, command), name="script command", cwd=self._request.cwd, env=_environment()
        )
        try:
            process.close_stdin()
            stdout = await _read(process)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        code, stderr = await process.wait(), process.stderr_tail
        result = "\n".join(part for part in (stdout, stderr.rstrip("\n")) if part)
        data: dict[str, Any] = {"exit_code": code, "stdout": stdout, "stderr": stderr}
        if code:
            return _outcome("failed", result=result, reason=f"exit code {code}", **data)
        return _outcome("completed", result=result, **data)

    async def _edit(self, call: Call, call_id: str) -> Outcome:
        path = str(call.arguments["path"])
        tool, wanted = _edit_call(call)
        denial = await self._denial(tool, wanted, paths=(path,), call_id=call_id)
        if denial is not None:
            return _outcome("denied", reason=denial)
        file = Path(self._request.cwd, path)
        problem = await asyncio.to_thread(_apply, file, call.arguments)
        if problem is not None:
            return _outcome("failed", reason=f"{path}: {problem}")
        return _outcome("completed", result=f"{path} was changed")

    async def _ask(self, arguments: Mapping[str, Any], call_id: str) -> Outcome:
        question = Question(
            text=str(arguments["question"]),
            options=tuple(str(option) for option in arguments.get("options", ())),
            multiple=bool(arguments.get("multiple", False)),
            call_id=call_id,
        )
        answer = await self._host.ask_user(question)
        return _outcome("completed", choices=list(answer.choices), text=answer.text)


def _environment() -> dict[str, str]:
    """Return a PATH on which the interpreter's own folder comes last: `python3` is always found."""
    folders = (os.environ.get("PATH") or os.defpath, str(Path(sys.executable).parent))
    return {"PATH": os.pathsep.join(folders)}


async def _read(process: Process) -> str:
    """Return the first 64 KiB of stdout; the rest is read and dropped."""
    kept: list[bytes] = []
    size = 0
    async for line in process.lines():
        if size < OUTPUT_LIMIT:
            kept.append(line[: OUTPUT_LIMIT - size])
            size += len(line) + 1
    return b"\n".join(kept).decode(errors="replace")


def _edit_call(call: Call) -> tuple[str, dict[str, Any]]:
    """Return the native tool of an edit, and its arguments."""
    names = {"path": "file_path", "old": "old_string", "new": "new_string", "content": "content"}
    arguments = {names[key]: value for key, value in call.arguments.items()}
    return ("Write" if "content" in arguments else "Edit"), arguments


def _apply(file: Path, arguments: Mapping[str, Any]) -> str | None:
    """Write or change a file; return what stands in the way."""
    try:
        if "content" in arguments:
            is_new = not file.exists()
            file.write_text(str(arguments["content"]), encoding="utf-8")
            if is_new:
                file.chmod(0o644)  # the engine's umask is private, the user's files are not
            return None
        text, old = file.read_text(encoding="utf-8"), str(arguments["old"])
        if text.count(old) != 1:
            return f"{text.count(old)} places read {old!r}, one is needed"
        file.write_text(text.replace(old, str(arguments["new"])), encoding="utf-8")
    except (OSError, UnicodeError) as error:
        return str(error)
    return None
