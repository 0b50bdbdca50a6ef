"""Compaction: a conversation that is too long is summarised, and goes on from its summary.

The vendor's session is closed by then. A session without tools, of the agent's model or of a cheap
one, is asked for the summary. Then one step writes all of it: the turn of the type `compaction`
with what it used, its row among the compactions, and that the vendor's thread is given up. So a
crash leaves the old thread or the new conversation, and never half of either; what was used of a
summary that was cut off is not charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.turns import (
    AgentError,
    CompactionResult,
    ErrorKind,
    StopReason,
    TurnResult,
    UsageReported,
)
from prsm_core.domain.writes import ThreadKept, Told, TurnClosed, TurnOpened
from prsm_core.engine.agents.aside import Aside, Purpose, why_failed
from prsm_core.engine.agents.opening import (
    SYSTEM_PROMPT,
    CompactionFailedError,
    parts,
    request_text,
    split,
    stands_for,
)
from prsm_core.engine.providers.model_choice import ModelChoice, resolve_model
from prsm_core.engine.tokens import Conversation, Room, count_tokens, history_tokens
from prsm_core.errors import BudgetExceededError, ModelNotAvailableError, PrsmError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.domain.steps import Write
    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.engine.agents.opening import ContextParts, Remembered, Split, Trigger
    from prsm_core.engine.guarded.provider import GuardedProvider, Opener
    from prsm_core.engine.state import AgentRecord


class Compaction:
    """One compaction of one agent's conversation, from its beginning to its step."""

    def __init__(
        self,
        record: AgentRecord,
        of: ContextParts,
        remembered: Remembered,
        *,
        trigger: Trigger,
        fixed: int,
        room: Room | None,
        opener: Opener,
    ) -> None:
        """Know what is compacted, and why.

        Args:
            record: Whose conversation it is; it is between two turns, without a session.
            of: What all compactions use.
            remembered: The conversation.
            trigger: Why it is compacted.
            fixed: Tokens of the system prompt and the tools.
            room: Of the agent's model; None: nobody knows it.
            opener: Told where a provider keeps the session that writes the summary.
        """
        self._record = record
        self._of = of
        self._remembered = remembered
        self._trigger = trigger
        self._fixed = fixed
        self._over_budget: BudgetExceededError | None = None
        whole = fixed + history_tokens(remembered.conversation.all)
        self._before = record.context_used or whole
        # What a model has refused tells its window, where nobody else does: half of it will do.
        self._room = room or Room.of(max(2, whole // 2), of.settings.context.fill)
        self._is_window_known = room is not None
        self._asked = 0  # tokens, as they are counted
        agent = record.descriptor
        self._own = ModelChoice(
            provider=agent.provider, model=agent.model, reasoning_effort=agent.reasoning_effort
        )
        self._choice = self._summariser()
        self._aside = Aside(
            record,
            self._choice,
            of,
            self._purpose(),
            number=record.next_turn,
            opener=opener,
            on_event=self._meter,
        )
        self._fold = self._aside.fold

    def _now_ms(self) -> int:
        return int(self._of.clock.time() * 1000)

    async def run(self) -> None:
        """Compact the conversation; the ledger has it by then.

        Raises CompactionFailedError, and then it is as it was; BudgetExceededError.
        """
        if all(message.role != "assistant" for message in self._remembered.messages):
            raise CompactionFailedError(
                AgentError(
                    kind=ErrorKind.CONTEXT_OVERFLOW,
                    message="there is nothing that could be summarised but the prompt itself",
                )
            )
        of, turn_id = self._of, self._fold.turn_id
        window = self._room.window if self._is_window_known else None
        of.journal.note(
            "compaction_started",
            self._record.agent_id,
            trigger=self._trigger,
            tokens=self._before,
            window=window,
        )
        of.budgets.open_turn(self._record.agent_id, turn_id, self._used_up)
        try:
            what = split(self._remembered.messages, int(self._room.fill * of.settings.context.keep))
            try:
                summary = await self._summarise(what)
            except CompactionFailedError as failed:
                await self._write(self._failed(failed.error))
                raise
            await self._write(self._done(what, summary))
        finally:
            of.budgets.drop_turn(turn_id)

    def _purpose(self) -> Purpose:
        agent = self._record.descriptor
        return Purpose(
            agent_id=agent.agent_id,
            name=f"{agent.name}-summary",
            toolset="compaction",
            system_prompt=SYSTEM_PROMPT,
            seconds=self._of.settings.engine.idle_timeout_seconds,
        )

    def _used_up(self, error: BudgetExceededError) -> None:
        self._over_budget = error

    def _summariser(self) -> ModelChoice:
        """Return the model that writes the summary: the configured one, else the agent's own."""
        text = self._of.settings.context.summary_model
        try:
            return resolve_model(text, self._own, self._of.listings.names)
        except ModelNotAvailableError as error:
            text = f"context.summary_model: {error.message}; {self._own.name} writes the summary"
            self._of.journal.note("notice", self._record.agent_id, level="warning", text=text)
            return self._own

    async def _summarise(self, what: Split) -> str:
        """Return the summary, written in as many parts as the summariser has room for."""
        try:
            provider = await self._aside.provider()
            room, summary = self._room_of_summariser(), self._remembered.summary
            for part in parts(what.older, room):
                if self._over_budget is not None:
                    raise self._over_budget
                summary = await self._ask(provider, request_text(summary, part, room))
        except (CompactionFailedError, BudgetExceededError):
            raise
        except PrsmError as error:
            raise self._failure(error.message) from error
        if summary is None:
            raise self._failure("its model has no room for any of it")
        return summary

    def _room_of_summariser(self) -> int:
        """Return how many tokens the summariser may be asked; the agent's, where nobody knows."""
        choice = self._choice
        window = self._of.providers.context_window(choice.provider, choice.model)
        if choice.name == self._own.name or window is None:
            return self._room.fill
        return Room.of(window, self._of.settings.context.fill).fill

    async def _ask(self, provider: GuardedProvider, text: str) -> str:
        """Return what the model answers to one request."""
        self._asked += count_tokens(SYSTEM_PROMPT) + count_tokens(text)
        answer, end = await self._aside.ask(provider, text)
        why = why_failed(end)
        if why is not None:
            raise self._failure(why, end.error)
        if answer is None:
            raise self._failure("the answer was empty")
        return answer

    def _meter(self, event: ProviderEvent) -> None:
        if isinstance(event, UsageReported):
            self._of.budgets.meter(self._fold.turn_id, self._fold.spent)

    def _failure(self, why: str, error: AgentError | None = None) -> CompactionFailedError:
        return CompactionFailedError(
            AgentError(
                kind=ErrorKind.COMPACTION_FAILURE,
                message=f"the conversation could not be summarised by {self._choice.name}: {why}",
                retryable=error is not None and error.retryable,
                retry_after_s=None if error is None else error.retry_after_s,
            )
        )

    def _failed(self, error: AgentError) -> Sequence[Write]:
        """Return what writes a compaction that has failed, and what it has used."""
        told = {"trigger": self._trigger, "turn": self._fold.turn_id, "error": error.to_dict()}
        ended = replace(self._fold.result(), stop_reason=StopReason.ERROR, error=error)
        return self._writes(ended, told)

    def _done(self, what: Split, summary: str) -> Sequence[Write]:
        """Return what writes one that has succeeded; the vendor's thread is given up with it."""
        record, fold = self._record, self._fold
        is_kept = any(m.role == "user" for m in what.kept)
        prompt = None if is_kept else self._remembered.prompt
        head = stands_for(summary, prompt, self._of.ids.ulid, self._now_ms())
        after = self._fixed + history_tokens(Conversation(head, what.kept).all)
        result = replace(
            fold.result(),
            messages=(fold.messages[-1],),
            compaction=self._result(what, summary, after),
        )
        told = {
            "trigger": self._trigger,
            "turn": fold.turn_id,
            "summary": summary,
            "kept": len(what.kept),
            "prompt": prompt,
            "model": self._choice.name,
            "tokens_before": self._before,
            "tokens_after": after,
            "error": None,
        }
        record.resume_token = record.context_used = None
        record.ride(ThreadKept(thread=None))
        return self._writes(result, told)

    def _result(self, what: Split, summary: str, after: int) -> CompactionResult:
        usage, turns = self._fold.usage, self._remembered.turns[: len(what.older)]
        kept = self._remembered.turns[len(what.older) :]
        told_in, told_out = usage.input_tokens, usage.output_tokens
        return CompactionResult(
            summary=summary,
            summarized_through_turn_id=turns[-1],
            first_kept_turn_id=kept[0] if kept else self._fold.turn_id,
            turns_summarized=len(set(turns)),
            model=self._choice.model,
            provider=self._choice.provider,
            tokens_before=self._before,
            tokens_after=after,
            summary_tokens=count_tokens(summary),
            summarization_input_tokens=self._asked if told_in is None else told_in,
            summarization_output_tokens=count_tokens(summary) if told_out is None else told_out,
            duration_ms=self._now_ms() - self._fold.started_at_ms,
            trigger=self._trigger,
        )

    def _writes(self, result: TurnResult, told: Mapping[str, Any]) -> Sequence[Write]:
        record, fold = self._record, self._fold
        opened = TurnOpened(
            turn_id=fold.turn_id,
            number=fold.number,
            parent_turn_id=record.head_turn_id,
            session_label=record.label,
            model=self._choice.model,
            provider=self._choice.provider,
            role="worker",
            toolset_name="compaction",
            tools_available=(),
            permissions_granted=(PermissionMode.PLAN.value,),
            workspace_path=self._of.workspace,
            started_at_ms=fold.started_at_ms,
            turn_type="compaction",
        )
        closed = TurnClosed(
            turn_id=fold.turn_id,
            parent_turn_id=record.head_turn_id,
            session_label=record.label,
            result=result,
            completed_at_ms=self._now_ms(),
            resume_token=record.resume_token,
        )
        self._of.budgets.close_turn(fold.turn_id, result.spent)
        record.next_turn, record.head_turn_id = fold.number + 1, fold.turn_id
        return opened, Told(kind="compaction_finished", data=told), closed

    async def _write(self, writes: Sequence[Write]) -> None:
        await self._of.steps.write(self._record, *writes)
