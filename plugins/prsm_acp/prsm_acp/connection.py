"""One running agent: its process, and requests in both directions by the SDK's connection."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from typing import TYPE_CHECKING, Any, Protocol

from prsm_acp.errors import INTERNAL, AcpClosedError, AcpError, error_text
from prsm_acp.transport import ProcessTransport
from prsm_core import deadline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import (
        Process,
        ProviderServices,
    )

_log = logging.getLogger("prsm.acp")

REQUEST_SECONDS = 60.0
_GONE_SECONDS = 2.0
_STOP_GRACE = 2.0
_SDK = "acp.connection"

Json = dict[str, Any]


async def load_sdk() -> None:
    """Import the SDK in a thread: it takes a second of CPU, which must not stop the loop."""
    if not hasattr(sys.modules.get(_SDK), "Connection"):  # not there, or not all of it yet
        await asyncio.to_thread(importlib.import_module, _SDK)


class Peer(Protocol):
    """Who is told what the agent says and answers what it asks."""

    async def on_notification(self, method: str, params: Json) -> None:
        """Take a notification; the next line is read when this returns."""
        ...

    async def on_request(self, method: str, params: Json) -> Json:
        """Return the answer to a request; raise AcpError to refuse it."""
        ...


class Connection:
    """Talks with one agent; `load_sdk` comes first."""

    def __init__(self, name: str, process: Process, services: ProviderServices, peer: Peer) -> None:
        from acp.connection import Connection as SdkConnection

        self.name = name
        self._process = process
        self._services = services
        self._peer = peer
        self._transport = ProcessTransport(name, process, services, peer)
        self._rpc = SdkConnection(self._answer, self._transport)

    @property
    def closed(self) -> AcpClosedError | None:
        """How the agent ended; None while it lives."""
        return self._transport.closed

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = REQUEST_SECONDS
    ) -> Json:
        """Ask the agent and return its result.

        An agent that does not answer within `timeout_s` is killed: nothing else can be expected
        of it. Raises AcpError for an error, AcpClosedError when the agent has ended.
        """
        if timeout_s is None:
            return await self._request(method, params)
        try:
            async with deadline(self._services, timeout_s):
                return await self._request(method, params)
        except TimeoutError as error:
            silence = f"it did not answer {method} within {timeout_s:g} s"
            raise self._transport.hang_up(silence) from error

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the agent something it does not answer; raise AcpClosedError when it has ended."""
        try:
            await self._rpc.send_notification(method, dict(params))
        except ConnectionError as error:
            raise self._ended() from error

    def kill(self) -> None:
        """End the agent at once."""
        self._process.kill()

    async def aclose(self, *, politely: bool) -> None:
        """End the agent, by a signal that it may act upon or at once."""
        if politely and self.closed is None:
            await self._process.stop(_STOP_GRACE)
        await self.end()
        await self._rpc.close()

    async def end(self) -> None:
        """End the agent at once, and wait until it has gone."""
        self._process.kill()
        await self._transport.until_over(_GONE_SECONDS)

    async def _request(self, method: str, params: Mapping[str, Any]) -> Json:
        from acp.exceptions import RequestError

        try:
            result: Json = await self._rpc.send_request(method, dict(params))
        except RequestError as error:
            raise AcpError(error_text(str(error), error.data), number=error.code) from error
        except ConnectionError as error:
            raise self._ended() from error
        return result

    def _ended(self) -> AcpClosedError:
        return self.closed or self._transport.hang_up("the connection was closed")

    async def _answer(self, method: str, params: Any, _is_notification: bool) -> Json:
        """Let the peer answer a request of the agent."""
        from acp.exceptions import RequestError

        self._transport.open_requests += 1
        try:
            return await self._peer.on_request(method, params)
        except AcpError as error:
            raise RequestError(error.number, error.message) from error
        except Exception as error:
            _log.exception("%s: %s could not be answered", self.name, method)
            raise RequestError(INTERNAL, "the client failed; see its log") from error
        finally:
            self._transport.open_requests -= 1
