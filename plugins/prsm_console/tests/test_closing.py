"""The end of a run says what of the files waits for a decision, and how to take it back."""

import pytest
from prsm_console.console import Changed

from prsm_core.domain.events import Event


def told(kind, **data):
    return Event(type=kind, session="s", run="r", ts=1.0, agent=None, data=data)


def changed(change, how="named", beside=()):
    found = {"path": change, "added": 1, "removed": 0, "how": how, "beside": list(beside)}
    return told("file_changed", change=change, **found)


def test_what_could_not_be_taken_back_is_pending_still_and_counted(tmp_path):
    end = Changed()
    for event in (changed("a"), changed("b", "outside"), changed("c", beside=["x"]), changed("d")):
        end.note(event)
    states = {"a": "unmerged", "b": "unmerged", "d": "rejected"}
    decided = [{"change": one, "state": state} for one, state in states.items()]
    end.note(told("changes_decided", changes=decided))
    end.note(told("changes_decided", changes=[{"change": "b", "state": "accepted"}]))
    first, *_, last = end.lines("s1", str(tmp_path))
    assert first == "changes that are pending: files: 2, +2 -0, conflicts: 1, not taken back: 1"
    assert last.startswith("  take them back: prsm changes reject")
    end.note(told("changes_decided", changes=[{"change": "a", "state": "committed"}]))
    assert "not taken back" not in end.lines("s1", str(tmp_path))[0]


@pytest.mark.requirement("U27")
def test_what_is_from_outside_is_counted_apart_and_no_command_takes_it_back(tmp_path):
    end = Changed()
    end.note(changed("mine", "outside"))
    lines = end.lines("s1", str(tmp_path))
    assert len(lines) == 2
    assert not [line for line in lines if "reject" in line or "pending" in line]
    end.note(changed("a"))
    first, *rest = end.lines("s1", str(tmp_path))
    assert first == "changes that are pending: files: 1, +1 -0"
    assert [line for line in rest if line.endswith("--all")]


@pytest.mark.parametrize(
    ("hows", "proposed"),
    [
        (["named"], ["--all"]),
        (["possible"], ["--all --possible"]),
        (["region", "named", "outside"], ["--all", "--all --possible"]),
    ],
)
def test_a_command_is_proposed_only_where_it_takes_something_back(tmp_path, hows, proposed):
    end = Changed()
    for number, how in enumerate(hows):
        end.note(changed(f"c{number}", how))
    found = [line for line in end.lines("s1", str(tmp_path)) if "reject" in line]
    assert [line[line.index("--all") :] for line in found] == proposed
