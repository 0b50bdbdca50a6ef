"""The live stream of one agent, and of a run with its result: for who embeds PRSM in something.

They use an AppHandle and nothing else: so they are the same over an engine in this process and over
one in another, and a session that nobody streams pays nothing. What is streamed and what is kept
have no part in each other: a stream that is left, lost or late changes nothing in the ledger.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError, MessageRoutingError
from prsm_core.kit.stream_events import (
    AgentPhase,
    Reasoning,
    StreamEvent,
    Token,
    ToolStatus,
)
from prsm_core.kit.stream_fold import StreamFold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping

    from prsm_core.interfaces.frontend import AppHandle, RunHandle, RunResult
    from prsm_core.kit.stream_events import StreamEnd, StreamError

_COMPACTION = {"compaction_started": True, "compaction_finished": False}
_CLOSED = "the session was closed"


class StreamCallbacks(Record, frozen=True, kw_only=True):
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
        return await self._app.prompt_agent(self._who, message, "inject") == "injected"

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
            return bool(await self._app.kill(self._who))
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


class Execution(Record, frozen=True):
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
    fold = StreamFold(node["id"], None if view["run"] is None else view["run"]["id"])
    fold.is_compacting = await _is_compacting(app, view, fold.agent or "")
    stream = AgentStream(app, fold, callbacks or StreamCallbacks())
    async with _following(stream, view["seq"], fold.join(view, node)):
        yield stream


@asynccontextmanager
async def open_execution(
    app: AppHandle, task: str, callbacks: StreamCallbacks | None = None, **overrides: Any
) -> AsyncIterator[Execution]:
    """Start a run of a task and follow its master; `abort` of its stream interrupts the run.

    Leaving the context ends the stream, and not the run. Raises what `AppHandle.start_run` raises.
    """
    after = (await app.view())["seq"]
    run = await app.start_run(task, **overrides)
    fold = StreamFold(None, run.run_id)
    stream = AgentStream(app, fold, callbacks or StreamCallbacks(), app.interrupt_run)
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


def _find(view: Mapping[str, Any], agent: str) -> Mapping[str, Any]:
    """Return an agent's node in a picture; the newest one of a name."""
    nodes = list(_nodes(view["tree"]["agents"]))
    found = [node for node in nodes if agent in {node["id"], node["name"]}]
    if not found:
        raise MessageRoutingError(f"no agent is called {agent!r}", code="unknown_agent")
    node = found[-1]
    if AgentState(node["state"]).is_terminal:
        raise MessageRoutingError(
            f"{node['name']} has ended", hint="read what it said: history", code="agent_ended"
        )
    return node


def _nodes(nodes: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for node in nodes:
        yield node
        yield from _nodes(node["children"])


async def _is_compacting(app: AppHandle, view: Mapping[str, Any], agent: str) -> bool:
    """Return whether a conversation was being summarised when a picture was taken.

    That is between two turns. It began behind all that the agent has said and heard.
    """
    if any(turn["agent"] == agent for turn in view["turns"]):
        return False
    page = await app.history(agent, "summary", limit=1)
    after, is_compacting = (page[-1]["seq"] if page else 0), False
    if after >= view["seq"]:
        return False
    async with aclosing(app.events(after)) as events:  # type: ignore[type-var]
        async for event in events:
            if event.agent == agent and event.type in _COMPACTION:
                is_compacting = _COMPACTION[event.type]
            if event.seq is not None and event.seq >= view["seq"]:
                break
    return is_compacting
