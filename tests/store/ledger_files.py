"""What the ledger means by changes of files: a part of the model of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.store.ledger_state import State


class FilesMeant:
    """The acts of changes; each is once, and about one that is there something can be decided."""

    state: State
    wrong: set[str]

    def tell(
        self, kind: str, /, *, about: str | None = None, at: float | None = None, **data: Any
    ) -> None:
        """Note an event; the model does so."""
        raise NotImplementedError

    def FileChanged(self, write: Any) -> None:  # noqa: N802 - by the names of the writes
        """Keep the change, about which nothing is decided."""
        change = write.change
        if change.id in self.state.changes:
            self.wrong.add("StoreError conflict")
        self.state.changes[change.id] = (change.path, "pending", None)
        authors = [one.agent for one in change.authors]
        self.tell(
            "file_changed",
            about=authors[0] if authors else self.NOBODY,
            path=change.path,
            kind=change.kind,
            added=change.added,
            removed=change.removed,
            call=change.authors[0].call if authors else None,
            change=change.id,
            how=change.how,
            agents=authors,
            beside=list(change.beside),
        )

    def ChangesDecided(self, write: Any) -> None:  # noqa: N802
        """Decide about each, whatever was decided before."""
        for one in write.decisions:
            if one.id not in self.state.changes:
                self.wrong.add("StoreError unknown_change")
                continue
            path, _, _ = self.state.changes[one.id]
            self.state.changes[one.id] = (path, one.state, one.why)
        told = [
            {"change": one.id, "path": one.path, "state": one.state, "why": one.why}
            for one in write.decisions
        ]
        self.tell("changes_decided", about=self.NOBODY, changes=told)

    NOBODY = ""
