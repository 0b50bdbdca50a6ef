"""End a turn early: for a clock, a budget or a person.

A person is warned about a silent provider. A used-up budget ends the turn once its open calls had
time to close.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from prsm_core.domain.turns import (
    AgentError,
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
from prsm_core.errors import AgentTimeoutError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.engine.turns.ports import Life
    from prsm_core.errors import BudgetExceededError
    from prsm_core.interfaces.clock import Clock, Timer
    from prsm_core.interfaces.provider import ProviderSession
    from prsm_core.kit.background import Background


class TurnClock:
    """Measures one turn: reasoning time without tools, silence, and each vendor tool call.

    `bound` limits the reasoning, to which `used` adds that of earlier turns. `idle_seconds` limits
    silence while no tool runs, `tool_seconds` one vendor call.
    """

    def __init__(
        self, clock: Clock, *, idle_seconds: float, tool_seconds: float, used: float = 0.0
    ) -> None:
        self._clock = clock
        self._limits = (math.inf, idle_seconds, tool_seconds)
        self._used = used
        self._since = clock.now()  # start of the present stretch without a tool
        self.last_event = self._since
        self._open = 0  # tool calls of any kind now running
        self._is_paused = False
        self._vendor: dict[str, float] = {}  # vendor call -> start

    @property
    def reasoning(self) -> float:
        """Seconds of reasoning so far, earlier turns included."""
        is_idle = self._open or self._is_paused
        running = 0.0 if is_idle else self._clock.now() - self._since
        return self._used + running

    def left_of(self, agent_seconds: float) -> int:
        """Return the rest of an agent's reasoning time in milliseconds, rounded up."""
        return max(0, math.ceil(round((agent_seconds - self.reasoning) * 1000, 3)))

    def bound(self, timeout_ms: int) -> None:
        """Limit further reasoning to this time."""
        self._limits = (self.reasoning + timeout_ms / 1000, *self._limits[1:])

    def touch(self) -> None:
        """Note that the provider said something."""
        self.last_event = self._clock.now()

    @property
    def open_tools(self) -> int:
        """How many tool calls of any kind run now."""
        return self._open

    def tool_started(self, vendor_call: str | None = None) -> None:
        """Stop the reasoning clock; a vendor call gets a clock of its own."""
        if vendor_call is not None:
            if vendor_call in self._vendor:
                return  # told twice: it ends only once
            self._vendor[vendor_call] = self._clock.now()
        if not self._open:
            self._used = self.reasoning
        self._open += 1
        self.touch()  # who calls is not silent

    def tool_finished(self, vendor_call: str | None = None) -> None:
        """Let the reasoning clock continue once no tool runs."""
        if vendor_call is not None and self._vendor.pop(vendor_call, None) is None:
            return
        self._open -= 1
        if not self._open:
            self._since = self.last_event = self._clock.now()

    def pause(self) -> None:
        """Count no reasoning until `go_on`: there is no session."""
        self._used = self.reasoning
        self._is_paused = True

    def go_on(self) -> None:
        """Count from now on: a session begins."""
        self._is_paused = False
        self._since = self.last_event = self._clock.now()

    def expired(self) -> str | None:
        """Return what ran out: reasoning, idle, tool, or None."""
        agent_seconds, idle_seconds, tool_seconds = self._limits
        now = self._clock.now()
        if self.reasoning >= agent_seconds:
            return "reasoning"
        if not self._open and now - self.last_event >= idle_seconds:
            return "idle"
        if any(now - start >= tool_seconds for start in self._vendor.values()):
            return "tool"
        return None

    @property
    def soonest(self) -> float:
        """Seconds for which no clock can run out that starts now."""
        agent_seconds, idle_seconds, tool_seconds = self._limits
        if not (self._open or self._is_paused):
            agent_seconds -= self._clock.now() - self._since
        return min(agent_seconds - self._used, idle_seconds, tool_seconds)

    def remaining(self) -> float:
        """Return the seconds until a clock may run out, as things stand."""
        agent_seconds, idle_seconds, tool_seconds = self._limits
        now = self._clock.now()
        ends = [start + tool_seconds - now for start in self._vendor.values()]
        if not self._open:
            ends += [agent_seconds - self.reasoning, self.last_event + idle_seconds - now]
        return max(min(ends, default=idle_seconds), 0.0)


FIRST_ANSWER_SECONDS = 10.0  # of a turn
LATER_SECONDS = 30.0
NEVER = -math.inf
_MARGIN_SECONDS = 0.001  # a clock that is asked too early has not run out yet
STUCK_SECONDS = 5.0  # how long an interrupted turn may take to end
LET_GO_SECONDS = 60.0  # how long one that was cancelled may; then its agent fails without it

# What it means that a clock has run out, and the setting of how long it goes.
_EXPIRED = {
    "reasoning": ("the agent used up its reasoning time", "agent_timeout_seconds"),
    "idle": ("the provider was silent for too long", "idle_timeout_seconds"),
    "tool": ("a tool call ran for too long", "tool_timeout_seconds"),
}


class Owner(Protocol):
    """The session that a turn belongs to."""

    def give_up(self) -> Coroutine[Any, Any, None]:
        """Fail the agent, whose provider does not end a turn."""


class TurnStop(Struct, eq=False):
    """Owns why one turn is to end early, and ends it.

    The provider is asked once. If it is late, the turn is cancelled. If it swallows that, its agent
    is given up. A turn without a session is cancelled at once.
    """

    background: Background
    _clock: Clock
    _provider: ProviderSession
    _life: Life
    _owner: Owner
    expired: AgentTimeoutError | None = None
    is_by_person: bool = False
    over_budget: BudgetExceededError | None = None
    _task: asyncio.Task[Any] | None = None  # the one that streams
    _late: asyncio.Task[None] | None = None  # cancels it unless it ends in time
    _is_alone: bool = False  # no provider is there that could end it
    _is_cut_off: bool = False  # the provider did not end the turn, so the engine did
    _is_over: bool = False
    _over: asyncio.Event | None = None  # made by the first that waits for it

    def begin(self, task: asyncio.Task[Any] | None, *, is_alone: bool = False) -> None:
        """Note the task in which the turn streams, or waits without a session."""
        self._task, self._is_alone = task, is_alone

    def attach(self, provider: ProviderSession) -> None:
        """Ask this provider from now on."""
        self._provider = provider

    def pause(self) -> None:
        """Note that nothing streams for now. Whoever continues must check `end`."""
        self.closing()
        self._late = self._task = None
        self._is_cut_off = False

    def expire(self, clock: str) -> None:
        """End the turn because a clock has run out: reasoning, idle or tool."""
        message, setting = _EXPIRED[clock]
        self.expired = AgentTimeoutError(message, hint=f"engine.{setting} allows more")
        self.ask()

    def ask(self) -> None:
        """Ask the provider to end the turn; cancel the turn if it does not."""
        if self._late is not None or self._is_cut_off or self._task is None:
            return
        if self._is_alone:
            self._cut_off(self._task)
            return
        background, name = self.background, self._life.record.descriptor.name
        background.launch(self._provider.interrupt(), name=f"interrupt of {name}")
        self._late = background.start(self._cut_off_late(name), name=f"cutting off {name}")

    def _cut_off(self, task: asyncio.Task[Any]) -> None:
        """Cancel the turn; it waits for nothing any more, so it is in no deadlock."""
        self._is_cut_off = True
        self._life.moved()
        task.cancel()

    async def _cut_off_late(self, name: str) -> None:
        await self._clock.sleep(STUCK_SECONDS)
        if self._task is not None:
            self._cut_off(self._task)
            await self._clock.sleep(LET_GO_SECONDS)
            # In a task of its own: it closes the turn, which ends this one.
            self.background.launch(self._owner.give_up(), name=f"giving up {name}")

    async def hear(self) -> None:
        """Let a cancellation of the current task arrive now.

        A call made again may have ended its own turn, for instance by using up a budget. Otherwise
        the cancellation would hit the next wait, whatever that is for.
        """
        if self._is_cut_off:
            await asyncio.sleep(0)

    def take_back(self) -> bool:
        """Withdraw the engine's cancellation; return whether it was the only one."""
        return self._is_cut_off and self._task is not None and self._task.uncancel() == 0

    def end(self) -> TurnEnded | None:
        """Return the end of a stopped turn, whatever the provider says; else None."""
        if self.expired is not None:
            error = AgentError(kind=ErrorKind.TIMEOUT, message=self.expired.message)
            return TurnEnded(StopReason.TIMEOUT, error)
        if self.is_by_person or self.over_budget is not None:
            return TurnEnded(StopReason.ABORTED)
        return None

    def closing(self) -> None:
        """Stop threatening to cancel: the turn has ended and is being written."""
        if self._late is not None:
            self._late.cancel()

    def over(self) -> None:
        """Note that nothing of the turn runs any more."""
        self.closing()
        self._task = None
        self._is_over = True
        if self._over is not None:
            self._over.set()

    async def hold(self) -> bool:
        """Wait for the end of a turn that its budget ends; else return False at once.

        What the model asks for meanwhile does not begin: its answer would cost another response.
        """
        if self.over_budget is None:
            return False
        if not self._is_over:
            self._over = self._over or asyncio.Event()
            await self._over.wait()
        return True


QUIET_SECONDS = 5.0  # without StepEnded, an agent that only waits is blocked after this silence


class Limited(Protocol):
    """What the limits need of their turn."""

    fold: TurnFold  # counts the calls, the vendor's and ours

    def warn(self, what: str) -> None:
        """Warn a person about the provider."""

    @property
    def has_open_call(self) -> bool:
        """Whether a call is unanswered."""

    @property
    def is_completing(self) -> bool:
        """Whether task_complete was accepted, or is about to be."""

    def is_blocked(self) -> bool:
        """Whether the model's response is complete and all that runs waits for other agents."""

    def quiet_in(self) -> float:
        """Return the seconds until silence means that the model's response is complete."""

    def fall_quiet(self) -> None:
        """Take the response to be complete."""


SETTLE_SECONDS = 1.0  # how long a turn that seems to be through may take to end by itself


class Allowance(Struct, eq=False):
    """Owns a turn's steps since it used up its budget."""

    clock: Clock
    _tells_steps: bool = False
    _calls: int = 0  # that had begun when the last step ended
    _is_between: bool = False  # a response is complete, and the next one has not begun
    _ends_by: float = math.inf  # the turn seems to be through: it has until then
    error: BudgetExceededError | None = None  # why it is to end

    def use_up(self, error: BudgetExceededError) -> None:
        """Note that a budget of the turn is used up."""
        self.error = self.error or error

    def remaining(self) -> float:
        """Return the seconds until a turn that seems to be through is ended."""
        return self._ends_by - self.clock.now()

    def take(self, event: ProviderEvent, *, calls: int, is_calling: bool) -> bool:
        """Note an event after `calls` have begun; return whether the turn is to end now."""
        match event:
            case StepEnded():
                has_called = is_calling or calls > self._calls
                self._tells_steps, self._is_between, self._calls = True, True, calls
                return self._step(has_called=has_called)
            case UsageReported():
                is_second = not self._tells_steps and self._ends_by < math.inf
                return self._step(has_called=is_calling or is_second)
            case ToolCallStarted():
                is_through = not self._tells_steps and self._ends_by < math.inf
                return self._goes_on() or (is_through and self.error is not None)
            case ToolCallFinished():
                return self.answered(is_calling=is_calling)
            case TextDelta() | ThinkingDelta() | AssistantMessage():
                goes_on = self._goes_on()
                self._is_between = False
                return goes_on
        return False

    def answered(self, *, is_calling: bool) -> bool:
        """Note the answer of a call; return whether the turn is to end now."""
        return self._is_between and not is_calling and self.error is not None

    def settle(self) -> None:
        """End the turn soon, unless its response completes before."""
        self._ends_by = min(self._ends_by, self.clock.now() + SETTLE_SECONDS)

    def _step(self, *, has_called: bool) -> bool:
        if self.error is None:
            return False
        self.settle()
        return has_called

    def _goes_on(self) -> bool:
        return self._is_between and self.error is not None


class TurnLimits(Struct, eq=False):
    """Plans checks of one turn, stops it in time, and reports each silence of a provider once."""

    turn: Limited
    clock: TurnClock
    time: Clock
    allowance: Allowance | None  # None: no budget limits the turn
    stop: TurnStop
    _timer: Timer | None = None  # of the next look
    _due: float = 0.0  # when that is
    _has_spoken: bool = False
    _told: float = NEVER  # the beginning of the last silence that was told
    _begun: float = 0.0
    _asked: float = 0.0  # since when it is waited for an answer

    def __post_init__(self) -> None:
        self._begun = self._asked = self.time.now()

    def heard(self, event: ProviderEvent) -> None:
        """Note an event. A notice is no answer, but a warning restarts the wait for one."""
        if not isinstance(event, Notice):
            self._has_spoken = True
        elif event.level != "info":
            self._asked = self.time.now()

    @property
    def _is_answered(self) -> bool:
        return self._has_spoken or self.turn.fold.calls_begun > 0

    @property
    def _silent_since(self) -> float:
        return self.clock.last_event if self._is_answered else self._asked

    def _silent_in(self, left: float) -> float:
        since = self._silent_since
        if self.clock.open_tools or since == self._told or left == math.inf:
            return math.inf
        bound = LATER_SECONDS if self._is_answered else FIRST_ANSWER_SECONDS
        return since + bound - self.time.now()

    def _tell_silence(self) -> None:
        left, now = self.clock.remaining(), self.time.now()
        if self._silent_in(left) > 0:
            return
        self._told = self._silent_since
        what = f"has not answered yet, after {now - self._begun:.0f} s"
        if self._is_answered:
            what = f"has said nothing for {now - self._told:.0f} s"
        self.turn.warn(f"{what}; it is waited for {left:.0f} s more at most")

    def begin(self) -> None:
        """Start checking the turn."""
        is_simple = self.allowance is None  # then it is known when, without a closer look
        self._plan(self._soonest if is_simple else self.look_in())

    def end(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hurry(self) -> None:
        """Check earlier if something has begun to count."""
        planned, now = self._due - _MARGIN_SECONDS, self.time.now()
        soonest = 0.0 if self.is_used_up else self._soonest
        if self._timer is None or planned <= now + soonest:
            return  # mostly the next look comes before
        seconds = self.look_in()
        if now + seconds < planned:
            self._timer.cancel()
            self._plan(seconds)

    def _plan(self, seconds: float) -> None:
        seconds += _MARGIN_SECONDS
        self._due = self.time.now() + seconds
        self._timer = self.time.call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        try:
            if self.look():
                self._plan(self.look_in())
        except Exception as error:  # noqa: BLE001 - the boundary: reported, never swallowed
            self.stop.background.report("turn watch", error)

    @property
    def _soonest(self) -> float:
        return min(QUIET_SECONDS, self.clock.soonest)

    @property
    def is_used_up(self) -> bool:
        """Whether a budget is used up."""
        return self.allowance is not None and self.allowance.error is not None

    def use_up(self, error: BudgetExceededError) -> None:
        """End the turn at the model's next step: a budget is used up.

        A turn that only waits for other agents ends now, as an answer would be the next step.
        """
        if self.allowance is None:
            raise RuntimeError("no budget limits this turn") from error
        self.allowance.use_up(error)
        if self.turn.is_blocked():
            self._end_over_budget(self.allowance)

    def heed(self, event: ProviderEvent) -> None:
        """Note an event: it may be the model's next step."""
        if self.allowance is None:
            return
        calls, is_calling = self.turn.fold.calls_begun, self.turn.has_open_call
        if self.allowance.take(event, calls=calls, is_calling=is_calling):
            self._end_over_budget(self.allowance)
        elif self.allowance.error is not None:
            self.hurry()

    def answered(self) -> None:
        """Note that the last open call was answered."""
        if self.allowance is not None and self.allowance.answered(is_calling=False):
            self._end_over_budget(self.allowance)

    def withholds(self) -> bool:
        """Whether the model must not get an answer with which it would go on.

        The turn then ends: now, or once the response that made the call is complete.
        """
        if self.allowance is None or self.allowance.error is None or self.turn.is_completing:
            return False
        if self.allowance.answered(is_calling=False):
            self._end_over_budget(self.allowance)
        else:
            self.allowance.settle()
            self.hurry()
        return True

    def look_in(self) -> float:
        """Return the seconds until a clock may run out, or silence counts."""
        left = self.clock.remaining()
        told = self._silent_in(left)
        if self.allowance is not None:
            told = min(self.allowance.remaining(), told)
        return min(left, self.turn.quiet_in(), max(0.0, told))

    def look(self) -> bool:
        """End the turn if a clock has run out; return whether to check again."""
        if self.turn.quiet_in() <= 0:
            self.turn.fall_quiet()
        if self.allowance is not None and self.allowance.remaining() <= 0:
            self._end_over_budget(self.allowance)
            return False
        expired = self.clock.expired()
        if expired is None:
            self._tell_silence()
            return True
        self.stop.expire(expired)
        return False

    def _end_over_budget(self, allowance: Allowance) -> None:
        if not self.turn.is_completing:  # else it ends by itself, and well
            self.stop.over_budget = allowance.error
            self.stop.ask()
