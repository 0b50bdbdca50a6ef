"""redaction: what it takes to keep secrets out of the ledger, as a share of a call's cost.

The same run with and without it, in turns: a profiler would charge its many small calls too much.
"""

from __future__ import annotations

from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.ask import dialogue
from benchmarks.harness import Finding
from benchmarks.spawn import one_by_one
from benchmarks.team import run_cost
from prsm_core.engine.journal import unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.harness import Plan
    from benchmarks.team import Behave
    from prsm_core.domain.steps import Write

CHILDREN, QUESTIONS = 300, 300
GOAL = 5.0  # percent
ROUNDS = 3  # for each pair of the plan: the difference of two costs is told, which is small


def measure(plan: Plan) -> list[Finding]:
    """Tell the share of redaction in spawning a child, and in a question with its answer."""
    spawned, asked = plan.count(CHILDREN), plan.count(QUESTIONS)
    return [
        _share(f"of {spawned} children", one_by_one(spawned), plan),
        _share(f"of {asked} questions and answers", dialogue(asked), plan),
    ]


def _share(case: str, behave: Behave, plan: Plan) -> Finding:
    """Compare runs with redaction with those without, each of which comes first in turn."""
    with _left_out():
        run_cost(behave)
    shares = []
    for number in range(ROUNDS * plan.pairs):
        if number % 2:
            bare, whole = _bare_cost(behave), run_cost(behave)
        else:
            whole, bare = run_cost(behave), _bare_cost(behave)
        shares.append(100 * (whole - bare) / whole)
    return Finding(benchmark="redaction", case=case, unit="%", value=median(shares), goal=GOAL)


def _bare_cost(behave: Behave) -> float:
    with _left_out():
        return run_cost(behave)


@contextmanager
def _left_out() -> Iterator[None]:
    """Let journals write what they are given as it is: what these agents say holds no secret."""
    real = unit.without_secrets

    def as_it_is(writes: Sequence[Write], _redactor: object) -> tuple[Write, ...]:
        return tuple(writes)

    unit.without_secrets = as_it_is  # type: ignore[assignment]  # for these writes the same
    try:
        yield
    finally:
        unit.without_secrets = real
