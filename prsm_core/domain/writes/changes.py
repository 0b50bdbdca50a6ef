"""Changes of files: found, and decided about by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.changes import PENDING, change_columns
from prsm_core.domain.rows import Insert, Update
from prsm_core.domain.steps import Telling, Write
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.domain.changes import Decision, FileChange
    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import Step


class FileChanged(Write, frozen=True, kw_only=True):
    """A file is another. The run writes it, about whoever did it."""

    texts = ("change",)
    is_of_run = True

    change: FileChange

    def rows(self, step: Step) -> Iterable[Row]:
        """Return the change, about which nothing is decided."""
        row = {
            "session_id": step.session_id,
            **change_columns(self.change),
            "found_at": step.at if self.at is None else self.at,
            "state": PENDING,
            "why": None,
            "decided_at": None,
        }
        return (Insert("file_changes", row),)

    def events(self, step: Step) -> Iterable[Telling]:
        """Return `file_changed`, of the likeliest agent, or of nobody."""
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
    """A person accepts changes, or has taken them back."""

    texts = ("decisions",)
    is_of_run = True

    decisions: tuple[Decision, ...]

    def rows(self, step: Step) -> Iterable[Row]:
        """Return what the changes are now. Raises StoreError for one that there is not."""
        return tuple(self._row(step, one) for one in self.decisions)

    def _row(self, step: Step, one: Decision) -> Row:
        def refuse(_: Ledger) -> StoreError:
            return StoreError(f"there is no change {one.id}", code="unknown_change")

        decided = {"state": one.state, "why": one.why, "decided_at": step.at}
        return Update(
            "file_changes",
            {"session_id": step.session_id, "id": one.id},
            decided,
            refusal=refuse,
        )

    def events(self, step: Step) -> Iterable[Telling]:
        """Return `changes_decided`."""
        told = [
            {"change": one.id, "path": one.path, "state": one.state, "why": one.why}
            for one in self.decisions
        ]
        return (Telling("changes_decided", {"changes": told}, None, step.at),)
