"""Compaction: summarise a conversation that is too long, and continue from the summary.

One step writes the `compaction` turn with its usage, its row among the compactions, and that the
vendor's thread is given up. So a crash leaves the old thread or the new conversation, never half of
either. A summary that a crash cuts off is not charged.
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
from prsm_core.engine.agents.opening import CompactionFailedError, stands_for
from prsm_core.engine.agents.side_query import SideQuery, why_failed
from prsm_core.engine.providers.model_choice import model_of, resolve_model
from prsm_core.engine.tokens import (
    Room,
    clipped,
    count_tokens,
    history_tokens,
    message_tokens,
    newest,
)
from prsm_core.errors import BudgetExceededError, ModelNotAvailableError, PrsmError
from prsm_core.kit.quotation import RULE, quote, quote_conversation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core.domain.notes import ModelChoice
    from prsm_core.domain.turns import AgentMessage, ProviderEvent
    from prsm_core.engine.agents.opening import Contexts, Remembered, Trigger
    from prsm_core.engine.guarded.provider import GuardedProvider, Opener
    from prsm_core.engine.state import AgentRecord


SYSTEM_PROMPT = f"""\
You summarise the conversation of a coding agent. The agent goes on with your summary instead of \
the conversation, so it must hold all that is still of use: the task and every wish and \
decision, word for word where words matter; what was done, with the names of files, commands and \
agents; what was found out; what is open, and what comes next. Leave out what no longer matters. \
You have no tools. Answer with the summary alone.
{RULE}"""
MAX_TOKENS = 4000  # of a summary
_SHARE = 8  # it is an eighth of the room at most
_WORDS_PER_TOKEN = 0.5
_BEFORE = "Your summary of what came before:"
_ASK = "Summarise this conversation, in {words} words at most."


def summary_tokens(room: int) -> int:
    """Return how long a summary may be in a context of this size."""
    return max(1, min(MAX_TOKENS, room // _SHARE))


def parts(messages: Sequence[AgentMessage], room: int) -> Iterator[tuple[AgentMessage, ...]]:
    """Yield the messages in order, in parts that each fit one request, cut if need be."""
    left = room - count_tokens(SYSTEM_PROMPT) - count_tokens(_ask(room)) - 2 * summary_tokens(room)
    part: list[AgentMessage] = []
    for message in messages:
        fitting = clipped(message, left)
        if fitting is None:
            continue  # not even a word of it
        if part and history_tokens(part) + message_tokens(fitting) > left:
            yield tuple(part)
            part = []
        part.append(fitting)
    if part:
        yield tuple(part)


def request_text(before: str | None, part: Sequence[AgentMessage], room: int) -> str:
    """Return the request for one part, with the summary of the parts before."""
    told = quote_conversation((message.role, message.content) for message in part)
    texts = [told, _ask(room)]
    return "\n\n".join(texts if before is None else [f"{_BEFORE}\n{quote(before)}", *texts])


def _ask(room: int) -> str:
    return _ASK.format(words=max(50, int(summary_tokens(room) * _WORDS_PER_TOKEN)))


class Compaction:
    """One compaction of an agent's conversation, between turns and without a session."""

    def __init__(
        self,
        record: AgentRecord,
        contexts: Contexts,
        remembered: Remembered,
        trigger: Trigger,
        fixed: int,  # tokens of the system prompt and the tools
        room: Room | None,  # of the agent's model; None: nobody knows it
        opener: Opener,
    ) -> None:
        self._record, self._contexts, self._remembered = record, contexts, remembered
        self._trigger, self._fixed = trigger, fixed
        self._over_budget: BudgetExceededError | None = None
        whole = fixed + history_tokens(remembered.conversation.all)
        self._before = record.context_used or whole
        # What a model has refused tells its window, where nobody else does: half of it will do.
        self._room = room or Room.of(max(2, whole // 2), contexts.settings.context.fill)
        self._is_window_known = room is not None
        self._asked = 0  # tokens, as they are counted
        self._own = model_of(record.descriptor)
        self._choice = self._summariser()
        self._query = SideQuery(
            record=record,
            choice=self._choice,
            contexts=contexts,
            opener=opener,
            agent_id=record.agent_id,
            name=f"{record.descriptor.name}-summary",
            toolset="compaction",
            number=record.next_turn,
            system_prompt=SYSTEM_PROMPT,
            seconds=contexts.settings.engine.idle_timeout_seconds,
            on_event=self._meter,
        )
        self._fold = self._query.fold

    async def run(self) -> None:
        """Compact the conversation, or change nothing and raise CompactionFailedError."""
        if all(message.role != "assistant" for message in self._remembered.messages):
            raise CompactionFailedError(
                AgentError(
                    kind=ErrorKind.CONTEXT_OVERFLOW,
                    message="there is nothing that could be summarised but the prompt itself",
                )
            )
        contexts, turn_id = self._contexts, self._fold.turn_id
        window = self._room.window if self._is_window_known else None
        contexts.journal.note(
            "compaction_started",
            self._record.agent_id,
            trigger=self._trigger,
            tokens=self._before,
            window=window,
        )
        contexts.budgets.open_turn(self._record.agent_id, turn_id, self._used_up)
        try:
            room = int(self._room.fill * contexts.settings.context.keep)
            messages = self._remembered.messages
            # Where all fit the rest of the context is too much, and something has to go.
            count = len(messages) - len(newest(messages, room)) or len(messages)
            try:
                summary = await self._summarise(messages[:count])
            except CompactionFailedError as failed:
                error = failed.error
                told = {"trigger": self._trigger, "turn": turn_id, "error": error.to_dict()}
                ended = replace(self._fold.result(), stop_reason=StopReason.ERROR, error=error)
                await self._write(ended, told)
                raise
            await self._write(*self._done(count, summary))
        finally:
            contexts.budgets.drop_turn(turn_id)

    def _used_up(self, error: BudgetExceededError) -> None:
        self._over_budget = error

    def _summariser(self) -> ModelChoice:
        text = self._contexts.settings.context.summary_model
        try:
            return resolve_model(text, self._own, self._contexts.listings.names)
        except ModelNotAvailableError as error:
            text = f"context.summary_model: {error.message}; {self._own.name} writes the summary"
            self._contexts.journal.note("notice", self._record.agent_id, level="warning", text=text)
            return self._own

    async def _summarise(self, older: Sequence[AgentMessage]) -> str:
        try:
            provider = await self._query.provider()
            room, summary = self._room_of_summariser(), self._remembered.summary
            for part in parts(older, room):
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
        """Return the summariser's room in tokens; the agent's if its own is unknown."""
        choice = self._choice
        window = self._contexts.providers.context_window(choice.provider, choice.model)
        if choice.name == self._own.name or window is None:
            return self._room.fill
        return Room.of(window, self._contexts.settings.context.fill).fill

    async def _ask(self, provider: GuardedProvider, text: str) -> str:
        self._asked += count_tokens(SYSTEM_PROMPT) + count_tokens(text)
        answer, end = await self._query.ask(provider, text)
        why = why_failed(end)
        if why is not None:
            raise self._failure(why, end.error)
        if answer is None:
            raise self._failure("the answer was empty")
        return answer

    def _meter(self, event: ProviderEvent) -> None:
        if isinstance(event, UsageReported):
            self._contexts.budgets.meter(self._fold.turn_id, self._fold.spent)

    def _failure(self, why: str, error: AgentError | None = None) -> CompactionFailedError:
        return CompactionFailedError(
            AgentError(
                kind=ErrorKind.COMPACTION_FAILURE,
                message=f"the conversation could not be summarised by {self._choice.name}: {why}",
                retryable=error is not None and error.retryable,
                retry_after_s=None if error is None else error.retry_after_s,
            )
        )

    def _done(self, count: int, summary: str) -> tuple[TurnResult, Mapping[str, Any]]:
        record, fold = self._record, self._fold
        kept = self._remembered.messages[count:]
        is_kept = any(message.role == "user" for message in kept)
        prompt = None if is_kept else self._remembered.prompt
        head = stands_for(summary, prompt, self._contexts.ids.ulid, self._contexts.now_ms())
        after = self._fixed + history_tokens((*head, *kept))
        result = replace(
            fold.result(),
            messages=(fold.messages[-1],),
            compaction=self._result(count, summary, after),
        )
        told = {
            "trigger": self._trigger,
            "turn": fold.turn_id,
            "summary": summary,
            "kept": len(kept),
            "prompt": prompt,
            "model": self._choice.name,
            "tokens_before": self._before,
            "tokens_after": after,
            "error": None,
        }
        record.resume_token = record.context_used = None
        record.ride(ThreadKept(thread=None))
        return result, told

    def _result(self, count: int, summary: str, after: int) -> CompactionResult:
        usage, turns = self._fold.usage, self._remembered.turns[:count]
        kept = self._remembered.turns[count:]
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
            duration_ms=self._contexts.now_ms() - self._fold.started_at_ms,
            trigger=self._trigger,
        )

    async def _write(self, result: TurnResult, told: Mapping[str, Any]) -> None:
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
            workspace_path=self._contexts.workspace,
            started_at_ms=fold.started_at_ms,
            turn_type="compaction",
        )
        closed = TurnClosed(
            turn_id=fold.turn_id,
            parent_turn_id=record.head_turn_id,
            session_label=record.label,
            result=result,
            completed_at_ms=self._contexts.now_ms(),
            resume_token=record.resume_token,
        )
        self._contexts.budgets.close_turn(fold.turn_id, result.spent)
        record.next_turn, record.head_turn_id = fold.number + 1, fold.turn_id
        finished = Told(kind="compaction_finished", data=told)
        await self._contexts.steps.write(record, opened, finished, closed)
