"""What came of a simulation, the digest of its log, and the lines that tell of many."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from prsm_testing.sim.rules import RULES, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core.domain.events import Event
    from prsm_testing.sim.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one seed; equal for equal plans."""

    plan: Plan
    status: str  # of the last run
    agents: int
    calls: int
    messages: int
    knots: int
    faults: Mapping[str, int]  # injected, by name
    virtual_s: float
    digest: str
    checked: Mapping[str, int]  # by rule
    violations: Sequence[Violation]

    @property
    def holds(self) -> bool:
        """Whether every rule held."""
        return not self.violations

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        told = to_builtins(self) | {"violations": to_builtins([*self.violations])}
        del told["plan"]
        return {"seed": self.plan.seed, **told, "replay": self.plan.command}

    @classmethod
    def from_dict(cls, plan: Plan, values: Mapping[str, Any]) -> Outcome:
        """Build the outcome of a plan from the values of `to_dict`."""
        own = {key: value for key, value in values.items() if key not in {"seed", "replay"}}
        violations = tuple(Violation(**found) for found in own.pop("violations"))
        return cls(plan=plan, violations=violations, **own)


def digest(events: Sequence[Event], folder: str) -> str:
    """Return the digest of a log; the folder it was played in is of no matter."""
    sha = hashlib.sha256()
    for event in events:
        line = json.dumps(event.to_dict(), sort_keys=True, default=sorted)
        sha.update(line.replace(folder, "").encode())
        sha.update(b"\n")
    return sha.hexdigest()[:16]


class Report:
    """Writes each outcome as it comes; `is_clean` tells whether every rule held in all."""

    def __init__(self, write: Callable[[str], object], *, as_json: bool, stop: bool) -> None:
        self._write = write
        self._as_json = as_json
        self._stop = stop  # at the first seed that breaks a rule
        self._checked: Counter[str] = Counter()
        self._broken: list[Outcome] = []
        self._seeds = 0

    @property
    def is_clean(self) -> bool:
        """Whether every rule held in every seed."""
        return not self._broken

    def take(self, outcome: Outcome) -> bool:
        """Write one outcome; return whether to go on."""
        self._seeds += 1
        self._checked.update(outcome.checked)
        if not outcome.holds:
            self._broken.append(outcome)
        self._write(json.dumps(outcome.to_dict()) if self._as_json else describe(outcome))
        return outcome.holds or not self._stop

    def close(self) -> None:
        """Write what was checked, and how to replay what broke a rule."""
        if self._as_json:
            broken = [outcome.plan.seed for outcome in self._broken]
            summary = {"seeds": self._seeds, "checked": dict(self._checked), "broken": broken}
            self._write(json.dumps(summary))
            return
        broken_rules = {found.rule for outcome in self._broken for found in outcome.violations}
        self._write("")
        for rule, meaning in RULES.items():
            verdict = "BROKEN" if rule in broken_rules else "held"
            self._write(f"{verdict:6} {rule:12} {self._checked[rule]:>9,}  {meaning}")
        for outcome in self._broken:
            self._write(f"\nreplay: {outcome.plan.command}")
            self._write("\n".join(_violations(outcome)))


def describe(outcome: Outcome) -> str:
    """Return the line of an outcome, and below it the rules that did not hold."""
    faults = ", ".join(f"{name} {count}" for name, count in outcome.faults.items())
    line = (
        f"seed {outcome.plan.seed}: {outcome.status}, {outcome.agents} agents,"
        f" {outcome.calls} calls, {outcome.messages} messages, {outcome.knots} knots,"
        f" faults: {faults or 'none'}; {outcome.virtual_s:,.0f} s, log {outcome.digest}"
    )
    return "\n".join([line, *_violations(outcome)])


def _violations(outcome: Outcome) -> list[str]:
    return [
        f"  {found.rule}: {found.message} (seed {outcome.plan.seed}, at {found.at_s:g} s)"
        for found in outcome.violations
    ]
