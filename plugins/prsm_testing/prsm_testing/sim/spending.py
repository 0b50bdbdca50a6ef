"""Whether budgets hold: by what the steps tell, not by the engine's own account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.budgets import NO_LIMITS, Budget

if TYPE_CHECKING:
    from prsm_core.domain.writes import TurnClosed
    from prsm_testing.sim.rules import Findings


class Spending:
    """Adds up what the turns of a run have used; a turn may only begin while something is left.

    What was in flight when a limit was reached may pass it. Spawns and turns are counted before
    they begin, so that they never do.
    """

    def __init__(self, findings: Findings, limits: Budget) -> None:
        self._findings = findings
        self._limits = limits
        self.begin()

    def begin(self) -> None:
        """Begin a run, whose budget is its own."""
        self._turns = self._spawns = 0
        self._used: list[tuple[float, float, float]] = [(-1.0, 0.0, 0.0)]  # when, tokens, USD

    def launched(self) -> None:
        """Note that an agent's child was spawned, or restarted by it."""
        self._spawns += 1
        self._check("spawns", self._spawns, self._limits.spawns)

    def opened(self, decided: float) -> None:
        """Note that a turn began; what counts is what was used up when it was decided."""
        if self._limits == NO_LIMITS:
            return
        self._turns += 1
        self._check("turns", self._turns, self._limits.turns)
        _, tokens, usd = max(entry for entry in self._used if entry[0] < decided)
        for kind, used, limit in (
            ("tokens", tokens, self._limits.tokens),
            ("USD", usd, self._limits.usd),
        ):
            self._findings.check(
                "budgets",
                limit is None or used < limit,
                f"a turn began when {used:g} of {limit or 0:g} {kind} were used",
            )

    def closed(self, turn: TurnClosed, at: float) -> None:
        """Note what a turn used, as far as its provider told; `at` is Unix seconds."""
        _, tokens, usd = self._used[-1]
        tokens += turn.result.usage.known_total or 0
        self._used.append((at, tokens, usd + (turn.result.cost_usd or 0.0)))

    def _check(self, kind: str, count: int, limit: int | None) -> None:
        self._findings.check(
            "budgets", limit is None or count <= limit, f"{count} {kind}, and {limit} are the limit"
        )
