"""Opening a provider's session for an agent, and what it is told where the vendor has lost it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.engine.turns.context import session_request
from prsm_core.engine.turns.rebuild import rebuilt_history

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from prsm_core.config import Settings
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.turns import AgentMessage
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.provider import AgentHost, Carried, ProviderSession


_LASTING = frozenset({"call", "native"})  # how a session can be resumed, where it can


class Opening:
    """Opens the sessions of all agents."""

    def __init__(
        self,
        providers: ProviderRegistry,
        enforcement: Enforcement,
        conversations: ConversationStore,
        *,
        settings: Settings,
        workspace: str,
        ids: Ids,
    ) -> None:
        self._providers = providers
        self._enforcement = enforcement
        self._conversations = conversations
        self._settings = settings
        self._workspace = workspace
        self._ids = ids

    async def session(
        self,
        record: AgentRecord,
        host: AgentHost,
        on_stuck: Callable[[], object],
        carried: Carried | None = None,
    ) -> AbstractAsyncContextManager[ProviderSession]:
        """Return a session to enter; raises what says that the provider cannot be used.

        `carried` is what the vendor's thread may lack of a turn that goes on.
        """
        name = record.descriptor.provider
        request = session_request(record, self._settings, self._workspace, carried)
        provider = await self._providers.get(name)
        await self._enforcement.admit(name, record.agent_id)
        return provider.open_session(request, host, on_stuck)

    async def keeps_thread(self, record: AgentRecord) -> bool:
        """Return whether the vendor's thread outlives the process that it ran in."""
        if record.resume_token is None:
            return False
        name = record.descriptor.provider
        await self._providers.get(name)
        return self._providers.capabilities(name).resume in _LASTING

    async def lost_history(self, record: AgentRecord) -> tuple[AgentMessage, ...]:
        """Return what the agent said and heard before, where no vendor's thread holds it."""
        if record.resume_token is not None or record.next_turn == 1:
            return ()
        entries = await self._conversations.get_history(record.agent_id, "full")
        return rebuilt_history(entries, self._ids.ulid)
