"""Checks of what engines keep: the ledger, their sessions, their processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import broken, ok, warning
from prsm_core.cli.checkup.folders import format_size
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.engine.processes.boxes import find_left_boxes
from prsm_core.engine.processes.executor import choose_executor
from prsm_core.engine.processes.orphans import find_orphans
from prsm_core.engine.processes.table import is_alive
from prsm_core.errors import ControlError, StoreError
from prsm_core.store.connection import has_begun
from prsm_core.store.inspection import inspect_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.cli.checkup.setup import CheckedSetup
    from prsm_core.store.inspection import LedgerReport

LARGE_WAL_BYTES = 256 << 20
SHOWN = 5  # names or numbers in one line


def check_ledger(path: Path) -> Iterator[Finding]:
    """Look whether the repository's ledger can be read and is intact."""
    try:
        report = inspect_ledger(path) if has_begun(path) else None
    except StoreError as error:
        finding = warning if error.code == "older_ledger" else broken
        yield finding("ledger", error.message, error.hint or _set_aside(path))
        return
    if report is None or (report.version == 0 and not report.problems and not report.unchecked):
        yield ok("ledger", f"there is none yet; the first run makes {path}")
        return
    yield from _judge(path, report)


def check_sessions(state: Path) -> Iterator[Finding]:
    """Look whether those who own sessions still live."""
    running, left = 0, []
    for lock in sorted((state / "runs").glob("*.lock")):
        session = lock.stem
        try:
            owner = find_owner(state, session)
        except ControlError as error:
            yield warning("sessions", error.message, error.hint or "end that process")
            continue
        if owner is None:
            left.append(lock)
        elif is_alive(owner.process):
            running += 1
        else:
            text = f"session {session} is held by process {owner.process.pid} in another container"
            yield warning("sessions", text, "end its run there, or wait for its end")
    yield ok("sessions", f"{running} running") if not left else _left_behind(left)


def check_processes(state: Path) -> Iterator[Finding]:
    """Look whether processes live on after their engine."""
    orphans = find_orphans(state)
    for found in orphans:
        yield warning(
            "processes",
            f"engine {found.engine} is dead and left processes: {_some(found.pids)}",
            "the next `prsm run` ends them",
        )
    if not orphans:
        yield ok("processes", "no dead engine left any behind")


def check_left_boxes(setup: CheckedSetup, state: Path) -> Iterator[Finding]:
    """Look whether boxes are left after their engine."""
    if names := find_left_boxes(state, choose_executor(setup.plugins, setup.settings)):
        count = "a box" if len(names) == 1 else f"{len(names)} boxes"
        yield warning(
            "boxes",
            f"dead engines left {count}: {_some(names)}",
            "the next `prsm run` removes them",
        )


def _judge(path: Path, report: LedgerReport) -> Iterator[Finding]:
    size = f"{format_size(report.size)} and {format_size(report.wal_size)} of write-ahead log"
    if report.problems:
        yield broken("ledger", f"{path} is damaged: {report.problems[0]}", _set_aside(path))
    elif report.unchecked:
        cure = "`prsm tree` opens it; then run `prsm doctor` again"
        yield warning("ledger", f"{path} was not checked: {report.unchecked}", cure)
    elif report.wal_size > LARGE_WAL_BYTES:
        cure = f"end what reads it for long: fuser {path}-wal"
        yield warning("ledger", f"{path}: {size}", cure)
    else:
        age = "" if report.version == report.newest else ", which the next run upgrades"
        yield ok("ledger", f"intact, version {report.version}{age}, {size}")


def _set_aside(path: Path) -> str:
    return f"move {path.parent} away; the next run begins a new ledger"


def _left_behind(locks: Sequence[Path]) -> Finding:
    count = "a lock" if len(locks) == 1 else f"{len(locks)} locks"
    return warning(
        "sessions",
        f"engines died and left {count}: {_some([lock.stem for lock in locks])}",
        f"nothing is lost: a run in such a session takes it over; or remove {locks[0].parent}/"
        "SESSION.lock",
    )


def _some(values: Sequence[object]) -> str:
    more = ", …" if len(values) > SHOWN else ""
    return ", ".join(map(str, values[:SHOWN])) + more
