"""The Claude CLI as a process of the engine: JSON lines to it and from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prsm_claude.errors import NOISE
from prsm_core import ProcessError
from prsm_core.kit import Ending, Exit, deadline, read_object

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from prsm_core import Box, Process, ProviderServices

    Json = dict[str, Any]

_LOST_SECONDS = 1.0  # between the end of stdin and the end of the process
_FLUSH_SECONDS = 2.0  # to write the last of the transcript
_STOP_GRACE = 2.0


class CliEndedError(ProcessError):
    """The CLI has ended; `why` is the reason, `tail` the last telling lines of stderr."""

    code = "claude_ended"

    def __init__(self, why: str, *, tail: str = "") -> None:
        super().__init__(f"claude ended: {why}", hint="The next turn starts it again.")
        self.why = why
        self.tail = tail


class CliTransport:
    """One CLI process; `ended` says why it is no more.

    The engine starts it, so that it has the allow-listed environment only, is known to the
    engine's table of processes, and dies with the engine.
    """

    def __init__(
        self,
        services: ProviderServices,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        box: Box | None = None,
    ) -> None:
        self._services = services
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._box = box
        self._process: Process | None = None
        self._why: str | None = None
        self._writing = asyncio.Lock()
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

    async def write(self, data: str) -> None:
        """Write a line; one to a process that has ended is dropped, for its reader says so."""
        if self._process is None or self.ended:
            return
        try:
            async with self._writing:
                await self._process.write(data.encode())
        except ProcessError:
            self._services.start_soon(self._lost, self._process, name="claude without input")

    async def messages(self) -> AsyncGenerator[Json, None]:
        """Yield what the process says, in its order; raise CliEndedError when it has ended.

        A line of a wrong shape is counted and skipped, a wrong byte replaced.
        """
        process = self._process
        if process is None:
            raise CliEndedError("it was not started")
        try:
            async for line in process.lines():
                message = _understood(line)
                if message is None:
                    self._bad_lines += bool(line.strip())
                else:
                    yield message
        except ProcessError as error:
            self.hang_up(error.message)
        raise await self._end(process)

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
        how = str(await Exit.of(process, self._services))
        ending = Ending.of(self._why or how, process, bad_lines=self._bad_lines, noise=NOISE)
        self.ended = CliEndedError(ending.why, tail=ending.tail)
        return self.ended


def _understood(line: bytes) -> Json | None:
    """Return the message of a line; None for one of a wrong shape."""
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


_SOUND: Mapping[str, Callable[[Json], bool]] = {
    "control_request": _sound_request,
    "control_response": _sound_response,
    "control_cancel_request": lambda message: isinstance(message.get("request_id"), str),
    "assistant": _sound_message,
    "user": _sound_message,
    "stream_event": lambda message: isinstance(message.get("event"), dict),
    "result": lambda message: isinstance(message.get("is_error"), bool),
}
