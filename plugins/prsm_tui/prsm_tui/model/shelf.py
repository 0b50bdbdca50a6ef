"""The snapshots of a session, and what a restore of one would change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_core.kit import escape_exact, first_line
from prsm_tui.model.review import Reads
from prsm_tui.model.spoken import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.door import Snapshot as SnapshotRecord
    from prsm_core.door import UndoReport

_WORDS = {
    "added": ("+", "come back"),
    "deleted": ("-", "go"),
    "modified": ("~", "change"),
    "mode": ("%", "change permissions"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot of files; `taken_at` in Unix seconds."""

    id: str
    kind: str
    taken_at: float
    description: str
    branch: str
    head: str
    agent: str | None
    unquiet: Sequence[str]
    bytes_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a restore would change, in lines; or `error`, why that is not known."""

    summary: str = ""
    lines: Sequence[str] = ()
    error: str = ""


@dataclass(slots=True)
class Shelf(Reads):
    """Owns the snapshots as they were told last, and the plans of those that were opened."""

    snapshots: Sequence[Snapshot] = ()  # the newest first
    plans: dict[str, Plan] = field(default_factory=dict)

    def take(self, rows: Iterable[SnapshotRecord]) -> None:
        """Take over all snapshots, as Snapshots.list tells them: each once, by its newest."""
        known = {row.id: _snapshot(row) for row in rows}
        self.snapshots = sorted(known.values(), key=lambda one: one.taken_at, reverse=True)
        self.end_read()

    def take_plan(self, snapshot: str, told: UndoReport) -> None:
        """Take over what a restore would change, as Snapshots.restore tells it."""
        changes = [(one.change, shown(one.path)) for one in told.changes]
        counts = {kind: sum(one == kind for one, _ in changes) for kind in _WORDS}
        parts = [f"{count} {_WORDS[kind][1]}" for kind, count in counts.items() if count]
        lines = [f"{_WORDS.get(kind, ('?', ''))[0]} {path}" for kind, path in changes]
        lines += [f"note: {shown(note)}" for note in told.notes]
        summary = f"a restore: {', '.join(parts)}" if parts else "the files are as in the snapshot"
        self.plans[snapshot] = Plan(summary=summary, lines=lines)
        self.version += 1

    def fail_plan(self, snapshot: str, why: str) -> None:
        """Note why it is not known what a restore would change."""
        self.plans[snapshot] = Plan(error=why)
        self.version += 1

    def forget_plans(self) -> None:
        """Let go of the plans: the files are others."""
        self.plans.clear()
        self.version += 1


def _snapshot(row: SnapshotRecord) -> Snapshot:
    return Snapshot(
        id=escape_exact(row.id),
        kind=escape_exact(row.kind),
        taken_at=row.taken_at,
        description=first_line(row.description, 400),
        branch=escape_exact(row.branch or ""),
        head=escape_exact(row.head or "")[:12],
        agent=row.agent,
        unquiet=tuple(map(shown, row.unquiet)),
        bytes_skipped=row.bytes_skipped,
    )
