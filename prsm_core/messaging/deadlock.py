"""The deadlock detector: asks the wait graph when an agent blocks, not by the clock.

What to do about a knot is decided by who made the detector. The sweep is a backstop: a knot
found there was missed at block time, which is a bug and is told as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.messaging.waits import NO_KNOT, WaitGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.interfaces.clock import Clock
    from prsm_core.messaging.waits import WaitFor

    OnKnot = Callable[[frozenset[str], bool], None]

SWEEP_SECONDS = 5.0


class DeadlockDetector:
    """Owns the wait graph of a run.

    `on_knot(agents, by_sweep)` is called in the same loop step that closed the knot; it must
    make some member move (by `moved`) or end, so that the same knot is not found again.
    """

    def __init__(
        self,
        *,
        is_ready: Callable[[str, WaitFor], bool],
        is_over: Callable[[str], bool],
        on_knot: OnKnot,
    ) -> None:
        self.graph = WaitGraph(is_ready=is_ready, is_over=is_over)
        self.on_knot = on_knot

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
            self.on_knot(knot, by_sweep)
            left = self.graph.recheck(())
            knot = left if left != knot else NO_KNOT
