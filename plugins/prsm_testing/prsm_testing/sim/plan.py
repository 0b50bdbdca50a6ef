"""What a simulation is asked for: seed, faults, size, virtual time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from prsm_core.errors import ConfigError
from prsm_testing.sim.faults import FAULTS

AGENTS = 30
MINUTES = 24 * 60.0
_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One simulation; equal plans give equal outcomes."""

    seed: int
    faults: frozenset[str] = field(default_factory=lambda: frozenset(FAULTS))
    agents: int = AGENTS
    minutes: float = MINUTES  # of virtual time; a run that goes on has failed

    @property
    def command(self) -> str:
        """The command line that runs this very simulation."""
        return f"prsm sim --seed {self.seed} {self.options}"

    @property
    def options(self) -> str:
        """The command line's options but for the seed."""
        names = [name for name in FAULTS if name in self.faults]
        faults = "all" if len(names) == len(FAULTS) else ",".join(names) or "none"
        return f"--faults {faults} --agents {self.agents} --minutes {self.minutes:g}"


def parse_seeds(text: str) -> range:
    """Return the seeds of `7` or `1..1000`; raise ConfigError for anything else."""
    match = _RANGE.fullmatch(text.strip())
    if match is not None:
        first, last = int(match[1]), int(match[2] or match[1])
        if first <= last:
            return range(first, last + 1)
    raise ConfigError(f"{text!r} is no seed", hint="give a number, or a range such as 1..100")
