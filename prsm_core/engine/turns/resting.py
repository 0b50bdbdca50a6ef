"""Whether an agent's turn rests: the model's response is complete, and calls wait for others.

Then its agent is blocked and gives its slot back; what answers a call, or speaks, moves it again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prsm_core.engine.turns.limits import QUIET_SECONDS
from prsm_core.engine.turns.phase import PARKED, RESTING, STREAMING, TURN_MACHINE, TurnPhase

if TYPE_CHECKING:
    from prsm_core.engine.ports import Life
    from prsm_core.engine.turns.call import Call
    from prsm_core.engine.turns.calls import TurnCalls
    from prsm_core.engine.turns.clock import TurnClock
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.engine.turns.limits import TurnLimits
    from prsm_core.engine.turns.parts import TurnParts


class RestingTurn:
    """Owns the phase of one turn, and tells its agent's life of it."""

    __slots__ = ("_life", "_parts", "_phase", "calls", "clock", "fold", "limits")

    _life: Life
    _parts: TurnParts
    _phase: TurnPhase
    calls: TurnCalls
    clock: TurnClock
    fold: TurnFold
    limits: TurnLimits

    def _enter(self, phase: TurnPhase) -> None:
        TURN_MACHINE.validate(self._phase, phase)
        if self._phase.may_rest:  # its calls may still wait, yet it is in no knot
            self._life.moved()
        self._phase = phase

    @property
    def is_idle(self) -> bool:
        """Whether its session does nothing: all that runs waits for other agents, or a person."""
        no_other_tool = self.clock.open_tools == len(self.calls.open)
        return self._phase is RESTING and no_other_tool and self.calls.all_idle()

    def is_blocked(self, *, without: Call | None = None) -> bool:
        """Whether the model's response is complete and all that runs waits for other agents."""
        return self._phase.may_rest and self._only_waits(without)

    def _only_waits(self, without: Call | None = None) -> bool:
        no_other_tool = self.clock.open_tools == len(self.calls.open)
        return no_other_tool and self.calls.all_wait(without=without)

    def call_began(self) -> None:
        """Stop the reasoning clock; until the call waits, the agent moves."""
        self._life.moved()
        self.clock.tool_started()

    def call_ended(self) -> None:
        """Let the reasoning clock go on."""
        self.clock.tool_finished()
        self.call_closed()

    def calls_changed(self) -> None:
        """Let the agent wait, if everything that it does is waiting."""
        life, is_blocked = self._life, self.is_blocked()
        newest: object = life.turn
        may_change = is_blocked or life.is_blocked or self.calls.asking
        if not may_change or newest is not self or life.is_over:
            return
        if is_blocked:
            life.blocked(self.calls.waits())
            return
        life.moved()
        if self.calls.asking and self.is_idle:
            life.idles()

    def pause(self) -> None:
        """Count as running a tool: while a person decides nobody reasons or is silent."""
        self.call_began()

    def go_on(self) -> None:
        """Count as running no tool."""
        self.clock.tool_finished()
        self.calls_changed()

    def call_closed(self) -> None:
        """Take note that a call was answered: after the last one the model streams again."""
        if self.has_open_call or self._phase is PARKED:
            return
        self._stream_goes_on()
        self.limits.answered()

    @property
    def has_open_call(self) -> bool:
        """Whether a call, the vendor's or ours, runs and has not been answered."""
        return bool(self.calls.open) or self.fold.has_running

    def goes_on_with(self, call: Call) -> bool:
        """Whether the model goes on once this call is answered: no other one is open."""
        return self.calls.open == (call,) and not self.fold.has_running

    async def model_speaks(self) -> None:
        """Take note that the model streams, although a call may still wait."""
        if self._phase is RESTING:
            self._stream_goes_on()
            await self._life.runs_again(self.is_blocked)

    def _rest(self, resting: bool) -> None:
        """Take note that the model's response is complete, or that another streams."""
        phase = RESTING if resting else STREAMING
        if self._phase.is_live and self._phase is not phase:
            self._enter(phase)

    def _stream_goes_on(self) -> None:
        self._rest(False)
        self.clock.touch()  # silence counts from now
        self.limits.hurry()

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
        self.calls_changed()

    def quiet_in(self) -> float:
        """Return the seconds until silence means that the model's stream has ended."""
        if self._phase is not STREAMING:
            return math.inf
        if not self._only_waits():
            return QUIET_SECONDS
        return self.clock.last_event + QUIET_SECONDS - self._parts.clock.now()
