"""A snapshot of files that was taken for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from prsm_core.domain.rows import Insert
from prsm_core.domain.steps import Telling, Write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.domain.rows import Row
    from prsm_core.domain.sessions import SessionSnapshot
    from prsm_core.domain.steps import Step

# As the snapshot has it.
_TOLD = ("kind", "folder", "tree", "branch", "head", "description", "bytes_skipped")


def snapshot_row(session_id: str, snapshot: SessionSnapshot) -> Insert:
    """Return the row of a snapshot; one that a session names twice for one commit is there once."""
    return Insert("snapshots", {"session_id": session_id, **msgspec.structs.asdict(snapshot)}, True)


class SnapshotTaken(Write, frozen=True, kw_only=True):
    """The files of a folder are kept as they are, or are as an earlier snapshot has them."""

    texts = ("snapshot",)
    is_of_run = True

    snapshot: SessionSnapshot

    def rows(self, step: Step) -> Iterable[Row]:
        """Return the snapshot."""
        return (snapshot_row(step.session_id, self.snapshot),)

    def events(self, step: Step) -> Iterable[Telling]:
        """Return `snapshot_taken`."""
        one = self.snapshot
        data = {name: getattr(one, name) for name in _TOLD}
        data |= {"snapshot": one.snapshot_id, "unquiet": list(one.unquiet)}
        return (Telling("snapshot_taken", data, one.agent_id, step.at),)
