"""The Claude CLI as a process of the engine: JSON lines to it and from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prsm_claude.errors import NOISE
from prsm_core import ProcessError
from prsm_core.kit import Ending, Exit, as_object, first_of, read_object

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
    """One CLI process. `ended` says why it has ended."""

    def __init__(self, services: ProviderServices, process: Process) -> None:
        self._services = services
        self._process = process
        self._why: str | None = None
        self._writing = asyncio.Lock()
        self._bad_lines = 0
        self.ended: CliEndedError | None = None

    @classmethod
    async def start(
        cls,
        services: ProviderServices,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        box: Box | None = None,
    ) -> CliTransport:
        """Start a CLI; see ProviderServices.start_process."""
        process = await services.start_process(argv, name="claude", cwd=cwd, env=env, box=box)
        return cls(services, process)

    @property
    def is_over(self) -> bool:
        """Whether the process has ended or was killed."""
        return self.ended is not None or self._why is not None

    async def write(self, data: str) -> None:
        """Write a line. One to a process that has ended is dropped: its reader tells the end."""
        if self.ended:
            return
        try:
            async with self._writing:
                await self._process.write(data.encode())
        except ProcessError:
            self._services.start_soon(self._lost, name="claude without input")

    async def messages(self) -> AsyncGenerator[Json, None]:
        """Yield what the process says, in order; raise CliEndedError when it has ended.

        A line of a wrong shape is counted and skipped, a wrong byte replaced.
        """
        try:
            async for line in self._process.lines():
                message = _understood(line)
                if message is None:
                    self._bad_lines += bool(line.strip())
                else:
                    yield message
        except ProcessError as error:
            self.hang_up(error.message)
        how = str(await Exit.of(self._process, self._services))
        ending = Ending.of(self._why or how, self._process, bad_lines=self._bad_lines, noise=NOISE)
        self.ended = CliEndedError(ending.why, tail=ending.tail)
        raise self.ended

    def hang_up(self, why: str) -> None:
        """Kill a process that is of no more use, or whose conversation is resumed as it is now."""
        if self.ended is None:
            self._why = self._why or why
            self._process.kill()

    async def close(self) -> None:
        """End the process. At first it may write the last of its transcript."""
        try:
            self._process.close_stdin()
            if not await first_of(self._services.clock, _FLUSH_SECONDS, self._process.wait):
                await self._process.stop(_STOP_GRACE)
        except asyncio.CancelledError:
            self._process.kill()
            raise

    async def _lost(self) -> None:
        if not await first_of(self._services.clock, _LOST_SECONDS, self._process.wait):
            self.hang_up("it closed its input")


def _understood(line: bytes) -> Json | None:
    """Return the message of a line; None for one of a wrong shape."""
    try:
        message = read_object(line)
    except ValueError:
        return None
    sound = _SOUND.get(str(message.get("type")))
    return message if sound is None or sound(message) else None


def _sound_request(message: Json) -> bool:
    subtype = as_object(message.get("request")).get("subtype")
    return isinstance(message.get("request_id"), str) and isinstance(subtype, str)


def _sound_response(message: Json) -> bool:
    return isinstance(as_object(message.get("response")).get("request_id"), str)


def _sound_message(message: Json) -> bool:
    return isinstance(as_object(message.get("message")).get("content"), (str, list))


_SOUND: Mapping[str, Callable[[Json], bool]] = {
    "control_request": _sound_request,
    "control_response": _sound_response,
    "control_cancel_request": lambda message: isinstance(message.get("request_id"), str),
    "assistant": _sound_message,
    "user": _sound_message,
    "stream_event": lambda message: isinstance(message.get("event"), dict),
    "result": lambda message: isinstance(message.get("is_error"), bool),
}
