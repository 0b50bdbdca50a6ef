"""How a run ends, as its master's end tells it: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.errors import BudgetExceededError
from prsm_core.interfaces.frontend import RunResult

if TYPE_CHECKING:
    from prsm_core.domain.sessions import RunNow
    from prsm_core.engine.state import AgentRecord

_STATUS = {
    AgentState.COMPLETED: "completed",
    AgentState.FAILED: "failed",
    AgentState.KILLED: "killed",
}
FINISHED = frozenset(_STATUS.values())  # such a run is not gone on with
INTERRUPTED = RunResult(
    status="interrupted", summary="", exit_code=130, error="the run was interrupted"
)


def result_of(run: RunNow) -> RunResult:
    """Return the result of a finished run, as its ledger has it."""
    said = run.outcome or {}
    code = said.get("exit_code")
    if code is None:  # older ledgers do not tell it
        code = 0 if run.status == "completed" else 1
    return RunResult(
        status=run.status,
        summary=said.get("summary") or "",
        exit_code=code,
        error=said.get("error"),
    )


def outcome_of(master: AgentRecord, *, refused: bool, interrupted: bool) -> RunResult:
    """Return the result of a run whose master has ended.

    `refused` says that a request had no person to answer it, `interrupted` that somebody asked
    for the run's end: a master that came to its own meanwhile keeps that.
    """
    if interrupted and master.state is AgentState.KILLED:
        return INTERRUPTED
    result = master.result or AgentResult(
        agent_id=master.agent_id, success=False, summary="", error="the master has no result"
    )
    return RunResult(
        status=_STATUS[master.state],
        summary=result.summary,
        exit_code=_exit_code(master, result, refused),
        error=result.error,
        evidence=result.evidence if result.success else None,
    )


def _exit_code(master: AgentRecord, result: AgentResult, refused: bool) -> int:
    if master.state is AgentState.COMPLETED:
        return 0
    before_first_turn = master.next_turn == 1
    if before_first_turn and result.error_kind in {
        "provider_not_available",
        "model_not_available",
    }:
        return 3
    if result.error_kind == BudgetExceededError.code:  # a person would not have helped
        return 1
    return 4 if refused and master.state is AgentState.FAILED else 1
