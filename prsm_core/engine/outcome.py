"""How a run ends: as its master's end tells it, or because whoever started it aborts it.

Before the run is in the ledger an abort signal that is set keeps it from starting; from then on it
ends the run as `interrupt_run` does. Where no signal is given nothing waits for one.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.account import FAILED, REFUSED, code_of, problems_of
from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.errors import BudgetExceededError, ControlError, RunAbortedError
from prsm_core.interfaces.frontend import RunResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from prsm_core.domain.sessions import RunNow
    from prsm_core.domain.turns import AbortSignal
    from prsm_core.engine.account import Account
    from prsm_core.engine.state import AgentRecord
    from prsm_core.kit.background import Background

T = TypeVar("T")

_STATUS = {
    AgentState.COMPLETED: "completed",
    AgentState.FAILED: "failed",
    AgentState.KILLED: "killed",
}
FINISHED = frozenset(_STATUS.values())  # such a run is not gone on with
INTERRUPTED = RunResult(
    status="interrupted", summary="", exit_code=130, error="the run was interrupted"
)


def held_outcome(why: str) -> RunResult:
    """Return the result of a run that ends since a login or a limit holds its agents."""
    return replace(INTERRUPTED, exit_code=REFUSED, error=why)


def result_of(run: RunNow) -> RunResult:
    """Return the result of a finished run, as its ledger has it."""
    said = run.outcome or {}
    return RunResult(
        status=run.status,
        summary=said.get("summary") or "",
        exit_code=code_of({**said, "status": run.status}),
        error=said.get("error"),
        problems=problems_of(said),
    )


def outcome_of(
    master: AgentRecord, account: Account, *, interrupted: bool, is_left: bool
) -> RunResult:
    """Return the result of a run whose master has ended.

    `account` says what speaks against it, `interrupted` that somebody asked for the run's end: a
    master that came to its own meanwhile keeps that. Where the engine leaves the run its last turns
    may have stayed open: it is to be gone on with, which closes them.
    """
    if is_left or (interrupted and master.state is AgentState.KILLED):
        return INTERRUPTED
    result = master.result or AgentResult(
        agent_id=master.agent_id, success=False, summary="", error="the master has no result"
    )
    return RunResult(
        status=_STATUS[master.state],
        summary=result.summary,
        exit_code=_exit_code(master, result, account),
        error=result.error,
        evidence=result.evidence if result.success else None,
        problems=account.problems(),
    )


def _exit_code(master: AgentRecord, result: AgentResult, account: Account) -> int:
    if master.state is AgentState.COMPLETED:
        return account.code_of_completed()
    before_first_turn = master.next_turn == 1
    if before_first_turn and result.error_kind in {
        "provider_not_available",
        "model_not_available",
    }:
        return 3
    if result.error_kind == BudgetExceededError.code:  # a person would not have helped
        return FAILED
    return REFUSED if account.refused and master.state is AgentState.FAILED else FAILED


class RunAbort(Struct, eq=False):
    """Owns the signal of the open run, None where it has none, and has it heeded."""

    background: Background
    signal: AbortSignal | None = None

    def take(self, signal: AbortSignal | None) -> None:
        """Heed the signal of the run that begins now. Raises RunAbortedError where it is set."""
        check_wanted(signal)
        self.signal = signal

    @contextmanager
    def leading(
        self, asked: asyncio.Future[None] | None, left: asyncio.Future[None] | None
    ) -> Iterator[None]:
        """Lead the open run to its end; who is interrupted or fails has `left` it.

        Once the signal is set it is `asked` for the run's end.
        """
        watch = None
        if self.signal is not None and asked is not None:
            watch = self.background.start(_ask(self.signal, asked), name="the abort signal")
        try:
            yield
        finally:
            if watch is not None:
                watch.cancel()
            self.signal = None
            if left is not None:
                left.set_result(None)


def check_wanted(signal: AbortSignal | None) -> None:
    """Raise RunAbortedError if a run's signal is set, of which nothing is written yet."""
    if signal is not None and signal.is_set():
        raise RunAbortedError(
            "the run was aborted before it began", hint="start it with a signal that is not set"
        )


async def _ask(signal: AbortSignal, asked: asyncio.Future[None]) -> None:
    await signal.wait()
    if not asked.done():  # a person may have asked, too
        asked.set_result(None)


class StartedRun:
    """RunHandle over the local engine."""

    def __init__(self, session: str, since: int = 0) -> None:
        self.run_id = ""
        self.session = session
        self.since = since
        self.started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._result: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    async def begun(self) -> None:
        """Wait until it is in the ledger; raises what keeps it from that."""
        await self._told(self.started, self.started)

    async def result(self) -> RunResult:
        """Wait for the run's end; raises ControlError where the session is closed without one."""
        return await self._told(self._result, asyncio.shield(self._result))

    async def _told(self, told: asyncio.Future[T], waiting: asyncio.Future[T]) -> T:
        """Return what is told; that nobody tells it any more cancels no one who waits for it."""
        try:
            return await waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not told.cancelled() or (task is not None and task.cancelling()):
                raise
        raise ControlError(
            f"session {self.session} is closed",
            hint="open it again: `prsm run --session`, or Hub.open",
            code="session_closed",
        )

    async def drive(self, begin: Callable[[Callable[[str], None]], Awaitable[RunResult]]) -> None:
        """Run it to its end, and tell that."""
        try:
            result = await begin(self.begin)
        except Exception as error:  # noqa: BLE001 - handed to the one who started the run
            self.fail(error)
        else:
            self.end(result)

    def begin(self, run_id: str) -> None:
        """Take note that it is in the ledger."""
        self.run_id = run_id
        if not self.started.done():  # whoever waited for it may have gone
            self.started.set_result(run_id)

    def end(self, result: RunResult) -> None:
        """Tell how it has ended."""
        if not self._result.cancelled():
            self._result.set_result(result)

    def fail(self, error: Exception) -> None:
        """Tell what kept it from beginning, or broke it."""
        waiting = self._result if self.started.done() else self.started
        if not waiting.cancelled():
            waiting.set_exception(error)

    def cancel(self, _: object = None) -> None:
        """Let nobody wait any more for what was not told."""
        self.started.cancel()
        self._result.cancel()
