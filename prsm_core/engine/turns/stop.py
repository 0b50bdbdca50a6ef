"""Ending a turn before its own end: for a clock, for a person, or for a budget that is used up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from prsm_core.domain.turns import AgentError, ErrorKind, StopReason, TurnEnded
from prsm_core.errors import AgentTimeoutError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from prsm_core.engine.ports import Life
    from prsm_core.errors import BudgetExceededError
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import ProviderSession
    from prsm_core.kit.background import Background

STUCK_SECONDS = 5.0  # how long an interrupted turn may take to end
LET_GO_SECONDS = 60.0  # how long one that was cancelled may; then its agent fails without it

# What it means that a clock has run out, and the setting of how long it goes.
_EXPIRED = {
    "reasoning": ("the agent used up its reasoning time", "agent_timeout_seconds"),
    "idle": ("the provider was silent for too long", "idle_timeout_seconds"),
    "tool": ("a tool call ran for too long", "tool_timeout_seconds"),
}


class Owner(Protocol):
    """Whose turn it is."""

    def give_up(self) -> Coroutine[Any, Any, None]:
        """Fail the agent, whose provider does not end a turn."""
        ...


class TurnStop(Struct, eq=False):
    """Owns why one turn is to end, and sees to it that it does.

    The provider is asked, once. Where it does not end the turn in time, the turn is cancelled.
    Where it keeps that to itself and goes on, its agent is given up. A turn without a session is
    cancelled at once.
    """

    _background: Background
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
        """Take note of the task in which the turn streams, or waits without a session."""
        self._task, self._is_alone = task, is_alone

    def attach(self, provider: ProviderSession) -> None:
        """Ask this provider from now on."""
        self._provider = provider

    def pause(self) -> None:
        """Take note that no task streams for now: there is none that could be cancelled.

        Who goes on with the turn looks first whether it is to `end`.
        """
        self.closing()
        self._late = self._task = None
        self._is_cut_off = False

    def expire(self, clock: str) -> None:
        """Have the turn end because a clock has run out: reasoning, idle, tool."""
        message, setting = _EXPIRED[clock]
        self.expired = AgentTimeoutError(message, hint=f"engine.{setting} allows more")
        self.ask()

    def ask(self) -> None:
        """Ask the provider to end the turn, and end it where that does not help."""
        if self._late is not None or self._is_cut_off or self._task is None:
            return
        if self._is_alone:
            self._cut_off(self._task)
            return
        background, name = self._background, self._life.record.descriptor.name
        background.launch(self._provider.interrupt(), name=f"interrupt of {name}")
        self._late = background.start(self._cut_off_late(name), name=f"cutting off {name}")

    def _cut_off(self, task: asyncio.Task[Any]) -> None:
        """Cancel the turn; what it waited for, it waits for no more: that makes no knot."""
        self._is_cut_off = True
        self._life.moved()
        task.cancel()

    async def _cut_off_late(self, name: str) -> None:
        """Cancel the turn unless the interrupt ends it in time."""
        await self._clock.sleep(STUCK_SECONDS)
        if self._task is not None:
            self._cut_off(self._task)
            await self._clock.sleep(LET_GO_SECONDS)
            # In a task of its own: it closes the turn, which ends this one.
            self._background.launch(self._owner.give_up(), name=f"giving up {name}")

    async def hear(self) -> None:
        """Be cancelled now, where the turn was cut off by its own task and has not waited since.

        A call that is made again runs there: what it has written may end the turn, as where it
        uses a budget up. The cancellation would come with the next wait, whatever that is for.
        """
        if self._is_cut_off:
            await asyncio.sleep(0)

    def take_back(self) -> bool:
        """Take the engine's own cancellation back; whether the turn was cancelled by it alone."""
        return self._is_cut_off and self._task is not None and self._task.uncancel() == 0

    def end(self) -> TurnEnded | None:
        """Return how a turn ends that was stopped, whatever the provider says; else None."""
        if self.expired is not None:
            error = AgentError(kind=ErrorKind.TIMEOUT, message=self.expired.message)
            return TurnEnded(StopReason.TIMEOUT, error)
        if self.is_by_person or self.over_budget is not None:
            return TurnEnded(StopReason.ABORTED)
        return None

    def closing(self) -> None:
        """Take note that the turn has ended and is written: it is not cancelled any more."""
        if self._late is not None:
            self._late.cancel()

    def over(self) -> None:
        """Take note that nothing of the turn goes on."""
        self.closing()
        self._task = None
        self._is_over = True
        if self._over is not None:
            self._over.set()

    async def hold(self) -> bool:
        """Wait for the end of a turn that its budget ends; False, at once, for every other one.

        What the model asks for meanwhile is not begun: its answer would be one response more.
        """
        if self.over_budget is None:
            return False
        if not self._is_over:
            self._over = self._over or asyncio.Event()
            await self._over.wait()
        return True
