"""A run's start and end, what becomes of its session, and events that change no row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.rows import Insert, Now, Of, Update, refusing
from prsm_core.domain.steps import Telling, Write
from prsm_core.domain.writes.changes import told_decision
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.rows import Computed, Ledger, Row
    from prsm_core.domain.steps import Step


_FINISHED = frozenset({"completed", "failed", "killed"})


class Told(Write, frozen=True, kw_only=True):
    """An event that stands for itself: nothing in the ledger's other tables changes with it."""

    texts = ("data",)
    is_of_run = True

    kind: str
    data: Mapping[str, Any]
    agent_id: str | None = None  # whom it is about; None: the step's agent

    def events(self, step: Step) -> Iterable[Telling]:
        return (self.telling(self.agent_id or step.agent_id, step.at),)

    def telling(self, agent_id: str | None, at: float) -> Telling:
        """Return the event as one about an agent, or the run; `at` where it has no time."""
        return Telling(self.kind, self.data, agent_id, at if self.at is None else self.at)


class RunStarted(Write, frozen=True, kw_only=True):
    """A run, and with the first one its session. `engine`: boot id, pid, start of its process."""

    texts = ("task", "workspace", "options")
    is_of_run = True

    task: str
    workspace: str
    engine: tuple[str, int, Any] | None = None
    options: Mapping[str, Any] | None = None  # what a resume of it begins with, as JSON values

    def rows(self, step: Step) -> Iterable[Row]:
        session = {
            "session_id": step.session_id,
            "task": self.task,
            "workspace": self.workspace,
            "created_at": step.at,
        }
        run: dict[str, Any] = {
            "run_id": step.run_id,
            "session_id": step.session_id,
            "task": self.task,
            "workspace": self.workspace,
            "status": "running",
            "started_at": step.at,
            "options": self.options,
            "epoch": 1,
        }
        known, process = _engine(self.engine)
        yield Insert("meta", session, keep=True, computed={"came": Now()})
        yield from known
        yield Insert("runs", run, computed=process)

    def events(self, step: Step) -> Iterable[Telling]:
        data = {"task": self.task, "workspace": self.workspace}
        return (Telling("run_started", data, None, step.at),)  # of nobody, whose step it may be


class RunResumed(Write, frozen=True, kw_only=True):
    """A run that another engine goes on with: `epoch` 2 and more. It is one that has no end yet."""

    texts = ("options",)
    is_of_run = True

    epoch: int
    engine: tuple[str, int, Any] | None = None
    options: Mapping[str, Any] | None = None  # what a further resume begins with; None: as before

    def guard(self, step: Step, ledger: Ledger) -> None:
        own = {"run_id": step.run_id, "session_id": step.session_id}
        found = ledger.look("runs", own, "status")
        if found is not None and found[0] in _FINISHED:
            raise StoreError(
                f"run {step.run_id} is {found[0]}",
                hint="start a new run in its session",
                code="not_resumable",
            )

    def rows(self, step: Step) -> Iterable[Row]:
        """Return the run, which runs again; others may have gone on with it already."""
        anew: dict[str, Any] = {"status": "running", "outcome": None, "finished_at": None}
        anew["epoch"] = self.epoch
        if self.options is not None:
            anew["options"] = self.options
        known, process = _engine(self.engine)
        own = {"run_id": step.run_id, "session_id": step.session_id, "epoch": self.epoch - 1}
        problem = f"run {step.run_id} is not one to go on with, or others go on with it already"
        return *known, Update("runs", own, anew, refusing(problem, "not_resumable"), process)

    def events(self, step: Step) -> Iterable[Telling]:
        return step.telling("run_resumed", {"epoch": self.epoch})


class SessionNamed(Write, frozen=True, kw_only=True):
    """A session's name, None for none; a model's (`keeps_other`) replaces no other. No event."""

    texts = ("name",)
    is_of_run = True

    name: str | None
    keeps_other: bool = False

    def rows(self, step: Step) -> Iterable[Row]:
        """Return the session's name. Raises StoreError where there is no such session."""
        own, named = {"session_id": step.session_id}, {"name": self.name}
        if self.keeps_other:
            return (Update("meta", {**own, "name": None}, named),)
        return (_session(step, named),)


class SessionTakenUp(Write, frozen=True, kw_only=True):
    """A session is the newest one again, with the files as they were when it was left.

    `changes` are those whose state differs: in this session it is as it was then.
    """

    is_of_run = True

    changes: tuple[ChangeRow, ...] = ()

    def rows(self, step: Step) -> Iterator[Row]:
        """Return the session's place, and its changes. Raises StoreError where it is not there."""
        yield _session(step, {"aside": None}, {"came": Now()})
        for row in self.changes:
            own = {"session_id": step.session_id, "id": row.change.id}
            then = {"state": row.state, "why": row.why, "decided_at": row.decided_at}
            yield Update("file_changes", own, then)

    def events(self, step: Step) -> Iterable[Telling]:
        if not self.changes:
            return ()
        told = [
            told_decision(row.change.id, row.change.path, row.state, row.why)
            for row in self.changes
        ]
        return (Telling("changes_decided", {"changes": told}, None, step.at),)


class SessionSetAside(Write, frozen=True, kw_only=True):
    """The newest session, all taken back, is not gone on with until it runs again. No event."""

    is_of_run = True

    def rows(self, step: Step) -> Iterable[Row]:
        """Return that the session is set aside. Raises StoreError where it is not there."""
        return (_session(step, {}, {"aside": Now()}),)


def _session(step: Step, values: dict[str, Any], computed: Computed | None = None) -> Update:
    unknown = refusing(f"there is no session {step.session_id}", "unknown_session")
    return Update("meta", {"session_id": step.session_id}, values, unknown, computed)


def _engine(engine: tuple[str, int, Any] | None) -> tuple[Sequence[Row], dict[str, Of] | None]:
    if engine is None:
        return (), None
    row = dict(zip(("boot_id", "pid", "start"), engine, strict=True))
    return [Insert("engines", row, keep=True)], {"engine_id": Of("engines", dict(row), "engine_id")}


class RunFinished(Write, frozen=True, kw_only=True):
    """The end of a run: how it ended, and what it used."""

    texts = ("status", "summary", "error", "problems", "used")
    is_of_run = True

    status: str
    summary: str = ""
    error: str | None = None
    exit_code: int | None = None  # of who ran it
    problems: Sequence[Mapping[str, Any]] = ()  # what speaks against its result
    used: Mapping[str, Any]  # the event's other fields

    def rows(self, step: Step) -> Iterable[Row]:
        outcome = {
            "status": self.status,
            "summary": self.summary,
            "error": self.error,
            "exit_code": self.exit_code,
            "problems": list(self.problems),
        }
        own = {"run_id": step.run_id, "session_id": step.session_id, "status": "running"}
        ended = {"status": self.status, "outcome": outcome, "finished_at": step.at}
        refusal = refusing(f"run {step.run_id} is not running", "not_running")
        return (Update("runs", own, ended, refusal),)

    def events(self, step: Step) -> Iterable[Telling]:
        said = {"status": self.status, "summary": self.summary, "error": self.error}
        ends = {"exit_code": self.exit_code, "problems": list(self.problems)}
        return step.telling("run_finished", {**said, **self.used, **ends})
