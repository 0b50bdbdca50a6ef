"""The provider `regions`: agents whose mind is a program."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_core import Provider, ProviderCapabilities, ProviderNotAvailableError, ProviderStatus
from prsm_regions.config import RegionsConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from prsm_core import AgentHost, ProviderServices, ProviderSession, SessionRequest


def build(settings: Mapping[str, Any], services: ProviderServices) -> RegionsProvider:
    """Build the provider from its section; raise ConfigError for what is wrong in it."""
    return RegionsProvider(RegionsConfig.from_settings(settings), services)


class RegionsProvider(Provider):
    """Runs a plan as a program would be run: it has no model of its own."""

    capabilities = ProviderCapabilities(enforcement="pre_tool", resume="rebuild", streams=False)

    def __init__(self, config: RegionsConfig, services: ProviderServices) -> None:
        self._config = config
        self._services = services

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open an agent's session; see Provider."""
        raise ProviderNotAvailableError(
            "regions: no plan can be run yet", hint="Run the task with another provider."
        )
        yield  # type: ignore[unreachable]

    async def probe(self) -> ProviderStatus:
        """Say that it can be used: all that it needs is in the process; see Provider."""
        return ProviderStatus(available=True)
