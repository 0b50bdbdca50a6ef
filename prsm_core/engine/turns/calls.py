"""Run the orchestration calls of one turn: each is opened and closed exactly once.

A call is durable before it acts outside the engine, or in the step by which it acts. Its answer is
durable before the provider gets it, unless the call is repeatable: it has no effect, and may be
made again after a crash. All calls of a turn end with it.

Some clients give up a call that lasts. Its work goes on, and a token gives its answer later.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.permissions import Deny
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import RESULT_LIMIT
from prsm_core.engine.guarded.failing import breaks_ledger, describe, keepable
from prsm_core.engine.turns.call import ENDED, Call, turn_over
from prsm_core.engine.turns.context import render_twins
from prsm_core.engine.turns.fold import unused_id
from prsm_core.engine.turns.waits import WaitOf
from prsm_core.errors import MessageRoutingError, OrchestrationError, PrsmError
from prsm_core.kit.clocks import first_of
from prsm_core.kit.outcomes import within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterator, Mapping, Sequence

    from prsm_core.domain.sessions import CallState
    from prsm_core.domain.steps import Write
    from prsm_core.domain.turns import AgentToolCall
    from prsm_core.domain.writes import StateChanged
    from prsm_core.engine.turns.call import Handler, Mended, Reply, Toolbox, TurnOfCalls
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.engine.turns.going_on import GoingOn
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.engine.turns.ports import Life
    from prsm_core.engine.turns.waits import Wait


_NONE: frozenset[str] = frozenset()  # one for all: each that is made takes 216 bytes


class TurnCalls(Struct, eq=False):
    """Owns the orchestration calls of one turn."""

    turn: TurnOfCalls
    life: Life
    parts: TurnParts
    tools: Toolbox
    open: tuple[Call, ...] = ()  # oldest first; mostly it is one
    rows: dict[str, AgentToolCall] = {}  # of those that have ended
    cut_off: tuple[Call, ...] = ()  # opened, but ended by the turn's end
    completing: str | None = None  # the call of task_complete that was accepted
    asking: int = 0  # how many of the open ones ask a person
    is_left: bool = False  # all are let go of to be made again: nothing that they did is undone
    _let_go: asyncio.Future[None] | None = None  # no call runs any more
    _going_on: GoingOn | None = None  # of a turn that an earlier engine has left open
    _is_over: bool = False
    _cut: frozenset[str] = _NONE  # calls that were cancelled here
    _left: tuple[Call, ...] = ()  # those that were let go of
    _taken_up: asyncio.Event | None = None  # set once they may be made; None: none was
    _unbegun: tuple[Call, ...] = ()  # left open by an earlier session, and not yet made again
    settled: tuple[Call, ...] = ()  # that were made again without a session
    _response: int = -1  # of the model, the newest that has made calls
    _ids: tuple[str, ...] = ()  # that it gave them, and those that they have instead
    _twins: tuple[tuple[str, ...], ...] = ()  # calls to which it gave one id, by their own ids

    def all_wait(self, *, without: Call | None = None) -> bool:
        """Whether there are open calls besides one, and all of them wait."""
        found = False
        for call in self.open:  # asked whenever any call moves
            if call is without:
                continue
            if call.wait is None:
                return False
            found = True
        return found

    @property
    def has_completed(self) -> bool:
        """Whether task_complete was accepted. Nothing in the turn undoes that."""
        return self.completing is not None

    @property
    def is_completing(self) -> bool:
        """Whether task_complete was accepted, or is about to be."""
        return self.has_completed or any(c.name == "task_complete" for c in self.open)

    def opened(self, call_id: str) -> Call | None:
        """Return the open call of this id, or None."""
        return next((call for call in self.open if call.id == call_id), None)

    def run(
        self, name: str, mended: Mended, call_id: str | None
    ) -> Coroutine[Any, Any, ToolOutcome]:
        """Run one call in the awaiting task; an error is an answer too. See `_run`."""
        call = Call(call_id or "", name, mended.arguments, self)
        call.notice, call.fits = mended.notice, mended.fits
        return self._run(call)

    async def _instead(self, call: Call) -> ToolOutcome | None:
        if call.is_again:
            return None
        if call.name != "task_complete" and self.turn.is_held:
            await self.turn.hold()
            return turn_over()
        if self._is_over or self.life.is_over:
            await self.parts.journal.hold()
            await self._while_left()
            return turn_over()
        if self._going_on is not None and call.id:
            again = self._going_on.answer_of(call.id, call.name, call.args)
            if again is not None:
                return again
        wanted = call.id
        call.id = self.unique_id(wanted)
        call.sequence, call.started_at_ms = self.turn.fold.call_begins()
        call.response = self.turn.fold.responses
        self._note_id(call, wanted)
        return None

    def _note_id(self, call: Call, wanted: str) -> None:
        if call.response != self._response:
            self._response, self._ids = call.response, ()
        if wanted in self._ids:
            twins = next((group for group in self._twins if wanted in group), (wanted,))
            self._twins = (*(one for one in self._twins if one != twins), (*twins, call.id))
        self._ids = (*self._ids, call.id)

    def take_up(self, going_on: GoingOn, fold: TurnFold) -> None:
        """Restore a turn that an earlier engine has left open, and fill `fold`."""
        self._going_on = going_on
        self._unbegun = tuple(map(self._again, going_on.open_calls))
        going_on.fill(fold)
        for row in going_on.answered:
            self.rows[row.id] = row

    def leave_open(self) -> None:
        """Let go of every call unanswered, until `take_back`. Their callers keep waiting."""
        self.is_left, self._taken_up = True, asyncio.Event()
        self._cancel()

    def take_back(self, going_on: GoingOn) -> None:
        """Prepare to `settle` the calls that were let go of: their session is gone."""
        self._going_on, self._cut, self._left = going_on, _NONE, ()
        self._unbegun = tuple(map(self._again, going_on.open_calls))
        self._let_callers_go()

    def begin_anew(self) -> None:
        """Accept calls again, from a new session."""
        self._is_over = False

    async def _while_left(self) -> None:
        if self._taken_up is not None:
            await self._taken_up.wait()

    def _let_callers_go(self) -> None:
        self.is_left = False
        if self._taken_up is not None:
            self._taken_up.set()

    async def settle(self) -> Mapping[str, ToolOutcome]:
        """Run the handlers of calls that an earlier session left open; return their outcomes.

        The handlers recall what they have done. A single call, the usual case, runs in this task,
        since it may wait for long. Several have a task each.
        """
        self.settled = calls = self._unbegun
        if len(calls) == 1:
            self._unbegun = ()
            return {calls[0].id: await self._run(calls[0])}
        outcomes = await asyncio.gather(*map(self._make_again, calls))
        return {call.id: outcome for call, outcome in zip(calls, outcomes, strict=True)}

    async def _make_again(self, call: Call) -> ToolOutcome:
        if call not in self._unbegun:  # its turn has ended first, and the call with it
            return turn_over()
        self._unbegun = tuple([one for one in self._unbegun if one is not call])
        return await self._run(call)

    def _again(self, left: CallState) -> Call:
        row = left.call
        call = Call(row.id, row.tool_name, row.params, self, row.sequence, row.started_at)
        call.opened = call.is_again = True
        for effect in left.effects:
            call.effects[effect.name] = effect
        return call

    async def _run(self, call: Call) -> ToolOutcome:
        """Have a call handled and its answer stored, in its caller's task.

        Both the caller and the end of the turn may cancel it. `_cancel` names the calls that the
        turn's end cancels. That cancellation is taken back here once the call has given back what
        it claimed, so that the caller gets an answer. If more cancellations are left than the
        caller brought along, one is the caller's own and goes on. An error that is no answer is
        reported.
        """
        if (instead := await self._instead(call)) is not None:
            return instead
        task = self._begun(call)
        cancels_before = task.cancelling()
        try:
            try:  # here, not in a method: every agent waits inside of it
                try:
                    reply = self._stored(call) or await self._handled(call)
                except Exception as error:  # noqa: BLE001 - told to the agent
                    outcome = self._failure(call, error)
                else:
                    outcome = _outcome(call, reply)
                if not call.closed:
                    await self._close(call, self.turn.answered(call, outcome))
                if self._is_withheld(call):
                    await asyncio.get_running_loop().create_future()  # the turn's end cancels it
            except asyncio.CancelledError:
                call.give_back()
                raise
            finally:
                self._ended(call)
            self.turn.calls_changed()
        except asyncio.CancelledError:
            if call.id not in self._cut or task.uncancel() > cancels_before:
                raise
            await self._while_left()
        except Exception as error:  # noqa: BLE001 - the boundary: reported, never swallowed
            who = self.life.record.descriptor.name
            self.parts.background.report(f"{call.name} of {who}", error)
            await self.parts.journal.hold()
        return call.outcome or turn_over()

    def _begun(self, call: Call) -> asyncio.Task[Any]:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call needs a task")
        call.task, self.open = task, (*self.open, call)
        self.turn.call_began()
        return task

    def _handled(self, call: Call) -> Awaitable[Reply | ToolOutcome]:
        if self.parts.broker.watches_calls and not call.is_again:  # else it was permitted
            return self._permitted(call)
        return self._handler(call)(call)

    async def _permitted(self, call: Call) -> Reply | ToolOutcome:
        verdict = await self.parts.permits.authorize_call(self.life, call.name, call.args)
        if isinstance(verdict, Deny):
            named = "" if verdict.check is None else f" (the permission check {verdict.check})"
            raise OrchestrationError(
                f"not permitted: {verdict.reason}{named}",
                hint="do it another way",
                code="permission_denied",
            )
        return await self._handler(call)(call)

    def _handler(self, call: Call) -> Handler:
        provider = self.life.record.descriptor.provider
        by_program = self.parts.program_of(provider) is not None
        return self.tools.find(call.name, call.args, by_program=by_program, fits=call.fits)

    def _stored(self, call: Call) -> ToolOutcome | None:
        """Return the answer to a call that was made before a crash, once."""
        if self._going_on is None or call.is_again:
            return None
        return self._going_on.take_stored(call.name, call.args)

    def _ended(self, call: Call) -> None:
        self.open = tuple([one for one in self.open if one is not call])
        if not self.open and self._let_go is not None and not self._let_go.done():
            self._let_go.set_result(None)
        if self.is_left and call.outcome is None:
            self._left = (*self._left, call)
        else:
            self._finish_row(call)
            if self._twins:
                self._tell_of_twins()
        self.turn.call_ended()

    def _tell_of_twins(self) -> None:
        """Tell the model the answers of calls that shared an id, once all have ended.

        Its vendor keeps one answer for an id, and may show it as that of another call.
        """
        ended = [group for group in self._twins if self.rows.keys() >= set(group)]
        self._twins = tuple(group for group in self._twins if group not in ended)
        for group in ended:
            self.turn.tell(render_twins([self.rows[call_id] for call_id in group]))

    def complete(self, call_id: str) -> None:
        """Let the turn end with this call, and cancel all others."""
        self.completing = call_id
        self._cancel()

    async def end(self) -> None:
        """End every open call and wait until each has given back what it claimed.

        An accepted task_complete is not cancelled: it ends its agent first. Calls that nobody has
        made again since an earlier session end before all others.
        """
        unbegun, self._unbegun = self._unbegun, ()
        for call in unbegun:
            self._finish_row(call)
        self._cancel()
        if self.open:
            await self.let_go()
        if self.is_left:
            for call in self._left:
                self._finish_row(call)
            self._let_callers_go()

    async def let_go(self) -> None:
        """Wait until every ended call has given back what it claimed."""
        if self.open:
            if self._let_go is None or self._let_go.done():
                self._let_go = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._let_go})

    def _cancel(self) -> None:
        self._is_over = True
        for call in self.open:
            spared = call.id in self._cut or call.id == self.completing
            if call.task is not None and not spared:
                self._cut |= {call.id}
                call.task.cancel()

    def unique_id(self, call_id: str | None) -> str:
        """Return the vendor's id of a call, made unique within the turn."""
        if not call_id:
            return self.parts.new_id()
        wanted = keepable(call_id, self.parts.journal.redact)
        return unused_id(wanted, lambda name: name in self.rows or self.opened(name) is not None)

    def _failure(self, call: Call, error: Exception) -> ToolOutcome:
        if isinstance(error, PrsmError):
            if breaks_ledger(error):
                raise error
            return ToolOutcome.failed(error)
        text = f"{call.name} failed inside prsm: {describe(error)}"
        self.parts.journal.warn(self.life.record.agent_id, text, "error")
        return ToolOutcome.failed(OrchestrationError(text, code="internal"))

    async def _close(self, call: Call, outcome: ToolOutcome) -> None:
        record, steps = self.life.record, self.parts.steps
        if record.state.is_terminal:  # killed meanwhile: there is no one to answer
            return
        if not self.life.is_working:
            call.begin()  # it is seen while it waits for a slot
        call.wait = None
        if not self.turn.is_blocked(without=call):
            await self.life.take_slot()
        outcome, writes = self._by_answer(call, within(outcome, RESULT_LIMIT))
        running = self.life.resume()
        opening = call.opens()
        closed = call.close_with(outcome)
        if not writes and not call.consumed and self.tools.is_repeatable(call.name):
            self._stage_running(running)
            steps.stage(record, *opening, closed, needs=call.opening)
            return
        step = steps.build(record, *running, *opening, *writes, closed)
        try:
            await steps.commit(step, consumed=call.consumed, needs=call.opening)
        except Exception:
            if call.by_answer is not None and writes:
                call.by_answer.take_back()
            call.reopen(opening)  # nothing was written: it has no answer
            if not self.parts.journal.is_over:
                self._stage_running(running)  # yet its agent runs
            raise

    def _stage_running(self, changes: Sequence[StateChanged]) -> None:
        if changes:
            self.parts.steps.stage(self.life.record, *changes)

    def _by_answer(self, call: Call, outcome: ToolOutcome) -> tuple[ToolOutcome, Sequence[Write]]:
        """Return the answer and the writes of its step; an error alone if it is too late."""
        if call.by_answer is None or outcome.is_error:
            return outcome, ()
        try:
            writes = call.by_answer.writes()
            return outcome, (*writes, call.effect("done")) if writes else ()
        except OrchestrationError as error:
            call.give_back()
            return ToolOutcome.failed(error), ()

    def _is_withheld(self, call: Call) -> bool:
        """Whether a stored answer is kept back because the turn's budget is used up.

        The model's next response would be paid for and cut off. The end of the turn cancels the
        call instead. Programs are exempt, as their answers ask no model; so are calls made again,
        for which nobody waits, and calls beside others that are open: those keep the model from
        going on.
        """
        if self.turn.is_held:
            return not self.has_completed
        if not self.turn.limits.is_used_up or call.is_again:
            return False
        if self.open != (call,) or self.turn.fold.has_running:
            return False
        is_program = self.parts.program_of(self.life.record.descriptor.provider) is not None
        return not is_program and self.turn.limits.withholds()

    def _finish_row(self, call: Call) -> None:
        outcome, at = call.outcome, call.closed_at_ms
        if outcome is None:
            if call.opened:
                self.cut_off = (*self.cut_off, call)
            row = call.row("failed", error=ENDED, completed_at=self.parts.now_ms())
        elif outcome.is_error:
            row = call.row("failed", error=outcome.text, completed_at=at)
        else:
            row = call.row("completed", result=outcome.text, completed_at=at)
        self.rows[call.id] = row


def _outcome(call: Call, reply: Reply | ToolOutcome) -> ToolOutcome:
    if isinstance(reply, ToolOutcome):
        return reply
    return call.outcome or ToolOutcome.of(reply.data, ends_turn=reply.ends_turn)


WAIT_TOOL = "wait_for_message"


class _LongCall(Struct, eq=False):
    token: str
    key: str  # tool and arguments
    task: asyncio.Task[None] | None = None
    outcome: ToolOutcome | None = None
    is_carried: bool = False  # a client waits for its answer now
    is_pending: bool = False  # a client knows the token
    is_given: bool = False

    @contextmanager
    def carried(self) -> Iterator[None]:
        self.is_carried = True
        try:
            yield
        finally:
            self.is_carried = False


class LongCalls(Struct, eq=False):
    """Owns the calls of one turn that a client may leave before they end."""

    calls: TurnCalls
    _known: dict[str, _LongCall] = field(default_factory=dict)
    _expired: set[str] = field(default_factory=set)  # waits that ended by their own timeout

    async def run(
        self, name: str, mended: Mended, call_id: str | None, patience_s: float
    ) -> ToolOutcome:
        """Run a call; answer `pending` with a token after `patience_s` seconds."""
        arguments = mended.arguments
        if name == WAIT_TOOL and "token" in arguments:  # the work is another call's
            wanted = arguments.get("timeout") or arguments.get("timeout_seconds") or patience_s
            if isinstance(wanted, int | float):  # else it is refused, as any wrong argument
                wanted = min(wanted, patience_s)
            limited = {**arguments, "timeout": wanted}
            return await self.calls.run(name, replace(mended, arguments=limited), call_id)
        key = json.dumps([name, arguments], sort_keys=True)
        # Left by its client without an answer and without the token.
        left = (c for c in self._known.values() if not (c.is_carried or c.is_pending or c.is_given))
        call = next((c for c in left if c.key == key), None)
        if call is None:
            call = self._start(name, mended, call_id, key)
        with call.carried():
            ended = await self._ended_within(call, patience_s)
        if not ended:
            await self.calls.parts.journal.hold()
            call.is_pending = True
            return pending(call.token)
        return self._give(call)

    async def resume(self, follower: Call, token: str, seconds: float | None) -> ToolOutcome | None:
        """Return the answer of an earlier call after at most `seconds`; see `expire` for None.

        An answer that was given before is marked `again`. Raises MessageRoutingError for an unknown
        token, or if another call already waits for the answer.
        """
        if token in self._expired:
            return None
        call = self._known.get(token)
        if call is None:
            raise MessageRoutingError(
                f"there is no call {token!r} that you could wait for",
                hint="a token holds until its turn ends; leave it out to wait for any message",
                code="unknown_token",
            )
        if call.is_carried:
            raise MessageRoutingError(
                f"another wait_for_message of yours waits for call {token!r} already",
                hint="one is enough: it returns the answer",
                code="already_waiting",
            )
        with call.carried():
            ended = call.outcome is not None or await self._follow(follower, call, seconds)
        return self._give(call) if ended else pending(token)

    def expire(self, token: str) -> None:
        """Remember a wait that its own timeout has ended."""
        self._expired.add(token)

    def _start(self, name: str, mended: Mended, call_id: str | None, key: str) -> _LongCall:
        token = self.calls.unique_id(call_id)
        while token in self._known:  # the same call delivered twice in one moment
            token = self.calls.unique_id(f"{token}#again")
        call = _LongCall(token, key)

        async def work() -> None:
            call.outcome = await self.calls.run(name, mended, token)

        call.task = self.calls.parts.background.start(work(), name=f"long call {name}")
        self._known[token] = call
        return call

    async def _ended_within(self, call: _LongCall, seconds: float | None) -> bool:
        task = call.task
        if task is None:
            raise RuntimeError("the call was not started")
        return await first_of(self.calls.parts.clock, seconds, lambda: asyncio.wait({task}))

    async def _follow(self, follower: Call, call: _LongCall, seconds: float | None) -> bool:
        """Await a call from within another, which waits for the same."""
        leader = self.calls.opened(call.token)

        def its_wait() -> Wait | None:
            return None if leader is None or leader.closed else leader.wait

        def targets() -> tuple[str, ...]:
            wait = its_wait()
            return () if wait is None else wait.targets()

        def ready() -> bool:
            wait = its_wait()
            return seconds is not None or wait is None or wait.ready()

        now = its_wait()
        state = AgentState.WAITING_FOR_CHILD if now is None else now.state
        wait = WaitOf(state=state, on="an earlier call", targets=targets, ready=ready)
        return await follower.wait_while(wait, lambda: self._ended_within(call, None), seconds)

    def _give(self, call: _LongCall) -> ToolOutcome:
        outcome = call.outcome
        if outcome is None:  # its task was cancelled with the engine
            raise OrchestrationError("the call was cut off", code="turn_over")
        if call.is_given:
            again = ToolOutcome.of({**outcome.data, "again": True})
            return replace(again, is_error=outcome.is_error, images=outcome.images)
        call.is_given = True
        if not call.is_pending:
            del self._known[call.token]  # nobody knows a token of it
        return outcome


def pending(token: str) -> ToolOutcome:
    """Return the answer to a client that will not wait longer."""
    hint = f"not ready yet: call {WAIT_TOOL} with this token for the answer"
    return ToolOutcome.of({"type": "pending", "token": token, "hint": hint})
