"""A process that plays the seeds it reads, one a line, and writes each outcome as JSON."""

from __future__ import annotations

import json
import sys

from prsm_testing.sim.faults import parse_faults
from prsm_testing.sim.plan import Plan
from prsm_testing.sim.world import simulate


def main(faults: str, agents: str, minutes: str) -> None:
    """Play until there are no more seeds."""
    allowed = parse_faults(faults)
    for line in sys.stdin:
        plan = Plan(seed=int(line), faults=allowed, agents=int(agents), minutes=float(minutes))
        sys.stdout.write(json.dumps(simulate(plan).to_dict()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
