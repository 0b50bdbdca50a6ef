"""The frontend `extension`: an editor leads a run by lines of JSON on stdin and stdout.

One run at a time, in a session of its own. Whoever is at the other end is the person of the run:
the plan, permissions and questions wait for it. When it leaves, which is the end of stdin, what
runs is interrupted and can go on by `prsm resume`; `cancel` ends it for good.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core import Answer, HubFrontend, PrsmError
from prsm_core.kit import open_wire, take_stdio
from prsm_regions.extension.feeds import Feed
from prsm_regions.extension.messages import (
    LINE_LIMIT,
    Approve,
    Cancel,
    Command,
    Reply,
    Retry,
    Run,
    read_command,
    write_message,
)
from prsm_regions.extension.ports import Port, open_port
from prsm_regions.extension.reading import REGION, Reading

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from prsm_core import AppHandle, Event, Hub, RunHandle

HINT = 'an editor starts this command; to lead a run yourself: prsm run --provider regions "…"'
BEAT_SECONDS = 5.0  # between two notes that somebody is there
VIA = "extension"

Message = dict[str, Any]

_log = logging.getLogger("prsm.regions")


class ExtensionFrontend(HubFrontend):
    """Commands in, messages out."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take what `prsm` tells every frontend."""

    async def run(self, hub: Hub) -> int:
        """Lead one run after the other until stdin ends; return the exit code of the last one."""
        async with open_wire(take_stdio("editor", hint=HINT)) as (reader, writer):
            return await Leader(hub, Wire(writer)).lead(_lines(reader))


class Wire:
    """Messages to the editor; who reads none of them is waited for, up to what a pipe holds."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def tell(self, message: Message) -> None:
        """Send a message."""
        self._writer.write(write_message(message))
        await self._writer.drain()

    async def fail(self, error: PrsmError) -> None:
        """Say what did not work, and what to do."""
        await self.tell(error_message(error))


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
                    await self._wire.fail(error)
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
        options = replace(
            self._hub.options, provider="regions", model=None, session=None, labels=labels
        )
        async with self._hub.open(options) as app:
            run = await app.start_run(command.intent)
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
            case Approve():
                verdict = "once" if command.approved else "deny"
                await _once(await self._app.resolve_permission(_id(command), verdict, via=VIA))
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
            await self._app.kill(self._reading.master)
        else:
            await self._app.interrupt_run()

    async def _answer(self, request: str | None, why: str, answer: Answer) -> None:
        if request is None:
            raise PrsmError(why, hint="wait for the message that asks")
        await _once(await self._app.answer(request, answer, via=VIA))

    async def _attend(self) -> None:
        while True:
            await self._app.attend()
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
        await self._wire.tell(
            {
                "type": "agent_tcp",
                "agent_id": agent,
                "tcp_port": port.number,
                "token": port.token,
            }
        )


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


def _id(command: Approve) -> str:
    return command.request or ""


async def _once(was_first: bool) -> None:
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
