"""The live stream of one agent, and of a run with its result, for programs that embed PRSM.

A stream needs an AppHandle and nothing else: it is the same over an engine in this process and over
one in another. A stream that is left, lost or late changes nothing in the ledger.

The text of a message comes in the pieces in which its provider told it. All of them together are
the message: what a slow reader has lost comes with the last piece, and so does the whole message of
a provider that tells none. A last word that may begin a secret comes with the next piece.
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
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from prsm_core import AppHandle, Event, RunHandle, RunResult
    from prsm_core.door import AgentNode, View

    Told = Iterable["StreamEvent | AgentPhase"]

SUMMARY = 200  # characters of what a call has given
_COMPACTION = {"compaction_started": True, "compaction_finished": False}
_CLOSED = "the session was closed"
_KINDS = {"thinking_delta": "thinking", "text_delta": "text"}


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

    A denied call has failed. An unknown one is a call whose end nobody told. `summary` is the
    first line of its result or error.
    """

    type = "tool_status"
    call: str
    tool: str
    status: str
    summary: str | None = None


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

    `phase` is start, streaming, tool_use, compaction_start, compaction_end or end (of a turn). `at`
    is in Unix seconds, None where the phase began before the stream did.
    """

    phase: str
    at: float | None


class StreamCallbacks(Struct, frozen=True, kw_only=True):
    """What is called while an agent works, in the order of what happens; None is not called.

    Callbacks run in the event loop: a slow one holds up the program. What one raises ends the
    stream and is raised where the stream was opened.
    """

    on_partial_reply: Callable[[Token], object] | None = None
    on_reasoning_stream: Callable[[Reasoning], object] | None = None
    on_tool_result: Callable[[ToolStatus], object] | None = None
    on_agent_event: Callable[[AgentPhase], object] | None = None


class AgentStream:
    """The handle of one agent's stream; `open_stream` and `open_execution` give it.

    Nothing is told before the opener has had time to call `on_event`.
    """

    def __init__(
        self,
        app: AppHandle,
        fold: StreamFold,
        callbacks: StreamCallbacks | None,
        abort: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Use `open_stream`."""
        self._app = app
        self._fold = fold
        on = callbacks or StreamCallbacks()
        self._callbacks: list[tuple[type, Callable[[Any], object] | None]] = [
            (Token, on.on_partial_reply),
            (Reasoning, on.on_reasoning_stream),
            (ToolStatus, on.on_tool_result),
            (AgentPhase, on.on_agent_event),
        ]
        self._abort = abort or self._kill
        # None: the stream was left before its end.
        self._end: asyncio.Future[StreamEnd | StreamError | None]
        self._end = asyncio.get_running_loop().create_future()

    def on_event(self, callback: Callable[[StreamEvent], object]) -> None:
        """Call this for every StreamEvent from now on, as StreamCallbacks are called."""
        self._callbacks.append((StreamEvent, callback))

    async def abort(self) -> bool:
        """End the agent and all below it, or the run; False when that has ended already."""
        return await self._abort()

    async def steer(self, message: str) -> bool:
        """Tell the running turn something; return whether the turn took it.

        What it did not take the agent reads at its next wait or turn: it is never lost. Raises
        MessageRoutingError (code `agent_ended`) where nobody would.
        """
        return await self._app.agents.prompt(self._agent, message, "inject") == "injected"

    def is_streaming(self) -> bool:
        """Whether a turn of the agent runs."""
        return self._fold.is_streaming

    def is_compacting(self) -> bool:
        """Whether the agent's conversation is being summarised."""
        return self._fold.is_compacting

    async def ended(self) -> StreamEnd | StreamError:
        """Return the final event, once told. Raises ConfigError (`stream_left`) if left before."""
        end = await asyncio.shield(self._end)
        if end is None:
            raise ConfigError("the stream was left before its end", code="stream_left")
        return end

    @property
    def _agent(self) -> str:
        if self._fold.agent is None:
            raise MessageRoutingError("the run has no agent yet", code="unknown_agent")
        return self._fold.agent

    async def _kill(self) -> bool:
        try:
            return bool(await self._app.agents.kill(self._agent))
        except MessageRoutingError:  # it was there when the stream began: so it has ended
            return False

    @asynccontextmanager
    async def _following(self, after: int, first: Told) -> AsyncIterator[None]:
        """Follow the agent in a task of its own until the context is left."""
        try:
            async with asyncio.TaskGroup() as group:
                following = group.create_task(self._follow(after, first), name="stream")
                try:
                    yield
                finally:
                    following.cancel()
        except BaseExceptionGroup as errors:
            if len(errors.exceptions) > 1:
                raise
            raise errors.exceptions[0] from None  # as it would be without a task
        finally:
            if not self._end.done():
                self._end.set_result(None)

    async def _follow(self, after: int, first: Told) -> None:
        self._tell(first)
        async with aclosing(self._app.events(after)) as events:  # type: ignore[type-var]
            async for event in events:
                self._tell(self._fold.read(event))
                if self._fold.end is not None:
                    break
        self._tell(self._fold.close(_CLOSED))
        self._end.set_result(self._fold.end)

    def _tell(self, told: Told) -> None:
        for item in told:
            for kind, callback in self._callbacks:
                if callback is not None and isinstance(item, kind):
                    callback(item)


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
    node = view.tree.find(agent)
    if AgentState(node.state).is_terminal:
        hint = "read what it said: history"
        raise MessageRoutingError(f"{node.name} has ended", hint=hint, code="agent_ended")
    fold = StreamFold(node.id, None if view.run is None else view.run.id)
    fold.is_compacting = await _is_compacting(app, view, node.id)
    stream = AgentStream(app, fold, callbacks)
    async with stream._following(view.seq, tuple(fold.join(view, node))):
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
    stream = AgentStream(app, StreamFold(None, run.run_id), callbacks, app.runs.interrupt)
    async with stream._following(after, ()):
        yield Execution(stream, run)


async def _is_compacting(app: AppHandle, view: View, agent: str) -> bool:
    """Return whether a conversation was being summarised when a picture was taken."""
    # That is between two turns. It began behind all that the agent has said and heard.
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


class StreamFold:
    """Tells the stream of one agent from the events of its session.

    `agent` is an id, or None for the master of a run to come until that is spawned.
    """

    def __init__(self, agent: str | None, run: str | None) -> None:
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
        self._state: Mapping[str, Any] = {}  # that the agent has ended in
        self._tools: dict[str, str] = {}  # of the calls that run
        self._phase = ""

    @property
    def is_streaming(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None

    def join(self, view: View, node: AgentNode) -> Told:
        """Tell where a picture found the agent, if it was in a turn."""
        for turn in view.turns:
            if turn.agent == self.agent:
                self._tools = {call.call: call.tool for call in node.open_tools or ()}
                yield from self._begin(view.session, turn.turn, turn.n, None)
                self._message = min([each.message for each in turn.unwritten], default=turn.message)

    def read(self, event: Event) -> Told:
        """Tell what an event of the session means for the stream."""
        if self.end is not None:
            return
        if event.type == "run_finished" and self._run in {None, event.run}:
            is_cut_off = event.data["status"] in {"interrupted", "killed"}
            yield from self._settle(final=True, reason="aborted" if is_cut_off else None)
        elif self.agent is None:
            is_of_run = event.type == "agent_spawned" and event.run == self._run
            if is_of_run and event.data["parent"] is None:
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
        self._turn, self._is_partial = turn, False
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
        piece = Token if kind == "text" else Reasoning
        yield piece(text=text, message=self._message)

    def _message_completed(self, event: Event) -> Told:
        data = event.data
        number = data["message"]
        if data["role"] != "assistant" or data["turn"] != self._turn or number < self._message:
            return  # a smaller number: of a turn that was joined later
        if number > self._message:
            self._next_message(number)
        for kind in _KINDS.values():
            said, whole = self._said[kind], data.get(kind) or ""
            if len(whole) > len(said) and (kind in self._lost or whole.startswith(said)):
                yield from self._say(kind, whole[len(said) :], event.ts)
        self._next_message(number + 1)

    def _tool_started(self, event: Event) -> Told:
        call, tool = event.data["call"], event.data["tool"]
        self._tools[call] = tool
        yield from self._enter("tool_use", event.ts)
        yield ToolStatus(call=call, tool=tool, status="started")

    def _tool_finished(self, event: Event) -> Told:
        data = event.data
        status = data["status"] if data["status"] in {"completed", "unknown"} else "failed"
        text = data.get("error") or data.get("result")
        summary = first_line(str(text), SUMMARY) if text else None
        tool = self._tools.pop(data["call"], "")
        yield ToolStatus(call=data["call"], tool=tool, status=status, summary=summary)

    def _turn_finished(self, event: Event) -> Told:
        if event.data["turn"] == self._aside:
            return
        self._turn, self._over = None, event.data
        self._tools.clear()
        yield from self._enter("end", event.ts)
        if self._state:
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
        turn, ends_as = over["turn"], self._state.get("to")
        failed = self._state.get("reason") if ends_as == AgentState.FAILED else None
        end: StreamEnd | StreamError
        if error := (over.get("error") or {}).get("message") or failed:
            end = StreamError(turn=turn, error=error, partial=self._is_partial, final=final)
        else:
            is_killed = final and ends_as == AgentState.KILLED
            reason = "aborted" if is_killed else over.get("stop_reason") or reason
            end = StreamEnd(turn=turn, stop_reason=reason, final=final)
        self._is_partial = False
        if final:
            self.end, self._turn, self.is_compacting = end, None, False
        yield end


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
