"""Running one turn: opened in the ledger, streamed from the provider, closed in the ledger."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.domain.turns import (
    AgentError,
    AgentMessage,
    AssistantMessage,
    ErrorKind,
    Notice,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.writes import Told, TurnClosed, TurnOpened
from prsm_core.engine.failing import describe, is_unfit
from prsm_core.engine.spending.allowance import Allowance
from prsm_core.engine.spending.prices import price_of
from prsm_core.engine.turns.calls import TurnCalls
from prsm_core.engine.turns.clock import TurnClock
from prsm_core.engine.turns.context import Prompt, assemble_context, describe_window
from prsm_core.engine.turns.fold import TURN_ENDED, TurnFold, plain_turn
from prsm_core.engine.turns.limits import TurnLimits
from prsm_core.engine.turns.live_texts import LiveTexts
from prsm_core.engine.turns.long_calls import LongCalls
from prsm_core.engine.turns.phase import TURN_MACHINE, TurnPhase
from prsm_core.engine.turns.silence import Silence, silence_teller
from prsm_core.engine.turns.stop import TurnStop
from prsm_core.engine.turns.vendor_calls import VendorCalls
from prsm_core.errors import PrsmError
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from prsm_core.domain.turns import AssembledContext, ProviderEvent, TurnResult
    from prsm_core.domain.writes import StateChanged
    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.engine.turns.calls import Call
    from prsm_core.interfaces.provider import ProviderSession

QUIET_SECONDS = 5.0  # without StepEnded, an agent that only waits is blocked after this silence


class TurnRun:
    """Owns the streaming state of one turn."""

    def __init__(self, session: AgentSession, provider: ProviderSession, prompt: Prompt) -> None:
        runtime, record = session.manager.runtime, session.record
        self._session = session
        self._provider = provider
        self._prompt = prompt
        self.turn_id = runtime.ids.ulid()
        self.calls = TurnCalls(session, self.turn_id)
        self.long_calls = LongCalls(runtime.background, runtime.clock, self.calls)
        agent, prices = record.descriptor, runtime.settings.budgets.prices
        self.fold = TurnFold(
            turn_id=self.turn_id,
            number=record.next_turn,
            started_at_ms=session.now_ms(),
            new_id=runtime.ids.ulid,
            now_ms=session.now_ms,
            price=price_of(prices, agent.provider, agent.model),
        )
        self._vendor_calls = VendorCalls(
            session,
            self.fold,
            session.stuck,
            broker=runtime.broker,
            context=session.host.context,
            journal=runtime.journal,
        )
        self.is_outside = session.is_outside
        self.clock = self._clock()
        tell = silence_teller(runtime.journal, agent)
        self._silence = Silence(runtime.clock, self.clock, self.fold, tell)
        self._parent_turn = record.head_turn_id
        self.stop = TurnStop(
            runtime.background, runtime.clock, provider, record.descriptor.name, session.give_up
        )
        self.limits = TurnLimits(
            self,
            self.clock,
            self._silence,
            Allowance(runtime.clock),
            stop=self.stop,
            watch=runtime.watch,
        )
        self._phase = TurnPhase.NEW
        self._live = LiveTexts(runtime.journal, record.agent_id)

    def _clock(self) -> TurnClock:
        runtime = self._session.manager.runtime
        engine = runtime.settings.engine
        return TurnClock(
            runtime.clock,
            agent_seconds=math.inf if self.is_outside else engine.agent_timeout_seconds,
            idle_seconds=math.inf if self.is_outside else engine.idle_timeout_seconds,
            tool_seconds=engine.tool_timeout_seconds,
            used=self._session.record.reasoning_used,
        )

    async def run(self) -> TurnResult:
        """Run the turn to its end and return what it produced; the ledger has it by then."""
        self.stop.begin(asyncio.current_task())
        try:
            context = await self._open()
            self.limits.begin()
            await self._stream(context)
            return await self._close()
        except BaseException as error:
            await self._break_off(error)
            raise
        finally:
            self.limits.end()
            self.stop.over()

    def _enter(self, phase: TurnPhase) -> None:
        TURN_MACHINE.validate(self._phase, phase)
        self._phase = phase

    @property
    def is_running(self) -> bool:
        """Whether the provider streams this turn, and what it says counts."""
        return self._phase.is_live and self.fold.end is None

    def interrupt(self) -> None:
        """Let the turn end soon because a person wants it."""
        self.stop.is_by_person = True
        self.stop.ask()

    async def steer(self, text: str) -> bool:
        """Say something to the model within the turn; whether the provider took it."""
        if not await self._provider.steer(text):
            return False
        message = self.fold.add_message("user", text)
        await self._session.manager.runtime.journal.fact(
            "message_completed",
            self._session.record.agent_id,
            turn=self.turn_id,
            role=message.role,
            text=message.content,
        )
        return True

    def is_blocked(self, *, without: Call | None = None) -> bool:
        """Whether the model's response is complete and all that runs waits for other agents."""
        return self._phase is TurnPhase.RESTING and self._only_waits(without)

    def _only_waits(self, without: Call | None = None) -> bool:
        no_other_tool = self.clock.open_tools == len(self.calls.open)
        return no_other_tool and self.calls.all_wait(without=without)

    async def _open(self) -> AssembledContext:
        session, record = self._session, self._session.record
        manager = session.manager
        descriptor = record.descriptor
        said: list[Told] = []
        current = None
        prompt = session.stuck.begin_turn(self._prompt.text)
        if prompt is not None:
            current = self.fold.add_message("user", prompt)
            said.append(self._said(current))
        context = self._assemble(current)
        changes: tuple[StateChanged, ...] = ()
        if record.state is not AgentState.RUNNING:
            changes = manager.move(record, AgentState.RUNNING, "turn started")
        record.next_turn += 1
        record.head_turn_id = self.turn_id
        opened = TurnOpened(
            turn_id=self.turn_id,
            number=self.fold.number,
            parent_turn_id=self._parent_turn,
            session_label=record.label,
            model=descriptor.model,
            provider=descriptor.provider,
            role=context.role,
            toolset_name=context.toolset_name,
            tools_available=tuple(sorted({*descriptor.tools, *session.tools.names})),
            permissions_granted=context.permissions_granted,
            workspace_path=manager.runtime.workspace,
            started_at_ms=self.fold.started_at_ms,
            consumed=self._prompt.consumed,
        )
        step = manager.build(record, *changes, opened, *said)
        self._enter(TurnPhase.STREAMING)  # written or not if this is cancelled: it must be closed
        try:
            await manager.commit(step, consumed=self._prompt.consumed)
        except PrsmError:
            self._enter(TurnPhase.NEW)
            raise
        return context

    def _assemble(self, current: AgentMessage | None) -> AssembledContext:
        runtime = self._session.manager.runtime
        return assemble_context(
            self._session.record,
            self._prompt.history,
            current,
            tools=self._session.tools.specs,
            settings=runtime.settings,
            run_id=runtime.journal.run_id,
            workspace=runtime.workspace,
            window=self._known_window(),
        )

    def _known_window(self) -> int | None:
        """Return the size of the model's window in tokens, as far as it was known before."""
        descriptor = self._session.record.descriptor
        providers = self._session.manager.runtime.providers
        return providers.context_window(descriptor.provider, descriptor.model)

    def _said(self, message: AgentMessage) -> Told:
        data = {
            "turn": self.turn_id,
            "role": message.role,
            "text": message.content,
            "thinking": message.thinking,
        }
        return Told(kind="message_completed", data=data)

    async def _stream(self, context: AssembledContext) -> None:
        """Take all that the provider streams, unless somebody cancels it.

        Two may cancel the task that streams: the engine, when a turn that is to stop does not
        (`TurnStop` counts that one), and whoever ends the agent. Both may have done so, before or
        after each other, and the provider may keep either to itself. So `take_back` withdraws the
        engine's own and says whether it was the only one: then the turn goes on to its orderly
        end, with the reason it was stopped for. Any other goes on to the caller. A turn that was
        closed meanwhile, since nobody could wait any longer, ends like one that was cancelled.
        """
        stream: AsyncGenerator[ProviderEvent, None] = self._provider.run_turn(context)  # type: ignore[assignment]
        try:
            async with aclosing(stream):
                await self._take_all(stream)
        except asyncio.CancelledError:
            if not self.stop.take_back():
                raise
        else:
            self.stop.take_back()  # the provider has kept it to itself
        if not self._phase.is_live:
            raise asyncio.CancelledError  # this one too
        self.fold.end = self.stop.end() or self.fold.end

    async def _take_all(self, stream: AsyncIterator[ProviderEvent]) -> None:
        async for event in stream:
            if not self._phase.is_live:
                return
            self.clock.touch()
            await self._take(sanitize(event))
            if isinstance(event, TurnEnded):
                return

    async def _take(self, event: ProviderEvent) -> None:
        if self._contradicts(event):
            return
        journal, agent = self._session.manager.runtime.journal, self._session.record.agent_id
        self.fold.fold(event)
        self._silence.heard(event)
        self._live.heed(event)
        match event:
            case TextDelta() | ThinkingDelta():
                await self.model_speaks()
            case AssistantMessage(text):
                message = self.fold.messages[-1]
                self._session.stuck.said(text)
                await self.model_speaks()
                await journal.fact(
                    "message_completed",
                    agent,
                    turn=self.turn_id,
                    role=message.role,
                    text=message.content,
                    thinking=message.thinking,
                )
            case ToolCallStarted():
                await self._vendor_call(event)
            case ToolCallFinished():
                await self._vendor_call_end(event)
            case UsageReported():
                self._session.manager.runtime.budgets.meter(self.turn_id, self.fold.spent)
            case StepEnded():
                self._rest(self.has_open_call)  # else the next response streams already
                await self._session.calls_changed()
            case Notice(level, text):
                await journal.fact("notice", agent, level=level, text=text)
        self.limits.heed(event)

    def _contradicts(self, event: ProviderEvent) -> bool:
        """Whether a vendor's call begins a second time, or ends without having begun."""
        if isinstance(event, ToolCallStarted):
            return self.fold.is_open(event.call_id)
        return isinstance(event, ToolCallFinished) and not self.fold.is_open(event.call_id)

    def call_closed(self) -> None:
        """Take note that a call was answered: after the last one the model streams again."""
        if self.has_open_call:
            return
        self._stream_goes_on()
        self.limits.answered()

    @property
    def has_open_call(self) -> bool:
        """Whether a call, the vendor's or ours, has not been answered."""
        vendor = any(call.completed_at is None for call in self.fold.calls.values())
        return vendor or bool(self.calls.open)

    async def model_speaks(self) -> None:
        """Take note that the model streams, although a call may still wait."""
        if self._phase is TurnPhase.RESTING:
            self._stream_goes_on()
            await self._session.model_streams()

    def _rest(self, resting: bool) -> None:
        """Take note that the model's response is complete, or that another streams."""
        phase = TurnPhase.RESTING if resting else TurnPhase.STREAMING
        if self._phase.is_live and self._phase is not phase:
            self._enter(phase)

    def _stream_goes_on(self) -> None:
        self._rest(False)
        self.clock.touch()  # silence counts from now
        self.limits.hurry()

    async def _vendor_call(self, event: ToolCallStarted) -> None:
        self.clock.tool_started(event.call_id)
        self.limits.hurry()
        await self._vendor_calls.started(event)
        await self._session.model_streams()

    async def _vendor_call_end(self, event: ToolCallFinished) -> None:
        self.clock.tool_finished(event.call_id)
        self.call_closed()
        await self._vendor_calls.ended(event)
        await self._session.calls_changed()

    @property
    def calls_begun(self) -> int:
        """How many calls, the vendor's and ours, have begun so far."""
        return self.fold.calls_begun

    @property
    def is_completing(self) -> bool:
        """Whether task_complete was accepted, or is about to be."""
        return self.calls.is_completing

    def fall_quiet(self) -> None:
        """Take it that the model's response is complete."""
        self._rest(True)
        record, launch = self._session.record, self._session.manager.runtime.background.launch
        launch(self._session.calls_changed(), name=f"silence of {record.descriptor.name}")

    def quiet_in(self) -> float:
        """Return the seconds until silence means that the model's stream has ended."""
        if self._phase is not TurnPhase.STREAMING:
            return math.inf
        if not self._only_waits():
            return QUIET_SECONDS
        return self.clock.last_event + QUIET_SECONDS - self._session.manager.runtime.clock.now()

    async def abandon(self) -> None:
        """Close a turn in the ledger whose provider does not let go although it was cancelled."""
        if self._phase.is_live:
            self._enter(TurnPhase.VOID)
            await self._cut_short(asyncio.CancelledError())

    async def _break_off(self, error: BaseException) -> None:
        """Close a turn that was cancelled, or whose provider broke; others close a void one."""
        if self._phase.is_live or self._phase is TurnPhase.CLOSING:
            await self._cut_short(error)

    async def _cut_short(self, error: BaseException) -> None:
        if self.fold.end is None and isinstance(error, asyncio.CancelledError):
            self.fold.end = TurnEnded(StopReason.ABORTED)
        elif self.fold.end is None:
            broken = AgentError(kind=ErrorKind.UNKNOWN, message=describe(error))
            self.fold.end = TurnEnded(StopReason.ERROR, broken)
        await self._close()

    async def _close(self) -> TurnResult:
        session, record = self._session, self._session.record
        manager = session.manager
        if self._phase.is_live:
            self._enter(TurnPhase.CLOSING)
        self.stop.closing()
        await self._end_handlers()
        manager.runtime.broker.turn_over(record.agent_id)
        if self.calls.has_completed:  # how the provider then ended it is its own business
            self.fold.end = TurnEnded(StopReason.END_TURN)
        record.reasoning_used = self.clock.reasoning
        token = self._provider.resume_token
        record.resume_token = sanitize(token) if isinstance(token, str) else None
        try:
            return await self._write_end()
        except Exception as error:
            if not is_unfit(error):
                raise
            return await self._write_end(error)

    async def _write_end(self, unfit: Exception | None = None) -> TurnResult:
        """Write the turn's end; where that is `unfit` to be written, what it used and why."""
        session, record = self._session, self._session.record
        manager = session.manager
        cut_off = self._cut_off() if unfit is None else []
        result = self.fold.result() if unfit is None else plain_turn(unfit, self.fold)
        ours = list(self.calls.rows.values())
        if unfit is not None:
            ours = [replace(call, params={}, result=None, error=None) for call in ours]
        calls = sorted((*result.tool_calls, *ours), key=lambda c: c.sequence)
        result = replace(result, tool_calls=tuple(calls))
        manager.runtime.budgets.close_turn(self.turn_id, result.spent)
        closed = TurnClosed(
            turn_id=self.turn_id,
            parent_turn_id=self._parent_turn,
            session_label=record.label,
            result=result,
            completed_at_ms=session.now_ms(),
            resume_token=record.resume_token,
            window=describe_window(self.fold.context, self._known_window),
        )
        step = manager.build(record, *cut_off, closed)
        if self._phase is not TurnPhase.CLOSED:  # it is, if what it said could not be written
            self._enter(TurnPhase.CLOSED)
        await manager.commit(step)
        return result

    def _cut_off(self) -> list[Told]:
        """Return what tells of that which the turn's end has cut off: a message, calls."""
        partial = self.fold.end_partial()
        told = [] if partial is None else [self._said(partial)]
        told += [call.cut_off() for call in self.calls.cut_off]
        for call in self.fold.open_calls():
            data = {"call": call.id, "status": "failed", "error": TURN_ENDED}
            told.append(Told(kind="tool_call_finished", data=data))
        return told

    async def _end_handlers(self) -> None:
        """End what works for the turn: open calls, and requests that wait for a person."""
        manager, record = self._session.manager, self._session.record
        resolved = manager.runtime.desk.close_agent(record.agent_id, "turn_ended")
        await self.calls.end()
        if resolved:
            await manager.write(record, *resolved)
