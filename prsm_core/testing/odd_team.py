"""What was here is in `misbehaving_team`; imports from here work for one minor version more."""

from __future__ import annotations

from prsm_core.deprecation import forwards

__getattr__ = forwards(
    __name__,
    {"OddTeam": "prsm_core.testing:MisbehavingTeam"},
    to="prsm_core.testing.misbehaving_team",
    goes_in="0.2",
)
