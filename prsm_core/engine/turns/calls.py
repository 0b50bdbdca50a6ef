"""Orchestration calls of one turn: opened, perhaps waiting, closed, each exactly once.

A call is durable before it acts (`call_open`, with the messages it sends) and its answer is
durable before the provider gets it (`call_close`). The engine ends every call of a turn when
the turn ends; what a provider says about them later is ignored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core.domain.permissions import Deny
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import AgentToolCall, cut_result
from prsm_core.domain.writes import CallClosed, CallOpened, MessageSent, Told
from prsm_core.engine.failing import breaks_ledger, describe
from prsm_core.errors import OrchestrationError, PrsmError
from prsm_core.kit.clocks import first_of
from prsm_core.kit.outcomes import failure, success
from prsm_core.messaging.waits import WaitFor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.agents.manager import AgentManager
    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.engine.state import AgentRecord

    Match = Callable[[RoutedMessage], bool]

_ENDED = "this turn is over; the call has no effect"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wait:
    """What a blocked call waits for.

    Any of `targets()` can end the wait, as things stand when the agent is blocked; `ready` tells
    whether something committed ends it now. `state` is what the agent becomes, `on` the words
    for people.
    """

    state: AgentState
    on: str
    targets: Callable[[], tuple[str, ...]]
    ready: Callable[[], bool]

    def edge(self) -> WaitFor:
        """Return the wait as the wait graph knows it."""
        return WaitFor(self.targets(), key=self.ready)


@dataclass(slots=True)
class Reply:
    """What a handler answers: data for the model, and whether the turn ends with it."""

    data: Mapping[str, Any]
    ends_turn: bool = False


@dataclass(slots=True)
class Call:
    """One orchestration call. Handlers read `args`, may `open` once, and may wait."""

    id: str
    name: str
    args: Mapping[str, Any]
    session: AgentSession
    turn_id: str
    sequence: int
    started_at_ms: int
    opened: bool = False
    closed: bool = False
    wait: Wait | None = None
    consumed: list[str] = field(default_factory=list)
    spawned_session_label: str | None = None
    outcome: ToolOutcome | None = None

    @property
    def manager(self) -> AgentManager:
        """The agent manager."""
        return self.session.manager

    @property
    def record(self) -> AgentRecord:
        """The record of the calling agent."""
        return self.session.record

    def row(self, status: str = "running", **fields: Any) -> AgentToolCall:
        """Return the call's ledger row as of now."""
        return AgentToolCall(
            id=self.id,
            tool_name=self.name,
            params=self.args,
            status=status,
            started_at=self.started_at_ms,
            sequence=self.sequence,
            orchestration=True,
            spawned_session_label=self.spawned_session_label,
            **fields,
        )

    async def open(self, *messages: RoutedMessage, told: tuple[Told, ...] = ()) -> None:
        """Commit the call and the messages it sends; done by itself where a handler does not."""
        if self.opened:
            raise OrchestrationError(f"call {self.id} was opened twice")
        self.opened = True
        manager = self.manager
        opened = CallOpened(turn_id=self.turn_id, call=self.row())
        sent = [MessageSent(message=message) for message in messages]
        step = manager.build(self.record, opened, *told, *sent)
        try:
            await manager.commit(step)
        except Exception:
            self.opened = False  # nothing was written: the refusal is recorded by itself
            raise

    async def receive(
        self,
        wait: Wait,
        match: Match,
        *,
        otherwise: Callable[[], bool],
        seconds: float | None = None,
    ) -> RoutedMessage | None:
        """Wait for a message; None when `otherwise()` holds or `seconds` have passed."""
        router = self.manager.runtime.router
        found: list[RoutedMessage] = []

        async def look() -> None:
            message = await router.receive(self.record.agent_id, match, otherwise=otherwise)
            if message is not None:
                self.consumed.append(message.message_id)
                found.append(message)

        await self.wait_while(wait, look, seconds)
        return found[0] if found else None

    async def wait_while(
        self, wait: Wait, work: Callable[[], Awaitable[object]], seconds: float | None
    ) -> bool:
        """Do `work` as a wait of the agent; whether it ended within `seconds`."""
        if not self.opened:
            await self.open()
        self.wait = wait
        try:
            await self.session.calls_changed()
            return await first_of(self.manager.runtime.clock, seconds, work)
        finally:
            self.wait = None
            self.session.moved()

    def has_unread(self, match: Match) -> bool:
        """Whether a committed message that matches waits in the agent's mailbox."""
        return self.manager.runtime.router.has_unread(self.record.agent_id, match)

    def close_with(self, outcome: ToolOutcome) -> CallClosed:
        """Return the stored form of the answer; the call counts as closed from now on."""
        self.closed = True
        self.outcome = outcome
        return CallClosed(
            turn_id=self.turn_id,
            call_id=self.id,
            status="failed" if outcome.is_error else "completed",
            result=cut_result(outcome.text),
            consumed=tuple(self.consumed),
            at_ms=self.session.now_ms(),
            duration_s=self._seconds(),
            exit_code=(outcome.data or {}).get("exit_code"),  # run_bash alone has one
        )

    def reopen(self) -> None:
        """Count as open: the answer could not be stored."""
        self.closed = False
        self.outcome = None

    def cut_off(self) -> Told:
        """Return what tells of the end of a call that has no answer; its turn stores the rest."""
        data = {
            "call": self.id,
            "status": "failed",
            "result": None,
            "error": _ENDED,
            "duration_s": self._seconds(),
            "exit_code": None,
        }
        return Told(kind="tool_call_finished", data=data)

    def _seconds(self) -> float:
        return (self.session.now_ms() - self.started_at_ms) / 1000


def turn_over() -> ToolOutcome:
    """Return the outcome of a call that has no turn any more."""
    return failure(OrchestrationError(_ENDED, code="turn_over"))


class TurnCalls:
    """Owns the orchestration calls of one turn."""

    def __init__(self, session: AgentSession, turn_id: str) -> None:
        self._session = session
        self._turn_id = turn_id
        self._tasks: dict[str, asyncio.Task[Any]] = {}  # the provider's, by the call it waits in
        self._let_go: asyncio.Future[None] | None = None  # no call runs any more
        self.open: dict[str, Call] = {}
        self.rows: dict[str, AgentToolCall] = {}
        self.cut_off: list[Call] = []  # opened, but ended by the turn's end
        self.has_completed = False  # task_complete was accepted
        self._is_over = False
        self._cut: set[str] = set()  # calls that were cancelled here

    def all_wait(self, *, without: Call | None = None) -> bool:
        """Whether there are open calls, but for one, and every one of them waits."""
        calls = [call for call in self.open.values() if call is not without]
        return bool(calls) and all(call.wait is not None for call in calls)

    @property
    def is_completing(self) -> bool:
        """Whether task_complete was accepted, or is about to be."""
        return self.has_completed or any(c.name == "task_complete" for c in self.open.values())

    def waits(self) -> list[Wait]:
        """Return the waits of the open calls, oldest first."""
        return [call.wait for call in self.open.values() if call.wait is not None]

    async def run(
        self, name: str, arguments: Mapping[str, Any], call_id: str | None
    ) -> ToolOutcome:
        """Run one call to its stored answer; an error is an answer too."""
        session = self._session
        if self._is_over or session.is_over:
            return turn_over()
        call = Call(
            id=self.unique_id(call_id),
            name=name,
            args=arguments,
            session=session,
            turn_id=self._turn_id,
            sequence=session.next_call_number(),
            started_at_ms=session.now_ms(),
        )
        self.open[call.id] = call
        self.rows[call.id] = call.row()
        session.tool_started()
        await self._until_cut_off(call)
        return call.outcome or turn_over()

    def complete(self, call_id: str) -> None:
        """Let the turn end with this call: every other open one is cancelled."""
        self.has_completed = True
        self._cancel(but=call_id)

    async def end(self) -> None:
        """End every open call and wait until each has let go of what it claimed."""
        self._cancel()
        if self._tasks:
            self._let_go = asyncio.get_running_loop().create_future()
            await self._let_go

    def _cancel(self, *, but: str | None = None) -> None:
        self._is_over = True
        for call_id, task in self._tasks.items():
            if call_id != but and call_id not in self._cut:
                self._cut.add(call_id)
                task.cancel()

    def unique_id(self, call_id: str | None) -> str:
        """Return the vendor's id of a call, or one like it that no call of the turn has."""
        runtime = self._session.manager.runtime
        wanted = runtime.journal.redact(call_id) if call_id else runtime.ids.ulid()
        number, unique = 1, wanted
        while unique in self.rows:  # some vendors use an id twice in one turn
            number += 1
            unique = f"{wanted}#{number}"
        return unique

    async def _until_cut_off(self, call: Call) -> None:
        """Execute a call in its caller's task, which is cancelled only as far as here."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call needs a task")
        cancels_before = task.cancelling()
        self._tasks[call.id] = task
        background, name = self._session.manager.runtime.background, call.name
        try:
            await background.guard(
                self._execute(call), f"{name} of {self._session.record.descriptor.name}"
            )
        except asyncio.CancelledError:
            if call.id not in self._cut or task.uncancel() > cancels_before:
                raise

    async def _execute(self, call: Call) -> None:
        session = self._session
        try:
            outcome = await self._handle(call)
            if not call.closed:
                await self._close(call, session.stuck.answered(call, outcome))
        except asyncio.CancelledError:
            if not call.closed:  # a close on its way will consume them
                session.manager.runtime.router.unclaim(session.record.agent_id, call.consumed)
            raise
        finally:
            self.open.pop(call.id, None)
            self._ended(call)
            self._finish_row(call)
            session.tool_finished()
        await session.calls_changed()

    def _ended(self, call: Call) -> None:
        del self._tasks[call.id]
        if not self._tasks and self._let_go is not None and not self._let_go.done():
            self._let_go.set_result(None)

    async def _handle(self, call: Call) -> ToolOutcome:
        try:
            if self._session.host.watches_calls:
                await self._permit(call)
            reply = await self._session.tools.invoke(call)
        except PrsmError as error:
            if breaks_ledger(error):
                raise  # no answer can be stored either
            return failure(error)
        except Exception as error:  # noqa: BLE001 - told to the agent and to the user
            return self._surprise(call, error)
        if isinstance(reply, ToolOutcome):
            return reply
        return success(reply.data, ends_turn=reply.ends_turn)

    async def _permit(self, call: Call) -> None:
        """Raise OrchestrationError when a check, or the person whom it asks, is against a call."""
        verdict = await self._session.host.authorize_call(call.name, call.args)
        if isinstance(verdict, Deny):
            named = "" if verdict.check is None else f" (the permission check {verdict.check})"
            raise OrchestrationError(
                f"not permitted: {verdict.reason}{named}",
                hint="do it another way",
                code="permission_denied",
            )

    def _surprise(self, call: Call, error: Exception) -> ToolOutcome:
        text = f"{call.name} failed inside prsm: {describe(error)}"
        journal = self._session.manager.runtime.journal
        journal.note("notice", self._session.record.agent_id, level="error", text=text)
        return failure(OrchestrationError(text, code="internal"))

    async def _close(self, call: Call, outcome: ToolOutcome) -> None:
        session = self._session
        if session.record.state.is_terminal:  # killed meanwhile: there is no one to answer
            return
        if not call.opened:
            await call.open()
        call.wait = None
        if not session.stays_blocked(call):
            await session.take_slot()
        changes = session.resume_changes()
        step = session.manager.build(session.record, *changes, call.close_with(outcome))
        await session.manager.commit(step, consumed=call.consumed)

    def _finish_row(self, call: Call) -> None:
        outcome = call.outcome
        if outcome is None:
            if call.opened:
                self.cut_off.append(call)
            self.rows[call.id] = call.row(
                "failed", error=_ENDED, completed_at=self._session.now_ms()
            )
            return
        text = cut_result(outcome.text)
        self.rows[call.id] = call.row(
            "failed" if outcome.is_error else "completed",
            result=None if outcome.is_error else text,
            error=text if outcome.is_error else None,
            completed_at=self._session.now_ms(),
        )
