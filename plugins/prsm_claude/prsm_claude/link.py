"""One running CLI: its process, its control channel and its conversation."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Protocol

from prsm_claude.control import TYPES, Control, ControlError
from prsm_claude.errors import NOISE
from prsm_core import ProcessError, ProviderNotAvailableError
from prsm_core.kit import (
    Ending,
    Exit,
    as_object,
    deadline,
    first_of,
    one_line,
    read_base64,
    read_object,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_claude.control import Callbacks
    from prsm_core import BackgroundTask, Image, Process, ProviderServices

    Json = dict[str, Any]

_log = logging.getLogger("prsm.claude")

RESUME_FAILED = "resume_failed"
_START_SECONDS = 60.0  # the CLI starts the MCP servers meanwhile
_INTERRUPT_SECONDS = 15.0  # to confirm what it confirms at once
_LOST_SECONDS = 1.0  # between the end of stdin and the end of the process
_FLUSH_SECONDS = 2.0  # to write the last of the transcript
_STOP_GRACE = 2.0
_UNKNOWN_SESSION = "No conversation found"


class CliEndedError(ProcessError):
    """The CLI has ended; `why` is the reason, `tail` the last telling lines of stderr."""

    code = "claude_ended"

    def __init__(self, why: str, *, tail: str = "") -> None:
        super().__init__(f"claude ended: {why}", hint="The next turn starts it again.")
        self.why = why
        self.tail = tail


class Listener(Protocol):
    """Hears what the CLI says."""

    async def on_message(self, link: Link, message: Json) -> None:
        """Take a message of the conversation. The next one is read when this returns."""

    async def on_ended(self, error: CliEndedError) -> None:
        """Learn that the CLI has ended by itself."""


class Link:
    """A connected CLI. The listener hears what it says until the link is closed.

    taken: The ids of the texts that the model was given.
    greeting: What the CLI said when it was greeted.
    """

    def __init__(
        self,
        services: ProviderServices,
        process: Process,
        callbacks: Callbacks,
        listener: Listener | None,
    ) -> None:
        self._services = services
        self._process = process
        self._control = Control(services, self._write, callbacks)
        self._listener = listener
        self._hearing: BackgroundTask | None = None
        self._writing = asyncio.Lock()
        self._bad_lines = 0
        self._why: str | None = None  # it was killed
        self._has_ended = False
        self._closed = False
        self._greeted = False
        self.taken: set[str] = set()
        self.greeting: Mapping[str, Any] = {}

    @classmethod
    async def open(
        cls,
        services: ProviderServices,
        callbacks: Callbacks,
        process: Process,
        listener: Listener | None = None,
        *,
        role: str = "",
    ) -> Link:
        """Greet a CLI that was started; `role` is added to the vendor's system prompt.

        It goes into the greeting: anybody on the machine could read an argument. Raises
        ProviderNotAvailableError, with the code `resume_failed` for a session that the CLI does not
        know any more.
        """
        link = cls(services, process, callbacks, listener)
        try:
            async with deadline(services, _START_SECONDS):
                await link._connect(role)
        except CliEndedError as error:
            raise link._not_started(error) from error
        except TimeoutError as error:
            raise link._refused(f"it did not answer within {_START_SECONDS:g} s") from error
        except ControlError as error:
            raise link._refused(str(error)) from error
        return link

    async def _connect(self, role: str) -> None:
        self._hearing = self._services.start_soon(self._hear, name="claude's words")
        try:
            self.greeting = await self._control.greet(role)
        except BaseException:
            await self.close()
            raise

    async def _hear(self) -> None:
        """Take each line in order, then the end. Lines of a wrong shape are counted and skipped."""
        try:
            async for line in self._process.lines():
                if (message := _understood(line)) is not None:
                    await self._take(message)
                else:
                    self._bad_lines += bool(line.strip())
        except ProcessError as error:
            self.kill(error.message)
        except Exception as error:
            self.kill("what it said could not be taken")
            await self._ended(CliEndedError(f"{type(error).__name__}: {error}"))
            raise
        how = str(await Exit.of(self._process, self._services))
        ending = Ending.of(self._why or how, self._process, bad_lines=self._bad_lines, noise=NOISE)
        await self._ended(CliEndedError(ending.why, tail=ending.tail))

    async def _take(self, message: Json) -> None:
        """Separate the control channel from the conversation, which begins after the greeting."""
        if str(message.get("type")) in TYPES:
            self._greeted = self._greeted or message["type"] == "control_response"
            self._control.take(message)
        elif self._greeted:
            self._note(message)
            if self._listener is not None:
                await self._listener.on_message(self, message)

    async def _ended(self, error: CliEndedError) -> None:
        self._has_ended = True
        self._control.end(error)
        if self._listener is not None:
            await self._listener.on_ended(error)

    def _note(self, message: Json) -> None:
        """Note the texts that the model was given. A result names some as well."""
        if message.get("type") == "command_lifecycle" and message.get("state") != "queued":
            self.taken.add(str(message.get("command_uuid")))
        elif message.get("type") == "result":
            ids = message.get("user_message_uuids")
            self.taken.update(map(str, ids if isinstance(ids, list) else ()))

    @property
    def is_over(self) -> bool:
        """Whether the CLI has ended or was killed."""
        return self._closed or self._has_ended or self._why is not None

    async def send(self, text: str, message_id: str, images: Sequence[Image] = ()) -> None:
        """Send the CLI a text. By the id, a new UUID, it reports that the model has it."""
        content: str | list[dict[str, Any]] = text
        if images:
            sources = [
                {"type": "base64", "media_type": media_type, "data": data}
                for media_type, data in await read_base64(images)
            ]
            shown = [{"type": "image", "source": source} for source in sources]
            content = [{"type": "text", "text": text}, *shown]
        message = {
            "type": "user",
            "uuid": message_id,
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": None,
            "session_id": "default",
            # The CLI takes it literally: a text of other agents is no slash command.
            "client_composed": True,
        }
        await self._write(json.dumps(message) + "\n")

    async def _write(self, data: str) -> None:
        """Write a line. One to a process that has ended is dropped: its reader tells the end."""
        if self._has_ended:
            return
        try:
            async with self._writing:
                await self._process.write(data.encode())
        except ProcessError:
            self._services.start_soon(self._lost, name="claude without input")

    async def _lost(self) -> None:
        if not await first_of(self._services.clock, _LOST_SECONDS, self._process.wait):
            self.kill("it closed its input")

    async def withdraw(self, sent: set[str]) -> None:
        """Take back texts that the model did not get yet: the CLI would begin a turn with them."""
        for message_id in sent - self.taken:
            request = {"subtype": "cancel_async_message", "message_uuid": message_id}
            await self._control.send(f"prsm-{message_id}", request)

    async def interrupt(self) -> None:
        """Ask the CLI to end its turn. Its messages show whether it did."""
        if self.is_over:
            return
        try:
            async with deadline(self._services, _INTERRUPT_SECONDS):
                await self._control.ask({"subtype": "interrupt"})
        except (ControlError, CliEndedError, TimeoutError) as error:
            _log.debug("the CLI took no interrupt: %s", error)

    def kill(self, why: str) -> None:
        """End the CLI at once, so that its transcript stays as it is."""
        if not self._has_ended:
            self._why = self._why or why
            self._process.kill()

    async def close(self) -> None:
        """End the CLI once it has written its transcript; a cancellation ends it at once."""
        self._closed = True
        if self._hearing is not None:
            self._hearing.cancel()
        self._control.close()
        try:
            self._process.close_stdin()
            if not await first_of(self._services.clock, _FLUSH_SECONDS, self._process.wait):
                await self._process.stop(_STOP_GRACE)
        except asyncio.CancelledError:
            self.kill("it was not given the time to end")
            await first_of(self._services.clock, _FLUSH_SECONDS, self._process.wait)
            raise

    def _not_started(self, error: CliEndedError) -> ProviderNotAvailableError:
        if _UNKNOWN_SESSION in error.why:
            return ProviderNotAvailableError(
                f"claude could not resume: {error.why}",
                hint="Its transcript is gone; the conversation is rebuilt from the ledger.",
                code=RESUME_FAILED,
            )
        return self._refused(error.why)

    def _refused(self, why: str) -> ProviderNotAvailableError:
        return ProviderNotAvailableError(
            f"claude did not start: {one_line(why)}",
            hint="Run `claude -p hello` by hand, or `claude doctor`.",
        )


def _understood(line: bytes) -> Json | None:
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
