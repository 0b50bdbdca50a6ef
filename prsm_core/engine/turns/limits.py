"""What ends one turn before its own end: a clock that has run out, a budget that is used up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.engine.spending.allowance import Allowance
    from prsm_core.engine.turns.clock import TurnClock
    from prsm_core.engine.turns.silence import Silence
    from prsm_core.engine.turns.stop import TurnStop
    from prsm_core.engine.turns.watch import TurnWatch
    from prsm_core.errors import BudgetExceededError


QUIET_SECONDS = 5.0  # without StepEnded, an agent that only waits is blocked after this silence


class Limited(Protocol):
    """What the limits need to know of their turn."""

    @property
    def calls_begun(self) -> int:
        """How many calls, the vendor's and ours, have begun so far."""
        ...

    @property
    def has_open_call(self) -> bool:
        """Whether one of them has not been answered."""
        ...

    @property
    def is_completing(self) -> bool:
        """Whether task_complete was accepted, or is about to be."""
        ...

    def is_blocked(self) -> bool:
        """Whether the model's response is complete and all that runs waits for other agents."""
        ...

    def quiet_in(self) -> float:
        """Return the seconds until silence means that the model's response is complete."""
        ...

    def fall_quiet(self) -> None:
        """Take the response to be complete."""
        ...


class TurnLimits:
    """Owns when a turn is looked at, and has it stopped."""

    __slots__ = (
        "_allowance",
        "_clock",
        "_number",
        "_silence",
        "_stop",
        "_turn",
        "_watch",
    )

    def __init__(
        self,
        turn: Limited,
        clock: TurnClock,
        silence: Silence,
        allowance: Allowance | None,
        *,
        stop: TurnStop,
        watch: TurnWatch,
    ) -> None:
        self._turn = turn
        self._clock = clock
        self._silence = silence
        self._allowance = allowance  # None: no budget limits the turn
        self._stop = stop
        self._watch = watch
        self._number: int | None = None  # with the watch

    def begin(self) -> None:
        """Have the turn looked at from now on."""
        is_simple = self._allowance is None  # then it is known when, without a closer look
        self._number = self._watch.add(self, self._soonest if is_simple else self.look_in())

    def end(self) -> None:
        """Have it looked at no more."""
        if self._number is not None:
            self._watch.discard(self._number)

    def hurry(self) -> None:
        """Ask anew when to look, since something counts that did not: it may be sooner now."""
        if self._number is not None:
            self._watch.hurry(self._number, 0.0 if self.is_used_up else self._soonest)

    @property
    def _soonest(self) -> float:
        """Seconds within which nothing matters that begins to count now, but for a budget."""
        return min(QUIET_SECONDS, self._clock.soonest)

    @property
    def is_used_up(self) -> bool:
        """Whether a budget is used up."""
        return self._allowance is not None and self._allowance.error is not None

    @property
    def has_budget(self) -> bool:
        """Whether any budget limits the turn."""
        return self._allowance is not None

    def use_up(self, error: BudgetExceededError) -> None:
        """Take note that a budget is used up: the turn ends at the model's next step.

        One that only waits for other agents ends now: an answer would be the model's next step.
        """
        if self._allowance is None:
            raise RuntimeError("no budget limits this turn") from error
        self._allowance.use_up(error)
        if self._turn.is_blocked():
            self._end_over_budget(self._allowance)

    def heed(self, event: ProviderEvent) -> None:
        """Heed an event of the turn: it may be the model's next step."""
        if self._allowance is None:
            return
        calls, is_calling = self._turn.calls_begun, self._turn.has_open_call
        if self._allowance.take(event, calls=calls, is_calling=is_calling):
            self._end_over_budget(self._allowance)
        elif self._allowance.error is not None:
            self.hurry()

    def answered(self) -> None:
        """Heed that the last open call was answered."""
        if self._allowance is not None and self._allowance.answered(is_calling=False):
            self._end_over_budget(self._allowance)

    def withholds(self) -> bool:
        """Whether an answer, with which the model would go on, is not to be given; then it ends.

        The turn does: now, or as soon as the response is complete that has made the call.
        """
        if self._allowance is None or self._allowance.error is None or self._turn.is_completing:
            return False
        if self._allowance.answered(is_calling=False):
            self._end_over_budget(self._allowance)
        else:
            self._allowance.settle()
            self.hurry()
        return True

    def look_in(self) -> float:
        """Return the seconds until a clock may have run out, or silence means something."""
        left = self._clock.remaining()
        told = self._silence.remaining(left)
        if self._allowance is not None:
            told = min(self._allowance.remaining(), told)
        return min(left, self._turn.quiet_in(), max(0.0, told))

    def look(self) -> bool:
        """End the turn when a clock has run out; note the silence of a provider without StepEnded.

        Returns whether to look again.
        """
        if self._turn.quiet_in() <= 0:
            self._turn.fall_quiet()
        if self._allowance is not None and self._allowance.remaining() <= 0:
            self._end_over_budget(self._allowance)
            return False
        expired = self._clock.expired()
        if expired is None:
            self._silence.look()
            return True
        self._stop.expire(expired)
        return False

    def _end_over_budget(self, allowance: Allowance) -> None:
        if not self._turn.is_completing:  # else it ends by itself, and well
            self._stop.over_budget = allowance.error
            self._stop.ask()
