"""Run one turn: opened in the ledger, streamed from the provider, closed in the ledger.

The phases are a table. In RESTING the agent is blocked and gives its slot back.

NEW ⇄ STREAMING: the ledger opens the turn, or refuses and nothing has begun. STREAMING ⇄ RESTING:
the model's response is complete while a call is open, until the last call is answered or the model
speaks again. Both → CLOSING → CLOSED: the stream is over, what works for the turn is ended, its end
is written. Both → VOID → CLOSED: the provider does not let go, so somebody else closes the turn and
ignores what the provider still yields. Nothing leaves CLOSED, so no turn is closed twice.

A turn left open by an earlier engine goes NEW → SETTLING: its calls are answered without a
provider. Then it is STREAMING, or CLOSING if it ends with that. RESTING → PARKED → SETTLING: the
session is closed to give its process to others. Nothing is answered until it has ended.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.notes import WentOn
from prsm_core.domain.tools import encode_data
from prsm_core.domain.turns import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    Notice,
    PlanUpdated,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.writes import ThreadKept, Told, TurnClosed, TurnMetered, TurnOpened
from prsm_core.engine.guarded.failing import breaks_ledger, describe, is_unfit, keepable
from prsm_core.engine.spending import price_of
from prsm_core.engine.turns.calls import LongCalls, TurnCalls
from prsm_core.engine.turns.context import assemble_context, count_tokens, window_of
from prsm_core.engine.turns.fold import UNTOLD, TurnFold, plain_call, plain_turn
from prsm_core.engine.turns.limits import (
    QUIET_SECONDS,
    Allowance,
    Owner,
    TurnClock,
    TurnLimits,
    TurnStop,
)
from prsm_core.engine.turns.vendor_calls import LiveTexts, VendorCalls
from prsm_core.kit.sanitize import sanitize
from prsm_core.lifecycle import Machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.permissions import PermissionRequest
    from prsm_core.domain.steps import Step, Write
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.domain.turns import (
        AgentMessage,
        AgentToolCall,
        AssembledContext,
        ProviderEvent,
        TurnResult,
    )
    from prsm_core.engine.turns.call import Call, Toolbox
    from prsm_core.engine.turns.context import Prompt
    from prsm_core.engine.turns.going_on import GoingOn
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.engine.turns.ports import Life
    from prsm_core.engine.turns.stuck import StuckWatch
    from prsm_core.interfaces.provider import ProviderSession


class TurnPhase(StrEnum):
    """The phases of a turn."""

    NEW = "new"
    PARKED = "parked"
    SETTLING = "settling"
    STREAMING = "streaming"
    RESTING = "resting"
    CLOSING = "closing"
    VOID = "void"
    CLOSED = "closed"


# An enum's member is looked up by code in Python: those that each call asks for are named here.
PARKED, STREAMING, RESTING = TurnPhase.PARKED, TurnPhase.STREAMING, TurnPhase.RESTING
# The provider streams the turn, and its events count.
LIVE = frozenset({STREAMING, RESTING})
# The turn must be closed in the ledger, and nobody does so yet.
OPEN = LIVE | {TurnPhase.PARKED, TurnPhase.SETTLING}
# The model gives no response now.
_AT_REST = frozenset({TurnPhase.RESTING, TurnPhase.SETTLING})
_ENDS = frozenset({TurnPhase.CLOSING, TurnPhase.VOID})

TURN_MACHINE: Machine[TurnPhase] = Machine(
    "turn",
    {
        TurnPhase.NEW: {TurnPhase.STREAMING, TurnPhase.SETTLING},
        TurnPhase.SETTLING: {TurnPhase.STREAMING} | _ENDS,
        TurnPhase.STREAMING: {TurnPhase.NEW, TurnPhase.RESTING} | _ENDS,
        TurnPhase.RESTING: {TurnPhase.STREAMING, TurnPhase.PARKED} | _ENDS,
        TurnPhase.PARKED: {TurnPhase.SETTLING} | _ENDS,
        TurnPhase.CLOSING: {TurnPhase.CLOSED},
        TurnPhase.VOID: {TurnPhase.CLOSED},
    },
)


class TurnOwner(Owner, Protocol):
    """The session that runs a turn."""

    tools: Toolbox
    stuck: StuckWatch
    is_external: bool  # somebody outside drives it: no clock of reasoning or silence runs

    @property
    def life(self) -> Life:
        """The life that the turn belongs to."""


class TurnRun:
    """Owns one turn: its phase, its beginning and end in the ledger, and its events."""

    def __init__(
        self,
        of: TurnOwner,
        parts: TurnParts,
        provider: ProviderSession,
        prompt: Prompt,
        going_on: GoingOn | None = None,
    ) -> None:
        record, clock = of.life.record, parts.clock
        agent, limits = record.descriptor, parts.settings.engine
        self._life, self._record, self._stuck = of.life, record, of.stuck
        self._parts, self._provider, self._prompt = parts, provider, prompt
        self.going_on = going_on  # None: a new turn
        was = None if going_on is None else going_on.state
        self.turn_id = parts.new_id() if was is None else was.turn_id
        self.calls = TurnCalls(self, of.life, parts, of.tools)
        # Calls that outlive their client's patience.
        self.earlier = LongCalls(self.calls)
        self.fold = TurnFold(
            turn_id=self.turn_id,
            number=record.next_turn if was is None else was.number,
            started_at_ms=parts.now_ms() if was is None else was.started_at,
            new_id=parts.new_id,
            now_ms=parts.now_ms,
            price=price_of(parts.settings.budgets.prices, agent.provider, agent.model),
        )
        # The calls of the vendor's own tools.
        self.vendors = VendorCalls(of.life, self.fold, of.stuck, parts)
        self.is_external = of.is_external
        self.clock = TurnClock(
            clock,
            idle_seconds=math.inf if of.is_external else limits.idle_timeout_seconds,
            tool_seconds=limits.tool_timeout_seconds,
            used=record.reasoning_used,
        )
        self.stop = TurnStop(parts.background, clock, provider, of.life, of)
        allowance = Allowance(clock) if parts.budgets.is_limited(record.agent_id) else None
        self.limits = TurnLimits(self, self.clock, clock, allowance, self.stop)
        self._phase, self.heard_from = TurnPhase.NEW, 0
        self._parent_turn = record.head_turn_id if was is None else was.parent_turn_id
        if going_on is not None:
            self.calls.take_up(going_on, self.fold)
            of.stuck.go_on(going_on.state)
        self._live = LiveTexts(parts.journal, record.agent_id, self.fold)

    def _enter(self, phase: TurnPhase) -> None:
        TURN_MACHINE.validate(self._phase, phase)
        if self._phase in _AT_REST:  # its calls may still wait, yet it is in no knot
            self._life.moved()
        self._phase = phase

    @property
    def is_idle(self) -> bool:
        """Whether the session does nothing: all that runs waits for agents or a person."""
        calls = self.calls.open
        no_other_tool = bool(calls) and self.clock.open_tools == len(calls)
        return self._phase is RESTING and no_other_tool and all(call.is_idle for call in calls)

    def is_blocked(self, *, without: Call | None = None) -> bool:
        """Whether the model's response is complete and all that runs waits for other agents."""
        return self._phase in _AT_REST and self._only_waits(without)

    def _only_waits(self, without: Call | None = None) -> bool:
        no_other_tool = self.clock.open_tools == len(self.calls.open)
        return no_other_tool and self.calls.all_wait(without=without)

    def call_began(self) -> None:
        """Stop the reasoning clock; the agent moves until the call waits."""
        self._life.moved()
        self.clock.tool_started()

    def call_ended(self) -> None:
        """Let the reasoning clock continue."""
        self.clock.tool_finished()
        self.call_closed()

    def calls_changed(self) -> None:
        """Let the agent wait if everything it does is waiting."""
        life, is_blocked = self._life, self.is_blocked()
        newest: object = life.turn
        may_change = is_blocked or life.is_blocked or self.calls.asking
        if not may_change or newest is not self or life.is_over:
            return
        if is_blocked:
            waits = [call.wait for call in self.calls.open if call.wait is not None]
            life.blocked(tuple(waits))
            return
        life.moved()
        if self.calls.asking and self.is_idle:
            life.idles()

    def pause(self) -> None:
        """Count as running a tool: while a person decides nobody reasons or is silent."""
        self.call_began()

    def go_on(self) -> None:
        """Count as running no tool."""
        self.clock.tool_finished()
        self.calls_changed()

    def call_closed(self) -> None:
        """Note that a call was answered; after the last one the model streams again."""
        if self.has_open_call or self._phase is PARKED:
            return
        self._stream_goes_on()
        self.limits.answered()

    @property
    def has_open_call(self) -> bool:
        """Whether any call, the vendor's or ours, is unanswered."""
        return bool(self.calls.open) or self.fold.has_running

    async def model_speaks(self) -> None:
        """Note that the model streams, even if a call still waits."""
        if self._phase is RESTING:
            self._stream_goes_on()
            await self._life.runs_again(self.is_blocked)

    def _rest(self, resting: bool) -> None:
        phase = RESTING if resting else STREAMING
        if self._phase in LIVE and self._phase is not phase:
            self._enter(phase)

    def _stream_goes_on(self) -> None:
        self._rest(False)
        self.clock.touch()  # silence counts from now
        self.limits.hurry()

    @property
    def is_completing(self) -> bool:
        """Whether task_complete was accepted, or is about to be."""
        return self.calls.is_completing

    def fall_quiet(self) -> None:
        """Take the model's response to be complete."""
        self._rest(True)
        self.calls_changed()

    def quiet_in(self) -> float:
        """Return the seconds until silence means that the response is complete."""
        if self._phase is not STREAMING:
            return math.inf
        if not self._only_waits():
            return QUIET_SECONDS
        return self.clock.last_event + QUIET_SECONDS - self._parts.clock.now()

    def warn(self, what: str) -> None:
        """Warn a person about the provider."""
        agent = self._record.descriptor
        self._parts.journal.warn(agent.agent_id, f"{agent.provider}/{agent.model} {what}")

    async def run(self) -> TurnResult | None:
        """Run the turn to its end in the ledger and return its result; None if it was parked.

        A parked turn's session must be left before the turn is taken up and settled.

        Two may cancel the task: the engine, if a turn does not stop when asked, and whoever ends
        the agent. The provider may swallow either. `take_back` withdraws the engine's own
        cancellation and says whether it was the only one; the turn then ends in order, with the
        reason for the stop. Any other cancellation goes on to the caller. A turn closed meanwhile
        ends as if cancelled.
        """
        self.stop.begin(asyncio.current_task())
        try:
            if (end := self.stop.end()) is None:
                context = await self._open()
                try:
                    async with aclosing(self._provider.run_turn(context)) as stream:  # type: ignore[type-var]
                        async for event in stream:
                            if self._phase not in LIVE or await self._take_last(event):
                                break
                except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - it raises
                    self._endure(error)
                else:
                    self.stop.take_back()  # the provider has kept it to itself
                self._check_open()
            else:  # of a turn that goes on, before it had a session
                self.fold.end = end
            if self.is_parked:
                self._keep_used()
                self.stop.pause()
                return None
            await self._parts.steering.settled(self._record.agent_id)
            await self._check_room()
            return await self._close()
        except BaseException as error:
            await self._break_off(error)
            raise
        finally:
            self._let_go()

    async def _check_room(self) -> None:
        """Raise StoreError and leave the turn open if a full disk made it fail."""
        end, journal = self.fold.end, self._parts.journal
        if end is not None and end.error and await journal.stops_for(end.error.message):
            journal.soundness.check()

    def _endure(self, error: BaseException) -> None:
        """Withdraw the engine's cancellation, or raise what ended an uncompleted stream."""
        if isinstance(error, asyncio.CancelledError):
            if not self.stop.take_back():
                raise error
            return
        if not self.calls.has_completed or breaks_ledger(error):
            raise error
        text = keepable(describe(error), self._parts.journal.redact)
        self._parts.journal.warn(self._record.agent_id, text)

    def _let_go(self) -> None:
        self.limits.end()
        if not self.is_parked:
            self.stop.over()
            self._parts.budgets.drop_turn(self.turn_id)  # it may not even have begun

    def forget(self) -> None:
        """Drop the circular references of an ended agent's turn."""
        del self.calls.turn
        del self.limits

    @property
    def is_parked(self) -> bool:
        """Whether the turn is open with its session closed, to give the process to others."""
        return self._phase is PARKED

    def park(self) -> bool:
        """Close the session of a turn that only waits; return whether it does."""
        if self.stop.end() is not None or self._record.is_condemned or not self.is_idle:
            return False
        self._enter(PARKED)
        self.clock.pause()
        self.calls.leave_open()
        self._parts.background.launch(self._leave_session(), name="parking")
        return True

    async def _leave_session(self) -> None:
        await self.calls.let_go()
        if self.is_parked:
            await self._provider.park()
        if self.is_parked:
            self.stop.ask()  # unless it has ended with that

    def take_up(self, going_on: GoingOn, nobody: ProviderSession) -> None:
        """Prepare a parked turn whose session is gone for `settle`."""
        self.going_on, self._provider = going_on, nobody
        # Their client is gone, and knows no token any more.
        self.earlier = LongCalls(self.calls)
        self.stop.attach(nobody)
        self.calls.take_back(going_on)

    async def settle(self) -> TurnResult | None:
        """Answer the calls that an earlier session left open, without a provider.

        Return the result if the turn ends with that. Else the turn is `run` once a session is
        attached. A turn closed meanwhile ends as in `run`.
        """
        going_on = self.going_on
        if going_on is None:
            raise RuntimeError("a new turn has nothing to settle")
        self.stop.begin(asyncio.current_task(), is_alone=True)
        self.clock.pause()
        self._enter(TurnPhase.SETTLING)
        try:
            try:
                if self._record.claimed_result is not None:  # with that all other calls ended
                    self.fold.end = TurnEnded(StopReason.END_TURN)
                if not (self.fold.end or self.stop.end()):  # asked to end while it was parked
                    going_on.outcomes = await self.calls.settle()
                    await self.stop.hear()
            except asyncio.CancelledError:
                if not self.stop.take_back():
                    raise
            self._check_open()
            if self.fold.end is None and not self.calls.has_completed:
                self.stop.pause()
                return None
            result = await self._close()
        except BaseException as error:
            await self._break_off(error)
            raise
        self.stop.over()
        return result

    def _check_open(self) -> None:
        """Note that nothing streams or settles any more; raise if others closed the turn."""
        if self._phase not in OPEN:
            raise asyncio.CancelledError  # this one too
        self.fold.end = self.stop.end() or self.fold.end

    async def drop(self) -> None:
        """Close a turn that is not continued and was not settled."""
        self._enter(TurnPhase.SETTLING)
        await self.abandon()

    def attach(self, provider: ProviderSession, prompt: Prompt) -> None:
        """Use this session from now on; `prompt` has what the vendor's thread lacks."""
        self._provider, self._prompt = provider, prompt
        self.stop.attach(provider)
        self.calls.begin_anew()
        self.clock.go_on()

    @property
    def is_running(self) -> bool:
        """Whether the provider streams the turn, and its events count."""
        return self._phase in LIVE and self.fold.end is None

    @property
    def is_open(self) -> bool:
        """Whether the turn continues, with a session or without."""
        return self._phase in OPEN and self.fold.end is None

    def interrupt(self) -> None:
        """End the turn soon because a person wants it."""
        self.stop.is_by_person = True
        self.stop.ask()

    async def steer(self, text: str) -> bool:
        """Say something to the model within the turn; return whether the provider took it."""
        shown = self._parts.images(self._record, (text,))
        if not self.is_running or not await self._provider.steer(text, shown):
            return False
        self.heard_from = self.fold.responses + (self._phase is not RESTING)
        await self._tell(self.fold.add_message("user", text))
        return True

    def tell(self, text: str) -> None:
        """Tell the model something with its next answer or prompt."""
        self._stuck.tell(text)

    async def _open(self) -> AssembledContext:
        phase, prompt = self._phase, self._prompt
        text = self._stuck.begin_turn(prompt.text)
        if self.going_on is not None:  # this rides in the step by which it goes on
            said, responses = len(self.fold.messages), self.fold.responses
            went_on = WentOn(turn=self.turn_id, responses=responses, messages=said)
            self._record.note(went_on=went_on)
        context, step = self._beginning(prompt, text)
        if context.timeout_ms is not None:
            self.clock.bound(context.timeout_ms)
        self._enter(STREAMING)  # written or not if this is cancelled: it must be closed
        try:
            await self._parts.steps.commit(step, consumed=prompt.consumed)
        except Exception:
            if phase is TurnPhase.NEW:
                self._enter(phase)
            raise
        self.limits.begin()
        return context

    def _beginning(self, prompt: Prompt, text: str | None) -> tuple[AssembledContext, Step]:
        """Return the context, with `text` as prompt, and the step that begins or continues it."""
        record, steps = self._record, self._parts.steps
        message = None if text is None else self.fold.add_message("user", text, again=prompt.again)
        limit = self._parts.settings.engine.agent_timeout_seconds
        context = assemble_context(
            record,
            prompt,
            message,
            parts=self._parts,
            toolbox=self.calls.tools,
            timeout_ms=None if self.is_external else self.clock.left_of(limit),
        )
        writes: list[Write] = []
        if record.state is not AgentState.RUNNING:
            writes += steps.move(record, AgentState.RUNNING, "turn started")
        if self.going_on is None:
            writes.append(self._opened(prompt, context))
        if message is not None:
            writes.append(self._told(message))
        return context, steps.build(record, *writes, *self._kept_thread())

    def _opened(self, prompt: Prompt, context: AssembledContext) -> TurnOpened:
        record, agent = self._record, self._record.descriptor
        record.next_turn += 1
        record.head_turn_id, record.context_used = self.turn_id, context.token_budget.used
        # Noted with the turn itself: a prompt that was never sent has shown nothing.
        if prompt.reminds is not None:
            record.was_reminded(prompt.reminds)
        if prompt.repeats is not None:
            record.note(repeated=(*record.open_among(record.notes.repeated), prompt.repeats))
        return TurnOpened(
            turn_id=self.turn_id,
            number=self.fold.number,
            parent_turn_id=self._parent_turn,
            session_label=record.label,
            model=agent.model,
            provider=agent.provider,
            role=context.role,
            toolset_name=context.toolset_name,
            tools_available=tuple(sorted({*agent.usable_tools, *self.calls.tools.names})),
            permissions_granted=context.permissions_granted,
            workspace_path=context.workspace_path,
            started_at_ms=self.fold.started_at_ms,
            source_event_id=context.source_event_id,
            consumed=prompt.consumed,
        )

    def _kept_thread(self, *, is_over: bool = False) -> tuple[ThreadKept, ...]:
        """Return the write of a changed thread; none is known before the turn `is_over`."""
        token = self._provider.resume_token
        thread = sanitize(token) if isinstance(token, str) else None
        if thread == self._record.resume_token or (thread is None and not is_over):
            return ()
        self._record.resume_token = thread
        return (ThreadKept(thread=thread),)

    def _keep_used(self) -> None:
        self._keep_reasoning()
        metered = TurnMetered(turn_id=self.turn_id, spent=self.fold.spent)
        self._record.ride(metered, *self._kept_thread())

    def _keep_reasoning(self) -> None:
        """Note the reasoning time; a crash may lose a second of it."""
        self._record.reasoning_used = seconds = self.clock.reasoning
        if seconds - self._record.notes.reasoning_s >= 1.0:
            self._record.note(reasoning_s=round(seconds, 3))

    def _told(self, message: AgentMessage) -> Told:
        data = {
            "turn": self.turn_id,
            "role": message.role,
            "text": message.content,
            "thinking": message.thinking,
            "message": self.fold.said if message.role == "assistant" else None,
            "id": message.id,
            "again": message.again,
        }
        return Told(kind="message_completed", data=data)

    async def _tell(self, message: AgentMessage) -> None:
        told = self._told(message)
        await self._parts.journal.fact(told.kind, self._record.agent_id, **told.data)

    async def _take_last(self, event: ProviderEvent) -> bool:
        self.clock.touch()
        known: ProviderEvent | None = sanitize(event)
        if isinstance(known, (ToolCallStarted, ToolCallFinished, ToolOutput)):
            known = self.vendors.known(known)
        if known is not None and not self.fold.contradicts(known):
            await self._take(known)
        return isinstance(event, TurnEnded)

    async def _take(self, event: ProviderEvent) -> None:
        self.fold.fold(event)
        self.limits.heard(event)
        self._live.heed(event)
        match event:
            case StepEnded():  # the first, since it ends every response
                self._rest(self.has_open_call)  # else the next response streams already
                self.calls_changed()
                self._parts.steering.look(self._record.agent_id)
            case TextDelta() | ThinkingDelta():
                await self.model_speaks()
            case AssistantMessage(text):
                message = self.fold.messages[-1]
                self._stuck.said(text)
                await self.model_speaks()
                await self._tell(message)
            case ToolCallStarted():
                self.clock.tool_started(event.call_id)
                self.limits.hurry()
                await self.vendors.started(event)
                await self._life.runs_again(self.is_blocked)
            case ToolCallFinished():
                self.clock.tool_finished(event.call_id)
                self.call_closed()
                await self.vendors.ended(event)
                self.calls_changed()
            case UsageReported():
                self._parts.budgets.meter(self.turn_id, self.fold.spent)
                self._keep_used()
                if self.has_open_call:  # it may wait for hours: no step would carry this before
                    self._parts.steps.stage(self._record)
            case Notice():
                agent = self._record.agent_id
                await self._parts.journal.fact("notice", agent, **event.to_dict())
            case PlanUpdated():
                await self.vendors.planned(event)
        self.limits.heed(event)

    def answered(self, call: Call, outcome: ToolOutcome) -> ToolOutcome:
        """Note an answer; return it with what the agent must be told."""
        outcome = self._stuck.answered(call, outcome)
        return self._parts.with_news(self._record, call.name, outcome)

    @property
    def is_held(self) -> bool:
        """Whether its budget ends the turn."""
        return self.stop.over_budget is not None

    async def hold(self) -> bool:
        """Wait for the end of a turn that its budget ends; else return False at once."""
        return self.stop.over_budget is not None and await self.stop.hold()

    async def allow(self, request: PermissionRequest) -> bool:
        """Note a vendor's call that may run; False if the turn is over."""
        if self.is_open:
            await self.vendors.allowed(request)
        return self.is_open

    async def abandon(self) -> None:
        """Close a turn in the ledger although its provider ignored the cancellation."""
        if self._phase in OPEN and not self._parts.journal.is_suspended:
            self._enter(TurnPhase.VOID)
            await self._cut_short(asyncio.CancelledError())

    async def _break_off(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            await self._parts.journal.stops_for(describe(error))
        if self._parts.journal.is_suspended:
            return
        if self._phase in OPEN or self._phase is TurnPhase.CLOSING:
            await self._cut_short(error)

    async def _cut_short(self, error: BaseException) -> None:
        if self.fold.end is None and isinstance(error, asyncio.CancelledError):
            self.fold.end = TurnEnded(StopReason.ABORTED)
        elif self.fold.end is None:
            broken = AgentError(kind=ErrorKind.UNKNOWN, message=describe(error))
            self.fold.end = TurnEnded(StopReason.ERROR, broken)
        await self._close()

    async def _close(self) -> TurnResult:
        if self._phase in OPEN:
            self._enter(TurnPhase.CLOSING)
        self.stop.closing()
        await self._end_handlers()
        self.vendors.settle()
        if self.calls.has_completed:  # how the provider then ended it is its own business
            self.fold.end = TurnEnded(StopReason.END_TURN)
        self._keep_reasoning()
        self._record.ride(*self._kept_thread(is_over=True))
        if self._phase is not TurnPhase.CLOSED:
            self._enter(TurnPhase.CLOSED)
        try:
            return await self._write([*self._cut_off_text(), *self._cut_off_calls()])
        except Exception as error:
            if not is_unfit(error):
                raise
            return await self._write(self._cut_off_calls(), error)

    async def _end_handlers(self) -> None:
        parts, agent = self._parts, self._record.agent_id
        resolved = parts.requests.close_agent(agent, "turn_ended")
        await self.calls.end()
        if resolved:
            await parts.steps.write(self._record, *resolved)
        parts.broker.turn_over(agent)
        parts.quiet.turn_over(agent)

    async def _write(self, cut_off: Sequence[Told], unfit: Exception | None = None) -> TurnResult:
        record, parts, fold = self._record, self._parts, self.fold
        result = fold.result() if unfit is None else plain_turn(unfit, fold)
        ours = list(self.calls.rows.values())
        if unfit is not None:
            ours = [plain_call(call, parts.journal.redact) for call in ours]
        calls = sorted((*result.tool_calls, *ours), key=lambda c: c.sequence)
        result = replace(result, tool_calls=tuple(calls))
        parts.budgets.close_turn(fold.turn_id, result.spent)
        record.context_used = self._thread_tokens(calls)
        record.context_window = fold.context.context_window or record.context_window
        used, window = fold.context.used, window_of(record, parts.window)
        closed = TurnClosed(
            turn_id=fold.turn_id,
            parent_turn_id=self._parent_turn,
            session_label=record.label,
            result=result,
            completed_at_ms=parts.now_ms(),
            resume_token=record.resume_token,
            window=None if used is None else {"used": used, "window": window},
        )
        await parts.steps.write(record, *cut_off, closed)
        return result

    def _thread_tokens(self, calls: Iterable[AgentToolCall]) -> int | None:
        held = self._record.context_used
        if self.fold.thread_used is not None or held is None:
            return self.fold.thread_used
        said = [message.content for message in self.fold.messages if message.role == "assistant"]
        for call in calls:
            said += [encode_data(call.params), call.result or call.error or ""]
        return held + sum(map(count_tokens, said))

    def _cut_off_text(self) -> list[Told]:
        self._live.end_all()
        partial = self.fold.end_partial()
        return [] if partial is None else [self._told(partial)]

    def _cut_off_calls(self) -> list[Told]:
        told = [call.cut_off() for call in self.calls.cut_off if not call.is_refused]
        for call in self.fold.open_calls():
            data = {"call": call.id, "status": "unknown", "error": UNTOLD}
            told.append(Told(kind="tool_call_finished", data=data))
        return told
