"""The harness: interleaved pairs of CPU time, their median ratio, and what is told of it."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Measure = Callable[[], float]  # does the work, returns its cost per unit of work

PAIRS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to measure: `pairs` interleaved pairs of work scaled by `scale`."""

    pairs: int = PAIRS
    scale: float = 1.0

    def count(self, full: int) -> int:
        """Return the scaled size of some work, 2 at least."""
        return max(2, round(full * self.scale))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report; `goal` bounds the ratio, or the value where there is none."""

    benchmark: str
    case: str
    unit: str
    value: float
    reference: float | None = None
    ratio: float | None = None
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        return (self.value if self.ratio is None else self.ratio) <= self.goal

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {
            "benchmark": self.benchmark,
            "case": self.case,
            "unit": self.unit,
            "value": self.value,
            "reference": self.reference,
            "ratio": self.ratio,
            "goal": self.goal,
            "met": self.met,
        }

    def to_line(self) -> str:
        """Return the finding as a line of text."""
        parts = [f"{self.benchmark:9} {self.case:34} {self.value:10.1f} {self.unit:6}"]
        if self.reference is not None:
            parts.append(f"reference {self.reference:8.1f}")
        if self.ratio is not None:
            parts.append(f"ratio {self.ratio:6.2f}")
        if self.goal is not None:
            parts.append(f"goal <= {self.goal:g}  {'met' if self.met else 'missed'}")
        return "  ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A line of the report for what cannot be measured here."""

    benchmark: str
    case: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"benchmark": self.benchmark, "case": self.case, "absent": self.why}

    def to_line(self) -> str:
        """Return it as a line of text."""
        return f"{self.benchmark:9} {self.case:34} not measured: {self.why}"


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of this process, all threads, while `work` runs."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare(subject: Measure, reference: Measure, pairs: int) -> tuple[float, float, float]:
    """Return the medians of both, and of the ratio of each pair; one pair more warms up."""
    subject(), reference()
    costs = [(subject(), reference()) for _ in range(pairs)]
    ratios = [cost / max(base, 1e-12) for cost, base in costs]
    return median(c for c, _ in costs), median(b for _, b in costs), median(ratios)


def compared(
    benchmark: str,
    case: str,
    subject: Measure,
    reference: Measure,
    plan: Plan,
    *,
    goal: float,
    unit: str = "µs",
) -> Finding:
    """Compare two costs and return what was found."""
    value, base, ratio = compare(subject, reference, plan.pairs)
    return Finding(
        benchmark=benchmark,
        case=case,
        unit=unit,
        value=value,
        reference=base,
        ratio=ratio,
        goal=goal,
    )
