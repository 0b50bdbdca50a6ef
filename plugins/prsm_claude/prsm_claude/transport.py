"""The SDK's way to the Claude CLI: a process of the engine instead of one of the SDK's own."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import Transport

from prsm_claude.errors import NOISE
from prsm_claude.naming import SERVER
from prsm_core import (
    ProcessError,
    deadline,
)
from prsm_core.kit import Ending, ended_how, read_object, wait_for_exit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

    from prsm_core import (
        Box,
        Process,
        ProviderServices,
    )

    Json = dict[str, Any]
    ToolAnswer = Callable[[Json], Json]  # of JSON-RPC messages

_LOST_SECONDS = 1.0  # between the end of stdin and the end of the process
_FLUSH_SECONDS = 2.0  # to write the last of the transcript
_STOP_GRACE = 2.0
_MAX_CONTROL = 100  # messages that the SDK has not taken; then the CLI waits


class CliEndedError(ProcessError):
    """The CLI has ended; `why` is the reason, `tail` the last telling lines of stderr."""

    code = "claude_ended"

    def __init__(self, why: str, *, tail: str = "") -> None:
        super().__init__(f"claude ended: {why}", hint="The next turn starts it again.")
        self.why = why
        self.tail = tail


class CliTransport(Transport):
    """One CLI process; `ended` says why it is no more, `serve` answers what it asks PRSM's tools.

    The engine starts it, so that it has the allow-listed environment only, is known to the
    engine's table of processes, and dies with the engine. What it says has two hearers: the SDK
    has the control channel, by `read_messages`, and whoever reads `messages` the conversation. It
    is `messages` that reads the process, for both. `role` is added to the vendor's system prompt.
    """

    def __init__(
        self,
        services: ProviderServices,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        serve: ToolAnswer | None = None,
        role: str = "",
        box: Box | None = None,
    ) -> None:
        self._services = services
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._serve = serve
        self._box = box
        self._role = role  # until it was told
        self._process: Process | None = None
        self._why: str | None = None
        self._writing = asyncio.Lock()
        # What is for the SDK, and answers that its reader writes on the way; None ends it.
        self._control: asyncio.Queue[Json | str | None] = asyncio.Queue(_MAX_CONTROL)
        self._greeted = False
        self._bad_lines = 0
        self.ended: CliEndedError | None = None

    async def connect(self) -> None:
        """Start the process, if it does not run; see ProviderServices.start_process."""
        if self._process is not None:
            return
        self._process = await self._services.start_process(
            self._argv, name="claude", cwd=self._cwd, env=self._env, box=self._box
        )

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, or is about to because it was killed."""
        return self.ended is not None or self._why is not None

    def is_ready(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self.ended is None

    async def write(self, data: str) -> None:
        """Write a line; one to a process that has ended is dropped, for its reader says so."""
        if self._process is None or self.ended:
            return
        if self._role and (greeting := _with_role(data, self._role)) is not None:
            data, self._role = greeting, ""
        try:
            async with self._writing:
                await self._process.write(data.encode())
        except ProcessError:
            self._services.start_soon(self._lost, self._process, name="claude without input")

    async def end_input(self) -> None:
        """Close stdin."""
        if self._process is not None:
            self._process.close_stdin()

    async def read_messages(self) -> AsyncIterator[Json]:
        """Yield the control channel to the SDK; raise CliEndedError when there is no more of it.

        There is only while somebody reads `messages`.
        """
        while (message := await self._control.get()) is not None:
            if isinstance(message, str):
                await self.write(message)
            else:
                yield message
        raise self.ended or CliEndedError("nobody hears it any more")

    async def messages(self) -> AsyncGenerator[Json, None]:
        """Yield what the process says of its conversation; raise CliEndedError when it has ended.

        A line of a wrong shape is counted and skipped, a wrong byte replaced. What comes before
        the answer to the SDK's greeting belongs to no turn and is dropped.
        """
        process = self._process
        if process is None:
            raise CliEndedError("it was not started")
        try:
            try:
                async for line in process.lines():
                    message = _understood(line)
                    if message is None:
                        self._bad_lines += bool(line.strip())
                    elif str(message.get("type")) in _CONTROL:
                        await self._take_control(message)
                    elif self._greeted:
                        yield message
            except ProcessError as error:
                self.hang_up(error.message)
            raise await self._end(process)
        finally:
            self._end_control()

    async def _take_control(self, message: Json) -> None:
        """Answer what PRSM's own tools are asked; leave the rest of the channel to the SDK."""
        self._greeted = self._greeted or message["type"] == "control_response"
        if self._serve is not None and (asked := _asked_of_tools(message)) is not None:
            answer = {"mcp_response": self._serve(asked)}
            response = {"request_id": message["request_id"], "response": answer}
            whole = {"type": "control_response", "response": {"subtype": "success", **response}}
            await self._control.put(json.dumps(whole) + "\n")
        else:
            await self._control.put(message)

    def _end_control(self) -> None:
        while self._control.full():
            self._control.get_nowait()
        self._control.put_nowait(None)

    def hang_up(self, why: str) -> None:
        """Kill a process that is of no use any more, or that is to be resumed as it is now."""
        if self._process is not None and self.ended is None:
            self._why = self._why or why
            self._process.kill()

    async def close(self) -> None:
        """End the process; at first it may write the last of its transcript."""
        process = self._process
        if process is None:
            return
        try:
            process.close_stdin()
            async with deadline(self._services, _FLUSH_SECONDS):
                await process.wait()
        except TimeoutError:
            await process.stop(_STOP_GRACE)
        except asyncio.CancelledError:
            process.kill()
            raise

    async def _lost(self, process: Process) -> None:
        try:
            async with deadline(self._services, _LOST_SECONDS):
                await process.wait()
        except TimeoutError:
            self.hang_up("it closed its input")

    async def _end(self, process: Process) -> CliEndedError:
        how = ended_how(await wait_for_exit(process, self._services))
        ending = Ending.of(self._why or how, process, bad_lines=self._bad_lines, noise=NOISE)
        self.ended = CliEndedError(ending.why, tail=ending.tail)
        return self.ended


def _with_role(line: str, role: str) -> str | None:
    """Return the SDK's greeting with the agent's role, for which it knows only an argument.

    None for any other line.
    """
    message = json.loads(line)
    request = message.get("request")
    if not isinstance(request, dict) or request.get("subtype") != "initialize":
        return None
    request["appendSystemPrompt"] = role
    return json.dumps(message) + "\n"


def _asked_of_tools(message: Json) -> Json | None:
    """Return the JSON-RPC message that a control message holds for PRSM's own MCP server."""
    request = message.get("request")
    if message.get("type") != "control_request" or not isinstance(request, dict):
        return None
    if request.get("subtype") != "mcp_message" or request.get("server_name") != SERVER:
        return None
    asked = request.get("message")
    return asked if isinstance(asked, dict) else None


def _understood(line: bytes) -> Json | None:
    """Return the message of a line; None for one that neither the SDK nor we could read."""
    try:
        message = read_object(line)
    except ValueError:
        return None
    sound = _SOUND.get(str(message.get("type")))
    return message if sound is None or sound(message) else None


def _sound_request(message: Json) -> bool:
    request = message.get("request")
    named = isinstance(message.get("request_id"), str)
    return named and isinstance(request, dict) and isinstance(request.get("subtype"), str)


def _sound_response(message: Json) -> bool:
    response = message.get("response")
    return isinstance(response, dict) and isinstance(response.get("request_id"), str)


def _sound_message(message: Json) -> bool:
    said = message.get("message")
    return isinstance(said, dict) and isinstance(said.get("content"), (str, list))


_CONTROL = frozenset({"control_request", "control_response", "control_cancel_request"})
_SOUND: Mapping[str, Callable[[Json], bool]] = {
    "control_request": _sound_request,
    "control_response": _sound_response,
    "control_cancel_request": lambda message: isinstance(message.get("request_id"), str),
    "assistant": _sound_message,
    "user": _sound_message,
    "stream_event": lambda message: isinstance(message.get("event"), dict),
    "result": lambda message: isinstance(message.get("is_error"), bool),
}
