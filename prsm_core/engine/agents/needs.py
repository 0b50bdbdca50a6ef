"""What the agents of a session that goes on need, looked at before anything is written.

An agent whose provider or model is gone would fail at once, and its run would be finished with it:
nobody could go on with it any more once that is mended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.record import Record
from prsm_core.domain.writes import Told
from prsm_core.engine.providers.model_choice import ModelChoice, resolve_model
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.engine.spawn.mcp_servers import configured_servers
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_core.kit.quotation import quote_word

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.sessions import SessionState
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry


class Needs(Record, frozen=True):
    """Looks whether what agents run on is there."""

    providers: ProviderRegistry
    listings: Listings
    settings: Settings

    async def check(self, state: SessionState) -> list[Told]:
        """Return what tells of what agents go on without.

        Raises ProviderNotAvailableError where one cannot go on at all, and no fallback is set.
        """
        living = [now.agent for now in state.agents if not now.agent.state.is_terminal]
        by_model: dict[tuple[str, str], list[AgentDescriptor]] = {}
        for agent in living:
            by_model.setdefault((agent.provider, agent.model), []).append(agent)
        if not self.settings.defaults.fallbacks:  # else another model takes over
            await asyncio.gather(*(self._check(*which, of) for which, of in by_model.items()))
        servers = configured_servers(self.settings)
        lost = [text for agent in living for text in self._lost_servers(agent, servers)]
        return [Told(kind="notice", data={"level": "warning", "text": text}) for text in lost]

    async def _check(self, provider: str, model: str, agents: Sequence[AgentDescriptor]) -> None:
        leads = any(agent.role is AgentRole.MASTER for agent in agents)
        try:
            await self.providers.choose(provider, leads=leads)
            await self.listings.check([f"{provider}/{model}"], provider)
            base = ModelChoice(provider=provider, model=DEFAULT_MODEL)
            resolve_model(f"{provider}/{model}", base, self.listings.names)
        except PrsmError as error:
            names = ", ".join(quote_word(agent.name) for agent in agents)
            hint = f"{error.hint}; " if error.hint else ""
            raise ProviderNotAvailableError(
                f"{names} cannot go on with {provider}/{model}: {error.message}",
                hint=f"{hint}then go on: prsm resume; or set defaults.fallbacks to a model that "
                "takes over. Nothing has changed meanwhile",
                code="gone",
            ) from error

    @staticmethod
    def _lost_servers(agent: AgentDescriptor, servers: Collection[str]) -> list[str]:
        return [
            f"{quote_word(agent.name)} goes on without the MCP server {quote_word(name)}, which is "
            "configured no more: end the run, configure it under `mcp_servers`, and go on again"
            for name in agent.mcp_servers
            if name not in servers
        ]
