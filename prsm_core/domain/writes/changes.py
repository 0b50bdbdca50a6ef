"""Files: changes that were found, what a person decided about them, and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from prsm_core.domain.changes import (
    ACCEPTED,
    OPEN_STATES,
    PENDING,
    REJECTED,
    ChangeRow,
    change_columns,
)
from prsm_core.domain.rows import Insert, Update, refusing
from prsm_core.domain.steps import Telling, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prsm_core.domain.changes import Decision, FileChange
    from prsm_core.domain.rows import Row
    from prsm_core.domain.sessions import SessionSnapshot
    from prsm_core.domain.steps import Step


# In which a change may still become something else than it is.
_UNSETTLED = (*sorted(OPEN_STATES), ACCEPTED)


def change_row(session_id: str, row: ChangeRow) -> Insert:
    """Return a change of a session as a new row."""
    columns = {
        "session_id": session_id,
        **change_columns(row.change),
        "found_at": row.at,
        "state": row.state,
        "why": row.why,
        "decided_at": row.decided_at,
    }
    return Insert("file_changes", columns)


class FileChanged(Write, frozen=True, kw_only=True):
    """A file is another. The run writes it, about whoever did it."""

    texts = ("change",)
    is_of_run = True

    change: FileChange

    def rows(self, step: Step) -> Iterable[Row]:
        at = step.at if self.at is None else self.at
        return (change_row(step.session_id, ChangeRow(change=self.change, at=at)),)

    def events(self, step: Step) -> Iterable[Telling]:
        change, author = self.change, self.change.author
        data = {
            "path": change.path,
            "kind": change.kind,
            "added": change.added,
            "removed": change.removed,
            "call": None if author is None else author.call or None,
            "change": change.id,
            "how": change.how,
            "agents": list(dict.fromkeys(one.agent for one in change.authors)),
            "beside": list(change.beside),
        }
        return (Telling("file_changed", data, None if author is None else author.agent, step.at),)


class ChangesDecided(Write, frozen=True, kw_only=True):
    """A person accepts changes, or has taken them back, or has brought them back again.

    A change is known to its session and to forks of it. The decision holds in all of them, unless
    it was taken back or committed there before. A change that is in the file again is pending in
    all.
    """

    texts = ("decisions",)
    is_of_run = True

    decisions: tuple[Decision, ...]

    def rows(self, step: Step) -> Iterable[Row]:
        """Return what the changes are now. Raises StoreError for one that there is not."""
        return [row for one in self.decisions for row in _decided(step, one)]

    def events(self, step: Step) -> Iterable[Telling]:
        told = [told_decision(one.id, one.path, one.state, one.why) for one in self.decisions]
        return (Telling("changes_decided", {"changes": told}, None, step.at),)


def _decided(step: Step, one: Decision) -> Iterator[Row]:
    if one.state == PENDING:
        pending = {"state": PENDING, "why": None, "decided_at": None}
        yield Update("file_changes", {"id": one.id, "state": REJECTED}, pending)
        return
    decided = {"state": one.state, "why": one.why, "decided_at": step.at}
    own = {"session_id": step.session_id, "id": one.id}
    unknown = refusing(f"there is no change {one.id}", "unknown_change")
    yield Update("file_changes", own, decided, unknown)
    for state in _UNSETTLED:
        if state != one.state:  # so that none is decided again
            yield Update("file_changes", {"id": one.id, "state": state}, decided)


def told_decision(id_: str, path: str, state: str, why: str | None) -> dict[str, Any]:
    """Return what is told of one change that is decided."""
    return {"change": id_, "path": path, "state": state, "why": why}


# As the snapshot has it.
_SNAPSHOT = ("kind", "folder", "tree", "branch", "head", "description", "bytes_skipped")


def snapshot_row(session_id: str, snapshot: SessionSnapshot) -> Insert:
    """Return the row of a snapshot; one that a session names twice for one commit is there once."""
    return Insert("snapshots", {"session_id": session_id, **asdict(snapshot)}, True)


class SnapshotTaken(Write, frozen=True, kw_only=True):
    """The files of a folder are kept as they are, or are as an earlier snapshot has them."""

    texts = ("snapshot",)
    is_of_run = True

    snapshot: SessionSnapshot

    def rows(self, step: Step) -> Iterable[Row]:
        return (snapshot_row(step.session_id, self.snapshot),)

    def events(self, step: Step) -> Iterable[Telling]:
        one = self.snapshot
        data = {name: getattr(one, name) for name in _SNAPSHOT}
        data |= {"snapshot": one.snapshot_id, "unquiet": list(one.unquiet)}
        return (Telling("snapshot_taken", data, one.agent_id, step.at),)
