"""What was here is in `faults`; imports from here work for one minor version more."""

from __future__ import annotations

from prsm_core.deprecation import forwards

__getattr__ = forwards(
    __name__,
    {"OddTurn": "prsm_core.testing.faults:FakeTurn"},
    to="prsm_core.testing.faults",
    goes_in="0.2",
)
