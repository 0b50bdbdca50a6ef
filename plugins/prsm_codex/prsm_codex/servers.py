"""The MCP servers of a thread, which Codex starts beside it: a model is asked once they have begun.

Without a wait their tools would be missing from the first request; were they required, one that
fails would end the thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prsm_core import Notice
from prsm_core.kit import deadline, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import ProviderServices, SessionRequest

STATUS = "mcpServer/startupStatus/updated"
_FIRST_SECONDS = 5.0  # for the first word of them; an older Codex has none
_MORE_SECONDS = 60.0  # they began before, when PRSM tried them


class StartingServers:
    """Owns what is known of the servers of one thread."""

    def __init__(self, request: SessionRequest, services: ProviderServices) -> None:
        self._services = services
        self._left = set(request.mcp_servers)
        limits = [server.start_seconds for server in request.mcp_servers.values()]
        self._seconds = max([_MORE_SECONDS, *limits])
        self._heard = asyncio.Event()
        self._begun = asyncio.Event()

    def note(self, params: Mapping[str, Any]) -> Notice | None:
        """Take note of a status; return what is to be told of a server that is not there."""
        name, status = str(params.get("name")), params.get("status")
        self._heard.set()
        if status != "starting":
            self._left.discard(name)
        if not self._left:
            self._begun.set()
        if status not in {"failed", "cancelled"}:
            return None
        why = params.get("error") or status
        return Notice("warning", one_line(f"The MCP server {name} is not there: {why}"))

    async def until_begun(self) -> None:
        """Return once no server is starting any more, or has taken too long."""
        if not self._left:
            return
        for event, seconds in ((self._heard, _FIRST_SECONDS), (self._begun, self._seconds)):
            try:
                async with deadline(self._services, seconds):
                    await event.wait()
            except TimeoutError:
                break
        self._left.clear()
