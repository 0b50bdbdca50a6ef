"""An agent's running session: one incarnation from its first turn to its end.

The loop: take a slot, open the provider's session, run turns. After each turn the agent ends,
goes on after an error, repeats a question it left unanswered, or waits for messages.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.turns import AgentError, AgentMessage, ErrorKind, StopReason
from prsm_core.engine.agents.external import settle_left
from prsm_core.engine.agents.failover import Failover
from prsm_core.engine.agents.inbox import Inbox
from prsm_core.engine.agents.slots import SlotLease, Slots
from prsm_core.engine.evidence.evidence import Proof
from prsm_core.engine.failing import breaks_ledger, describe, keepable, said
from prsm_core.engine.turns.calls import Wait
from prsm_core.engine.turns.context import Prompt, session_request
from prsm_core.engine.turns.host import SessionHost
from prsm_core.engine.turns.rebuild import rebuilt_history
from prsm_core.engine.turns.run import TurnRun
from prsm_core.engine.turns.stuck_watch import StuckWatch
from prsm_core.errors import (
    BudgetExceededError,
    ModelNotAvailableError,
    ProviderNotAvailableError,
    PrsmError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from prsm_core.domain.turns import TurnResult
    from prsm_core.domain.writes import StateChanged
    from prsm_core.engine.agents.manager import AgentManager
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.tools.table import ToolSet
    from prsm_core.engine.turns.calls import Call
    from prsm_core.interfaces.provider import ProviderSession

_WAITING = frozenset(
    {AgentState.WAITING_FOR_PARENT, AgentState.WAITING_FOR_CHILD, AgentState.WAITING_FOR_EXPERT}
)
_WAIT_ORDER = (
    AgentState.WAITING_FOR_PARENT,
    AgentState.WAITING_FOR_EXPERT,
    AgentState.WAITING_FOR_CHILD,
)
RESUME_FAILED = "resume_failed"  # the code of a session whose vendor has lost the thread
_CHILDREN_ENDED = "All your children have ended. Finish with task_complete."


class AgentSession:
    """Owns the slot, the provider session and the turns of one incarnation."""

    def __init__(self, manager: AgentManager, record: AgentRecord) -> None:
        runtime = manager.runtime
        self.manager = manager
        self.record = record
        self.life = record.incarnation  # the one that this session lives
        self.is_outside = runtime.providers.is_outside(record.descriptor.provider)
        self.tools: ToolSet = runtime.tools.for_agent(record.descriptor, runtime.settings)
        self.host = SessionHost(self)
        self.stuck = StuckWatch(
            self,
            None if self.is_outside else runtime.settings.stuck,  # there a person watches it
            acts=manager,
            background=runtime.background,
            journal=runtime.journal,
        )
        self.proof = Proof(record, manager.sources)
        self.inbox = Inbox(record, roster=manager.roster, router=runtime.router, steps=manager)
        self.turn: TurnRun | None = None
        self._lease = SlotLease(Slots(1) if self.is_outside else runtime.slots)
        self._failover = Failover(self)
        self._waits: Sequence[Wait] = ()  # the last that blocked the agent
        self._must_reopen = False  # the next turn needs a session with another login or model

    @property
    def partial_text(self) -> str:
        """What the model has said in the present or last turn."""
        turn, redact = self.turn, self.manager.runtime.journal.redact
        return "" if turn is None else said(lambda: turn.fold.partial_text, redact)

    @property
    def is_over(self) -> bool:
        """Whether this life may do nothing more; the agent's next one may have begun."""
        has_passed = self.record.incarnation != self.life
        return has_passed or self.record.is_over or self.manager.is_stopped

    @property
    def _is_stopped(self) -> bool:
        """Whether others ended the agent, or the engine closes; a provider may not let it know."""
        return self.record.state.is_terminal or self.manager.is_stopped

    def now_ms(self) -> int:
        """Return Unix milliseconds."""
        return int(self.manager.runtime.clock.time() * 1000)

    def next_call_number(self) -> int:
        """Return the sequence number of the running turn's next tool call."""
        return 1 if self.turn is None else self.turn.fold.next_call_number()

    def tool_started(self) -> None:
        """Stop the reasoning clock of the running turn; until the call waits, the agent moves."""
        self.moved()
        if self.turn is not None:
            self.turn.clock.tool_started()

    def tool_finished(self) -> None:
        """Let the reasoning clock go on."""
        if self.turn is not None:
            self.turn.clock.tool_finished()
            self.turn.call_closed()

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """Count as a tool that runs: while a person decides nobody reasons or is silent."""
        turn = self.turn
        if turn is None:
            yield
            return
        self.moved()
        turn.clock.tool_started()
        try:
            yield
        finally:
            turn.clock.tool_finished()
            if turn is self.turn:
                await self.calls_changed()

    def stays_blocked(self, closing: Call) -> bool:
        """Whether everything but this call, which gets its answer now, goes on waiting."""
        return self.turn is not None and self.turn.is_blocked(without=closing)

    @property
    def holds_slot(self) -> bool:
        """Whether the agent counts as one that works."""
        return self._lease.held

    async def take_slot(self) -> None:
        """Hold a slot; waits in line for it."""
        await self._lease.acquire()

    def resume_changes(self) -> tuple[StateChanged, ...]:
        """Return the changes that make a waiting agent run again; none when it holds no slot."""
        if self.record.state in _WAITING and self._lease.held:
            return self.manager.move(self.record, AgentState.RUNNING, "answered")
        return ()

    async def calls_changed(self) -> None:
        """Become WAITING, and give the slot back, if everything the agent does is waiting."""
        turn = self.turn
        if turn is None or self.is_over:
            return
        if not turn.is_blocked():
            self.moved()
            return
        waits = turn.calls.waits()
        wait = min(waits, key=lambda w: _WAIT_ORDER.index(w.state))
        await self._wait_in(wait.state, wait.on, waits)

    def moved(self) -> None:
        """Note that the agent is not blocked any more, or about to move."""
        if self.record.incarnation == self.life:
            self.manager.detector.moved(self.record.agent_id)

    def child_began(self) -> None:
        """If the agent is blocked, let it wait for its new child too."""
        detector, agent_id = self.manager.detector, self.record.agent_id
        if detector.graph.waits_of(agent_id):
            detector.blocked(agent_id, [wait.edge() for wait in self._waits])

    async def model_streams(self) -> None:
        """Become RUNNING again when the model speaks although a call still waits."""
        self.moved()
        if self.record.state in _WAITING:
            await self.take_slot()
            if self.turn is not None and self.turn.is_blocked():  # it rests again already
                self._lease.release()
                return
            changes = self.resume_changes()
            if changes:
                await self.manager.write(self.record, *changes)

    async def _wait_in(self, state: AgentState, on: str, waits: Sequence[Wait]) -> None:
        """Let go of the slot and be blocked by these waits; a knot is found here and now."""
        changes: tuple[StateChanged, ...] = ()
        if (self.record.state, self.record.waiting_on) != (state, on):
            changes = self.manager.move(self.record, state, f"waits for {on}", waiting_on=on)
        self._lease.release()
        self._waits = waits
        if not self.record.is_condemned:
            self.manager.detector.blocked(self.record.agent_id, [wait.edge() for wait in waits])
        if changes:
            await self.manager.write(self.record, *changes)

    async def run(self) -> None:
        """Live from PENDING to the end; every end is settled, also that by surprise."""
        try:
            await self._live_within_budget()
        except PrsmError as error:
            await self._fail(describe(error), error.code)
            if breaks_ledger(error):
                raise  # it may be the end itself that was not written
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            await self._fail(describe(error), "internal")
            raise RuntimeError(f"an agent's turn raised {describe(error)}") from error
        finally:
            self._lease.close()

    async def _live_within_budget(self) -> None:
        """Live; when the budget is used up, fail once the agents below have ended.

        They may begin no turn either, and end at their model's next step, unless turns may finish.
        """
        record = self.record
        try:
            await self._live()
        except BudgetExceededError as error:
            why = f"{error.message}; {error.hint}"
            record.claimed_result = AgentResult(
                agent_id=record.agent_id, success=False, summary=self.partial_text, error=why
            )
            for child in record.children:
                self.manager.runtime.router.wake(child)  # their questions have no one to answer
            await self._outlive_children()
            await self._fail(why, error.code)

    async def _live(self) -> None:
        record, manager = self.record, self.manager
        await self.take_slot()
        if record.state is AgentState.PENDING:
            await manager.write(record, *manager.move(record, AgentState.STARTING, "slot taken"))
        prompt: Prompt | None = Prompt(text=record.descriptor.prompt)
        while prompt is not None and not self._is_stopped:
            prompt = replace(prompt, history=await self._lost_history())
            runtime = manager.runtime
            request = session_request(record, runtime.settings, runtime.workspace)
            await self.take_slot()
            self._must_reopen = False
            try:
                self._failover.opening()
                provider = await manager.runtime.providers.get(record.descriptor.provider)
                await manager.runtime.enforcement.admit(record.descriptor.provider, record.agent_id)
                async with provider.open_session(request, self.host, self._on_stuck) as session:
                    try:
                        prompt = await self._turns(session, prompt)
                    finally:
                        self._lease.release()  # closing may take long, and no model works then
            except (ProviderNotAvailableError, ModelNotAvailableError) as error:
                if error.code == RESUME_FAILED and record.resume_token is not None:
                    self._forget_thread(error)
                elif not await self._failover.replace_provider(error):
                    raise

    def _forget_thread(self, error: PrsmError) -> None:
        """Go on without the vendor's thread: the next session is given the conversation."""
        self.record.resume_token = None
        text = f"the conversation is rebuilt from the ledger: {error.message}"
        self.manager.runtime.journal.note(
            "notice", self.record.agent_id, level="warning", text=text
        )

    async def _turns(self, session: ProviderSession, prompt: Prompt | None) -> Prompt | None:
        """Run turns until the agent has ended, or the session cannot take another one."""
        while prompt is not None and not self._is_stopped:
            while (pause := self._failover.breaker.remaining()) > 0:
                await self._pause(pause)
            await self.take_slot()  # the last turn may have ended while the agent waited
            result = await self._run_turn(TurnRun(self, session, prompt))
            prompt = await self._after(result)
            if self._must_reopen or not session.reusable:
                break
        return prompt

    async def _run_turn(self, turn: TurnRun) -> TurnResult:
        """Run a turn if the budget has room for it; BudgetExceededError leaves the last one."""
        budgets = self.manager.runtime.budgets
        # nobody here ends a client's turn
        used_up = None if self.is_outside else turn.limits.use_up
        budgets.open_turn(self.record.agent_id, turn.turn_id, used_up)
        self.turn = turn
        try:
            return await turn.run()
        finally:
            budgets.drop_turn(turn.turn_id)

    async def _lost_history(self) -> tuple[AgentMessage, ...]:
        """Return what the agent said and heard before, where no vendor's thread holds it."""
        record = self.record
        if record.resume_token is not None or record.next_turn == 1:
            return ()
        entries = await self.manager.runtime.conversations.get_history(record.agent_id, "full")
        return rebuilt_history(entries, self.manager.runtime.ids.ulid)

    async def _after(self, result: TurnResult) -> Prompt | None:
        """Decide what follows a turn: another prompt, or None once the agent has ended."""
        record = self.record
        if record.state.is_terminal:
            return None
        if record.claimed_result is not None:
            await self._finish_with_children(record.claimed_result)
            return None
        if self.is_outside:
            await settle_left(self.manager, record, result)
            return None
        if self.turn is not None and self.turn.stop.over_budget is not None:
            raise self.turn.stop.over_budget
        if self.turn is not None and self.turn.stop.is_by_person:
            return self.inbox.take_unread() or Prompt(text=None)
        if result.error is not None or result.stop_reason is not StopReason.END_TURN:
            return await self._after_error(result)
        self._failover.succeeded()
        return await self._next_prompt(result)

    async def _after_error(self, result: TurnResult) -> Prompt | None:
        error = result.error or AgentError(
            kind=ErrorKind.UNKNOWN, message=f"the turn stopped: {result.stop_reason.value}"
        )
        recovery = await self._failover.after(error)
        if recovery is None:
            await self._fail(error.message, error.kind.value)
            return None
        if recovery.reopen:
            self.record.resume_token = None  # another login or model cannot go on with the thread
            self._must_reopen = True
        else:
            await self._pause(recovery.delay_s)
        return Prompt(text=None)

    async def _pause(self, seconds: float) -> None:
        """Wait without a slot."""
        self._lease.release()
        await self.manager.runtime.clock.sleep(seconds)
        await self.take_slot()

    async def _next_prompt(self, result: TurnResult) -> Prompt | None:
        """Answer for a turn that ended without task_complete."""
        prompt = self.inbox.take_forgotten()
        if prompt is None:
            await self.inbox.refuse_questions()
            prompt = self.inbox.take_unread()
        if prompt is not None:
            return prompt
        if self.record.live_children:
            return await self._wait_between_turns()
        summary = result.last_text
        if not summary.strip():
            await self._fail("the agent ended without saying anything (no result)", "no_result")
            return None
        done = AgentResult(agent_id=self.record.agent_id, success=True, summary=summary)
        await self.manager.end_agent(self.record, AgentState.COMPLETED, done, reason="turn ended")
        return None

    async def _wait_between_turns(self) -> Prompt | None:
        """Wait for a message or the last child's end, without a slot."""
        record, runtime = self.record, self.manager.runtime
        prompt = None
        await self._wait_in(AgentState.WAITING_FOR_CHILD, "a message", [self.inbox.wait()])
        try:
            while prompt is None:
                prompt = self.inbox.take_reminder() or self.inbox.take_unread()
                if prompt is None and not record.live_children:
                    prompt = Prompt(text=_CHILDREN_ENDED)
                if prompt is None:
                    await runtime.router.changed(record.agent_id)
        finally:
            self.moved()
        await self.take_slot()
        return prompt

    async def _finish_with_children(self, result: AgentResult) -> None:
        """Hold a claimed result until the last child has ended."""
        await self._outlive_children()
        await self.manager.end_agent(
            self.record, AgentState.COMPLETED, result, reason="children ended"
        )

    async def _outlive_children(self) -> None:
        """Wait, without a slot, until the last child has ended."""
        record, manager = self.record, self.manager
        if record.live_children:
            waits = [self._end_wait(child) for child in record.live_children.values()]
            await self._wait_in(AgentState.WAITING_FOR_CHILD, "finishing", waits)
            while record.live_children:
                await manager.runtime.router.changed(record.agent_id)
        self.moved()

    def _end_wait(self, child: AgentRecord) -> Wait:
        return Wait(
            state=AgentState.WAITING_FOR_CHILD,
            on="finishing",
            targets=lambda: (child.agent_id,),
            ready=lambda: not child.is_live,
        )

    async def give_up(self, what: str = "a turn that was interrupted and cancelled") -> None:
        """Fail the agent, whose provider does not end something: what it does is void."""
        self.leave_slot()
        await self.abandon_turn()
        provider = self.record.descriptor.provider
        await self._fail(f"provider {provider} does not end {what}", "provider_stuck")

    def _on_stuck(self) -> None:
        give_up = self.give_up("the opening or closing of a session, which took too long")
        self.manager.runtime.background.launch(give_up, name=f"giving up {self.record.agent_id}")

    async def abandon_turn(self) -> None:
        """Close the running turn in the ledger; what its provider still does is void."""
        if self.turn is not None:
            await self.turn.abandon()

    def leave_slot(self) -> None:
        """Hold no slot any more, whatever the provider still does."""
        self._lease.close()

    async def _fail(self, message: str, kind: str) -> None:
        record = self.record
        if self._is_stopped:
            return
        readable = keepable(message, self.manager.runtime.journal.redact)
        await self.manager.fail_agent(record, readable, kind)
