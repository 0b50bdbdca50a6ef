"""The host: what a provider may ask of the engine on behalf of one agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from prsm_core.engine.ports import Life
from prsm_core.engine.turns.call import turn_over
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.permissions import Allow, Answer, Deny, PermissionRequest, Question
    from prsm_core.domain.tools import McpEndpoint, ToolOutcome, ToolSpec
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.permits import Permits
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.interfaces.provider import AgentHost

_VENDOR_PREFIX = re.compile(r"mcp__?[A-Za-z0-9-]+?__?(?=[a-z])")


class OpenEndpoint(Protocol):
    """How a host offers its tools by MCP; the engine is given it, for it knows no MCP."""

    def __call__(
        self, host: AgentHost, agent: str, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Open an endpoint that leads to the tools of this host, of the agent of this id."""
        ...


class LifeInTurns(Life, Protocol):
    """A life, with its turns as they are."""

    @property
    def turn(self) -> TurnRun | None:
        """The running turn, or the last one; None before the first."""
        ...


class SessionHost(Struct, eq=False):
    """AgentHost over one life of an agent."""

    _life: LifeInTurns
    _tools: Toolbox
    _permits: Permits
    _open_endpoint: OpenEndpoint | None

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The orchestration tools of this agent."""
        return self._tools.specs

    def is_orchestration(self, vendor_name: str) -> bool:
        """Return whether a vendor's tool name is one of the orchestration tools."""
        names = self._tools.names
        return vendor_name in names or _VENDOR_PREFIX.sub("", vendor_name, count=1) in names

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Run an orchestration tool of the running turn."""
        turn = self._life.turn
        if turn is None and self._life.is_over:
            return turn_over()
        if turn is None:
            raise RuntimeError("call_tool outside a turn")
        if name != "task_complete" and await turn.hold():
            return turn_over()
        name, arguments, call_id = sanitize(name), sanitize(arguments), sanitize(call_id)
        if patience_s is None:
            return await turn.calls.run(name, arguments, call_id)
        outcome = await turn.earlier.run(name, arguments, call_id, patience_s)
        is_pending = not outcome.is_error and outcome.data.get("type") == "pending"
        if is_pending and turn.is_running:
            await turn.model_speaks()  # it goes on, while the call still waits
        return outcome

    def authorize(self, request: PermissionRequest) -> Coroutine[Any, Any, Allow | Deny]:
        """Decide a permission request; a person answers what the broker asks."""
        return self._permits.authorize(self._life, request)

    def ask_user(self, question: Question) -> Coroutine[Any, Any, Answer]:
        """Ask a person, or what stands in for one; without an answer its text says so."""
        return self._permits.ask_user(self._life, question)

    def mcp_endpoint(
        self, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Offer the tools by MCP, for as long as the endpoint is open."""
        if self._open_endpoint is None:
            raise ProviderNotAvailableError(
                "this engine has no MCP bridge for command-line agents",
                hint="use a provider that takes the tools directly",
            )
        return self._open_endpoint(self, self._life.record.agent_id, patience_s=patience_s)
