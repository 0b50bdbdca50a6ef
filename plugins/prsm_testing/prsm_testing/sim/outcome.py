"""What came of a simulation, and the digest of its log."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_testing.sim.rules import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        return {
            "seed": self.plan.seed,
            "status": self.status,
            "agents": self.agents,
            "calls": self.calls,
            "messages": self.messages,
            "knots": self.knots,
            "faults": dict(self.faults),
            "virtual_s": self.virtual_s,
            "digest": self.digest,
            "checked": dict(self.checked),
            "violations": [
                {"rule": v.rule, "message": v.message, "at_s": v.at_s} for v in self.violations
            ],
            "replay": self.plan.command,
        }

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
