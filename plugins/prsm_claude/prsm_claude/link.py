"""One running CLI and the SDK's client of it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError

from prsm_claude.errors import one_line
from prsm_claude.transport import CliEndedError, CliTransport
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_core.interfaces.deadline import deadline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from claude_agent_sdk import Message

    from prsm_core.interfaces.provider import ProviderServices

_log = logging.getLogger("prsm.claude")

RESUME_FAILED = "resume_failed"
_START_SECONDS = 60.0  # the CLI starts the MCP servers meanwhile
_INTERRUPT_SECONDS = 15.0  # to confirm what it confirms at once
_UNKNOWN_SESSION = "No conversation found"

# The SDK logs what it also raises; without a handler that would be printed over the screen.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())


class Link:
    """A CLI that is connected; what it was given is answered in `messages`."""

    def __init__(
        self, services: ProviderServices, transport: CliTransport, options: ClaudeAgentOptions
    ) -> None:
        self._services = services
        self._transport = transport
        self._client = ClaudeSDKClient(options, transport=transport)
        self._closed = False

    @classmethod
    async def open(
        cls,
        services: ProviderServices,
        options: ClaudeAgentOptions,
        transport: CliTransport,
    ) -> Link:
        """Start the CLI and greet it.

        Raises ProviderNotAvailableError; its code is `resume_failed` for a session that the CLI
        does not know any more.
        """
        link = cls(services, transport, options)
        try:
            async with deadline(services, _START_SECONDS):
                await link._client.connect()
        except CliEndedError as error:
            raise link._not_started(error) from error
        except PrsmError:
            raise  # it was not started at all
        except TimeoutError as error:
            raise link._refused(f"it did not answer within {_START_SECONDS:g} s") from error
        except Exception as error:  # the SDK raises bare ones
            raise link._refused(str(error)) from error
        return link

    @property
    def is_over(self) -> bool:
        """Whether the CLI has ended, or is about to because it was killed."""
        return self._closed or self._transport.is_over

    async def server_info(self) -> Mapping[str, Any]:
        """Return what the CLI told when it was greeted."""
        return await self._client.get_server_info() or {}

    async def send(self, text: str, message_id: str) -> None:
        """Give the CLI a text; by the id, a new UUID, it will say that the model has it."""
        content = {"role": "user", "content": text}
        message = {
            "type": "user",
            "uuid": message_id,
            "message": content,
            "parent_tool_use_id": None,
        }

        async def one() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._client.query(one())

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what the CLI says; raise CliEndedError when it has ended.

        A message of a wrong shape is counted and skipped.
        """
        while not self._closed:
            try:
                async for message in self._client.receive_messages():
                    yield message
            except (ClaudeSDKError, TypeError, AttributeError, ValueError, LookupError):
                self._transport.bad_lines += 1
            else:
                return

    def has_queued(self, sent: set[str]) -> bool:
        """Return whether any of the sent texts is still to be given to the model."""
        return not sent <= self._transport.taken

    async def withdraw(self, sent: set[str]) -> None:
        """Take back those of the sent texts that the model has not been given yet.

        The CLI would begin a turn with them. The SDK has no word for this: the answer, which it
        drops, is that the CLI tells of each text that it has left the queue.
        """
        for message_id in sent - self._transport.taken:
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
