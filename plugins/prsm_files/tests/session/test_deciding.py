"""What the undo of an act decides about changes of a session."""

from __future__ import annotations

import pytest
from prsm_files.session.deciding import decided_by, of_merge
from prsm_files.shadow.acts import Act, Operation, Verdict
from prsm_files.shadow.records import Entry

from prsm_core.domain.changes import Author, ChangeRow, FileChange

pytestmark = pytest.mark.requirement("U27")


def row(id_, path, before, after, state="pending"):
    change = FileChange(
        id=id_,
        scan=id_,
        path=path,
        folder="/w",
        kind="modified",
        old_mode="100644",
        new_mode="100644",
        before=before,
        after=after,
        how="named",
        authors=(Author("w1"),),
    )
    return ChangeRow(change=change, at=1.0, state=state)


def test_the_undo_of_a_merge_rejects_the_changes_that_it_brought_and_no_others():
    wrote = Operation(
        root="", path="a", before=Entry("100644", "b" * 40), after=Entry("100644", "c" * 40)
    )
    act = Act(id="1", kind="merge", at=1.0, session="s", wrote=(wrote,))
    rows = [
        row("merged", "a", "b" * 40, "c" * 40),
        row("accepted", "a", "b" * 40, "c" * 40, "accepted"),
        row("committed", "a", "b" * 40, "c" * 40, "committed"),
        row("before", "a", "a" * 40, "b" * 40),
        row("elsewhere", "b", "b" * 40, "c" * 40),
    ]
    made = of_merge(rows, act)
    assert {one.change: (one.old, one.new) for one in made} == {
        "merged": ("pending", "rejected"),
        "accepted": ("accepted", "rejected"),
    }
    assert of_merge(rows, Act(id="2", kind="reject", at=1.0, session="s", wrote=(wrote,))) == ()


def test_what_was_decided_otherwise_meanwhile_stays_so():
    verdicts = tuple(Verdict("s", id_, "a", "rejected", "pending") for id_ in ("x", "y", "z"))
    act = Act(id="1", kind="undo", at=1.0, session="s", verdicts=verdicts)
    rows = [
        row("x", "a", "", "", "rejected"),
        row("y", "a", "", "", "accepted"),
        row("z", "a", "", "", "pending"),
    ]
    assert [(one.id, one.state) for one in decided_by(rows, act, "s")] == [("x", "pending")]
    assert decided_by(rows, act, "another") == ()
