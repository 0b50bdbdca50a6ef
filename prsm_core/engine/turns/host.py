"""The host: what a provider may ask of the engine on behalf of one agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core.domain.permissions import (
    RULE_ANSWERS,
    Allow,
    Answer,
    Ask,
    Deny,
    PermissionContext,
    PermissionRequest,
)
from prsm_core.domain.writes import Granted
from prsm_core.engine.requests.human import (
    ALLOWING,
    NO_ANSWER,
    NO_HUMAN,
    ON_ASK,
    UNATTENDED,
    WHY_UNANSWERED,
)
from prsm_core.engine.turns.calls import turn_over
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.permissions import Question, Verdict
    from prsm_core.domain.tools import McpEndpoint, ToolOutcome, ToolSpec
    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.engine.spawn.regions import Leases
    from prsm_core.interfaces.provider import AgentHost

_VENDOR_PREFIX = re.compile(r"mcp__?[A-Za-z0-9-]+?__?(?=[a-z])")

ENDED = "the agent has ended; nobody is asked"
_WHY_NOT = {
    "headless": f"it needs a person's permission and {NO_HUMAN}",
    "unattended": f"it needs a person's permission and {UNATTENDED}",
    "timeout": "it needs a person's permission and nobody answered in time",
    "agent_ended": "the agent has ended",
    "turn_ended": "the turn it was asked in is over",
    "user": "the user refused it",
    "rule": "a rule that the user has just made forbids it",
}


class OpenEndpoint(Protocol):
    """How a host offers its tools by MCP; the engine is given it, for it knows no MCP."""

    def __call__(
        self, host: AgentHost, agent: str, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Open an endpoint that leads to the tools of this host, of the agent of this id."""
        ...


class SessionHost:
    """AgentHost over one agent session."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The orchestration tools of this agent."""
        return self._session.tools.specs

    def is_orchestration(self, vendor_name: str) -> bool:
        """Return whether a vendor's tool name is one of the orchestration tools."""
        names = self._session.tools.names
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
        turn = self._session.turn
        if turn is None and self._session.is_over:
            return turn_over()
        if turn is None:
            raise RuntimeError("call_tool outside a turn")
        if name != "task_complete" and await turn.stop.hold():
            return turn_over()
        if patience_s is not None:
            outcome = await turn.long_calls.run(
                sanitize(name), sanitize(arguments), sanitize(call_id), patience_s
            )
            is_pending = not outcome.is_error and outcome.data.get("type") == "pending"
            if is_pending and turn.is_running:
                await turn.model_speaks()  # it goes on, while the call still waits
            return outcome
        return await turn.calls.run(sanitize(name), sanitize(arguments), sanitize(call_id))

    async def authorize(self, request: PermissionRequest) -> Allow | Deny:
        """Decide a permission request; a person answers what the broker asks."""
        return await self._authorize(request, sandboxed=False)

    async def authorize_sandboxed(self, request: PermissionRequest) -> Allow | Deny:
        """Decide about a command that will run in the sandbox, which keeps to all regions."""
        return await self._authorize(request, sandboxed=True)

    @property
    def watches_calls(self) -> bool:
        """Whether some check of a plugin is asked about orchestration calls."""
        return self._session.manager.runtime.broker.watches_calls

    async def authorize_call(self, name: str, arguments: Mapping[str, Any]) -> Allow | Deny:
        """Have the checks that see orchestration calls, and whom they ask, decide about one."""
        session = self._session
        request = PermissionRequest(
            agent_id=session.record.agent_id,
            tool=name,
            arguments=arguments,
            cwd=session.record.descriptor.cwd,
        )
        decide = session.manager.runtime.broker.judge_call
        async with session.busy():
            return await self._settle(
                request,
                await decide(request, self.context()),
                lambda: decide(request, self.context()),
            )

    async def _authorize(self, request: PermissionRequest, *, sandboxed: bool) -> Allow | Deny:
        turn = self._session.turn
        if self._session.is_over or (turn is not None and await turn.stop.hold()):
            return Deny(_WHY_NOT["agent_ended"])
        async with self._session.busy():
            return await self._decide(sanitize(request), sandboxed=sandboxed)

    async def _decide(self, request: PermissionRequest, *, sandboxed: bool) -> Allow | Deny:
        """Decide by the leases that hold when it is over: one may begin while a person thinks."""
        session = self._session
        broker = session.manager.runtime.broker

        def again() -> Awaitable[Verdict]:
            return broker.reconsider(request, self.context(sandboxed=sandboxed))

        context = self.context(sandboxed=sandboxed)
        known = set(context.leased)
        first = await broker.decide(request, context)
        verdict = await self._settle(request, first, again)
        while isinstance(verdict, Allow) and not known.issuperset(leases := self._leased()):
            known.update(leases)
            verdict = await self._settle(request, await again(), again)
        if verdict is not first and not session.is_over:  # the broker knows of its own word
            broker.settle(request, self.context(sandboxed=sandboxed), verdict)
        if isinstance(verdict, Allow) and session.turn is not None:
            session.turn.fold.permissions_used.append(request.tool)
        return verdict

    async def _settle(
        self, request: PermissionRequest, verdict: Verdict, again: Callable[[], Awaitable[Verdict]]
    ) -> Allow | Deny:
        """Have a person answer an Ask, and tell what the check of a plugin has forbidden."""
        if self._session.is_over:  # meanwhile: whoever asked has gone
            return Deny(_WHY_NOT["agent_ended"])
        if isinstance(verdict, Ask):
            return await self._ask(request, verdict, again)
        if isinstance(verdict, Deny) and verdict.check is not None:
            await self._session.manager.runtime.journal.fact(
                "check_denied",
                self._session.record.agent_id,
                check=verdict.check,
                tool=request.tool,
                command=request.command,
                paths=list(request.paths),
                reason=verdict.reason,
            )
        return verdict

    async def _ask(
        self, request: PermissionRequest, ask: Ask, again: Callable[[], Awaitable[Verdict]]
    ) -> Allow | Deny:
        runtime, record = self._session.manager.runtime, self._session.record
        request_id = runtime.ids.request()
        choice, by = await runtime.desk.permission(record, request_id, request, ask, again)
        if choice == "always":
            await self._grant(request)
        if choice == "always" or choice in RULE_ANSWERS:
            runtime.background.launch(runtime.desk.reconsider(), name="ask again")
        if choice in ALLOWING:
            return Allow(f"allowed {choice} by {by}")
        why = _WHY_NOT.get(by, "it was refused")
        why = f"{why}, and any like it from now on" if choice in RULE_ANSWERS else why
        return Deny(why, check=ask.check)

    async def ask_user(self, question: Question) -> Answer:
        """Ask a person, or what stands in for one; without an answer its text says so."""
        if self._session.is_over:
            return Answer(text=ENDED)
        runtime, record = self._session.manager.runtime, self._session.record
        async with self._session.busy():
            answer, by = await runtime.desk.question(
                record, runtime.ids.request(), sanitize(question)
            )
        if answer is None:
            return Answer(text=WHY_UNANSWERED.get(by, NO_ANSWER))
        if by != ON_ASK:
            runtime.broker.changed_by_hand(record.descriptor.cwd, runtime.workspace)
        return answer

    def mcp_endpoint(
        self, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Offer the tools by MCP, for as long as the endpoint is open."""
        open_endpoint = self._session.manager.runtime.open_endpoint
        if open_endpoint is None:
            raise ProviderNotAvailableError(
                "this engine has no MCP bridge for command-line agents",
                hint="use a provider that takes the tools directly",
            )
        return open_endpoint(self, self._session.record.agent_id, patience_s=patience_s)

    async def _grant(self, request: PermissionRequest) -> None:
        session = self._session
        grant = session.manager.runtime.broker.grant(session.record.agent_id, request)
        await session.manager.write(session.record, Granted(grant=grant))

    def _leased(self) -> Leases:
        manager, descriptor = self._session.manager, self._session.record.descriptor
        return manager.leases.beside(descriptor.agent_id)

    def context(self, *, sandboxed: bool = False) -> PermissionContext:
        """Return what decisions about this agent depend on now."""
        manager, descriptor = self._session.manager, self._session.record.descriptor
        lineage = [descriptor.agent_id]
        while (parent := manager.roster.get(lineage[-1]).descriptor.parent_id) is not None:
            lineage.append(parent)
        runtime = manager.runtime
        return PermissionContext(
            mode=descriptor.mode,
            role=descriptor.role,
            provider=descriptor.provider,
            workspace=runtime.workspace,
            trusted=runtime.trusted,
            interactive=runtime.interactive,
            tools=descriptor.tools,
            lineage=tuple(lineage),
            shell_reads=runtime.providers.capabilities(descriptor.provider).shell_reads,
            active=not self._session.is_over,
            region=descriptor.grant.region,
            leased=self._leased(),
            sandboxed=sandboxed,
        )
