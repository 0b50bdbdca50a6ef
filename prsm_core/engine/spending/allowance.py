"""What one turn may still use: notes that a budget is used up, and says when the turn ends.

It ends where the model would be asked once more: when a response is complete and has made calls,
when the last call would be answered, at the first sign of the next response. A response without a
call is taken for the last one, and the turn has a moment to end by itself; what it says counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prsm_core.domain.turns import (
    AssistantMessage,
    StepEnded,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)

if TYPE_CHECKING:
    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.errors import BudgetExceededError
    from prsm_core.interfaces.clock import Clock

SETTLE_SECONDS = 1.0  # how long a turn that seems to be through may take to end by itself


class Allowance:
    """Owns what one turn has told of its steps since it used up its budget."""

    __slots__ = (
        "_calls",
        "_clock",
        "_ends_by",
        "_is_between",
        "_tells_steps",
        "error",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tells_steps = False
        self._calls = 0  # that had begun when the last step ended
        self._is_between = False  # a response is complete, and the next one has not begun
        self._ends_by = math.inf  # the turn seems to be through: it has until then
        self.error: BudgetExceededError | None = None  # why it is to end

    def use_up(self, error: BudgetExceededError) -> None:
        """Take note that a budget of the turn is used up."""
        self.error = self.error or error

    def remaining(self) -> float:
        """Return the seconds until a turn that seems to be through is ended."""
        return self._ends_by - self._clock.now()

    def take(self, event: ProviderEvent, *, calls: int, is_calling: bool) -> bool:
        """Heed an event of the turn; return whether the turn is to end now.

        Args:
            event: What the provider told.
            calls: How many calls, the vendor's and ours, the turn has begun so far.
            is_calling: Whether one of them has not been answered.
        """
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
        """Heed the answer of a call; return whether the turn is to end now."""
        return self._is_between and not is_calling and self.error is not None

    def settle(self) -> None:
        """Have the turn end soon, if its response is not complete before."""
        self._ends_by = min(self._ends_by, self._clock.now() + SETTLE_SECONDS)

    def _step(self, *, has_called: bool) -> bool:
        """Heed that the model may have taken a step."""
        if self.error is None:
            return False
        self.settle()
        return has_called

    def _goes_on(self) -> bool:
        """Heed what the model says; whether it is more than it may."""
        return self._is_between and self.error is not None
