"""What turns and their calls are given: permits, images, and all else."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

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
from prsm_core.domain.record import Record
from prsm_core.domain.turns import IMAGE_SCHEME
from prsm_core.domain.writes import Granted
from prsm_core.engine.requests import NO_ANSWER, NO_HUMAN, ON_ASK, UNATTENDED, WHY_UNANSWERED
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.images import Image
    from prsm_core.domain.permissions import Question, Verdict
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.outcome import RunAbort
    from prsm_core.engine.quiet import QuietMoment
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import AgentRecord, Leases, Roster
    from prsm_core.engine.turns.ports import Life, Steered, Turn
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import ProviderCapabilities
    from prsm_core.kit.background import Background
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker


class Standing(Struct, eq=False):
    """Tells the mode, place, folder and regions of agents."""

    roster: Roster
    # Returns the regions of others, by an agent's id.
    leased: Callable[[str], Leases]
    # Whether a provider's agents look at files by their shell.
    reads_by_shell: Callable[[str], bool]
    # Returns the folder of the session, for who works in this one.
    workspace: Callable[[str], str]
    # Whether an agent has a worktree of its own.
    is_apart: Callable[[AgentRecord], bool]
    trusted: bool
    interactive: bool

    def context(self, life: Life, *, sandboxed: bool = False) -> PermissionContext:
        """Return what decisions about an agent depend on now."""
        descriptor = life.record.descriptor
        return PermissionContext(
            mode=descriptor.mode,
            role=descriptor.role,
            provider=descriptor.provider,
            workspace=self.workspace(descriptor.cwd),
            trusted=self.trusted,
            interactive=self.interactive,
            tools=descriptor.tools,
            lineage=self.roster.lineage(descriptor.agent_id),
            shell_reads=self.reads_by_shell(descriptor.provider),
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


@contextmanager
def _paused(turn: Turn | None) -> Iterator[None]:
    """Count a turn as running a tool: while a person decides, nobody reasons or is silent."""
    if turn is None:
        yield
        return
    turn.pause()
    try:
        yield
    finally:
        turn.go_on()


class Permits(Struct, eq=False):
    """Decides for all agents of an engine."""

    standing: Standing
    broker: PermissionBroker
    requests: HumanRequests
    quiet: QuietMoment
    journal: Journal
    steps: AgentSteps
    ids: Ids
    background: Background
    workspace: str

    async def authorize(
        self, life: Life, request: PermissionRequest, *, sandboxed: bool = False
    ) -> Allow | Deny:
        """Decide a request; one that is `sandboxed` keeps to all regions."""
        turn = life.turn
        await self.journal.hold()
        if life.is_over or (turn is not None and await turn.hold()):
            return Deny(_WHY_NOT["agent_ended"])
        with _paused(turn):
            verdict = await self._let_in(life, sanitize(request), sandboxed=sandboxed)
        return Deny(TURN_OVER) if turn is not None and await turn.hold() else verdict

    async def _let_in(
        self, life: Life, request: PermissionRequest, *, sandboxed: bool
    ) -> Allow | Deny:
        """Decide a request; what may write waits while a quiet moment holds it back."""
        if not await self.broker.may_write(request, self.standing.context(life)):
            return await self._decide(life, request, sandboxed=sandboxed)
        call = self.quiet.of(life.record.descriptor, request)
        self.quiet.asks(call)
        is_let_in = False
        try:
            verdict = await self._decide(life, request, sandboxed=sandboxed)
            if isinstance(verdict, Deny):
                return verdict
            is_let_in = await self.quiet.enter(call) and not life.is_over
            return verdict if is_let_in else Deny(TURN_OVER)
        finally:
            if not is_let_in:
                self.quiet.refused(call)

    async def authorize_call(
        self, life: Life, name: str, arguments: Mapping[str, Any]
    ) -> Allow | Deny:
        """Decide an orchestration call by the checks that see it, and whom they ask."""
        descriptor = life.record.descriptor
        request = PermissionRequest(
            agent_id=descriptor.agent_id, tool=name, arguments=arguments, cwd=descriptor.cwd
        )

        def decide() -> Awaitable[Verdict]:
            return self.broker.judge_call(request, self.standing.context(life))

        with _paused(life.turn):
            return await self._settle(life, request, await decide(), decide)

    async def ask_user(self, life: Life, question: Question) -> Answer:
        """Ask a person, or their stand-in; without an answer the text says why."""
        record, turn = life.record, life.turn
        if life.is_over or (turn is not None and await turn.hold()):
            return Answer(text=ENDED)
        with _paused(turn):
            asking = self.requests.question(record, self.ids.request(), sanitize(question))
            answer, by = await asking
        if turn is not None:
            await turn.hold()
        if answer is None:
            return Answer(text=WHY_UNANSWERED.get(by, NO_ANSWER))
        if by != ON_ASK:
            self.broker.changed_by_hand(record.descriptor.cwd, self.workspace)
        return answer

    async def _decide(
        self, life: Life, request: PermissionRequest, *, sandboxed: bool
    ) -> Allow | Deny:
        """Decide by the leases that hold at the end: one may begin while a person thinks."""
        broker, standing = self.broker, self.standing

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
            life.turn.fold.permit(request.tool)
        return verdict

    async def _settle(
        self,
        life: Life,
        request: PermissionRequest,
        verdict: Verdict,
        again: Callable[[], Awaitable[Verdict]],
    ) -> Allow | Deny:
        if life.is_over:  # meanwhile: whoever asked has gone
            return Deny(_WHY_NOT["agent_ended"])
        if isinstance(verdict, Ask):
            return await self._ask(life, request, verdict, again)
        if isinstance(verdict, Deny) and verdict.check is not None:
            await self.journal.fact(
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
        record, requests = life.record, self.requests
        choice, by = await requests.permission(record, self.ids.request(), request, ask, again)
        if choice == "always":
            grant = self.broker.grant(record.agent_id, request)
            await self.steps.write(record, Granted(grant=grant))
        if choice == "always" or choice in RULE_ANSWERS:
            self.background.launch(requests.reconsider(), name="ask again")
        if choice in ALLOWING:
            return Allow(f"allowed {choice} by {by}")
        why = _WHY_NOT.get(by, "it was refused")
        why = f"{why}, and any like it from now on" if choice in RULE_ANSWERS else why
        return Deny(why, check=ask.check)


class TurnImages(Struct, eq=False):
    """Finds the images that texts cite, and reports those that the model is not shown."""

    state_dir: Path
    capable: Callable[[str], ProviderCapabilities]
    journal: Journal

    def __call__(self, record: AgentRecord, texts: Sequence[str]) -> tuple[Image, ...]:
        """Return the images to show; tell a person which are left out, and why."""
        if not any(IMAGE_SCHEME in text for text in texts):
            return ()
        from prsm_core.workspace.images import IMAGES, cited_images  # once there is an image

        images = cited_images(texts, self.state_dir / IMAGES)
        provider = record.descriptor.provider
        there = tuple(image for image in images if Path(image.path).is_file())
        self._tell(record, [i for i in images if i not in there], "is there no more")
        if there and not self.capable(provider).images:
            self._tell(record, there, f"is not shown to its model: {provider} takes no images")
            return ()
        return there

    def _tell(self, record: AgentRecord, images: Sequence[Image], why: str) -> None:
        for image in images:
            self.journal.warn(record.agent_id, f"the image {image.name} {why}")


class TurnParts(Record, frozen=True, kw_only=True):
    """What the turns and calls of all agents use."""

    settings: Settings
    workspace: Callable[[str], str]  # of the session, for who works in a folder
    system_prompt: Callable[[AgentDescriptor], str]  # as a model is given it now
    clock: Clock
    new_id: Callable[[], str]  # a ULID
    now_ms: Callable[[], int]  # Unix milliseconds
    background: Background
    journal: Journal
    steps: AgentSteps
    router: MessageRouter
    broker: PermissionBroker
    permits: Permits
    quiet: QuietMoment
    standing: Standing
    requests: HumanRequests
    budgets: BudgetLedger
    window: Callable[[str, str], int | None]  # of a model, in tokens, by provider and name
    abort: RunAbort
    steering: Steered
    images: TurnImages
    program_of: Callable[[str], str | None]  # the program that a provider is, None for a model's
    # Adds to an answer to an agent's call of a tool what became known of its team.
    with_news: Callable[[AgentRecord, str, ToolOutcome], ToolOutcome]
