"""An agent's running session: one incarnation from its first turn to its end.

The loop: take a slot, open the provider's session, run turns. After each turn the agent ends,
recovers from an error, repeats an unanswered question, or waits for messages. Its session stays
open while it waits, unless others need the process.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.turns import AgentError, ErrorKind, StopReason
from prsm_core.domain.writes import ReceivesUndone, ThreadKept, Told
from prsm_core.engine.agents.failover import Failover
from prsm_core.engine.agents.holds import HeldBy, released
from prsm_core.engine.agents.life import AgentLife, SessionHost
from prsm_core.engine.agents.opening import CompactionFailedError, ContextKeeper
from prsm_core.engine.guarded.failing import breaks_ledger, describe, keepable, said
from prsm_core.engine.providers.registry import NOT_LOGGED_IN
from prsm_core.engine.providers.residents import NO_ROOM, PATIENCE_SECONDS
from prsm_core.engine.turns.context import Prompt
from prsm_core.engine.turns.run import TurnRun
from prsm_core.engine.turns.stuck import StuckWatch
from prsm_core.engine.turns.waits import AnyMessage, WaitOf
from prsm_core.errors import (
    AgentSpawnError,
    BudgetExceededError,
    ModelNotAvailableError,
    OrchestrationError,
    ProviderNotAvailableError,
    PrsmError,
)
from prsm_core.kit.clocks import first_of
from prsm_core.lifecycle import WAITING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.sessions import AgentNow, TurnState
    from prsm_core.domain.turns import TurnResult
    from prsm_core.engine.agents.life import SessionParts
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.going_on import GoingOn
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import Carried, ProviderSession
    from prsm_core.kit.background import Background


_log = logging.getLogger("prsm.engine")

_CHILDREN_ENDED = "All your children have ended. Finish with task_complete."
GATE_FAILED = "gate_failed"  # the code of a refusal that sends an agent back
RESUME_FAILED = "resume_failed"  # the code of a session whose vendor has lost the thread
ASKS = 2  # times in a row that a model is asked again for an answer that was none
_SILENT = (
    "Your last answer was empty. Go on with your task. If it is done, call task_complete with a "
    "summary; without that tool, say what came of it."
)
_CUT = (
    "Your last answer was cut at the limit of its length, and a call in it was not made. Go on, in "
    "smaller steps: say less at once, and write long files in parts."
)


class AgentSession:
    """Owns the provider session and the turns of one incarnation."""

    def __init__(
        self, record: AgentRecord, parts: SessionParts, left: AgentNow | None = None
    ) -> None:
        self.record = record
        self._left = left  # as an earlier engine has left the agent
        self._left_turn: TurnRun | None = None  # without a session, until one is opened for it
        self._has_place = left is not None  # its process was given to others, or may have been
        self._parts = parts
        self.is_external = external = parts.providers.is_external(record.descriptor.provider)
        self.tools = tools = parts.tools(record)
        self.life = AgentLife(record, parts, is_external=external)
        self._host = SessionHost(self.life, tools, parts)
        program = parts.labelling.program_of(record.descriptor.provider)
        self._is_program = is_program = program is not None
        stuck = parts.settings.stuck
        self.stuck = StuckWatch(
            self.life,
            # A person watches one outside; a program may ask the same for hours, at no cost.
            None if external or is_program or not stuck.enabled else stuck,
            parts.ends,
            parts.background,
            parts.journal,
            parts.broker.commands,
        )
        self._failover = Failover(record, parts, left is not None)
        self._keeper = ContextKeeper(record, parts.contexts, tools)
        self._said_before = ""  # in the turn that was too long for its model
        self._must_reopen = False  # the next turn needs a session with another login or model
        self._held_by: HeldBy | None = None  # nothing begins before that is over
        self._held_times = 0  # in a row

    @property
    def turn(self) -> TurnRun | None:
        """The running or last turn; None before the first."""
        return self.life.turn

    @property
    def partial_text(self) -> str:
        """What the model has said in the present or last turn."""
        turn = self.life.turn
        if turn is None:
            return ""
        now = said(lambda: turn.fold.partial_text, self._parts.journal.redact)
        return now or self._said_before

    async def run(self) -> None:
        """Live from PENDING to the end; every end is settled, unexpected ones too."""
        try:
            try:
                await self._live()
            except BudgetExceededError as error:
                await self._end_over_budget(error)
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
            await self._give_back()
            self.life.leave()

    async def _give_back(self) -> None:
        """Close a turn that was to continue but got no session, or did not settle its calls."""
        turn, self._left_turn = self._left_turn, None
        if self._parts.journal.is_suspended:
            self._parts.requests.leave(self.record.agent_id)
            return
        if turn is not None:
            await turn.abandon()
        elif self._left is not None and self._left.open_turn is not None:
            from prsm_core.engine.turns.going_on import GoingOn, NoSession

            prompt, going_on = Prompt(text=None), GoingOn(self._left.open_turn)
            session, parts = NoSession(self.record.resume_token), self._parts
            await TurnRun(self, parts, session, prompt, going_on).drop()

    async def _end_over_budget(self, error: BudgetExceededError) -> None:
        """Fail once the agents below have ended, which may begin no turn either."""
        record, why = self.record, f"{error.message}; {error.hint}"
        record.claimed_result = AgentResult(
            agent_id=record.agent_id, success=False, summary=self.partial_text, error=why
        )
        self._parts.inbox.leave(record)
        await self._outlive_children()
        await self._fail(why, error.code)

    async def _live(self) -> None:
        life = self.life
        await self._begun()
        prompt = await self._first_prompt()
        while prompt is not None and not (life.is_over or self.record.is_condemned):
            if self._held_by is not None and not await self._outlast(self._held_by):
                return
            carried = await self._carried()
            await life.take_slot()
            if (prompt := await self._remembering(prompt)) is None:
                return
            try:
                async with await self._opening(carried) as session:
                    coming: Prompt | None = self._opened(prompt, carried, session)
                    try:  # the turns are run here: every agent waits inside, and keeps its frames
                        while (turn := await self._next_turn(session, coming)) is not None:
                            coming = await self._after_turn(turn, await turn.run())
                            if coming is None or self._must_reopen or not session.reusable:
                                break
                    finally:
                        life.release_slot()  # closing may take long, and no model works then
                is_left = self.life.is_leaving
                prompt = await self._without_session(coming) if is_left else coming
            except (AgentSpawnError, ProviderNotAvailableError, ModelNotAvailableError) as error:
                if not await self._may_open_again(error):
                    raise

    async def _carried(self) -> Carried | None:
        """Return what the vendor's thread may lack of a continued turn; None without a thread."""
        turn, record = self._left_turn, self.record
        if turn is None or turn.going_on is None:
            return None
        if await self._parts.opening.keeps_thread(record):
            return turn.going_on.carried(partial(turn.calls.parts.images, record))
        record.resume_token = None
        if not turn.going_on.is_parked:
            await self._undo_receives(turn, turn.going_on)
        return None

    async def _undo_receives(self, turn: TurnRun, going_on: GoingOn) -> None:
        """Make messages unread again that the turn received and no model acted on.

        Their answers went to a lost session, or to none. In the next session they would only be
        history, so whoever waits for an answer would wait in vain. A parked turn keeps them: no
        engine has died, and a knot still has its reminder.
        """
        record, parts = self.record, self._parts
        lost = going_on.lost_receives(turn.calls.settled)
        if not lost:
            return
        for answer in lost.values():
            parts.inbox.forget(record, answer.data)
        received = {call: answer.messages for call, answer in lost.items()}
        await parts.steps.write(record, ReceivesUndone(turn_id=turn.turn_id, received=received))
        going_on.undo(received)
        parts.inbox.restore(record, await parts.contexts.conversations.unread(record.agent_id))

    async def _opening(
        self, carried: Carried | None
    ) -> AbstractAsyncContextManager[ProviderSession]:
        self._must_reopen = False
        self._failover.opening()
        return await self._parts.opening.session(self.record, self._host, self, carried, self.park)

    def _opened(self, prompt: Prompt, carried: Carried | None, session: ProviderSession) -> Prompt:
        self._failover.unopened = 0
        going_on = None if self._left_turn is None else self._left_turn.going_on
        if going_on is None:
            return prompt
        going_on.store(carried, session.taken)
        text = going_on.retold() if carried is None else going_on.untold(carried, session.taken)
        return replace(prompt, text=text, again=True)

    async def _may_open_again(self, error: PrsmError) -> bool:
        """Whether to open another session after a failure; waits until it may be opened."""
        if isinstance(error, AgentSpawnError):
            return error.code == NO_ROOM and await self._until_room()
        if error.code == RESUME_FAILED and self.record.resume_token is not None:
            self._lose_thread()
            text = f"the conversation is rebuilt from the ledger: {error.message}"
            self._parts.journal.warn(self.record.agent_id, text)
        elif not await self._failover.replace_provider(error):
            # Before the first turn of a run a failure loses nothing.
            is_first = self.record.descriptor.parent_id is None and self.record.next_turn == 1
            if error.code == NOT_LOGGED_IN and not is_first:
                refused = AgentError(kind=ErrorKind.AUTH_FAILURE, message=error.message)
                self._held_by = HeldBy(error=refused)
                return True
            if (pause := self._failover.pause_to_open(error)) is None:
                return False
            await self._pause(pause)
        return True

    async def _outlast(self, by: HeldBy) -> bool:
        """Wait without slot or session until a login or limit is mended; False if it failed."""
        self._held_by = None
        if self.record.notes.chosen is not None:
            return True  # another model may have another login
        self.life.release_slot()
        if self.record.resume_token and not await self._parts.opening.keeps_thread(self.record):
            self._lose_thread()
        if not await self._parts.holds.outlast(self.record, by, self._held_times):
            await self._fail(by.error.message, by.error.kind.value)
            return False
        self._held_times += 1
        self.record.note(failures=0)  # what has held the agent may be mended
        await self.life.take_slot()
        return True

    async def _remembering(self, prompt: Prompt) -> Prompt | None:
        """Return the prompt with what no vendor's thread holds; None if the agent failed."""
        left = None if self._left_turn is None else self._left_turn.going_on
        text = prompt.text if left is None else left.retold()
        if left is None and await self._failover.take_chosen():
            self._keeper.begin_anew()
        while True:
            try:
                told = await self._keeper.history(text, self, open_turn=left)
            except CompactionFailedError as failed:
                if await self._recover(failed.error) is None:
                    return None
                if self._held_by is not None and not await self._outlast(self._held_by):
                    return None
            else:
                return replace(prompt, history=told)

    async def _begun(self) -> None:
        record, steps = self.record, self._parts.steps
        if self._left is None or record.state not in WAITING:
            await self.life.take_slot()
        if record.state not in WAITING and record.waiting_on is not None:
            steps.stage(record, released(record))  # what has held it may be mended
        if record.state is AgentState.PENDING:
            steps.stage(record, *steps.move(record, AgentState.STARTING, "slot taken"))

    def _first_prompt(self) -> Coroutine[Any, Any, Prompt | None]:
        # Awaited by the caller, not here: agents wait inside, and keep each frame.
        left = None if self.record.state is AgentState.STARTING else self._left
        if left is not None and left.open_turn is not None:
            return self._settle(left.open_turn)
        return self._follow(left)

    async def _follow(self, left: AgentNow | None) -> Prompt | None:
        """Begin, or continue as an earlier engine left the agent between two turns."""
        self._left = None
        if left is None or left.last_turn is None:
            return Prompt(text=self.record.descriptor.prompt)
        from prsm_core.engine.turns.going_on import ended_turn  # once a session goes on

        if left.last_turn.turn_id == self.record.notes.settled and left.last_turn.has_failed:
            return Prompt(text=None)  # what comes of that was decided before the engine died
        if left.last_turn.was_too_long and left.last_turn.is_compacted:
            return Prompt(text=None)  # as it was about to
        return await self._after(ended_turn(left.last_turn))

    def _settle(self, state: TurnState) -> Coroutine[Any, Any, Prompt | None]:
        from prsm_core.engine.turns.going_on import GoingOn, NoSession  # once a session goes on

        session = NoSession(self.record.resume_token)
        going_on = GoingOn(state, self.record.notes.went_on)
        self._left_turn = turn = self._begin_turn(session, Prompt(text=None), going_on)
        self._left = None
        return self._settled(turn)

    async def _settled(self, turn: TurnRun) -> Prompt | None:
        result = await turn.settle()
        if result is None:
            return Prompt(text=None)
        self._left_turn = None
        return await self._after(result)

    def park(self) -> bool:
        """Have the session closed soon if the agent only waits: others need the process.

        Return whether it is. The agent waits on without a session. The ledger has nothing of that,
        as nothing has happened to the agent.
        """
        turn = self.turn
        if turn is not None and turn.is_open and not turn.park():
            return False
        self.life.is_leaving = True
        self._parts.inbox.router.wake(self.record.agent_id)
        self._has_place = True
        return True

    async def _without_session(self, prompt: Prompt | None) -> Prompt | None:
        """Wait on as a resume would, without a process; return what comes next."""
        self.life.is_leaving = False
        if prompt is not None or self.record.state.is_terminal:
            return prompt
        from prsm_core.engine.turns.going_on import GoingOn, NoSession  # once one is parked

        parts, record, turn = self._parts, self.record, self.turn
        text = "it waits without its process, which others need: engine.max_resident_processes"
        told = Told(kind="notice", data={"level": "info", "text": text})
        await parts.steps.write(record, told)  # all that it did before is in the ledger by then
        if turn is None or not turn.is_parked:
            if record.claimed_result is None:
                return await self._await_prompt()
            await self._finish_with_children(record.claimed_result)
            return None
        state = await parts.contexts.open_turn(record)
        going_on = GoingOn(state, record.notes.went_on, is_parked=True)
        turn.take_up(going_on, NoSession(record.resume_token))
        if record.state not in WAITING:
            await self.life.take_slot()
        return await self._settled(turn)

    async def _until_room(self) -> bool:
        self.life.release_slot()
        patience = None if self._has_place else PATIENCE_SECONDS
        return await self._parts.providers.residents.freed(patience)

    def _lose_thread(self) -> None:
        self.record.resume_token = None
        self.record.ride(ThreadKept(thread=None))

    async def _next_turn(self, session: ProviderSession, prompt: Prompt | None) -> TurnRun | None:
        if prompt is None or self.life.is_over or self.life.is_leaving:
            return None
        while (pause := self._failover.breaker.remaining()) > 0:
            await self._pause(pause)
        await self.life.take_slot()  # the last turn may have ended while the agent waited
        is_new = self._left_turn is None
        if is_new and (self.record.notes.chosen is not None or self._keeper.is_full(prompt.text)):
            return None  # of another model, or of a conversation to be compacted
        turn, self._left_turn = self._left_turn, None
        if turn is None:
            return self._begin_turn(session, prompt)
        turn.attach(session, prompt)
        return turn

    async def _after_turn(self, turn: TurnRun, result: TurnResult | None) -> Prompt | None:
        if result is None:
            self._left_turn = turn
            return None
        return await self._after(result)

    def _begin_turn(
        self, session: ProviderSession, prompt: Prompt, going_on: GoingOn | None = None
    ) -> TurnRun:
        """Return the next turn. BudgetExceededError leaves the last one in place."""
        turn = TurnRun(self, self._parts, session, prompt, going_on)
        # nobody here ends a client's turn
        is_told = turn.limits.allowance is not None and not turn.is_external
        used_up = turn.limits.use_up if is_told else None
        budgets, agent_id = self._parts.budgets, self.record.agent_id
        if going_on is None:
            budgets.open_turn(agent_id, turn.turn_id, used_up)
        else:
            budgets.go_on(agent_id, turn.turn_id, turn.fold.spent, used_up)
        self.life.turn = turn
        return turn

    async def _after(self, result: TurnResult) -> Prompt | None:
        record, inbox = self.record, self._parts.inbox
        if record.state.is_terminal:
            return None
        if record.claimed_result is not None:
            await self._finish_with_children(record.claimed_result)
            return None
        if self.is_external:
            await self._settle_left(result)
            return None
        if self.turn is not None and self.turn.stop.over_budget is not None:
            raise self.turn.stop.over_budget
        if self.turn is not None and self.turn.stop.is_by_person:
            return inbox.take_unread(record) or Prompt(text=None)
        if result.stop_reason is StopReason.MAX_TOKENS:
            again = self._ask_again("its answer was cut at the output limit", _CUT)
            if again is not None:
                return again
        if result.error is not None or result.stop_reason is not StopReason.END_TURN:
            stopped = f"the turn stopped: {result.stop_reason.value}"
            error = AgentError(kind=ErrorKind.UNKNOWN, message=stopped)
            return await self._recover(result.error or error)
        self._failover.succeeded()
        self._keeper.has_retried = False
        self._held_times = 0
        return await self._next_prompt(result)

    async def _settle_left(self, result: TurnResult) -> None:
        record, ends, left = self.record, self._parts.ends, "whoever led this run has left"
        if result.error is not None or result.stop_reason is not StopReason.END_TURN:
            why = result.stop_reason.value if result.error is None else result.error.message
            await ends.fail_agent(record, f"the turn stopped: {why}", "unknown")
            return
        await ends.kill_children(record, left)
        evidence = await self.life.weigh((), (), is_last=True)
        summary = result.last_text.strip() or left
        done = evidence.on(AgentResult(agent_id=record.agent_id, success=True, summary=summary))
        await ends.end_agent(record, AgentState.COMPLETED, done, reason=left)

    async def _recover(self, error: AgentError) -> Prompt | None:
        if error.kind is ErrorKind.CONTEXT_OVERFLOW and self._keeper.overflowed(error.message):
            self._must_reopen, self._said_before = True, self.partial_text
            return Prompt(text=None)
        recovery = await self._failover.after(error)
        if recovery is None:
            too_long = error.kind is ErrorKind.CONTEXT_OVERFLOW and self._keeper.has_retried
            tried = "; its conversation was compacted, and it was tried again" if too_long else ""
            await self._fail(f"{error.message}{tried}", error.kind.value)
            return None
        if recovery.is_held:
            seconds = recovery.delay_s
            until = None if seconds is None else self._parts.clock.time() + seconds
            self._held_by, self._must_reopen = HeldBy(error=error, until=until), True
        elif recovery.reopen:
            self._lose_thread()  # another login or model cannot go on with the thread
            self._keeper.begin_anew()
            self._must_reopen = True
        else:
            await self._pause(recovery.delay_s or 0.0)
        return Prompt(text=None)

    async def _pause(self, seconds: float) -> None:
        self.life.release_slot()
        await self._parts.clock.sleep(seconds)
        await self.life.take_slot()

    async def _next_prompt(self, result: TurnResult) -> Prompt | None:
        record, inbox = self.record, self._parts.inbox
        prompt = inbox.take_forgotten(record)
        if prompt is None:
            await inbox.refuse_questions(record)
            prompt = inbox.take_unread(record)
        if prompt is not None:
            return prompt
        if record.live_children:
            return await self._await_prompt()
        if result.ends_silent:
            if (again := self._ask_again("its answer was empty", _SILENT)) is not None:
                return again
        elif record.notes.asked_again:
            record.note(asked_again=0)
        if not result.last_text.strip():
            await self._fail("the agent ended without saying anything (no result)", "no_result")
            return None
        try:
            evidence = await self.life.weigh((), ())
        except OrchestrationError as red:
            if red.code != GATE_FAILED:
                raise
            return Prompt(text=f"{red.message}\n{red.hint}")
        done = AgentResult(agent_id=record.agent_id, success=True, summary=result.last_text)
        done = evidence.on(done)
        await self._parts.ends.end_agent(record, AgentState.COMPLETED, done, reason="turn ended")
        return None

    def _ask_again(self, why: str, text: str) -> Prompt | None:
        asked = self.record.notes.asked_again + 1
        if self._is_program or asked > ASKS:
            return None
        self.record.note(asked_again=asked)
        told = f"{why}: the model is asked again ({asked} of {ASKS})"
        self._parts.journal.warn(self.record.agent_id, told)
        return Prompt(text=text)

    async def _finish_with_children(self, result: AgentResult) -> None:
        if await self._outlive_children():
            record, completed = self.record, AgentState.COMPLETED
            result = await self._parts.files.proof(record).again(result)
            await self._parts.ends.end_agent(record, completed, result, reason="children ended")

    async def _await_prompt(self) -> Prompt | None:
        record, inbox, prompt = self.record, self._parts.inbox, None
        self.life.blocked([AnyMessage(record, inbox.router)])
        try:
            while prompt is None:
                prompt = inbox.take_reminder(record) or inbox.take_unread(record)
                if prompt is None and not record.live_children:
                    prompt = Prompt(text=_CHILDREN_ENDED)
                if prompt is None:
                    if self.life.is_leaving:
                        return None
                    await inbox.router.changed(record.agent_id)
        finally:
            self.life.moved()
        await self.life.take_slot()
        return prompt

    async def _outlive_children(self) -> bool:
        record, life, router = self.record, self.life, self._parts.inbox.router
        if record.live_children:
            life.blocked([_end_of(child) for child in record.live_children.values()])
            # Whose engine closed before it came here would hear of no end any more.
            while record.live_children and not (life.is_leaving or self._parts.is_closing()):
                await router.changed(record.agent_id)
        life.moved()
        return not record.live_children

    async def give_up(self, what: str = "a turn that was interrupted and cancelled") -> None:
        """Fail the agent, whose provider does not end something, and void its further acts."""
        self.life.leave_slot()
        await self.abandon_turn()
        provider = self.record.descriptor.provider
        await self._fail(f"provider {provider} does not end {what}", "provider_stuck")

    def on_stuck(self) -> None:
        """Give the agent up, as its provider keeps the task that opens or closes its session."""
        give_up = self.give_up("the opening or closing of a session, which took too long")
        self._parts.background.launch(give_up, name=f"giving up {self.record.agent_id}")

    async def abandon_turn(self) -> None:
        """Close the running turn in the ledger and void what its provider still does."""
        if self.turn is not None:
            await self.turn.abandon()

    async def _fail(self, message: str, kind: str) -> None:
        parts, record = self._parts, self.record
        if record.state.is_terminal or parts.is_closing() or parts.journal.is_suspended:
            return
        if await parts.journal.stops_for(message):
            return
        readable = keepable(message, parts.journal.redact)
        await parts.ends.fail_agent(record, readable, kind)


def _end_of(child: AgentRecord) -> WaitOf:
    return WaitOf(
        state=AgentState.WAITING_FOR_CHILD,
        on="finishing",
        targets=lambda: (child.agent_id,),
        ready=lambda: child.has_ended,
    )


DRAIN_SECONDS = 5.0  # how long an ended agent's turn may take to close before it is cancelled
STOP_SECONDS = 10.0  # how long a cancelled session may take to let go of everything


class _Life(Struct, eq=False):
    record: AgentRecord
    session: AgentSession
    task: asyncio.Task[None]
    until: float | None = None  # monotonic: it is cancelled, and waited for until then
    is_left: bool = False  # it was waited for, in vain: nobody does so again

    @property
    def is_open(self) -> bool:
        return not self.task.done() and not self.is_left


class Lives(Struct, eq=False):
    """Owns the newest life of every agent, until it has ended and let go of everything."""

    background: Background
    clock: Clock
    _newest: dict[str, _Life] = field(default_factory=dict)

    def begin(self, record: AgentRecord, session: AgentSession) -> None:
        """Run a session as the agent's life."""
        name = f"agent {record.descriptor.name}"
        task = self.background.start(session.run(), name=name, is_bare=True)
        self._newest[record.agent_id] = _Life(record, session, task)

    def forget(self, agent_id: str) -> None:
        """Drop the life of an agent that has ended."""
        self._newest.pop(agent_id, None)

    def session_of(self, agent_id: str) -> AgentSession | None:
        """Return the session of an agent's newest life, if there is one."""
        life = self._newest.get(agent_id)
        return None if life is None else life.session

    def task_of(self, agent_id: str) -> asyncio.Task[None] | None:
        """Return the task of an agent's newest life, if there is one."""
        life = self._newest.get(agent_id)
        return None if life is None else life.task

    def wait_anew(self, agent_id: str) -> None:
        """Make a blocked agent wait for agents that have begun since, too."""
        if (session := self.session_of(agent_id)) is not None:
            session.life.wait_anew()

    def running(self) -> list[asyncio.Task[None]]:
        """Return the tasks of all lives that have not let go of everything."""
        return [life.task for life in self._newest.values() if not life.task.done()]

    def begin_stop(self, record: AgentRecord) -> None:
        """Cancel an agent's life, only once: a second time would break off its cleanup."""
        life = self._newest.get(record.agent_id)
        if life is None or life.task.done() or life.until is not None:
            return
        life.until = self.clock.now() + self.background.parting.most(STOP_SECONDS)
        if not life.task.cancelling():
            life.task.cancel()

    async def stop(self, record: AgentRecord) -> None:
        """Cancel an agent's life and wait until it has let go; leave it behind if it is late."""
        life = self._newest.get(record.agent_id)
        if life is None or not life.is_open:
            return
        task = life.task
        self.begin_stop(record)
        left = max((life.until or 0.0) - self.clock.now(), 0.0)
        if await first_of(self.clock, left, lambda: asyncio.wait({task})) or task.done():
            return
        life.is_left = True
        life.session.life.leave_slot()
        who = (record.descriptor.provider, record.descriptor.name)
        _log.warning("provider %s does not let go of %s: its session is left behind", *who)
        await self._within(STOP_SECONDS, life.session.abandon_turn)

    async def leave(self, record: AgentRecord) -> None:
        """Wait until an ended agent's life has let go: no two may run. Raises AgentSpawnError."""
        life = self._newest.get(record.agent_id)
        if life is None:
            return
        await self._drain([life], DRAIN_SECONDS)
        if not life.task.done():
            raise AgentSpawnError(
                f"the last session of {record.descriptor.name} has not closed yet",
                hint="try again later, or spawn another agent",
                code="still_running",
            )

    async def drain_all(self, seconds: float) -> None:
        """Give all lives this time to end by themselves, then stop them."""
        await self._drain([*self._newest.values()], seconds)

    async def _drain(self, lives: Sequence[_Life], seconds: float) -> None:
        late = [life.task for life in lives if life.is_open]
        if late:
            await self._within(seconds, lambda: asyncio.wait(late))
        await self._stop(lives)

    async def stop_all(self) -> None:
        """Stop all lives at once."""
        await self._stop([*self._newest.values()])

    async def _stop(self, lives: Sequence[_Life]) -> None:
        alive = [life.record for life in lives if life.is_open]
        if alive:  # most have ended: they get no task
            await asyncio.gather(*map(self.stop, alive))

    async def _within(self, seconds: float, wait: Callable[[], Awaitable[object]]) -> bool:
        return await first_of(self.clock, self.background.parting.most(seconds), wait)
