"""Old snapshots before prompts go, and no other does; what is forgotten goes with its content."""

from __future__ import annotations

import pytest
from prsm_files.shadow.acts import Intent
from prsm_files.shadow.records import About, Snapshot
from prsm_files.shadow.whereabouts import PRUNE, folder_lock, forget
from prsm_files.shadow.worktree import KEPT_SAFETY, Retention, too_many

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, wanted
from plugins.prsm_files.tests.shadow_scene import Scene
from prsm_core.errors import ConfigError

DAY = 86_400.0


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def kept(*ages):
    """Return snapshots of so many days ago."""
    return [Snapshot(id=f"{n}", created_at=(100 - age) * DAY) for n, age in enumerate(ages)]


def gone(snapshots, stored=0, **rule):
    goes = too_many(snapshots, Retention(**rule), 100 * DAY, lambda: stored)
    return [one.id for one in goes]


def test_those_that_are_too_many_too_old_or_too_large_go_and_the_newest_stays():
    assert gone(kept(1, 2, 3)) == []
    assert gone(kept(1, 2, 3), count=2) == ["2"]
    assert gone(kept(1, 31, 32), days=30.0) == ["1", "2"]
    assert gone(kept(31, 32), days=30.0) == ["1"]
    assert gone(kept(1, 2, 3, 4), stored=11, size=10) == ["2", "3"]
    assert gone(kept(1), stored=11, size=10) == []


def test_only_snapshots_before_prompts_go_and_their_content_with_them(scene):
    taken = {}
    for number, kind in enumerate(["manual", "run", "prompt", "prompt", "run"]):
        scene.write("a", f"content {number}")
        taken[number] = scene.take(kind=kind)
    shadow = scene.shadow()
    assert shadow.retire(Retention(count=2), spared=[taken[1].id]) == 1
    assert {one.id for one in shadow.snapshots()} == {taken[number].id for number in (0, 1, 3, 4)}
    root = shadow.root("")
    assert root.shadow.ask("cat-file", "-e", f"{taken[2].main.tree}:a").code
    assert root.shadow.word("cat-file", "-t", f"{taken[1].main.tree}:a") == "blob"
    assert shadow.retire(Retention(count=2), spared=[taken[1].id]) == 0


@pytest.mark.parametrize(
    ("rule", "stay"),
    [
        (Retention(count=2), (2, 3)),
        (Retention(days=9 / DAY), (3,)),
        (Retention(size=1), (2, 3)),
        (Retention(count=200, days=30.0, size=2**30), (0, 1, 2, 3)),
    ],
)
def test_each_limit_drops_the_oldest_with_their_content_and_no_other(scene, rule, stay):
    taken = []
    for number in range(4):
        scene.start_numbers(10 * number)
        scene.write("a", f"content {number}")
        taken.append(scene.take(kind="prompt"))
    scene.start_numbers(30)
    manual = scene.take()
    scene.start_numbers(39)
    shadow = scene.shadow()
    assert shadow.retire(rule) == 4 - len(stay)
    assert {one.id for one in shadow.snapshots()} == {manual.id, *(taken[n].id for n in stay)}
    git = shadow.root("").shadow
    for number, one in enumerate(taken):
        is_there = not git.ask("cat-file", "-e", f"{one.main.tree}:a").code
        assert is_there is (number in stay)


@pytest.mark.parametrize("rule", [Retention(count=1), Retention(days=1 / DAY), Retention(size=1)])
def test_what_a_pending_change_names_stays_whatever_limit_drops_its_snapshot(tmp_path, rule):
    scene = Tracked(tmp_path)
    scene.write("a", "before\n")
    first = scene.take(kind="run")
    tracker = scene.begin()
    scene.write("a", "by an agent\n")
    found = found_by(tracker).found
    tracker.end()
    for number in range(3):
        scene.write("b", f"{number}")
        scene.take(kind="run")
    scene.start_numbers(1000)
    shadow = scene.shadow()
    assert shadow.retire(rule) > 0
    assert first.id not in {one.id for one in shadow.snapshots()}
    [made] = scene.rejecter().reject("s", wanted(found)).act.verdicts
    assert (made.new, scene.read("a")) == ("rejected", "before\n")


@pytest.mark.parametrize("rule", [Retention(count=1), Retention(days=1 / DAY), Retention(size=1)])
def test_a_restore_that_is_under_way_is_finished_and_can_be_undone_whatever_is_dropped(scene, rule):
    scene.write("a", "one")
    first = scene.take(kind="run")
    for text in ("two", "three", "four"):
        scene.write("a", text)
        scene.take(kind="prompt")
    scene.write("a", "work")
    shadow = scene.shadow()
    safety = shadow.take(About(kind="safety"))
    shadow.journal.begin(Intent(first.id, safety.id, 5.0))  # and its process dies
    scene.start_numbers(1000)
    shadow = scene.shadow()
    assert shadow.retire(rule) > 0
    assert scene.read("a") == "one"
    assert {first.id, safety.id} <= {one.id for one in shadow.snapshots()}
    shadow.undo()
    assert scene.read("a") == "work"


def test_a_clock_that_was_set_back_makes_no_snapshot_old(scene):
    scene.start_numbers(10_000)
    first = scene.take()
    for number in range(KEPT_SAFETY + 2):
        scene.write("a", f"{number}")
        scene.shadow().restore(first.id)
    scene.start_numbers(1)
    kept = []
    for text in ("work", "more work"):
        scene.write("a", text)
        kept.append(scene.shadow().restore(first.id).safety.id)
    assert [one.id for one in scene.shadow().snapshots()][:2] == kept[::-1]
    scene.shadow().restore(kept[0])
    assert scene.read("a") == "work"
    new = [scene.take(kind="run", description=f"{n}").id for n in range(3)]
    assert scene.shadow().retire(Retention(count=1)) == 2
    assert new[-1] in {one.id for one in scene.shadow().snapshots()}


def test_what_the_last_restore_needs_stays(scene):
    scene.write("a", "one")
    first = scene.take(kind="run")
    for text in ("two", "three", "four"):
        scene.write("a", text)
        scene.take(kind="prompt")
    shadow = scene.shadow()
    shadow.restore(first.id)
    shadow.retire(Retention(count=1))
    assert first.id in {one.id for one in shadow.snapshots()}
    shadow.undo()
    assert scene.read("a") == "four"


def test_a_forgotten_snapshot_is_gone_at_once_and_its_content_with_the_next_look(scene):
    scene.write("a", "secret")
    lost = scene.take(kind="run")
    scene.write("a", "other")
    stays = scene.take(kind="run")
    assert forget(scene.state, [lost.id, "0123"]) == 1
    shadow = scene.shadow()
    assert (shadow.place / PRUNE).exists()
    assert [one.id for one in shadow.snapshots()] == [stays.id]
    assert not (shadow.place / PRUNE).exists()
    assert shadow.root("").shadow.ask("cat-file", "-e", f"{lost.main.tree}:a").code
    assert forget(scene.state, [lost.id]) == 0


def test_nothing_is_forgotten_while_another_process_is_at_work(scene):
    scene.write("a", "x")
    taken = scene.take(kind="run")
    with folder_lock(scene.shadow().place, 0.0), pytest.raises(ConfigError, match="at work"):
        forget(scene.state, [taken.id], wait_seconds=0.0)
    assert [one.id for one in scene.shadow().snapshots()] == [taken.id]


def test_what_is_staged_comes_back_though_another_snapshot_of_it_was_deleted(tmp_path):
    scene = Scene(tmp_path)
    scene.write("a", "1")
    scene.git("add", "a")
    staged = scene.staged()
    gone = scene.take()
    scene.shadow().delete(gone.id)
    taken = scene.take()
    scene.write("a", "2")
    scene.git("add", "a")
    scene.shadow().restore(taken.id)
    assert scene.staged() == staged
    assert scene.read("a") == "1"
