"""The deadlock detector: asks the wait graph when an agent blocks, not by the clock.

Who waits for what any agent of the run may write waits for ANYONE. In the graph that is one agent,
blocked by one wait for all who may write, so that their number is there only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.messaging.waits import ANYONE, NO_KNOT, WaitFor, WaitGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.interfaces.clock import Clock

    OnKnot = Callable[[frozenset[str], bool], None]

SWEEP_SECONDS = 5.0


class DeadlockDetector:
    """Owns the wait graph of a run.

    `on_knot(agents, by_sweep)` is called in the loop step that closed the knot; it must make some
    member move (by `moved`) or end. Only a bug leaves one for the sweep.
    """

    def __init__(
        self,
        *,
        is_ready: Callable[[str, WaitFor], bool],
        is_over: Callable[[str], bool],
        on_knot: OnKnot,
    ) -> None:
        self._is_ready, self._is_over = is_ready, is_over
        self._senders: Sequence[str] = ()
        self.graph = WaitGraph(is_ready=is_ready, is_over=is_over)
        self.on_knot = on_knot
        self.on_look: Callable[[], None] | None = None  # called whenever it has looked

    def may_write(self, senders: Sequence[str]) -> None:
        """Note who may write to any other agent from now on."""
        self._senders = senders
        # Most runs have none: theirs ask of agents alone, without a call in between.
        self.graph.is_ready, self.graph.is_over = self._is_ended, self._can_end_none
        if senders:
            knot = self.graph.block(ANYONE, [WaitFor(tuple(senders))])
        else:
            self.graph.unblock(ANYONE)
            knot = self.graph.recheck((ANYONE,))
        self._report(knot, by_sweep=False)

    def _is_ended(self, agent: str, wait: WaitFor) -> bool:
        return agent != ANYONE and self._is_ready(agent, wait)

    def _can_end_none(self, agent: str) -> bool:
        return not self._senders if agent == ANYONE else self._is_over(agent)

    def targets(self, wait: WaitFor) -> frozenset[str]:
        """Return the agents that can end a wait."""
        targets = frozenset(wait.targets)
        return targets - {ANYONE} | frozenset(self._senders) if ANYONE in targets else targets

    def blocked(self, agent: str, waits: Sequence[WaitFor]) -> None:
        """Note that everything an agent does is waiting."""
        self._report(self.graph.block(agent, waits), by_sweep=False)

    def moved(self, agent: str) -> None:
        """Note that an agent does something again, or is about to."""
        self.graph.unblock(agent)

    def ended(self, agent: str) -> None:
        """Look again: an agent has ended."""
        self._report(self.graph.recheck((agent,)), by_sweep=False)

    def consumed(self, agent: str) -> None:
        """Look again: an agent's message was consumed."""
        self._report(self.graph.reread(agent), by_sweep=False)

    async def sweep(self, clock: Clock) -> None:
        """Look at everything every five seconds, for as long as the run lives."""
        while True:
            await clock.sleep(SWEEP_SECONDS)
            self._report(self.graph.sweep(), by_sweep=True)

    def _report(self, knot: frozenset[str], *, by_sweep: bool) -> None:
        """Have each knot acted on: there may be several, and one that moves frees only its own."""
        while knot:
            agents = knot - {ANYONE}
            if not agents:
                break
            self.on_knot(agents, by_sweep)
            left = self.graph.recheck(())
            knot = left if left != knot else NO_KNOT
        if self.on_look is not None:
            self.on_look()
