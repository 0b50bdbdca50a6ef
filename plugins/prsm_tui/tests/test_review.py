"""The model of a review: what stands where, to whom a comment goes, and what it says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from prsm_tui.model.comments import Addressee, addressee, placed, sending
from prsm_tui.model.patches import ADDED, REMOVED, SAME, PatchLine
from prsm_tui.model.review import WAYS, Comment, Review, change_of, size_of
from prsm_tui.model.session import Session
from prsm_tui.model.shelf import Shelf

from plugins.prsm_tui.tests.scenes import EMPTY, Told
from prsm_core.door import AgentName, Change, ChangeAuthor, ChangedFile, Snapshot, UndoReport

STATES = ("pending", "unmerged", "accepted", "rejected", "committed")


def row(change, **fields) -> Change:
    agent = fields.get("agent", "w")
    known = ChangeAuthor(agent=agent, name=f"name of {agent}", call="c")
    told: dict[str, Any] = {
        "change": change,
        "path": "a.py",
        "folder": "/work",
        "kind": "modified",
        "added": 1,
        "removed": 0,
        "how": "named",
        "agent": agent,
        "authors": () if agent is None else (known,),
        "state": "pending",
        "turn": "t",
        "at": 1.0,
    }
    return Change(**told | fields)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "path": st.sampled_from(["a.py", "b.py", "\x1b[2J", "[red]c"]),
            "agent": st.sampled_from(["w", "f", None]),
            "turn": st.sampled_from(["t1", "t2", None]),
            "state": st.sampled_from(STATES),
            "beside": st.sampled_from([(), (AgentName(),)]),
        }
    ),
    max_size=20,
)


@given(ROWS, st.sampled_from(WAYS), st.booleans())
def test_each_change_stands_in_one_group_and_conflicts_come_first(rows, way, shows_all):
    review = Review()
    review.take(row(str(place), **fields) for place, fields in enumerate(rows))
    groups = review.groups(way, shows_all=shows_all)
    shown = [change for group in groups for change in group.changes]
    wanted = {one.id for one in review.changes if shows_all or one.is_open}
    assert sorted(one.id for one in shown) == sorted(wanted)
    heads = [group.changes[0].is_conflict for group in groups]
    assert heads == sorted(heads, reverse=True)
    for group in groups:
        inside = [one.is_conflict for one in group.changes]
        assert inside == sorted(inside, reverse=True)
        alike = {"file": "path", "agent": "agent", "turn": "turn"}[way]
        assert len({getattr(one, alike) for one in group.changes}) == 1
    assert len({group.key for group in groups}) == len(groups)
    assert all(one.path.isprintable() for one in shown)


def test_what_was_told_last_is_what_is_there():
    review = Review()
    review.end_read("no")
    assert (review.error, review.changes) == ("no", ())
    review.take([row("1"), row("2", added=None)])
    assert review.error == ""
    assert size_of(review.changes) == "+1 -0"
    assert size_of([review.changes[1]]) == ""
    review.take([row("2", state="accepted")])
    assert (review.find("1"), review.find("2")) == (None, review.changes[0])


def tree(states):
    """Return a session whose agents, each below the one before, have these states."""
    told = Told()
    told.say("run_started", task="t")
    for place, state in enumerate(states):
        parent = str(place - 1) if place else None
        told.spawn(str(place), f"agent {place}", parent)
        told.say("agent_state_changed", str(place), to=state)
    return told


@given(st.lists(st.sampled_from(["running", "completed", "killed"]), min_size=1, max_size=5))
def test_a_comment_goes_to_its_author_or_to_the_nearest_above_that_works(states):
    told = tree(states)
    author = len(states) - 1
    change = change_of(row("1", agent=str(author)))
    live = [place for place, state in enumerate(states) if state == "running"]
    found = addressee(told.model, change)
    if live:
        assert isinstance(found, Addressee)
        assert found.agent is told.model.agents[str(live[-1])]
        assert found.told.endswith(", who made it") == (live[-1] == author)
        return
    assert isinstance(found, str), "a run is open, but nobody works"
    told.say("run_finished", status="completed")
    found = addressee(told.model, change)
    assert isinstance(found, Addressee)
    assert found.agent is None


def test_nobody_is_told_of_a_change_from_outside():
    found = addressee(Session.of_view(EMPTY), change_of(row("1", agent=None)))
    assert "from outside" in str(found)


SIDES = st.lists(st.sampled_from([ADDED, REMOVED, SAME]), min_size=1, max_size=8)


@given(SIDES, st.data())
def test_a_comment_is_sent_with_the_numbers_of_its_lines(kinds, data):
    """So that of the change's lines these alone are named: of one side, or of both."""
    numbers = {"old": 0, "new": 0}
    rows = []
    for kind in kinds:
        numbers["old"] += kind != ADDED
        numbers["new"] += kind != REMOVED
        old, new = (
            None if kind == gone else n
            for gone, n in zip((ADDED, REMOVED), numbers.values(), strict=True)
        )
        rows.append(PatchLine(kind, "x", old, new))
    shown = data.draw(st.sampled_from([{ADDED, REMOVED, SAME}, {REMOVED, SAME}, {ADDED, SAME}]))
    column = [line for line in rows if line.kind in shown]
    first, last = sorted(data.draw(st.tuples(st.integers(0, 8), st.integers(0, 8))))
    lines = tuple(column[first : last + 1])
    made = placed(Comment("c", lines, "why?"))
    meant = [
        line
        for line in rows
        if (line.old is not None and made.old and made.old[0] <= line.old <= made.old[1])
        or (line.new is not None and made.new and made.new[0] <= line.new <= made.new[1])
    ]
    assert meant == list(lines)


@given(
    st.lists(st.sampled_from("wfx"), min_size=1, max_size=12),
    st.sets(st.sampled_from("wf")),
)
def test_the_question_before_comments_are_sent_says_how_many_go_to_whom(said, ended):
    told = Told()
    told.say("run_started", task="t")
    for agent, parent in (("m", None), ("w", "m"), ("f", "m")):
        told.spawn(agent, agent, parent)
        told.say("agent_state_changed", agent, to="killed" if agent in ended else "running")
    told.model.review.take(row(agent, agent=agent) for agent in "wf")
    asked = sending(told.model, [Comment(agent, (), "text") for agent in said])
    getters = ["m" if agent in ended else agent for agent in said if agent != "x"]
    for agent in "mwf":
        count = getters.count(agent)
        assert (f"{count} to {agent}" in asked) == (count > 0)
    lost = "to nobody (its change is not there any more)"
    assert (f"{said.count('x')} {lost}" in asked) == ("x" in said)


def test_a_place_has_one_comment_and_a_blank_one_drops_it():
    review, line = Review(), PatchLine(ADDED, "x", None, 3)
    review.keep(Comment("c", (line,), "one"))
    review.keep(Comment("c", (line,), "another"))
    assert [one.text for one in review.kept.values()] == ["another"]
    kept = review.kept_at("c", [line])
    assert kept is not None
    assert kept.short == "line 3: another"
    review.keep(Comment("c", (line,), " "))
    assert review.kept_at("c", [line]) is None


def test_a_snapshot_stands_once_and_the_newest_first():
    shelf = Shelf()
    first = Snapshot(
        id="a1",
        kind="run",
        session=None,
        position=0,
        taken_at=1.0,
        agent=None,
        folder="/work",
        tree="",
        branch=None,
        head=None,
        description="\x1b[2Jone",
        bytes_skipped=0,
        unquiet=(),
    )
    later = structs.replace(first, id="b2", kind="prompt", taken_at=2.0, unquiet=("w: make",))
    shelf.take([first, later, structs.replace(first, taken_at=3.0)])
    assert [one.id for one in shelf.snapshots] == ["a1", "b2"]
    assert shelf.snapshots[0].description == "\\x1b[2Jone"
    changes = (ChangedFile(path="x", change="deleted"), ChangedFile(path="y", change="mode"))
    shelf.take_plan("a1", UndoReport(changes=changes, notes=("HEAD is another",)))
    plan = shelf.plans["a1"]
    assert plan.summary == "a restore: 1 go, 1 change permissions"
    assert plan.lines == ["- x", "% y", "note: HEAD is another"]
    shelf.take_plan("a1", UndoReport())
    assert shelf.plans["a1"].summary == "the files are as in the snapshot"
    shelf.forget_plans()
    assert shelf.plans == {}
