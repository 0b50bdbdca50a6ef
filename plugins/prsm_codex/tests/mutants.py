"""Providers with one defect each, and the test of the contract that must find it."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.permissions import Allow
from prsm_core.domain.turns import (
    AssistantMessage,
    StepEnded,
    StopReason,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.interfaces.provider import Provider, ProviderSession, ProviderStatus

if TYPE_CHECKING:
    from prsm_codex.provider import CodexProvider

    from prsm_core.domain.usage import TokenUsage


class Mutant(Provider):
    """A provider that is as good as the one it wraps; a mutant overrides one thing."""

    def __init__(self, settings, services):
        from prsm_codex.provider import build

        self.good: CodexProvider = build(settings, services)
        self.capabilities = self.good.capabilities

    @asynccontextmanager
    async def open_session(self, request, host):
        async with self.good.open_session(self.request(request), self.host(host)) as session:
            yield MutantSession(self, session)

    async def probe(self):
        return await self.good.probe()

    async def aclose(self):
        await self.good.aclose()

    def request(self, request):
        return request

    def host(self, host):
        return host

    def context(self, context):
        return context

    def events(self, event):
        return [event]

    async def interrupt(self, session):
        await session.interrupt()


class MutantSession(ProviderSession):
    """Passes everything on by way of its provider."""

    def __init__(self, mutant, session):
        self.mutant = mutant
        self.session = session

    async def run_turn(self, context):
        async with aclosing(self.session.run_turn(self.mutant.context(context))) as turn:
            async for event in turn:
                self.resume_token, self.reusable = self.session.resume_token, self.session.reusable
                for given in self.mutant.events(event):
                    yield given

    async def steer(self, text, images=()):
        return await self.session.steer(text, images)

    async def interrupt(self):
        await self.mutant.interrupt(self.session)


class EndsTwice(Mutant):
    def events(self, event):
        return [event, event] if isinstance(event, TurnEnded) else [event]


class TalksAfterTheEnd(Mutant):
    def events(self, event):
        return [event, TextDelta("…")] if isinstance(event, TurnEnded) else [event]


class GivesMessagesInPieces(Mutant):
    def events(self, event):
        if isinstance(event, AssistantMessage):
            return [AssistantMessage(word) for word in event.text.split()]
        return [event]


class RepeatsDeltas(Mutant):
    def events(self, event):
        return [event, event] if isinstance(event, TextDelta) else [event]


class TellsTotals(Mutant):
    total: TokenUsage | None = None

    def events(self, event):
        if not isinstance(event, UsageReported):
            return [event]
        self.total = event.usage if self.total is None else self.total + event.usage
        return [UsageReported(self.total)]


class TakesOurToolsForTheVendors(Mutant):
    def events(self, event):
        if isinstance(event, StepEnded):
            return [ToolCallStarted("c", "note", {}), ToolCallFinished("c", "completed"), event]
        return [event]


class EndsStepsTooEarly(Mutant):
    def events(self, event):
        return [StepEnded(), event] if isinstance(event, UsageReported) else [event]


class TellsAbortsAfterTheEndOfATask(Mutant):
    def events(self, event):
        return [TurnEnded(StopReason.ABORTED) if isinstance(event, TurnEnded) else event]


class Unasked:
    """A host that is never asked for permission."""

    def __init__(self, host):
        self.host = host

    def __getattr__(self, name):
        return getattr(self.host, name)

    async def authorize(self, _):
        return Allow()


class AsksNobody(Mutant):
    def host(self, host):
        return Unasked(host)


class SendsThePromptAgain(Mutant):
    last = None

    def context(self, context):
        self.last = context.current_message or self.last
        return replace(context, current_message=self.last)


class TakesEveryErrorForPassing(Mutant):
    def events(self, event):
        if isinstance(event, TurnEnded) and event.error is not None:
            return [TurnEnded(event.stop_reason, replace(event.error, retryable=True))]
        return [event]


class CannotBeInterrupted(Mutant):
    async def interrupt(self, session):
        return


class ForgetsTheToken(Mutant):
    def request(self, request):
        return replace(request, resume_token=None)


class LosesTheHistory(Mutant):
    def context(self, context):
        return replace(context, history=())


class IsAlwaysThere(Mutant):
    async def probe(self):
        return ProviderStatus(available=True)


class LeavesItsProcess(Mutant):
    async def aclose(self):
        return


WHOLE = "test_a_turn_gives_the_whole_message_and_ends_once"
DEFECTS = {
    EndsTwice: WHOLE,
    TalksAfterTheEnd: WHOLE,
    GivesMessagesInPieces: WHOLE,
    RepeatsDeltas: "test_deltas_join_to_the_message",
    TellsTotals: "test_usage_is_told_in_differences_that_add_up",
    TakesOurToolsForTheVendors: (
        "test_an_orchestration_call_reaches_the_host_and_its_answer_the_model"
    ),
    EndsStepsTooEarly: "test_a_step_ends_after_its_calls_were_handed_over",
    TellsAbortsAfterTheEndOfATask: (
        "test_a_call_that_ends_the_turn_ends_it_and_its_answer_is_kept"
    ),
    AsksNobody: "test_a_command_runs_only_when_it_is_allowed",
    SendsThePromptAgain: (
        "test_after_a_rate_limit_the_turn_goes_on_and_the_model_sees_the_prompt_once"
    ),
    TakesEveryErrorForPassing: "test_a_refused_login_is_not_tried_again",
    CannotBeInterrupted: "test_an_interrupt_ends_a_silent_turn_within_two_seconds",
    ForgetsTheToken: "test_a_session_is_resumed_by_its_token_in_a_new_provider",
    LosesTheHistory: "test_the_history_of_a_new_session_stands_before_its_prompt",
    IsAlwaysThere: "test_a_missing_program_is_told_with_a_cure",
    LeavesItsProcess: WHOLE,
}
