"""The live stream of one agent, and of a run with its result: for who embeds PRSM in something.

They use an AppHandle and nothing else: so they are the same over an engine in this process and over
one in another, and a session that nobody streams pays nothing. What is streamed and what is kept
have no part in each other: a stream that is left, lost or late changes nothing in the ledger.

The events of a session are for whoever shows all of it. A stream is for whoever has one agent speak
in a chat or a pipe. The text of a message comes in the pieces in which its provider told it, but
for a last word that may be the beginning of a secret: it comes with the next piece. All of them
together are the message: what a slow reader has lost comes with its last piece, and so does the
whole message of a provider that tells no pieces.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from prsm_core import AgentState, ConfigError, MessageRoutingError
from prsm_core.kit import first_line

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from prsm_core import AppHandle, Event, RunHandle, RunResult
    from prsm_core.door import AgentNode, View

    Told = Iterator["StreamEvent | AgentPhase"]

_COMPACTION = {"compaction_started": True, "compaction_finished": False}
_CLOSED = "the session was closed"


class StreamCallbacks(Struct, frozen=True, kw_only=True):
    """What is called while an agent works, each with what it is about; None is not called.

    They are called in the order of what they tell, in the event loop: one that takes long holds up
    the program, and what it raises ends the stream and is raised where the stream was opened.
    """

    on_partial_reply: Callable[[Token], object] | None = None
    on_reasoning_stream: Callable[[Reasoning], object] | None = None
    on_tool_result: Callable[[ToolStatus], object] | None = None
    on_agent_event: Callable[[AgentPhase], object] | None = None

    def call(self, told: StreamEvent | AgentPhase) -> None:
        """Call the one that this is for."""
        by_kind: Mapping[type, Callable[[Any], object] | None] = {
            Token: self.on_partial_reply,
            Reasoning: self.on_reasoning_stream,
            ToolStatus: self.on_tool_result,
            AgentPhase: self.on_agent_event,
        }
        callback = by_kind.get(type(told))
        if callback is not None:
            callback(told)


class AgentStream:
    """The handle of one agent's stream; `open_stream` and `open_execution` give it.

    Nothing is told before whoever opened it has had time to call `on_event`.
    """

    def __init__(
        self,
        app: AppHandle,
        fold: StreamFold,
        callbacks: StreamCallbacks,
        abort: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Use `open_stream`."""
        self._app = app
        self._fold = fold
        self._callbacks = [callbacks.call]
        self._abort = abort or self._kill
        self._end: asyncio.Future[StreamEnd | StreamError | None]  # None: it was left before
        self._end = asyncio.get_running_loop().create_future()

    def on_event(self, callback: Callable[[StreamEvent], object]) -> None:
        """Call this for every StreamEvent from now on, as StreamCallbacks are called."""

        def call(told: StreamEvent | AgentPhase) -> None:
            if isinstance(told, StreamEvent):
                callback(told)

        self._callbacks.append(call)

    async def abort(self) -> bool:
        """End the agent and all below it, or the run; False when that has ended already."""
        return await self._abort()

    async def steer(self, message: str) -> bool:
        """Tell the running turn something; whether it took that.

        What it did not take the agent reads at its next wait or turn: it is never lost. Raises
        MessageRoutingError (code `agent_ended`) where nobody would.
        """
        return await self._app.agents.prompt(self._who, message, "inject") == "injected"

    def is_streaming(self) -> bool:
        """Whether a turn of the agent runs."""
        return self._fold.is_streaming

    def is_compacting(self) -> bool:
        """Whether the agent's conversation is being summarised."""
        return self._fold.is_compacting

    async def ended(self) -> StreamEnd | StreamError:
        """Return the final event of the stream, once that was told.

        Raises ConfigError (code `stream_left`) where the stream was left before it came.
        """
        end = await asyncio.shield(self._end)
        if end is None:
            raise ConfigError("the stream was left before its end", code="stream_left")
        return end

    @property
    def _who(self) -> str:
        if self._fold.agent is None:
            raise MessageRoutingError("the run has no agent yet", code="unknown_agent")
        return self._fold.agent

    async def _kill(self) -> bool:
        try:
            return bool(await self._app.agents.kill(self._who))
        except MessageRoutingError:  # it was there when the stream began: so it has ended
            return False

    async def _follow(self, after: int, first: Iterable[StreamEvent | AgentPhase]) -> None:
        """Tell the stream to its end."""
        self._tell(first)
        async with aclosing(self._app.events(after)) as events:  # type: ignore[type-var]
            async for event in events:
                self._tell(self._fold.read(event))
                if self._fold.end is not None:
                    break
        self._tell(self._fold.close(_CLOSED))
        self._end.set_result(self._fold.end)

    def _leave(self) -> None:
        if not self._end.done():
            self._end.set_result(None)

    def _tell(self, told: Iterable[StreamEvent | AgentPhase]) -> None:
        for one in told:
            for call in self._callbacks:
                call(one)


class Execution(Struct, frozen=True):
    """A run while it is being done: the stream of its master, and how it ends."""

    stream: AgentStream
    run: RunHandle

    async def result(self) -> RunResult:
        """Return how the run has ended, once all of its stream was told."""
        result = await self.run.result()
        await self.stream.ended()
        return result


@asynccontextmanager
async def open_stream(
    app: AppHandle, agent: str, callbacks: StreamCallbacks | None = None
) -> AsyncIterator[AgentStream]:
    """Follow an agent of this name or id from now on; what it says just now is told from its start.

    Leaving the context ends nothing but the stream. Raises MessageRoutingError: there is no such
    agent, or it has ended (code `agent_ended`).
    """
    view = await app.view()
    node = _find(view, agent)
    fold = StreamFold(node.id, None if view.run is None else view.run.id)
    fold.is_compacting = await _is_compacting(app, view, fold.agent or "")
    stream = AgentStream(app, fold, callbacks or StreamCallbacks())
    async with _following(stream, view.seq, fold.join(view, node)):
        yield stream


@asynccontextmanager
async def open_execution(
    app: AppHandle, task: str, callbacks: StreamCallbacks | None = None, **overrides: Any
) -> AsyncIterator[Execution]:
    """Start a run of a task and follow its master; `abort` of its stream interrupts the run.

    Leaving the context ends the stream, and not the run. Raises what `Runs.start` raises.
    """
    after = (await app.view()).seq
    run = await app.runs.start(task, **overrides)
    fold = StreamFold(None, run.run_id)
    stream = AgentStream(app, fold, callbacks or StreamCallbacks(), app.runs.interrupt)
    async with _following(stream, after, ()):
        yield Execution(stream, run)


@asynccontextmanager
async def _following(
    stream: AgentStream, after: int, first: Iterable[StreamEvent | AgentPhase]
) -> AsyncIterator[None]:
    """Follow a stream in a task of its own until the context is left."""
    try:
        async with asyncio.TaskGroup() as group:
            following = group.create_task(stream._follow(after, first), name="stream")
            try:
                yield
            finally:
                following.cancel()
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) > 1:
            raise
        raise errors.exceptions[0] from None  # as it would be without a task
    finally:
        stream._leave()


def _find(view: View, agent: str) -> AgentNode:
    """Return an agent's node in a picture; the newest one of a name."""
    node = view.tree.find(agent)
    if AgentState(node.state).is_terminal:
        raise MessageRoutingError(
            f"{node.name} has ended", hint="read what it said: history", code="agent_ended"
        )
    return node


async def _is_compacting(app: AppHandle, view: View, agent: str) -> bool:
    """Return whether a conversation was being summarised when a picture was taken.

    That is between two turns. It began behind all that the agent has said and heard.
    """
    if any(turn.agent == agent for turn in view.turns):
        return False
    page = await app.agents.history(agent, "summary", limit=1)
    after, is_compacting = (page[-1].seq if page else 0), False
    if after >= view.seq:
        return False
    async with aclosing(app.events(after)) as events:  # type: ignore[type-var]
        async for event in events:
            if event.agent == agent and event.type in _COMPACTION:
                is_compacting = _COMPACTION[event.type]
            if event.seq is not None and event.seq >= view.seq:
                break
    return is_compacting


SUMMARY = 200  # characters of what a call has given
_KINDS = {"thinking_delta": "thinking", "text_delta": "text"}


class StreamFold:
    """Tells the stream of one agent from the events of its session.

    Of a run's master nobody knows the name before it is spawned: `agent` is None until then.
    """

    def __init__(self, agent: str | None, run: str | None) -> None:
        """Know whose stream it is: an agent's id, or None for the master of a run to come."""
        self.agent = agent
        self.end: StreamEnd | StreamError | None = None  # the final one
        self.is_compacting = False
        self._run = run
        self._turn: str | None = None  # that runs
        self._aside: str | None = None  # the turn in which a conversation was summarised
        self._message = 1
        self._said = {"text": "", "thinking": ""}  # what was told of that message
        self._lost: set[str] = set()  # the texts of it of which a piece is missing
        self._is_partial = False
        self._over: Mapping[str, Any] | None = None  # a turn whose end is not told yet
        self._state: Mapping[str, Any] | None = None  # that the agent has ended in
        self._tools: dict[str, str] = {}  # of the calls that run
        self._phase = ""

    @property
    def is_streaming(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None

    def join(self, view: View, node: AgentNode) -> Sequence[Any]:
        """Return what tells where a picture found the agent: in a turn, or in none."""
        for turn in view.turns:
            if turn.agent == self.agent:
                self._tools = {call.call: call.tool for call in node.open_tools or ()}
                told = tuple(self._begin(view.session, turn.turn, turn.n, None))
                self._message = min([each.message for each in turn.unwritten], default=turn.message)
                return told
        return ()

    def read(self, event: Event) -> Told:
        """Tell what an event of the session means for the stream."""
        if self.end is not None:
            return
        if event.type == "run_finished" and self._run in {None, event.run}:
            is_cut_off = event.data["status"] in {"interrupted", "killed"}
            yield from self._settle(final=True, reason="aborted" if is_cut_off else None)
        elif self.agent is None:
            if _is_master(event, self._run):
                self.agent = event.agent
        elif event.agent == self.agent and (tell := _TELLING.get(event.type)) is not None:
            yield from tell(self, event)

    def close(self, error: str) -> Told:
        """Tell that no more events come."""
        if self.end is None:
            self._over, self._state = None, {"to": AgentState.FAILED, "reason": error}
            yield from self._settle(final=True)

    def _enter(self, phase: str, at: float | None) -> Told:
        if phase != self._phase:
            self._phase = phase
            yield AgentPhase(phase=phase, at=at)

    def _turn_started(self, event: Event) -> Told:
        if self.is_compacting:
            self._aside = event.data["turn"]
            return
        yield from self._settle(final=False)
        yield from self._begin(event.session, event.data["turn"], event.data["n"], event.ts)

    def _begin(self, session: str, turn: str, number: int, at: float | None) -> Told:
        self._turn, self._message, self._is_partial = turn, 1, False
        self._next_message(1)
        yield from self._enter("start", at)
        agent = self.agent or ""
        yield StreamStart(session=session, run=self._run, agent=agent, turn=turn, n=number)

    def _next_message(self, number: int) -> None:
        self._message = number
        self._said = dict.fromkeys(self._said, "")
        self._lost.clear()

    def _piece(self, event: Event) -> Told:
        data, kind = event.data, _KINDS[event.type]
        said = self._said[kind]
        if (data["turn"], data["message"]) != (self._turn, self._message) or kind in self._lost:
            return
        if data["at"] > len(said):
            self._lost.add(kind)  # the rest comes with the whole message, in its order
        elif new := data["text"][len(said) - data["at"] :]:
            yield from self._say(kind, new, event.ts)

    def _say(self, kind: str, text: str, at: float) -> Told:
        self._said[kind] += text
        self._is_partial = True
        yield from self._enter("streaming", at)
        told = Token if kind == "text" else Reasoning
        yield told(text=text, message=self._message)

    def _message_completed(self, event: Event) -> Told:
        data = event.data
        if data["role"] != "assistant" or data["turn"] != self._turn:
            return
        if data["message"] < self._message:  # of a turn that was joined later
            return
        if data["message"] > self._message:
            self._next_message(data["message"])
        for kind, said in list(self._said.items())[::-1]:
            whole = data.get(kind) or ""
            if len(whole) > len(said) and (kind in self._lost or whole.startswith(said)):
                yield from self._say(kind, whole[len(said) :], event.ts)
        self._next_message(data["message"] + 1)

    def _tool_started(self, event: Event) -> Told:
        call, tool = event.data["call"], event.data["tool"]
        self._tools[call] = tool
        yield from self._enter("tool_use", event.ts)
        yield ToolStatus(call=call, tool=tool, status="started")

    def _tool_finished(self, event: Event) -> Told:
        data = event.data
        status = data["status"] if data["status"] in {"completed", "unknown"} else "failed"
        told = data.get("error") or data.get("result")
        yield ToolStatus(
            call=data["call"],
            tool=self._tools.pop(data["call"], ""),
            status=status,
            summary=first_line(str(told), SUMMARY) if told else None,
        )

    def _turn_finished(self, event: Event) -> Told:
        if event.data["turn"] == self._aside:
            return
        self._turn, self._over = None, event.data
        self._tools.clear()
        yield from self._enter("end", event.ts)
        if self._state is not None:
            yield from self._settle(final=True)

    def _state_changed(self, event: Event) -> Told:
        if not AgentState(event.data["to"]).is_terminal:
            yield from self._settle(final=False)
            return
        self._state = event.data
        if self._turn is None:  # else the end of the turn comes behind it
            yield from self._settle(final=True)

    def _retried(self, _event: Event) -> Told:
        yield from self._settle(final=False)

    def _compaction_started(self, event: Event) -> Told:
        yield from self._settle(final=False)
        self.is_compacting = True
        yield from self._enter("compaction_start", event.ts)

    def _compaction_finished(self, event: Event) -> Told:
        self.is_compacting = False
        yield from self._enter("compaction_end", event.ts)

    def _settle(self, *, final: bool, reason: str | None = None) -> Told:
        """Tell how a turn has ended, once it is known whether the agent has ended with it."""
        if self._over is None and not final:
            return
        over, self._over = self._over or {"turn": self._turn}, None
        state = self._state or {}
        failed = state.get("reason") if state.get("to") == AgentState.FAILED else None
        error = (over.get("error") or {}).get("message") or failed
        reason = over.get("stop_reason") or reason
        if final and state.get("to") == AgentState.KILLED:
            reason = "aborted"
        told: StreamEnd | StreamError
        if error:
            told = StreamError(
                turn=over["turn"], error=error, partial=self._is_partial, final=final
            )
        else:
            told = StreamEnd(turn=over["turn"], stop_reason=reason, final=final)
        self._is_partial = False
        if final:
            self.end, self._turn, self.is_compacting = told, None, False
        yield told


_TELLING: Mapping[str, Callable[[StreamFold, Event], Told]] = {
    "turn_started": StreamFold._turn_started,
    "text_delta": StreamFold._piece,
    "thinking_delta": StreamFold._piece,
    "message_completed": StreamFold._message_completed,
    "tool_call_started": StreamFold._tool_started,
    "tool_call_finished": StreamFold._tool_finished,
    "turn_finished": StreamFold._turn_finished,
    "agent_state_changed": StreamFold._state_changed,
    "retry_scheduled": StreamFold._retried,
    "compaction_started": StreamFold._compaction_started,
    "compaction_finished": StreamFold._compaction_finished,
}


def _is_master(event: Event, run: str | None) -> bool:
    """Return whether an event tells of the master of a run that has just been spawned."""
    return event.type == "agent_spawned" and event.run == run and event.data["parent"] is None


class StreamEvent(Struct, frozen=True, kw_only=True):
    """One thing that an agent does; `type` is what it is called on the wire."""

    type: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values: its type, then its fields."""
        return {"type": self.type, **asdict(self)}


class StreamStart(StreamEvent, frozen=True, kw_only=True):
    """A turn has begun, the agent's `n`th."""

    type = "stream_start"
    session: str
    run: str | None
    agent: str
    turn: str
    n: int


class Token(StreamEvent, frozen=True, kw_only=True):
    """A piece of the `message`th message of the turn, as its provider told it."""

    type = "token"
    text: str
    message: int


class Reasoning(StreamEvent, frozen=True, kw_only=True):
    """A piece of what the model thinks for a message."""

    type = "reasoning"
    text: str
    message: int


class ToolStatus(StreamEvent, frozen=True, kw_only=True):
    """A call has begun or ended: started | completed | failed | unknown.

    One that was denied has failed. Of one that is unknown nobody told how it ended.
    """

    type = "tool_status"
    call: str
    tool: str
    status: str
    summary: str | None = None  # the first line of what it gave, or why it failed


class StreamEnd(StreamEvent, frozen=True, kw_only=True):
    """A turn is over, or the agent has ended between two; nothing comes behind a `final` one."""

    type = "stream_end"
    turn: str | None
    stop_reason: str | None
    final: bool


class StreamError(StreamEvent, frozen=True, kw_only=True):
    """A turn or the agent has failed. `partial`: some text of the turn was told before.

    One that is not `final` is followed by another try, or by whatever the agent does next.
    """

    type = "stream_error"
    turn: str | None
    error: str
    partial: bool
    final: bool


class AgentPhase(Struct, frozen=True, kw_only=True):
    """What an agent is at from now on.

    `phase` is start, streaming, tool_use, compaction_start, compaction_end or end (of a turn).
    """

    phase: str
    at: float | None  # Unix seconds; None where it began before the stream did
