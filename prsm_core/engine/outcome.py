"""How a run ends and what speaks against its result; its starter may abort it.

The engine hears each event as it is committed, and those of earlier engines on a resume. So a run
is judged alike before and after a crash.

A set abort signal keeps a run from starting. Once the run is in the ledger, the signal ends it as
`interrupt_run` does.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.account import (
    COMPLETED,
    FAILED,
    REFUSED,
    UNFINISHED,
    Problem,
    code_of,
    problems_of,
)
from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.permissions import ALLOWING
from prsm_core.errors import BudgetExceededError, ControlError, RunAbortedError
from prsm_core.interfaces.frontend import RunResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from prsm_core.domain.events import Event
    from prsm_core.domain.sessions import RunNow
    from prsm_core.domain.turns import AbortSignal
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


UNATTENDED = frozenset({"headless", "unattended"})  # by whom a request ends that nobody could see
_IN_PLACE = frozenset({"merged", "nothing"})  # of a worktree: nothing of it is left to merge
_MOST = 50  # problems that are told


class Account(Struct):
    """Collects what speaks against one run."""

    refused: dict[str, Problem] = field(default_factory=dict)  # for lack of a person, by request
    was_allowed: bool = False  # some request was
    has_changed: bool = False  # an agent changed a file
    _asked: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    _gates: dict[tuple[str, str], Problem] = field(default_factory=dict)  # red, by name and folder
    _advice: dict[tuple[str, str], Problem] = field(default_factory=dict)  # … not required
    _apart: dict[str | None, Problem] = field(default_factory=dict)
    _failed: dict[str | None, Problem] = field(default_factory=dict)
    _gaps: dict[str | None, tuple[Problem, ...]] = field(default_factory=dict)

    def hear(self, events: Iterable[Event]) -> None:
        """Take committed events."""
        for event in events:
            take = _TAKES.get(event.type)
            if take is not None:
                take(self, event, event.data)

    @property
    def could_do_nothing(self) -> bool:
        """Whether requests were refused for lack of a person, none allowed, and no file changed."""
        is_refused = any(one.kind == "refused" for one in self.refused.values())
        return is_refused and not (self.was_allowed or self.has_changed)

    def code_of_completed(self) -> int:
        """Return the exit code of a completed run."""
        if self._gates or self._apart:  # a required gate is red, or work is not merged
            return UNFINISHED
        return REFUSED if self.could_do_nothing else COMPLETED

    def problems(self) -> tuple[Problem, ...]:
        """Return what speaks against the result, the gravest first."""
        gaps = (gap for gaps in self._gaps.values() for gap in gaps)
        known = (self._gates, self._apart, self._failed)
        all_ = (*(one for some in known for one in some.values()), *gaps)
        return (*all_, *self._advice.values(), *self.refused.values())[:_MOST]

    def _gate(self, event: Event, data: Mapping[str, Any]) -> None:
        place = (data["gate"], data["folder"])
        for known in (self._gates, self._advice):
            cleared = [
                key for key in known if key == place or (data["whole"] and key[0] == place[0])
            ]
            if data["problem"] is None:
                for key in cleared:
                    del known[key]
        if data["problem"] is not None:
            text = f"gate {data['gate']} {data['problem']}"
            kind = "gate" if data["required"] else "advice"
            red = self._gates if data["required"] else self._advice
            red[place] = Problem(kind=kind, agent=event.agent, text=text)

    def _merged(self, event: Event, data: Mapping[str, Any]) -> None:
        self._apart.pop(event.agent, None)
        self.has_changed = self.has_changed or bool(data.get("files"))
        if data["result"] not in _IN_PLACE:
            text = f"{data['result']}: {data.get('branch') or data.get('worktree')}"
            self._apart[event.agent] = Problem(kind="unmerged", agent=event.agent, text=text)

    def _moved(self, event: Event, data: Mapping[str, Any]) -> None:
        self._failed.pop(event.agent, None)
        self._gaps.pop(event.agent, None)
        if data["to"] == "failed":
            text = data.get("reason") or ""
            self._failed[event.agent] = Problem(kind="failed", agent=event.agent, text=text)
        elif data["to"] == "completed":
            gaps = [gap for gap in data.get("evidence_gaps") or () if not gap.startswith("gate ")]
            self._gaps[event.agent] = tuple(
                Problem(kind="unconfirmed", agent=event.agent, text=gap) for gap in gaps
            )

    def _changed(self, _: Event, data: Mapping[str, Any]) -> None:
        self.has_changed = self.has_changed or bool(data.get("agents"))

    def _requested(self, event: Event, data: Mapping[str, Any]) -> None:
        what = data.get("command") or ", ".join(data.get("paths") or ())
        text = data.get("question") or f"{data.get('tool')}: {what or data.get('reason') or ''}"
        self._asked[data["request"]] = event.agent, text

    def _resolved(self, event: Event, data: Mapping[str, Any]) -> None:
        request = data["request"]
        agent, text = self._asked.pop(request, (event.agent, "a request"))
        if data.get("by") in UNATTENDED:
            kind = "refused" if event.type == "permission_resolved" else "unanswered"
            self.refused[request] = Problem(kind=kind, agent=agent, text=text)
        elif data.get("verdict") in ALLOWING:
            self.was_allowed = True


_TAKES = {
    "gate_finished": Account._gate,
    "worktree_merged": Account._merged,
    "agent_state_changed": Account._moved,
    "file_changed": Account._changed,
    "permission_requested": Account._requested,
    "question_asked": Account._requested,
    "permission_resolved": Account._resolved,
    "question_answered": Account._resolved,
}


def held_outcome(why: str) -> RunResult:
    """Return the result of a run that a login or a limit holds."""
    return replace(INTERRUPTED, exit_code=REFUSED, error=why)


def result_of(run: RunNow) -> RunResult:
    """Return the result of a finished run from its ledger."""
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
    """Return the result of a run whose master has ended, with the problems of its `account`.

    `interrupted` means that somebody asked for the run's end; a master that ended by itself
    meanwhile keeps its own. If the engine leaves the run its last turns may have stayed open, so it
    is to be resumed, which closes them.
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
    if before_first_turn and result.error_kind in {"provider_not_available", "model_not_available"}:
        return 3
    if result.error_kind == BudgetExceededError.code:  # a person would not have helped
        return FAILED
    return REFUSED if account.refused and master.state is AgentState.FAILED else FAILED


class RunAbort(Struct, eq=False):
    """Owns the abort signal of the open run, if there is one."""

    background: Background
    signal: AbortSignal | None = None

    def take(self, signal: AbortSignal | None) -> None:
        """Use the signal of the run that begins now. Raises RunAbortedError if it is set."""
        check_wanted(signal)
        self.signal = signal

    @contextmanager
    def leading(
        self, asked: asyncio.Future[None] | None, left: asyncio.Future[None] | None
    ) -> Iterator[None]:
        """Lead the open run; its signal sets `asked`, and on exit `left` is set."""
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
    """Raise RunAbortedError if the signal of an unwritten run is set."""
    if signal is not None and signal.is_set():
        raise RunAbortedError(
            "the run was aborted before it began", hint="start it with a signal that is not set"
        )


async def _ask(signal: AbortSignal, asked: asyncio.Future[None]) -> None:
    await signal.wait()
    if not asked.done():  # a person may have asked, too
        asked.set_result(None)


class StartedRun:
    """The RunHandle of the local engine."""

    def __init__(self, session: str, since: int = 0) -> None:
        self.run_id = ""
        self.session = session
        self.since = since
        self.started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._result: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    async def begun(self) -> None:
        """Wait until the run is in the ledger; raise what prevents that."""
        await self._told(self.started, self.started)

    async def result(self) -> RunResult:
        """Wait for the run's end; raise ControlError if the session closes without one."""
        return await self._told(self._result, asyncio.shield(self._result))

    async def _told(self, told: asyncio.Future[T], waiting: asyncio.Future[T]) -> T:
        """Return the future's result; its own cancellation does not cancel the waiting task."""
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
        """Run to the end and set the result."""
        try:
            result = await begin(self.begin)
        except Exception as error:  # noqa: BLE001 - handed to the one who started the run
            self.fail(error)
        else:
            self.end(result)

    def begin(self, run_id: str) -> None:
        """Note that the run is in the ledger."""
        self.run_id = run_id
        if not self.started.done():  # whoever waited for it may have gone
            self.started.set_result(run_id)

    def end(self, result: RunResult) -> None:
        """Set the result."""
        if not self._result.cancelled():
            self._result.set_result(result)

    def fail(self, error: Exception) -> None:
        """Set the error that kept the run from beginning, or broke it."""
        waiting = self._result if self.started.done() else self.started
        if not waiting.cancelled():
            waiting.set_exception(error)

    def cancel(self, _: object = None) -> None:
        """Cancel whatever has no result yet."""
        self.started.cancel()
        self._result.cancel()
