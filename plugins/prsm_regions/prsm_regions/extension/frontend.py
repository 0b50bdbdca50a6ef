"""The frontend `extension`: an editor leads a run by lines of JSON on stdin and stdout.

One run at a time, in a session of its own; the editor is the person of the run. At the end of stdin
what runs is interrupted and can go on by `prsm resume`. `cancel` ends it for good.

Each agent's feed has a port on loopback. A client sends the token as its first line and gets the
feed, from a `snapshot` to the end of the agent's work. A slow reader gets fewer and newer messages:
what is not sent yet is merged, so that it never holds more than the feed itself.

Everything is read from events and labels, so that it is the same for a run that goes on after a
crash. What a child of a subtask's agent uses counts for it: labels are inherited.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core import Answer, HubFrontend, PrsmError, Spent
from prsm_core.kit import take_stdio
from prsm_regions.extension.messages import (
    LINE_LIMIT,
    Approve,
    Cancel,
    Command,
    Feed,
    Reply,
    Retry,
    Run,
    read_command,
    tokens_of,
    write_message,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping

    from prsm_core import AppHandle, Event, Hub, RunHandle

STATE, SUBTASK, REGION, ROLE = (
    f"regions/{name}" for name in ("state", "subtask", "region", "role")
)
OVER = frozenset({"done", "completed", "cancelled"})  # states in which nothing is at work
PLANNING = "planner"  # whose part all is that no subtask had

HELLO_SECONDS = 10.0  # within which a client says its token
HELLO_LIMIT = 4096  # bytes
MAX_CLIENTS = 8  # of one feed
LEAVE_SECONDS = 5.0  # for which the last messages may take to be read

HINT = 'an editor starts this command; to lead a run yourself: prsm run --provider regions "…"'
BEAT_SECONDS = 5.0  # between two notes that somebody is there
VIA = "extension"

Message = dict[str, Any]

_log = logging.getLogger("prsm.regions")


@dataclass(slots=True)
class Subtask:
    """What is known of one subtask: its newest agent, and what all of its agents used."""

    index: int
    agent: str = ""
    status: str = "pending"
    summary: str = ""


class Reading:
    """A run, as its events tell it: fold them in order, pass on what comes of each.

    Attributes:
        plan: The open request that asks whether the plan is right.
        retry: The open request that asks whether to try again.
        status: Of the run, once it has finished.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.master = ""
        self.state = ""
        self.plan: str | None = None
        self.retry: str | None = None
        self.status = ""
        self._labels: dict[str, Mapping[str, str]] = {}
        self._subtasks: dict[int, Subtask] = {}
        self._used: dict[str, Spent] = {}  # by part: "planner", "subtask 0"

    def fold(self, event: Event) -> list[Message]:
        """Return what the event tells."""
        if event.seq is None or event.run != self.run:
            return []
        agent, data = event.agent or "", event.data
        match event.type:
            case "agent_spawned":
                return self._spawned(agent, data)
            case "agent_labels_changed":
                return self._relabelled(agent, data)
            case "tool_call_started" if data.get("tool") == "task_complete":
                self._note_summary(agent, (data.get("arguments") or {}).get("summary"))
            case "turn_finished":
                used = Spent.from_dict(
                    {**(data.get("usage") or {}), "cost_usd": data.get("cost_usd")}
                )
                part = self._part(agent)
                self._used[part] = self._used.get(part, Spent()) + used
            case "question_asked":
                return [self._asked(event)]
            case "question_answered":
                self.plan = None if data["request"] == self.plan else self.plan
                self.retry = None if data["request"] == self.retry else self.retry
            case "permission_requested":
                names = ("request", "tool", "command", "paths", "reason")
                fields = {name: data.get(name) for name in names}
                return [{"type": "permission", "agent_id": event.agent, **fields}]
            case "run_finished":
                return self._finished(data)
        return []

    def label(self, agent: str, name: str) -> str:
        """Return a label of an agent; empty where it has none."""
        return self._labels.get(agent, {}).get(name, "")

    def works_on(self, agent: str) -> int | None:
        """Return the subtask that this agent was spawned for; None for all others."""
        return next((one.index for one in self._subtasks.values() if one.agent == agent), None)

    def result(self) -> Message:
        """Return how far the run has come: each subtask, and what was used."""
        return {
            "type": "result",
            "status": self.state if self.state in OVER else self.status or self.state,
            "subtask_results": [
                {
                    "subtask_index": one.index,
                    "agent_id": one.agent,
                    "status": one.status,
                    "summary": one.summary,
                    "cost": _cost_of(self._used.get(f"subtask {one.index}", Spent())),
                }
                for _, one in sorted(self._subtasks.items())
            ],
            "cost": {
                "parts": {part: _cost_of(used) for part, used in sorted(self._used.items())},
                **_cost_of(sum(self._used.values(), Spent())),
            },
        }

    def _spawned(self, agent: str, data: Mapping[str, Any]) -> list[Message]:
        self._labels[agent] = dict(data.get("labels") or {})
        if data.get("parent") is None:
            self.master = self.master or agent
        elif data.get("parent") == self.master and (index := self._index(agent)) is not None:
            self._subtasks.setdefault(index, Subtask(index)).agent = agent
            return self._progress(index, self.label(agent, STATE) or "running")
        return []

    def _relabelled(self, agent: str, data: Mapping[str, Any]) -> list[Message]:
        self._labels[agent] = dict(data["labels"])
        if agent == self.master:
            return self._moved(self.label(agent, STATE))
        index = self.works_on(agent)
        return [] if index is None else self._progress(index, self.label(agent, STATE))

    def _moved(self, state: str) -> list[Message]:
        if not state or state == self.state:
            return []
        self.state = state
        return [{"type": "state", "state": state}]

    def _progress(self, index: int, status: str) -> list[Message]:
        one = self._subtasks[index]
        if not status or status == one.status:
            return []
        one.status = status
        what = {"subtask_index": index, "agent_id": one.agent, "status": status}
        return [{"type": "progress", **what}]

    def _note_summary(self, agent: str, summary: object) -> None:
        index = self.works_on(agent)
        if index is not None:
            self._subtasks[index].summary = summary if isinstance(summary, str) else ""

    def _asked(self, event: Event) -> Message:
        data, request = event.data.get("data") or {}, event.data["request"]
        kind = data.get("type") if event.agent == self.master else None
        if kind == "plan":
            self.plan = request
            for index in range(len(data.get("subtasks") or ())):
                self._subtasks.setdefault(index, Subtask(index))
            return {**data, "request": request}
        if kind == "retry":
            self.retry = request
            return self.result()
        return {
            "type": "question",
            "request": request,
            "agent_id": event.agent,
            "question": event.data["question"],
            "options": list(event.data.get("options") or ()),
        }

    def _finished(self, data: Mapping[str, Any]) -> list[Message]:
        self.status = data["status"]
        error = data.get("error")
        text = error.get("message", error) if isinstance(error, dict) else error
        messages: list[Message] = [{"type": "error", "message": str(text)}] if error else []
        if self.status in {"killed", "interrupted"} and self.state not in OVER:
            messages += self._moved("cancelled")
        return messages

    def _index(self, agent: str) -> int | None:
        label = self.label(agent, SUBTASK)
        return int(label) if label.isascii() and label.isdigit() and len(label) < 7 else None

    def _part(self, agent: str) -> str:
        index = self._index(agent)
        return (self.label(agent, ROLE) or PLANNING) if index is None else f"subtask {index}"


def _cost_of(spent: Spent) -> Message:
    return {**tokens_of(spent), "usd": spent.cost_usd}


class Port:
    """One agent's feed and who reads it; `number` is its TCP port on 127.0.0.1."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.token = secrets.token_urlsafe(24)
        self.number = 0
        self._clients: set[_Client] = set()

    def tell(self, messages: Iterable[Message]) -> None:
        """Have all that read the feed told; nobody is waited for."""
        for message in messages:
            for client in self._clients:
                client.take(message)

    def end(self) -> None:
        """Nothing more comes: each client is told the rest, and left."""
        for client in self._clients:
            client.end()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        with closing(writer):
            if len(self._clients) >= MAX_CLIENTS:
                writer.write(_refusal(f"{MAX_CLIENTS} clients read this feed already"))
                return
            client = _Client(self.feed.snapshot)
            self._clients.add(client)
            try:
                if await _has_token(reader, self.token):
                    await _while_open(reader, client.send(writer))
                else:
                    writer.write(_refusal("the first line must be the feed's token"))
            finally:
                self._clients.discard(client)


@asynccontextmanager
async def open_port(feed: Feed, leave_s: float = LEAVE_SECONDS) -> AsyncIterator[Port]:
    """Listen for readers of a feed; on leaving each is told the rest, for `leave_s` seconds."""
    port = Port(feed)
    connections: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = group.create_task(port.serve(reader, writer), name=f"feed of {feed.agent}")
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=HELLO_LIMIT)
        try:
            port.number = server.sockets[0].getsockname()[1]
            yield port
        finally:
            server.close()
            port.end()
            if connections:  # who reads nothing keeps nobody
                await asyncio.wait(connections, timeout=leave_s)
            for task in connections:
                task.cancel()


class _Client:
    """What one reader has not been sent yet: merged, so that it is bounded by the feed."""

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot  # taken when it is sent: it holds all that was before
        self._nodes: dict[str, Message] = {}
        self._usage: Message | None = None
        self._agent = ""
        self._is_over = False
        self._news = asyncio.Event()

    def take(self, message: Message) -> None:
        self._agent = message["agent_id"]
        if message["type"] == "usage":
            self._usage = message
        else:
            self._nodes |= {node["path"]: node for node in message["nodes"]}
        self._news.set()

    def end(self) -> None:
        self._is_over = True
        self._news.set()

    async def send(self, writer: asyncio.StreamWriter) -> None:
        self._nodes, self._usage = {}, None
        writer.write(write_message(self._snapshot()))
        while True:
            await writer.drain()
            if self._is_over and not self._nodes and self._usage is None:
                return
            await self._news.wait()
            self._news.clear()
            for message in self._merged():
                writer.write(write_message(message))

    def _merged(self) -> list[Message]:
        found = [] if self._usage is None else [self._usage]
        if self._nodes:
            nodes = sorted(self._nodes.values(), key=lambda node: node["seq"])
            seq = nodes[-1]["seq"]
            found = [{"type": "delta", "agent_id": self._agent, "seq": seq, "nodes": nodes}, *found]
        self._nodes, self._usage = {}, None
        return found


def _refusal(why: str) -> bytes:
    return write_message({"type": "error", "message": why})


async def _has_token(reader: asyncio.StreamReader, token: str) -> bool:
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            line = await reader.readline()
    except (TimeoutError, ValueError, OSError):  # ValueError: a line that is too long
        return False
    return hmac.compare_digest(line.strip(), token.encode())


async def _while_open(reader: asyncio.StreamReader, sending: Coroutine[Any, Any, None]) -> None:
    """Send until that ends, or until the client has left: what it says more is not read."""
    try:
        async with asyncio.TaskGroup() as group:
            both = group.create_task(sending), group.create_task(_left(reader))
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in both:
                one.cancel()
    except* OSError:  # the client has left in the middle
        pass


async def _left(reader: asyncio.StreamReader) -> None:
    while await reader.read(HELLO_LIMIT):
        pass


class ExtensionFrontend(HubFrontend):
    """Commands in, messages out."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take what `prsm` tells every frontend."""

    async def run(self, hub: Hub) -> int:
        """Lead one run after the other until stdin ends; return the exit code of the last one."""
        async with take_stdio("editor", hint=HINT).open() as (reader, writer):
            return await Leader(hub, Wire(writer)).lead(_lines(reader))


class Wire:
    """Messages to the editor; who reads none of them is waited for, up to what a pipe holds."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def tell(self, message: Message) -> None:
        """Send a message."""
        self._writer.write(write_message(message))
        await self._writer.drain()


def error_message(error: PrsmError) -> Message:
    """Return what did not work, and what to do, as a message."""
    return {"type": "error", "message": error.message, "hint": error.hint}


class Leader:
    """Does what the editor says, one run at a time."""

    def __init__(self, hub: Hub, wire: Wire) -> None:
        self._hub = hub
        self._wire = wire
        self._led: Led | None = None
        self._is_busy = False
        self._code = 0

    async def lead(self, lines: AsyncIterator[bytes]) -> int:
        """Do what is said until there is nothing more, which interrupts what runs."""
        try:
            await self._lead(lines)
        except* OSError:  # nobody reads what is told: the editor has left
            _log.info("the editor has left")
        return self._code

    async def _lead(self, lines: AsyncIterator[bytes]) -> None:
        async with asyncio.TaskGroup() as group:
            running: asyncio.Task[None] | None = None
            async for line in lines:
                try:
                    command = read_command(line)
                    if isinstance(command, Run) and not self._is_busy:
                        self._is_busy = True
                        running = group.create_task(self._carry_out(command), name="run")
                    else:
                        await self._say(command)
                except PrsmError as error:
                    await self._wire.tell(error_message(error))
            if running is not None:
                running.cancel()

    async def _say(self, command: Command) -> None:
        if self._led is None and self._is_busy:
            raise PrsmError("a run begins or ends", hint="wait for its next message")
        if self._led is None:
            raise PrsmError("nothing runs", hint='begin with {"type": "run", "intent": "…"}')
        await self._led.say(command)

    async def _carry_out(self, command: Run) -> None:
        """Tell the result last, when the next run may begin."""
        try:
            last = await self._lead_one(command)
        except PrsmError as error:
            self._code = error.exit_code
            last = error_message(error)
        finally:
            self._led, self._is_busy = None, False
        await self._wire.tell(last)

    async def _lead_one(self, command: Run) -> Message:
        labels = dict(self._hub.options.labels)
        if command.effort is not None:
            labels["effort"] = command.effort
        own = {"provider": "regions", "model": None, "session": None, "labels": labels}
        options = replace(self._hub.options, **own)
        async with self._hub.open(options) as app:
            run = await app.runs.start(command.intent)
            reading = Reading(run.run_id)
            self._led = Led(app, reading, self._wire)
            await self._wire.tell({"type": "state", "state": "idle", "session": run.session})
            self._code = await _end_of(run, self._led)
        return reading.result()


class Led:
    """A run that is under way, and the ports of its agents."""

    def __init__(self, app: AppHandle, reading: Reading, wire: Wire) -> None:
        self._app = app
        self._reading = reading
        self._wire = wire
        self._ports: dict[str, Port] = {}

    async def follow(self) -> None:
        """Tell what happens until the run has finished."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            beating = group.create_task(self._attend(), name="attend")
            async for event in self._app.events():
                for message in self._reading.fold(event):
                    await self._wire.tell(message)
                if event.type == "agent_spawned":
                    await self._open(event, stack)
                for port in self._ports.values():
                    port.tell(port.feed.fold(event))
                if self._reading.status:
                    break
            beating.cancel()

    async def say(self, command: Command) -> None:
        """Answer what is open, or end the run; raises PrsmError where nothing of it is open."""
        match command:
            case Approve(request=None):
                word = "yes" if command.approved else "no"
                await self._answer(self._reading.plan, "no plan waits", Answer(choices=(word,)))
            case Approve(request=str(request)):
                verdict = "once" if command.approved else "deny"
                _require_first(await self._app.requests.resolve(request, verdict, via=VIA))
            case Reply():
                await self._answer(command.request, "", Answer(text=command.text))
            case Retry():
                which = [str(index + 1) for index in command.subtask_indices]  # as a person counts
                said = Answer(text=f"yes {' '.join(which)}") if which else Answer(choices=("no",))
                await self._answer(self._reading.retry, "no subtask can be tried again", said)
            case Cancel():
                await self._cancel()
            case _:
                raise PrsmError("a run goes on", hint="cancel it first")

    async def _cancel(self) -> None:
        if self._reading.plan is not None:
            await self._answer(self._reading.plan, "", Answer(choices=("no",)))
        elif self._reading.master:
            await self._app.agents.kill(self._reading.master)
        else:
            await self._app.runs.interrupt()

    async def _answer(self, request: str | None, why: str, answer: Answer) -> None:
        if request is None:
            raise PrsmError(why, hint="wait for the message that asks")
        _require_first(await self._app.requests.answer(request, answer, via=VIA))

    async def _attend(self) -> None:
        while True:
            await self._app.requests.attend()
            await asyncio.sleep(BEAT_SECONDS)

    async def _open(self, event: Event, stack: AsyncExitStack) -> None:
        agent = event.agent or ""
        if self._reading.works_on(agent) is None or agent in self._ports:
            return
        workspace, cwd = self._app.options.workspace, event.data.get("cwd")
        feed = Feed(
            agent,
            name=str(event.data.get("name") or agent),
            region=self._reading.label(agent, REGION),
            folders=(workspace, *([cwd] if cwd else [])),
        )
        port = self._ports[agent] = await stack.enter_async_context(open_port(feed))
        place = {"agent_id": agent, "tcp_port": port.number, "token": port.token}
        await self._wire.tell({"type": "agent_tcp", **place})


async def _end_of(run: RunHandle, led: Led) -> int:
    """Return the exit code of a run once all of it was told; raise what breaks it."""
    try:
        async with asyncio.TaskGroup() as group:
            following = group.create_task(led.follow(), name="follow")
            result = await run.result()  # what it raises ends following: no event will come
            await following
    except BaseExceptionGroup as broken:
        raise _alone(broken) from broken
    return result.exit_code


def _alone(broken: BaseExceptionGroup) -> BaseException:
    """Return the first of the problems that can be told, the whole where there is another one."""
    told, others = broken.split(PrsmError)
    if told is None or others is not None:
        return broken
    first = told.exceptions[0]
    return _alone(first) if isinstance(first, BaseExceptionGroup) else first


def _require_first(was_first: bool) -> None:
    if not was_first:
        raise PrsmError("that is answered already", hint="look at what was told since")


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines; one that is too long is yielded as its beginning, which is no command."""
    held, is_cut = bytearray(), False
    while chunk := await reader.read(1 << 16):
        held += chunk
        while (end := held.find(b"\n")) >= 0:
            line = bytes(held[: min(end, LINE_LIMIT)])
            del held[: end + 1]
            if line.strip() or is_cut:
                yield b"a line that is too long" if is_cut else line
            is_cut = False
        if len(held) > LINE_LIMIT:
            held.clear()
            is_cut = True
