"""Permits: what agents ask to do, decided by the broker and, where it asks, by a person.

`Standing` says what such decisions depend on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.permissions import (
    ALLOWING,
    RULE_ANSWERS,
    Allow,
    Answer,
    Ask,
    Deny,
    PermissionContext,
    PermissionRequest,
)
from prsm_core.domain.writes import Granted
from prsm_core.engine.requests.human import NO_ANSWER, NO_HUMAN, ON_ASK, UNATTENDED, WHY_UNANSWERED
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core.domain.ids import Ids
    from prsm_core.domain.permissions import Question, Verdict
    from prsm_core.engine.journal.steps import AgentSteps
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Life
    from prsm_core.engine.quiet import QuietMoment
    from prsm_core.engine.requests.human import HumanRequests
    from prsm_core.engine.state import AgentRecord, Leases, Roster
    from prsm_core.kit.background import Background
    from prsm_core.permissions import PermissionBroker


class Standing:
    """Tells how agents stand: their mode, place, folder and regions."""

    def __init__(
        self,
        roster: Roster,
        *,
        leased: Callable[[str], Leases],
        reads_by_shell: Callable[[str], bool],
        workspace: Callable[[str], str],
        is_apart: Callable[[AgentRecord], bool],
        trusted: bool,
        interactive: bool,
    ) -> None:
        """Begin with what never changes, and with what to ask.

        Args:
            roster: Knows who is above an agent.
            leased: Returns the regions of others, by an agent's id.
            reads_by_shell: Whether a provider's agents look at files by their shell.
            workspace: Returns the folder of the session, for who works in this one.
            is_apart: Whether an agent has a worktree of its own.
            trusted: Whether the person trusts it.
            interactive: Whether a person may be asked.
        """
        self._roster = roster
        self.leased = leased
        self._reads_by_shell = reads_by_shell
        self._workspace = workspace
        self.is_apart = is_apart
        self.trusted = trusted
        self._interactive = interactive

    def workspace_of(self, record: AgentRecord) -> str:
        """Return the folder of the session as this agent has it."""
        return self._workspace(record.descriptor.cwd)

    def context(self, life: Life, *, sandboxed: bool = False) -> PermissionContext:
        """Return what decisions about this agent depend on now."""
        descriptor = life.record.descriptor
        return PermissionContext(
            mode=descriptor.mode,
            role=descriptor.role,
            provider=descriptor.provider,
            workspace=self.workspace_of(life.record),
            trusted=self.trusted,
            interactive=self._interactive,
            tools=descriptor.tools,
            lineage=self._roster.lineage(descriptor.agent_id),
            shell_reads=self._reads_by_shell(descriptor.provider),
            active=not life.is_over,
            region=descriptor.grant.region,
            apart=self.is_apart(life.record),
            leased=self.leased(descriptor.agent_id),
            sandboxed=sandboxed,
            labels=descriptor.labels,
        )


ENDED = "the agent has ended; nobody is asked"
TURN_OVER = "the turn it was asked in is over"
_WHY_NOT = {
    "headless": f"it needs a person's permission and {NO_HUMAN}",
    "unattended": f"it needs a person's permission and {UNATTENDED}",
    "timeout": "it needs a person's permission and nobody answered in time",
    "agent_ended": "the agent has ended",
    "turn_ended": TURN_OVER,
    "user": "the user refused it",
    "rule": "a rule that the user has just made forbids it",
}


class Permits:
    """Decides for all agents of an engine."""

    def __init__(
        self,
        standing: Standing,
        broker: PermissionBroker,
        requests: HumanRequests,
        quiet: QuietMoment,
        *,
        journal: Journal,
        steps: AgentSteps,
        ids: Ids,
        background: Background,
        workspace: str,
    ) -> None:
        self._standing = standing
        self._broker = broker
        self._requests = requests
        self._quiet = quiet
        self._journal = journal
        self._steps = steps
        self._ids = ids
        self._background = background
        self._workspace = workspace

    @property
    def watches_calls(self) -> bool:
        """Whether some check of a plugin is asked about orchestration calls."""
        return self._broker.watches_calls

    async def authorize(
        self, life: Life, request: PermissionRequest, *, sandboxed: bool = False
    ) -> Allow | Deny:
        """Decide a permission request; `sandboxed` is a command that keeps to all regions.

        What is allowed and may write runs from then on, until it is told that it has ended.
        """
        turn = life.turn
        await self._journal.hold()
        if life.is_over or (turn is not None and await turn.hold()):
            return Deny(_WHY_NOT["agent_ended"])
        if turn is None:
            return await self._let_in(life, sanitize(request), sandboxed=sandboxed)
        turn.pause()
        try:
            verdict = await self._let_in(life, sanitize(request), sandboxed=sandboxed)
        finally:
            turn.go_on()
        return Deny(_WHY_NOT["turn_ended"]) if await turn.hold() else verdict

    async def _let_in(
        self, life: Life, request: PermissionRequest, *, sandboxed: bool
    ) -> Allow | Deny:
        """Decide a request; what may write passes the gate, where a quiet moment holds it."""
        if not await self._broker.may_write(request, self._standing.context(life)):
            return await self._decide(life, request, sandboxed=sandboxed)
        call = self._quiet.of(life.record.descriptor, request)
        self._quiet.asks(call)
        is_let_in = False
        try:
            verdict = await self._decide(life, request, sandboxed=sandboxed)
            if isinstance(verdict, Deny):
                return verdict
            is_let_in = await self._quiet.enter(call) and not life.is_over
            return verdict if is_let_in else Deny(_WHY_NOT["turn_ended"])
        finally:
            if not is_let_in:
                self._quiet.refused(call)

    async def authorize_call(
        self, life: Life, name: str, arguments: Mapping[str, Any]
    ) -> Allow | Deny:
        """Have the checks that see orchestration calls, and whom they ask, decide about one."""
        descriptor = life.record.descriptor
        request = PermissionRequest(
            agent_id=descriptor.agent_id, tool=name, arguments=arguments, cwd=descriptor.cwd
        )

        def decide() -> Awaitable[Verdict]:
            return self._broker.judge_call(request, self._standing.context(life))

        turn = life.turn
        if turn is None:
            return await self._settle(life, request, await decide(), decide)
        turn.pause()
        try:
            return await self._settle(life, request, await decide(), decide)
        finally:
            turn.go_on()

    async def ask_user(self, life: Life, question: Question) -> Answer:
        """Ask a person, or what stands in for one; without an answer its text says so."""
        record, turn = life.record, life.turn
        if life.is_over or (turn is not None and await turn.hold()):
            return Answer(text=ENDED)
        if turn is not None:
            turn.pause()
        try:
            answer, by = await self._requests.question(
                record, self._ids.request(), sanitize(question)
            )
        finally:
            if turn is not None:
                turn.go_on()
        if turn is not None:
            await turn.hold()
        if answer is None:
            return Answer(text=WHY_UNANSWERED.get(by, NO_ANSWER))
        if by != ON_ASK:
            self._broker.changed_by_hand(record.descriptor.cwd, self._workspace)
        return answer

    async def _decide(
        self, life: Life, request: PermissionRequest, *, sandboxed: bool
    ) -> Allow | Deny:
        """Decide by the leases that hold when it is over: one may begin while a person thinks."""
        broker, standing = self._broker, self._standing

        def again() -> Awaitable[Verdict]:
            return broker.reconsider(request, standing.context(life, sandboxed=sandboxed))

        context = standing.context(life, sandboxed=sandboxed)
        known = set(context.leased)
        first = await broker.decide(request, context)
        verdict = await self._settle(life, request, first, again)
        while isinstance(verdict, Allow):
            leases = standing.leased(life.record.agent_id)
            if known.issuperset(leases):
                break
            known.update(leases)
            verdict = await self._settle(life, request, await again(), again)
        if verdict is not first and not life.is_over:  # the broker knows of its own word
            broker.settle(request, standing.context(life, sandboxed=sandboxed), verdict)
        if isinstance(verdict, Allow) and life.turn is not None:
            life.turn.permitted(request.tool)
        return verdict

    async def _settle(
        self,
        life: Life,
        request: PermissionRequest,
        verdict: Verdict,
        again: Callable[[], Awaitable[Verdict]],
    ) -> Allow | Deny:
        """Have a person answer an Ask, and tell what the check of a plugin has forbidden."""
        if life.is_over:  # meanwhile: whoever asked has gone
            return Deny(_WHY_NOT["agent_ended"])
        if isinstance(verdict, Ask):
            return await self._ask(life, request, verdict, again)
        if isinstance(verdict, Deny) and verdict.check is not None:
            await self._journal.fact(
                "check_denied",
                life.record.agent_id,
                check=verdict.check,
                tool=request.tool,
                command=request.command,
                paths=list(request.paths),
                reason=verdict.reason,
            )
        return verdict

    async def _ask(
        self,
        life: Life,
        request: PermissionRequest,
        ask: Ask,
        again: Callable[[], Awaitable[Verdict]],
    ) -> Allow | Deny:
        record, requests = life.record, self._requests
        choice, by = await requests.permission(record, self._ids.request(), request, ask, again)
        if choice == "always":
            grant = self._broker.grant(record.agent_id, request)
            await self._steps.write(record, Granted(grant=grant))
        if choice == "always" or choice in RULE_ANSWERS:
            self._background.launch(requests.reconsider(), name="ask again")
        if choice in ALLOWING:
            return Allow(f"allowed {choice} by {by}")
        why = _WHY_NOT.get(by, "it was refused")
        why = f"{why}, and any like it from now on" if choice in RULE_ANSWERS else why
        return Deny(why, check=ask.check)
