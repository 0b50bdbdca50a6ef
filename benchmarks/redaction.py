"""redaction: calls that keep secrets out of the ledger, against the same ones that do not.

The same run with and without it, in turns: a profiler would charge its many small calls too much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.ask import dialogue
from benchmarks.harness import compared
from benchmarks.spawn import one_by_one
from benchmarks.team import run_cost
from prsm_core.engine.journal import unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.harness import Finding, Plan
    from benchmarks.team import Behave
    from prsm_core.domain.steps import Write

CHILDREN, QUESTIONS = 300, 300
GOAL = 1.053  # times the same without it: redaction is 5 % of the whole then
ROUNDS = 3  # for each pair of the plan: two costs that are nearly the same are compared


def measure(plan: Plan) -> list[Finding]:
    """Compare a child, and a question with its answer, with the same without redaction."""
    spawned, asked = plan.count(CHILDREN), plan.count(QUESTIONS)
    return [
        _against_bare(f"{spawned} children", one_by_one(spawned), spawned, plan),
        _against_bare(f"{asked} questions and answers", dialogue(asked), asked, plan),
    ]


def _against_bare(case: str, behave: Behave, count: int, plan: Plan) -> Finding:
    def bare() -> float:
        with mock.patch.object(unit, "without_secrets", _as_it_is):
            return 1e6 * run_cost(behave) / count

    return compared(
        "redaction",
        case,
        lambda: 1e6 * run_cost(behave) / count,
        bare,
        replace(plan, pairs=ROUNDS * plan.pairs),
        goal=GOAL,
    )


def _as_it_is(writes: Sequence[Write], _redactor: object) -> tuple[Write, ...]:
    """Return writes as they are: what these agents say holds no secret."""
    return tuple(writes)
