"""A turn in the ledger: the step by which it begins, what is told of it, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.tools import encode_data
from prsm_core.domain.writes import ThreadKept, Told, TurnClosed, TurnMetered, TurnOpened
from prsm_core.engine.guarded.failing import is_unfit
from prsm_core.engine.spending.budgets import price_of
from prsm_core.engine.tokens import count_tokens
from prsm_core.engine.turns.context import assemble_context, describe_window, window_of
from prsm_core.engine.turns.fold import UNTOLD, TurnFold, plain_call, plain_turn
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.sessions import TurnState
    from prsm_core.domain.steps import Step
    from prsm_core.domain.turns import AgentMessage, AgentToolCall, AssembledContext, TurnResult
    from prsm_core.domain.writes import StateChanged
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.calls import TurnCalls
    from prsm_core.engine.turns.clock import TurnClock
    from prsm_core.engine.turns.context import Prompt
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.engine.turns.vendor_calls import LiveTexts
    from prsm_core.interfaces.provider import ProviderSession


def kept_thread(
    record: AgentRecord, session: ProviderSession, *, is_over: bool = False
) -> tuple[ThreadKept, ...]:
    """Take note of the vendor's thread; return what keeps it, where it is another than before.

    Once its turn `is_over` a session that names none has none; before, it may not know it yet.
    """
    token, kept = session.resume_token, record.resume_token
    thread = sanitize(token) if isinstance(token, str) else None
    if thread == kept or (thread is None and not is_over):
        return ()
    record.resume_token = thread
    return (ThreadKept(thread=thread),)


def keep_used(
    record: AgentRecord, session: ProviderSession, fold: TurnFold, clock: TurnClock
) -> None:
    """Have the next step carry what the turn has used, and the thread: a crash may come."""
    keep_reasoning(record, clock)
    metered = TurnMetered(turn_id=fold.turn_id, spent=fold.spent)
    record.ride(metered, *kept_thread(record, session))


def keep_at_end(record: AgentRecord, session: ProviderSession, clock: TurnClock) -> None:
    """Have the turn's last step carry the thread that it leaves, and how long it has reasoned."""
    keep_reasoning(record, clock)
    record.ride(*kept_thread(record, session, is_over=True))


def keep_reasoning(record: AgentRecord, clock: TurnClock) -> None:
    """Take note of how long the agent has reasoned; a crash may lose a second of it."""
    record.reasoning_used = seconds = clock.reasoning
    if seconds - record.notes.reasoning_s >= 1.0:
        record.note(reasoning_s=round(seconds, 3))


def told_of(fold: TurnFold, message: AgentMessage) -> Told:
    """Return what tells of a turn's newest message."""
    data = {
        "turn": fold.turn_id,
        "role": message.role,
        "text": message.content,
        "thinking": message.thinking,
        "message": fold.said if message.role == "assistant" else None,
        "id": message.id,
        "again": message.again,
    }
    return Told(kind="message_completed", data=data)


def fold_of(
    record: AgentRecord,
    parts: TurnParts,
    was: TurnState | None,
    turn_id: str,
) -> TurnFold:
    """Return what a turn's events are added up in: a new one, or one as far as it `was`."""
    agent = record.descriptor
    return TurnFold(
        turn_id=turn_id,
        number=record.next_turn if was is None else was.number,
        started_at_ms=parts.calls.now_ms() if was is None else was.started_at,
        new_id=parts.new_id,
        now_ms=parts.calls.now_ms,
        price=price_of(parts.settings.budgets.prices, agent.provider, agent.model),
    )


class TurnBeginning(Struct, eq=False):
    """Makes the step by which one turn begins, or goes on."""

    record: AgentRecord
    parts: TurnParts
    fold: TurnFold
    tools: Toolbox
    parent_turn: str | None

    def make(
        self,
        prompt: Prompt,
        text: str | None,
        session: ProviderSession,
        *,
        is_new: bool,
        left_ms: int | None,
    ) -> tuple[AssembledContext, Step]:
        """Return what the model is given, with `text` for the prompt's own, and the step.

        `left_ms` is how long the turn may reason.
        """
        record, steps, fold = self.record, self.parts.steps, self.fold
        said: list[Told] = []
        current = None
        if text is not None:
            current = fold.add_message("user", text, again=prompt.again)
            said.append(told_of(fold, current))
        context = self._assemble(prompt, current, left_ms)
        changes: tuple[StateChanged, ...] = ()
        if record.state is not AgentState.RUNNING:
            changes = steps.move(record, AgentState.RUNNING, "turn started")
        thread = kept_thread(record, session)
        opened = (self._opened(prompt, context),) if is_new else ()
        return context, steps.build(record, *changes, *opened, *said, *thread)

    def _opened(self, prompt: Prompt, context: AssembledContext) -> TurnOpened:
        """Return what opens the turn; the agent's next one comes after it."""
        record, fold = self.record, self.fold
        record.next_turn += 1
        record.head_turn_id, record.context_used = fold.turn_id, context.token_budget.used
        # Noted with the turn itself: a prompt that was never sent has shown nothing.
        if prompt.reminds is not None:
            record.was_reminded(prompt.reminds)
        if prompt.repeats is not None:
            record.note(repeated=(*record.open_among(record.notes.repeated), prompt.repeats))
        descriptor = record.descriptor
        return TurnOpened(
            turn_id=fold.turn_id,
            number=fold.number,
            parent_turn_id=self.parent_turn,
            session_label=record.label,
            model=descriptor.model,
            provider=descriptor.provider,
            role=context.role,
            toolset_name=context.toolset_name,
            tools_available=tuple(sorted({*descriptor.tools, *self.tools.names})),
            permissions_granted=context.permissions_granted,
            workspace_path=self.parts.workspace(descriptor.cwd),
            started_at_ms=fold.started_at_ms,
            source_event_id=context.source_event_id,
            consumed=prompt.consumed,
        )

    def _assemble(
        self, prompt: Prompt, current: AgentMessage | None, left_ms: int | None
    ) -> AssembledContext:
        parts = self.parts
        return assemble_context(
            self.record,
            prompt.history,
            current,
            toolbox=self.tools,
            settings=parts.settings,
            run_id=parts.journal.run_id,
            workspace=parts.workspace(self.record.descriptor.cwd),
            window=window_of(self.record, parts.window),
            system_prompt=parts.system_prompt(self.record.descriptor),
            images=parts.calls.images,
            timeout_ms=left_ms,
            source=next(iter(prompt.consumed), None),
            abort_signal=parts.abort.signal,
        )


class TurnEnding(Struct, eq=False):
    """Ends what works for one turn, and writes its end."""

    record: AgentRecord
    parts: TurnParts
    fold: TurnFold
    calls: TurnCalls
    # What of its texts is being told, if any streamed.
    live: LiveTexts | None
    parent_turn: str | None

    async def end_handlers(self) -> None:
        """End what works for the turn: open calls, and requests that wait for a person.

        Nothing more is told of the calls of its vendor: none runs any more.
        """
        agent = self.record.agent_id
        resolved = self.parts.requests.close_agent(agent, "turn_ended")
        await self.calls.end()
        if resolved:
            await self.parts.steps.write(self.record, *resolved)
        self.parts.broker.turn_over(agent)
        self.parts.quiet.turn_over(agent)

    async def write(self) -> TurnResult:
        """Write the end; where that is not fit to be written, what the turn used, and why."""
        try:
            return await self._write([*self._cut_off_text(), *self._cut_off_calls()])
        except Exception as error:
            if not is_unfit(error):
                raise
            return await self._write(self._cut_off_calls(), error)

    async def _write(self, cut_off: Sequence[Told], unfit: Exception | None = None) -> TurnResult:
        record, parts, fold = self.record, self.parts, self.fold
        result = fold.result() if unfit is None else plain_turn(unfit, fold)
        ours = list(self.calls.rows.values())
        if unfit is not None:
            ours = [plain_call(call, parts.journal.redact) for call in ours]
        calls = sorted((*result.tool_calls, *ours), key=lambda c: c.sequence)
        result = replace(result, tool_calls=tuple(calls))
        parts.budgets.close_turn(fold.turn_id, result.spent)
        record.context_used = self._thread_tokens(calls)
        record.context_window = fold.context.context_window or record.context_window
        closed = TurnClosed(
            turn_id=fold.turn_id,
            parent_turn_id=self.parent_turn,
            session_label=record.label,
            result=result,
            completed_at_ms=self.parts.calls.now_ms(),
            resume_token=record.resume_token,
            window=describe_window(fold.context, self._known_window),
        )
        await parts.steps.write(record, *cut_off, closed)
        return result

    def _thread_tokens(self, calls: Iterable[AgentToolCall]) -> int | None:
        """Return how much the vendor's thread holds now: as it says, else with what came to it."""
        held = self.record.context_used
        if self.fold.thread_used is not None or held is None:
            return self.fold.thread_used
        said = [message.content for message in self.fold.messages if message.role == "assistant"]
        for call in calls:
            said += [encode_data(call.params), call.result or call.error or ""]
        return held + sum(map(count_tokens, said))

    def _known_window(self) -> int | None:
        """Return the size of the model's window in tokens, as far as it was known before."""
        return window_of(self.record, self.parts.window)

    def _cut_off_text(self) -> list[Told]:
        """Return what tells of the message that the turn's end has cut off."""
        if self.live is not None:
            self.live.end_all()
        partial = self.fold.end_partial()
        return [] if partial is None else [told_of(self.fold, partial)]

    def _cut_off_calls(self) -> list[Told]:
        """Return what tells of the calls that the turn's end has cut off, and the ledger has."""
        told = [call.cut_off() for call in self.calls.cut_off if not call.is_refused]
        for call in self.fold.open_calls():
            data = {"call": call.id, "status": "unknown", "error": UNTOLD}
            told.append(Told(kind="tool_call_finished", data=data))
        return told
