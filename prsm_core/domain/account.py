"""What speaks against a run's result, and the exit codes, as the end of a run tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPLETED, FAILED, REFUSED, UNFINISHED, INTERRUPTED = 0, 1, 4, 5, 130


class Problem(Record, frozen=True, gc=False, kw_only=True):
    """One thing that speaks against a run's result.

    `kind` is gate, advice (a gate that is not required), unmerged, failed, unconfirmed, refused or
    unanswered; `agent` is an id.
    """

    kind: str
    agent: str | None
    text: str


def problems_of(told: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return the problems that the end of a run tells."""
    return tuple(Problem(**one) for one in told.get("problems") or ())


def code_of(told: Mapping[str, Any]) -> int:
    """Return the exit code of a run; an imported transcript has its status alone."""
    code = told.get("exit_code")
    if code is None:
        return {"completed": COMPLETED, "interrupted": INTERRUPTED}.get(told["status"], FAILED)
    return int(code)
