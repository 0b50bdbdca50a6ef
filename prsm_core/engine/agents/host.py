"""The host: what a provider may ask of the engine on behalf of one agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.domain.permissions import Deny
from prsm_core.domain.tools import McpEndpoint, ToolOutcome, ToolSpec
from prsm_core.engine.turns.call import Mended, turn_over
from prsm_core.engine.turns.permits import TURN_OVER
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_core.interfaces.provider import ChildNow
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.permissions import Allow, Answer, PermissionRequest, Question
    from prsm_core.domain.usage import Spent
    from prsm_core.engine.agents.life import AgentLife
    from prsm_core.engine.agents.parts import SessionParts
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.interfaces.store import AgentRow

_VENDOR_PREFIX = re.compile(r"mcp__?[A-Za-z0-9-]+?__?(?=[a-z])")


_PAST_SESSIONS = 20  # whose agents are asked what they used


class SessionHost(Struct, eq=False):
    """AgentHost over one life of an agent."""

    _life: AgentLife
    _tools: Toolbox
    _parts: SessionParts

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The orchestration tools of this agent."""
        return self._tools.specs

    @property
    def _is_program(self) -> bool:
        provider = self._life.record.descriptor.provider
        return self._parts.labelling.program_of(provider) is not None

    def is_orchestration(self, vendor_name: str) -> bool:
        """Return whether a vendor's tool name is one of the orchestration tools."""
        names = self._tools.names
        return vendor_name in names or _VENDOR_PREFIX.sub("", vendor_name, count=1) in names

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> Coroutine[Any, Any, ToolOutcome]:
        """Run an orchestration tool of the running turn."""
        if self._is_program:
            return self._run(name, Mended(sanitize(arguments)), call_id, patience_s)
        return self._run(name, self._mended(name, arguments), call_id, patience_s)

    def _mended(self, name: str, arguments: Mapping[str, Any]) -> Mended:
        mended = self._tools.mend(name, sanitize(arguments))
        # What the JSON texts say that were read in mending may be unfit, too.
        return mended if mended.fits else sanitize(mended)

    def _run(
        self, name: str, mended: Mended, call_id: str | None, patience_s: float | None
    ) -> Coroutine[Any, Any, ToolOutcome]:
        turn = self._life.turn
        if turn is None:
            return self._outside()
        name, call_id = sanitize(name), sanitize(call_id)
        if patience_s is None:
            return turn.calls.run(name, mended, call_id)
        return self._long_call(turn, name, mended, call_id, patience_s)

    async def _outside(self) -> ToolOutcome:
        if self._life.is_over:
            return turn_over()
        raise RuntimeError("call_tool outside a turn")

    async def _long_call(
        self, turn: TurnRun, name: str, mended: Mended, call_id: str | None, patience_s: float
    ) -> ToolOutcome:
        if name != "task_complete" and await turn.hold():
            return turn_over()
        outcome = await turn.earlier.run(name, mended, call_id, patience_s)
        is_pending = not outcome.is_error and outcome.data.get("type") == "pending"
        if is_pending and await turn.hold():
            return turn_over()
        if is_pending and turn.is_running:
            await turn.model_speaks()  # it goes on, while the call still waits
        return outcome

    async def authorize(self, request: PermissionRequest) -> Allow | Deny:
        """Decide a permission request; a person answers what the broker asks.

        What is allowed is a call of the vendor's from then on, and in the ledger.
        """
        turn, permits = self._life.turn, self._parts.permits
        if turn is None or self.is_orchestration(request.tool):
            return await permits.authorize(self._life, request)
        asked = turn.asks(sanitize(request))
        verdict = await permits.authorize(self._life, request)
        if isinstance(verdict, Deny) or await turn.allow(asked):
            return verdict
        return Deny(TURN_OVER)

    def ask_user(self, question: Question) -> Coroutine[Any, Any, Answer]:
        """Ask a person, or what stands in for one; without an answer its text says so."""
        return self._parts.permits.ask_user(self._life, question)

    def mcp_endpoint(
        self, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Offer the tools by MCP, for as long as the endpoint is open."""
        if (open_endpoint := self._parts.open_endpoint) is None:
            raise ProviderNotAvailableError(
                "this engine has no MCP bridge for command-line agents",
                hint="use a provider that takes the tools directly",
            )
        host = ModelsHost(self._life, self._tools, self._parts) if self._is_program else self
        return open_endpoint(host, self._life.record.agent_id, patience_s=patience_s)

    def relabel(
        self, changes: Mapping[str, str | None], agent: str | None = None
    ) -> Coroutine[Any, Any, Mapping[str, str]]:
        """Change labels of the agent, or of a child of it; return all that one has then."""
        return self._parts.labelling.relabel(self._life, changes, agent)

    def children(self) -> Sequence[ChildNow]:
        """Return the agent's children, oldest first."""
        roster, spent_by = self._parts.roster, self._parts.turns.budgets.spent_by
        return tuple(_child(roster.get(id_), spent_by(id_)) for id_ in self._life.record.children)

    async def end_child(self, agent: str, reason: str) -> None:
        """Kill a child of the agent, and all below it."""
        record = self._life.record
        self._parts.labelling.owner_of(record.descriptor)
        child = self._parts.roster.resolve(agent, record.children)
        if not child.state.is_terminal:
            await self._parts.ends.kill_tree(child, reason)

    async def spent_with_label(self, label: str, text: str) -> Sequence[Spent]:
        """Return what agents with a label have used that have ended, of the whole ledger."""
        self._parts.labelling.owner_of(self._life.record.descriptor)
        store = self._parts.store
        spent: list[Spent] = []
        for session in await store.sessions_with(label, text, limit=_PAST_SESSIONS):
            spent += _spent_by_tops(await store.agents(session), label, text)
        return spent


class ModelsHost(SessionHost, eq=False):
    """What a program offers by MCP: a model calls it, and may say nothing but what it is shown."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Run a tool; a call with a program's arguments is refused as any with unknown ones."""
        mended = self._mended(name, arguments)
        try:
            self._tools.find(name, mended.arguments, by_program=False, fits=mended.fits)
        except PrsmError as error:
            return ToolOutcome.failed(error)
        return await self._run(name, mended, call_id, patience_s)


def _spent_by_tops(rows: Sequence[AgentRow], label: str, text: str) -> Iterator[Spent]:
    """Yield what those with a label used whose parent has it not, with all below them."""
    below: dict[str | None, list[AgentRow]] = {}
    for row in rows:
        below.setdefault(row.descriptor.parent_id, []).append(row)
    having = {row.descriptor.agent_id for row in rows if row.descriptor.labels.get(label) == text}

    def whole(row: AgentRow) -> Spent:
        return sum(map(whole, below.get(row.descriptor.agent_id, ())), row.spent)

    for row in rows:
        agent = row.descriptor
        if agent.agent_id in having and agent.parent_id not in having and agent.state.is_terminal:
            yield whole(row)


def _child(record: AgentRecord, spent: Spent) -> ChildNow:
    agent = record.descriptor
    return ChildNow(
        agent_id=agent.agent_id,
        name=agent.name,
        role=agent.role,
        state=record.state,
        incarnation=record.incarnation,
        provider=agent.provider,
        model=agent.model,
        cwd=agent.cwd,
        region=agent.grant.region,
        labels=agent.labels,
        result=record.result if record.has_ended else None,
        spent=spent,
    )
