"""One running CLI: the SDK's client of its control channel, and who hears its conversation."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from prsm_claude.transport import CliEndedError, CliTransport
from prsm_core import (
    ProviderNotAvailableError,
    PrsmError,
    deadline,
)
from prsm_core.kit import one_line, read_base64

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core import (
        BackgroundTask,
        Image,
        ProviderServices,
    )

    Json = dict[str, Any]

_log = logging.getLogger("prsm.claude")

RESUME_FAILED = "resume_failed"
_START_SECONDS = 60.0  # the CLI starts the MCP servers meanwhile
_INTERRUPT_SECONDS = 15.0  # to confirm what it confirms at once
_UNKNOWN_SESSION = "No conversation found"

# The SDK logs what it also raises; on the screen that would be said twice, and not for a reader.
_sdk_log = logging.getLogger("claude_agent_sdk")
_sdk_log.addHandler(logging.NullHandler())
_sdk_log.propagate = False


class Listener(Protocol):
    """Who is told what the CLI says."""

    async def on_message(self, link: Link, message: Json) -> None:
        """Take a message of the conversation; the next one is read when this returns."""
        ...

    async def on_ended(self, error: CliEndedError) -> None:
        """Learn that the CLI has ended by itself."""
        ...


class Link:
    """A CLI that is connected; the listener hears what it says until the link is closed.

    `taken` holds the ids of the texts that the model has been given.
    """

    def __init__(
        self,
        services: ProviderServices,
        transport: CliTransport,
        options: ClaudeAgentOptions,
        listener: Listener | None,
    ) -> None:
        self._services = services
        self._transport = transport
        self._client = ClaudeSDKClient(options, transport=transport)
        self._listener = listener
        self._hearing: BackgroundTask | None = None
        self._closed = False
        self.taken: set[str] = set()

    @classmethod
    async def open(
        cls,
        services: ProviderServices,
        options: ClaudeAgentOptions,
        transport: CliTransport,
        listener: Listener | None = None,
    ) -> Link:
        """Start the CLI and greet it.

        Raises ProviderNotAvailableError; its code is `resume_failed` for a session that the CLI
        does not know any more.
        """
        link = cls(services, transport, options, listener)
        try:
            async with deadline(services, _START_SECONDS):
                await link._connect()
        except CliEndedError as error:
            raise link._not_started(error) from error
        except PrsmError:
            raise  # it was not started at all
        except TimeoutError as error:
            raise link._refused(f"it did not answer within {_START_SECONDS:g} s") from error
        except Exception as error:  # the SDK raises bare ones
            raise link._refused(str(error)) from error
        return link

    async def _connect(self) -> None:
        await self._transport.connect()  # only what runs can be heard, and the SDK waits for that
        self._hearing = self._services.start_soon(self._hear, name="claude's words")
        try:
            await self._client.connect()
        except BaseException:
            self._hearing.cancel()
            raise

    async def _hear(self) -> None:
        try:
            async with aclosing(self._transport.messages()) as messages:
                async for message in messages:
                    self._note(message)
                    if self._listener is not None:
                        await self._listener.on_message(self, message)
        except CliEndedError as error:
            await self._ended(error)
        except Exception as error:
            self.kill("what it said could not be taken")
            await self._ended(CliEndedError(f"{type(error).__name__}: {error}"))
            raise

    async def _ended(self, error: CliEndedError) -> None:
        if self._listener is not None:
            await self._listener.on_ended(error)

    def _note(self, message: Json) -> None:
        """Take note of the texts that the model has been given; a result names some as well."""
        if message.get("type") == "command_lifecycle" and message.get("state") != "queued":
            self.taken.add(str(message.get("command_uuid")))
        elif message.get("type") == "result":
            told = message.get("user_message_uuids")
            self.taken.update(map(str, told if isinstance(told, list) else ()))

    @property
    def is_over(self) -> bool:
        """Whether the CLI has ended, or is about to because it was killed."""
        return self._closed or self._transport.is_over

    async def server_info(self) -> Mapping[str, Any]:
        """Return what the CLI told when it was greeted."""
        return await self._client.get_server_info() or {}

    async def send(self, text: str, message_id: str, images: Sequence[Image] = ()) -> None:
        """Give the CLI a text; by the id, a new UUID, it will say that the model has it."""
        told: str | list[dict[str, Any]] = text
        if images:
            sources = [
                {"type": "base64", "media_type": media_type, "data": data}
                for media_type, data in await read_base64(images)
            ]
            shown = [{"type": "image", "source": source} for source in sources]
            told = [{"type": "text", "text": text}, *shown]
        content = {"role": "user", "content": told}
        message = {
            "type": "user",
            "uuid": message_id,
            "message": content,
            "parent_tool_use_id": None,
        }

        async def one() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._client.query(one())

    def has_queued(self, sent: set[str]) -> bool:
        """Return whether any of the sent texts is still to be given to the model."""
        return not sent <= self.taken

    async def withdraw(self, sent: set[str]) -> None:
        """Take back those of the sent texts that the model has not been given yet.

        The CLI would begin a turn with them. The SDK has no word for this: the answer, which it
        drops, is that the CLI tells of each text that it has left the queue.
        """
        for message_id in sent - self.taken:
            asked = {"subtype": "cancel_async_message", "message_uuid": message_id}
            request = {"type": "control_request", "request_id": f"prsm-{message_id}"}
            await self._transport.write(json.dumps({**request, "request": asked}) + "\n")

    async def interrupt(self) -> None:
        """Ask the CLI to end its turn; whether it did is told by its messages."""
        if self.is_over:
            return
        try:
            async with deadline(self._services, _INTERRUPT_SECONDS):
                await self._client.interrupt()
        except Exception as error:  # noqa: BLE001 - the SDK raises bare ones
            _log.debug("the CLI took no interrupt: %s", error)

    def kill(self, why: str) -> None:
        """End the CLI at once, so that its transcript stays as it is."""
        self._transport.hang_up(why)

    async def close(self) -> None:
        """End the CLI; a cancellation ends it at once."""
        self._closed = True
        if self._hearing is not None:
            self._hearing.cancel()
        try:
            await self._client.disconnect()
        except asyncio.CancelledError:
            self.kill("it was not given the time to end")
            await self._client.disconnect()  # now it does not wait
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
