"""Which session is gone on with: one that is taken up again, and one that is set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.rows import Now, Update
from prsm_core.domain.steps import Telling, Write
from prsm_core.domain.writes.changes import told_decision
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import Step


class SessionTakenUp(Write, frozen=True, kw_only=True):
    """A session is the newest one again, with the files as they were when it was left.

    `changes` are those whose state is another than it was then: in this session it is that again.
    """

    is_of_run = True

    changes: tuple[ChangeRow, ...] = ()

    def rows(self, step: Step) -> Iterator[Row]:
        """Return the session's place, and its changes. Raises StoreError where it is not there."""
        yield _placed(step, {"came": Now()}, {"aside": None})
        for row in self.changes:
            own = {"session_id": step.session_id, "id": row.change.id}
            then = {"state": row.state, "why": row.why, "decided_at": row.decided_at}
            yield Update("file_changes", own, then)

    def events(self, step: Step) -> Iterable[Telling]:
        """Return `changes_decided`, if any is another."""
        if not self.changes:
            return ()
        told = [
            told_decision(row.change.id, row.change.path, row.state, row.why)
            for row in self.changes
        ]
        return (Telling("changes_decided", {"changes": told}, None, step.at),)


class SessionSetAside(Write, frozen=True, kw_only=True):
    """The newest session is gone on with no more: all that was said in it was taken back.

    A further run of it ends that. Nothing is told of it.
    """

    is_of_run = True

    def rows(self, step: Step) -> Iterable[Row]:
        """Return that the session is set aside. Raises StoreError where it is not there."""
        return (_placed(step, {"aside": Now()}, {}),)


def _placed(step: Step, computed: dict[str, Now], values: dict[str, None]) -> Update:
    def refuse(_: Ledger) -> StoreError:
        return StoreError(f"there is no session {step.session_id}", code="unknown_session")

    own = {"session_id": step.session_id}
    return Update("meta", own, values, refusal=refuse, computed={**computed})
