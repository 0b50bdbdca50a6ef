"""The provider of a master that a client leads from outside: its turn lasts until the client goes.

No user can name it. What the client's own model reads and writes is the client's business.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_core.domain.turns import StopReason, TurnEnded
from prsm_core.interfaces.provider import (
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.interfaces.provider import AgentHost, ProviderServices, SessionRequest

NAME = "mcp-client"


class Seat:
    """The master's place: whoever leads takes it, and leaves it once."""

    def __init__(self) -> None:
        self._host: asyncio.Future[AgentHost] = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()
        self.brief = ""  # what the engine tells whoever leads

    @property
    def spec(self) -> ProviderSpec:
        """The provider whose agent sits here."""
        return ProviderSpec(
            name=NAME,
            summary="A client that leads its agents over MCP.",
            factory=self._build,
            selectable=False,
        )

    async def host(self) -> AgentHost:
        """Return the agent's host once its turn has begun."""
        return await asyncio.shield(self._host)

    def offer(self, host: AgentHost) -> None:
        """Let the host be taken: the agent's turn has begun."""
        if not self._host.done():
            self._host.set_result(host)

    def leave(self) -> None:
        """End the agent's turn."""
        self._left.set()

    async def until_left(self) -> None:
        """Return once nobody leads any more."""
        await self._left.wait()

    def _build(self, settings: Mapping[str, Any], services: ProviderServices) -> ClientProvider:
        return ClientProvider(self)


class ClientProvider(Provider):
    """The provider of the one agent that sits on a seat."""

    capabilities = ProviderCapabilities(resume="none", streams=False)

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ClientSession]:
        """Open the agent's session; see Provider."""
        self._seat.brief = request.system_prompt
        yield ClientSession(host, self._seat)

    async def probe(self) -> ProviderStatus:
        """Tell what nobody here sees; see Provider."""
        gap = "what the client does with its own tools is neither seen nor decided here"
        return ProviderStatus(available=True, gaps=(gap,))


class ClientSession(ProviderSession):
    """A turn in which the client speaks, and the engine only listens to its calls."""

    def __init__(self, host: AgentHost, seat: Seat) -> None:
        self._host = host
        self._seat = seat

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Last until the client has left; see ProviderSession."""
        self._seat.offer(self._host)
        await self._seat.until_left()
        yield TurnEnded(StopReason.END_TURN)

    async def interrupt(self) -> None:
        """End the turn; see ProviderSession."""
        self._seat.leave()
