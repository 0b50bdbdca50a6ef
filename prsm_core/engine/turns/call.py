"""One orchestration call: what its handler sees, and what it needs of its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.domain.sparing import NOTHING
from prsm_core.domain.tools import ToolOutcome, ToolSpec
from prsm_core.domain.turns import IMAGE_SCHEME, RESULT_LIMIT, AgentToolCall, Effect
from prsm_core.domain.writes import CallClosed, CallOpened, EffectNoted, MessageSent, Told
from prsm_core.engine.turns.waits import MessageWaitOf
from prsm_core.errors import OrchestrationError
from prsm_core.kit.clocks import first_of
from prsm_core.kit.outcomes import within

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.images import Image
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Write
    from prsm_core.engine.state import AgentRecord, Staged
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.engine.turns.limits import TurnLimits
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.engine.turns.ports import Life
    from prsm_core.engine.turns.waits import MessageWait, Wait

    Match = Callable[[RoutedMessage], bool]
    Handler = Callable[["Call"], Awaitable["Reply | ToolOutcome"]]

T = TypeVar("T")

ENDED = "this turn is over; the call has no effect"


class Mended(Record, frozen=True):
    """Arguments as a model means them, and what it is told of how they were read.

    They are known to fit what its tool takes, or are to be checked.
    """

    arguments: Mapping[str, Any]
    notice: str | None = None
    fits: bool = False


class Toolbox(Protocol):
    """The tools of one agent, as its calls find them."""

    specs: tuple[ToolSpec, ...]  # what its model sees of them
    names: frozenset[str]
    sends_messages: bool  # one of them writes to agents that need be no kin of the caller
    takes_messages: bool  # one takes what others write: the agent is not prompted with it
    brings_senders: bool  # an agent that is spawned by them may have one that writes to others

    @property
    def tokens(self) -> int:
        """How many tokens their descriptions count as."""

    def find(
        self, name: str, arguments: Mapping[str, Any], *, by_program: bool, fits: bool
    ) -> Handler:
        """Return what handles a call; raise what is wrong with it, unless it is known to fit."""

    def mend(self, name: str, arguments: Mapping[str, Any]) -> Mended:
        """Return the arguments of a model's call as it means them; they need not be right."""

    def is_repeatable(self, name: str) -> bool:
        """Whether a call of this tool has no effect, so that it may be made again."""


class ByAnswer(Protocol):
    """What a call does by the step that closes it."""

    def writes(self) -> Sequence[Write]:
        """Do it in memory; return what the step must carry.

        Raises OrchestrationError where it cannot be done any more: nothing of it is done then.
        """

    def take_back(self) -> None:
        """Undo it in memory: the step was not written."""


class EarlierCalls(Protocol):
    """Calls of the turn that outlive their client's patience, as a call that waits sees them."""

    async def resume(self, follower: Call, token: str, seconds: float | None) -> ToolOutcome | None:
        """Return the answer of an earlier call; None when its own timeout ended it."""

    def expire(self, token: str) -> None:
        """Remember a wait that its own timeout has ended."""


class TurnOfCalls(Protocol):
    """What calls need of their turn."""

    turn_id: str
    limits: TurnLimits  # what ends it before its own end
    heard_from: int  # the first response of the model that knows all that the turn was told

    @property
    def earlier(self) -> EarlierCalls:
        """Calls that outlive their client's patience."""

    @property
    def fold(self) -> TurnFold:
        """What counts its calls."""

    @property
    def is_held(self) -> bool:
        """Whether its budget ends it, so that nothing begins any more."""

    async def hold(self) -> bool:
        """Wait for the end of a turn that is held."""

    def call_began(self) -> None:
        """Stop the reasoning clock; until the call waits, the agent moves."""

    def call_ended(self) -> None:
        """Let the reasoning clock go on."""

    def is_blocked(self, *, without: Call | None = None) -> bool:
        """Whether the model's response is complete and all that runs waits for other agents."""

    def calls_changed(self) -> None:
        """Let the agent wait, if everything that it does is waiting."""

    def answered(self, call: Call, outcome: ToolOutcome) -> ToolOutcome:
        """Take note of an answer; return it with what the agent has to be told."""

    def tell(self, text: str) -> None:
        """Have the agent told something with its next answer, or prompt."""


class CallsOfTurn(Protocol):
    """All calls of one turn, as one of them sees them."""

    life: Life
    turn: TurnOfCalls
    parts: TurnParts
    tools: Toolbox
    open: tuple[Call, ...]

    asking: int  # how many of them ask a person
    is_left: bool  # all are let go of to be made again: nothing that they did is undone

    def complete(self, call_id: str) -> None:
        """Let the turn end with this call: every other open one is cancelled."""


class Reply(Struct):
    """What a handler answers: data for the model, and whether the turn ends with it."""

    data: Mapping[str, Any]
    ends_turn: bool = False


class Call(Struct, eq=False):
    """One orchestration call.

    Handlers read `args`, may wait, and may once `open` it, before anything outside the engine
    knows of it, or `begin` it, where it acts by a later step of the engine alone; a step that comes
    at once has what `opens` it. What they do is noted in the step that does it, by `effect`. After
    a crash the handler of a call without an answer runs again: it asks `recall` first, and does not
    do it twice.
    """

    id: str
    name: str
    args: Mapping[str, Any]
    calls: CallsOfTurn  # this one among them
    sequence: int = 0  # this one and the next two once it has begun
    started_at_ms: int = 0
    response: int = 0  # of the model, in which it was made: by the time it is opened, more may be
    opened: bool = False
    is_again: bool = False  # an earlier engine has opened it
    effects: Mapping[str, Effect] = NOTHING  # that it had there, by name
    has_acted: bool = False  # it has noted an effect here
    opening: Staged | None = None  # of a call that has begun: all that it does needs it
    closed: bool = False
    closed_at_ms: int = 0
    wait: Wait | None = None
    is_asking: bool = False  # a person, and does nothing else
    by_answer: ByAnswer | None = None  # what it does if it is answered, in the same step
    consumed: tuple[str, ...] = ()
    spawned_session_label: str | None = None
    outcome: ToolOutcome | None = None
    task: asyncio.Task[Any] | None = None  # the provider's, in which it runs
    notice: str | None = None  # what its model is told beside the answer
    fits: bool = False  # its arguments are known to be what its tool takes

    @property
    def life(self) -> Life:
        """The life of the calling agent."""
        return self.calls.life

    @property
    def record(self) -> AgentRecord:
        """The record of the calling agent."""
        return self.calls.life.record

    @property
    def turn_id(self) -> str:
        """The turn that it is part of."""
        return self.calls.turn.turn_id

    @property
    def is_left(self) -> bool:
        """Whether it is let go of to be made again: what it asked stays asked."""
        return self.calls.is_left

    @property
    def is_idle(self) -> bool:
        """Whether it does nothing but wait, for whomever."""
        return self.wait is not None or self.is_asking

    def row(
        self,
        status: str = "running",
        *,
        result: str | None = None,
        error: str | None = None,
        completed_at: int | None = None,
    ) -> AgentToolCall:
        """Return the call's ledger row as of now."""
        return AgentToolCall(
            id=self.id,
            tool_name=self.name,
            params=self.args,
            status=status,
            started_at=self.started_at_ms,
            sequence=self.sequence,
            result=result,
            error=error,
            completed_at=completed_at,
            orchestration=True,
            spawned_session_label=self.spawned_session_label,
        )

    def begin(self, *told: Told) -> None:
        """Stage the call: its agent's next step carries it, which may be the one it acts by."""
        writes = (*self.opens(), *told)
        if writes:
            self.opening = self.calls.parts.steps.stage(self.record, *writes)

    def opens(self) -> tuple[CallOpened, ...]:
        """Return what opens the call, once, for the very step by which it acts or is answered.

        Nothing may come between. Where that step is refused the call is to `reopen`.
        """
        if self.opened:
            return ()
        self.opened = True
        return (CallOpened(turn_id=self.turn_id, call=self.row(), response=self.response),)

    async def open(
        self,
        *messages: RoutedMessage,
        reply: Reply | None = None,
        noted: EffectNoted | None = None,
    ) -> None:
        """Commit the call and the messages it sends: from now on it may act outside.

        What it will `reply` then, whatever comes, is committed with it, and what is `noted`.
        """
        steps, opened = self.calls.parts.steps, self.opens()
        writes: list[Write] = [*opened, *[MessageSent(message=message) for message in messages]]
        if noted is not None:
            writes.append(noted)
        answer = None if reply is None else self.answer_now(reply)
        if answer is not None:
            writes.append(answer)
        consumed = () if answer is None else answer.consumed
        try:
            await steps.commit(steps.build(self.record, *writes), consumed=consumed)
        except Exception:
            self.reopen(opened)  # nothing was written: the refusal is recorded by itself
            raise

    def effect(self, name: str, ref: str | None = None, **data: Any) -> EffectNoted:
        """Return what the step must carry that has this effect; `data` is told by `recall`."""
        effect = Effect(
            turn_id=self.turn_id, call_id=self.id, name=name, ref=ref, data=data or None
        )
        self.has_acted = True
        return EffectNoted(effect=effect)

    async def note(self, name: str, ref: str | None = None, **data: Any) -> None:
        """Commit an effect that comes next, outside the engine: it may then have been had."""
        await self.calls.parts.steps.write(self.record, self.effect(name, ref, **data))

    def recall(self, name: str) -> Effect | None:
        """Return an effect that the call had before its engine died; None: it did not have it."""
        return self.effects.get(name)

    async def land(self) -> None:
        """Have a call that has begun in the ledger: it goes on by a step of another agent."""
        await self.calls.parts.steps.land(self.record.agent_id)
        if self.opening is not None and self.opening.refused is not None:
            raise self.opening.refused

    def receive_from(
        self,
        agent: AgentRecord,
        match: Match,
        is_vain: Callable[[], bool],
        state: AgentState,
        on: str,
    ) -> Coroutine[Any, Any, RoutedMessage | None]:
        """Wait for a message of one agent that matches; None when that is in vain."""
        router, own = self.calls.parts.router, self.record.agent_id
        wait = MessageWaitOf(
            state=state,
            on=on,
            targets=lambda: (agent.agent_id,),
            ready=lambda: is_vain() or router.has_unread(own, match),
            fits=match,
            is_vain=is_vain,
        )
        return self._receive(wait)

    def receive(
        self, wait: MessageWait, *, seconds: float | None = None
    ) -> Coroutine[Any, Any, RoutedMessage | None]:
        """Wait for a message; None when the wait is in vain or `seconds` have passed."""
        return self._receive(wait) if seconds is None else self._receive_within(wait, seconds)

    async def _receive(self, wait: MessageWait) -> RoutedMessage | None:
        router, record = self.calls.parts.router, self.calls.life.record
        if (message := router.claim(record.agent_id, wait.fits)) is None:
            self._begin_wait(wait)
            try:  # by hand: every agent that waits does so here, and keeps what it is made of
                while message is None:
                    box = router.mailbox(record.agent_id)
                    if wait.is_vain() or box is None:
                        return None
                    waiter = box.sleep()
                    try:
                        await waiter
                    finally:
                        box.rise(waiter)
                    message = router.claim(record.agent_id, wait.fits)
            finally:
                self._end_wait()
        self.consumed = (*self.consumed, message.message_id)
        return message

    async def _receive_within(self, wait: MessageWait, seconds: float) -> RoutedMessage | None:
        found: list[RoutedMessage | None] = []

        async def look() -> None:
            found.append(await self._receive(wait))

        await first_of(self.calls.parts.clock, seconds, look)
        return found[0] if found else None

    async def ask(self, work: Awaitable[T]) -> T:
        """Await a person's answer: a wait that is none for other agents, and keeps the slot."""
        self.is_asking = True
        self.calls.asking += 1
        try:
            self.calls.turn.calls_changed()
            return await work
        finally:
            self.is_asking = False
            self.calls.asking -= 1

    async def wait_while(
        self, wait: Wait, work: Callable[[], Awaitable[object]], seconds: float | None
    ) -> bool:
        """Do `work` as a wait of the agent; whether it ended within `seconds`."""
        self._begin_wait(wait)
        try:
            return await first_of(self.calls.parts.clock, seconds, work)
        finally:
            self._end_wait()

    def _begin_wait(self, wait: Wait) -> None:
        """Wait from now on, until `_end_wait`; not at all where this raises."""
        self.begin()
        self.wait = wait
        try:
            self.calls.turn.calls_changed()
        except BaseException:
            self._end_wait()
            raise

    def _end_wait(self) -> None:
        self.wait = None
        self.life.moved()

    def close_with(self, outcome: ToolOutcome) -> CallClosed:
        """Return the stored form of the answer; the call counts as closed from now on.

        What is too long is cut, for the model and the ledger alike. One that holds a message
        shows the images that this cites.
        """
        images: tuple[Image, ...] = ()
        if self.consumed and IMAGE_SCHEME in outcome.text:
            images = self.calls.parts.images(self.record, (outcome.text,))
        outcome = within(outcome, RESULT_LIMIT)
        if images:
            outcome = replace(outcome, images=images)
        self.closed = True
        self.outcome = outcome
        self.closed_at_ms = at_ms = max(self.calls.parts.now_ms(), self.started_at_ms)
        return CallClosed(
            turn_id=self.turn_id,
            call_id=self.id,
            status="failed" if outcome.is_error else "completed",
            result=outcome.text,
            consumed=self.consumed,
            at_ms=at_ms,
            duration_s=(at_ms - self.started_at_ms) / 1000,
            exit_code=(outcome.data or {}).get("exit_code"),  # run_bash alone has one
        )

    def answer_now(self, reply: Reply) -> CallClosed | None:
        """Return the answer as `close_with` does, for the step by which the call acts.

        None where its agent has to wait for a slot first, to be answered then.
        """
        if not self.life.is_working:
            return None
        outcome = ToolOutcome.of(reply.data, ends_turn=reply.ends_turn)
        return self.close_with(self.calls.turn.answered(self, outcome))

    def take(self, match: Match, limit: int) -> list[RoutedMessage]:
        """Take up to `limit` unread messages that match, oldest first, without a wait."""
        taken = self.calls.parts.router.claim_all(self.record.agent_id, match, limit)
        self.consumed = (*self.consumed, *[message.message_id for message in taken])
        return taken

    def give_back(self, since: RoutedMessage | None = None) -> None:
        """Let the messages that it has taken be unread again: all, or those from one on.

        No-op once it is closed: a close on its way will consume them.
        """
        if self.closed:
            return
        first = 0 if since is None else self.consumed.index(since.message_id)
        self.calls.parts.router.unclaim(self.record.agent_id, self.consumed[first:])
        self.consumed = self.consumed[:first]

    def reopen(self, opening: Sequence[CallOpened] = ()) -> None:
        """Count as open: the answer could not be stored; as new, where `opening` was not either."""
        self.opened = self.opened and not opening
        self.closed = False
        self.outcome = None

    @property
    def is_refused(self) -> bool:
        """Whether what opens it could not be written: the ledger knows nothing of it."""
        return self.opening is not None and self.opening.refused is not None

    def cut_off(self) -> Told:
        """Return what tells of the end of a call that has no answer; its turn stores the rest."""
        data = {
            "call": self.id,
            "status": "failed",
            "result": None,
            "error": ENDED,
            "duration_s": max(0, self.calls.parts.now_ms() - self.started_at_ms) / 1000,
            "exit_code": None,
            "turn": self.turn_id,
        }
        return Told(kind="tool_call_finished", data=data)


def turn_over() -> ToolOutcome:
    """Return the outcome of a call that has no turn any more."""
    return ToolOutcome.failed(OrchestrationError(ENDED, code="turn_over"))
