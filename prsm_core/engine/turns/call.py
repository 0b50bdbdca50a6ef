"""One orchestration call, and what it needs of its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.record import Record
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
    """A call's arguments as its model means them, with a notice about how they were read."""

    arguments: Mapping[str, Any]
    notice: str | None = None
    fits: bool = False


class Toolbox(Protocol):
    """The tools of one agent."""

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
        """Return the handler of a call. Raise what is wrong with the call unless it `fits`."""

    def mend(self, name: str, arguments: Mapping[str, Any]) -> Mended:
        """Return the arguments as the model means them; they may still be wrong."""

    def is_repeatable(self, name: str) -> bool:
        """Whether calls of this tool have no effect, so that they may be made again."""


class ByAnswer(Protocol):
    """What a call does by the step that closes it."""

    def writes(self) -> Sequence[Write]:
        """Act in memory and return the writes. Raises OrchestrationError if it is too late."""

    def take_back(self) -> None:
        """Undo it in memory, since the step was not written."""


class EarlierCalls(Protocol):
    """Calls of the turn that outlive their client's patience."""

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

    A handler reads `args` and may wait. Before it acts outside the engine it must `open` the call.
    Where it acts by a later step of the engine it calls `begin`; where the step comes at once, it
    adds `opens` to it. Effects go into the step that has them (`effect`). After a crash the handler
    of an unanswered call runs again, so it asks `recall` before it acts.
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
    effects: dict[str, Effect] = {}  # that it had there, by name
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
        """Whether the call will be made again, so that what it asked stays asked."""
        return self.calls.is_left

    @property
    def is_idle(self) -> bool:
        """Whether the call only waits, for an agent or a person."""
        return self.wait is not None or self.is_asking

    def row(self, status: str = "running", **ended: Any) -> AgentToolCall:
        """Return the call's ledger row as of now; `ended` has its result or error, and when."""
        return AgentToolCall(
            id=self.id,
            tool_name=self.name,
            params=self.args,
            status=status,
            started_at=self.started_at_ms,
            sequence=self.sequence,
            orchestration=True,
            spawned_session_label=self.spawned_session_label,
            **ended,
        )

    def begin(self, *told: Told) -> None:
        """Stage the call for its agent's next step, which may be the step by which it acts."""
        writes = (*self.opens(), *told)
        if writes:
            self.opening = self.calls.parts.steps.stage(self.record, *writes)

    def opens(self) -> tuple[CallOpened, ...]:
        """Return what opens the call, for the step written next. If that fails, call `reopen`."""
        if self.opened:
            return ()
        self.opened = True
        return (CallOpened(turn_id=self.turn_id, call=self.row(), response=self.response),)

    async def open(
        self, *messages: RoutedMessage, reply: Reply | None = None, noted: EffectNoted | None = None
    ) -> None:
        """Commit the call, its messages, any `reply` and what is `noted`, before it acts."""
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
        """Return the write that notes an effect; `recall` gives its `data` after a crash."""
        effect = Effect(
            turn_id=self.turn_id, call_id=self.id, name=name, ref=ref, data=data or None
        )
        self.has_acted = True
        return EffectNoted(effect=effect)

    async def note(self, name: str, ref: str | None = None, **data: Any) -> None:
        """Commit an effect just before it happens outside the engine."""
        await self.calls.parts.steps.write(self.record, self.effect(name, ref, **data))

    def recall(self, name: str) -> Effect | None:
        """Return an effect that the call had before its engine died; None if it had none."""
        return self.effects.get(name)

    async def land(self) -> None:
        """Wait until the ledger has the call: another agent's step carries it on."""
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
        """Wait for a matching message of one agent; None if none can come."""
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
        """Wait for a message; None if none can come or `seconds` have passed."""
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
        """Await a person's answer. The agent keeps its slot and waits for no other agent."""
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
        """Do `work` as a wait of the agent; return whether it ended within `seconds`."""
        self._begin_wait(wait)
        try:
            return await first_of(self.calls.parts.clock, seconds, work)
        finally:
            self._end_wait()

    def _begin_wait(self, wait: Wait) -> None:
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
        """Close the call; return its answer, cut alike for model and ledger, with images."""
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
        """Close the call within the step by which it acts; None if its agent has no slot yet."""
        if not self.life.is_working:
            return None
        outcome = ToolOutcome.of(reply.data, ends_turn=reply.ends_turn)
        return self.close_with(self.calls.turn.answered(self, outcome))

    def take(self, match: Match, limit: int) -> list[RoutedMessage]:
        """Take up to `limit` matching unread messages, oldest first, without waiting."""
        taken = self.calls.parts.router.claim_all(self.record.agent_id, match, limit)
        self.consumed = (*self.consumed, *[message.message_id for message in taken])
        return taken

    def give_back(self, since: RoutedMessage | None = None) -> None:
        """Unread messages again, all or `since` one, unless a commit consumes them."""
        if self.closed:
            return
        first = 0 if since is None else self.consumed.index(since.message_id)
        self.calls.parts.router.unclaim(self.record.agent_id, self.consumed[first:])
        self.consumed = self.consumed[:first]

    def reopen(self, opening: Sequence[CallOpened] = ()) -> None:
        """Count as open, since the answer was not stored; as new if `opening` was not either."""
        self.opened = self.opened and not opening
        self.closed = False
        self.outcome = None

    @property
    def is_refused(self) -> bool:
        """Whether the write that opens the call failed, so that the ledger does not know it."""
        return self.opening is not None and self.opening.refused is not None

    def cut_off(self) -> Told:
        """Return the event for the end of a call without an answer."""
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
    """Return the outcome of a call whose turn is over."""
    return ToolOutcome.failed(OrchestrationError(ENDED, code="turn_over"))
