"""One change is taken back and the others stay; what does not merge stays whole, and is told."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prsm_files.changes.merging import Wanted
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, stored, wanted
from plugins.prsm_files.tests.shadow_scene import every_byte
from prsm_core.errors import PrsmError

TEXT = [f"line {n}\n" for n in range(1, 30)]
WORKER = Path(__file__).with_name("reject_worker.py")


@pytest.fixture
def scene(tmp_path):
    return Tracked(tmp_path)


def edited(**lines):
    """Return the text with lines replaced, by number."""
    text = list(TEXT)
    for name, line in lines.items():
        text[int(name[1:])] = line
    return "".join(text)


def states(rejection):
    return {one.change: one.new for one in rejection.act.verdicts}


def test_an_earlier_change_goes_and_a_later_one_of_the_same_file_stays(scene):
    scene.write("a", edited())
    tracker = scene.begin()
    scene.write("a", edited(n2="first\n"))
    first = found_by(tracker)
    scene.write("a", edited(n2="first\n", n20="second\n"))
    found_by(tracker)
    rejection = scene.rejecter().reject("s", wanted(first.found))
    assert states(rejection) == {"c0": "rejected"}
    assert scene.read("a") == edited(n20="second\n")


def test_what_does_not_merge_stays_whole_and_says_why(scene):
    scene.write("a", edited())
    tracker = scene.begin()
    scene.write("a", edited(n2="first\n"))
    first = found_by(tracker)
    scene.write("a", edited(n2="first and more\n"))
    before = every_byte(scene.folder)
    rejection = scene.rejecter().reject("s", wanted(first.found))
    assert states(rejection) == {"c0": "unmerged"}
    assert "same lines" in rejection.act.verdicts[0].why
    assert every_byte(scene.folder) == before
    assert not scene.rejecter().is_cut_off


def test_several_changes_of_a_file_are_taken_back_newest_first(scene):
    scene.write("a", edited())
    tracker = scene.begin()
    found = []
    for line in ("one\n", "two\n", "three\n"):
        scene.write("a", edited(n2=line))
        found += found_by(tracker).found
    scene.rejecter().reject("s", wanted(found))
    assert scene.read("a") == edited()


def test_kinds_and_modes_come_back_and_what_came_later_stays(scene):
    scene.write("gone", "1\n")
    scene.write("run", "x\n", mode=0o640)
    (scene.folder / "link").symlink_to("gone")
    tracker = scene.begin()
    before = every_byte(scene.folder)
    (scene.folder / "gone").unlink()
    (scene.folder / "run").chmod(0o750)
    (scene.folder / "link").unlink()
    (scene.folder / "link").symlink_to("run")
    scene.write("new/er/file", "x\n")
    scene.write("kept", "x\n")
    scan = found_by(tracker)
    asked = [one for one in wanted(scan.found) if one.path != "kept"]
    rejection = scene.rejecter().reject("s", asked)
    assert set(states(rejection).values()) == {"rejected"}
    assert every_byte(scene.folder, without=["kept"]) == before
    assert not (scene.folder / "new").exists()
    assert scene.read("kept") == "x\n"


@pytest.mark.parametrize("what", ["gone", "made", "folder", "link_above", "binary"])
def test_what_is_in_the_way_stays(scene, what):
    scene.write("d/a", b"\0old" if what == "binary" else "old\n")
    tracker = scene.begin()
    if what == "made":
        scene.write("d/b", "new\n")
    else:
        scene.write("d/a", b"\0new" if what == "binary" else "new\n")
    scan = found_by(tracker)
    if what == "gone":
        (scene.folder / "d" / "a").unlink()
    elif what == "made":
        scene.write("d/b", "a person's\n")
    elif what == "folder":
        (scene.folder / "d" / "a").unlink()
        (scene.folder / "d" / "a").mkdir()
    elif what == "link_above":
        (scene.folder / "d").rename(scene.folder / "e")
        (scene.folder / "d").symlink_to("e")
    else:
        scene.write("d/a", b"\0newer")
    before = every_byte(scene.folder)
    rejection = scene.rejecter().reject("s", wanted(scan.found))
    assert states(rejection) == {"c0": "unmerged"}
    assert rejection.act.verdicts[0].why
    assert every_byte(scene.folder) == before


@pytest.mark.parametrize("path", ["../out", "/etc/x", ".git/hooks/pre-commit", "a/../../b", ""])
def test_no_path_leads_out_of_the_folder_or_into_git(scene, path):
    scene.write("a", "1\n")
    scene.take()
    asked = Wanted(id="c", path=path, root="", before=None, after=Entry("100644", "0" * 40))
    before = every_byte(scene.folder)
    assert states(scene.rejecter().reject("s", [asked])) == {"c": "unmerged"}
    assert every_byte(scene.folder) == before


def test_what_is_as_before_already_needs_nothing(scene):
    scene.write("a", "1\n")
    tracker = scene.begin()
    scene.write("a", "2\n")
    scan = found_by(tracker)
    scene.write("a", "1\n")
    rejection = scene.rejecter().reject("s", wanted(scan.found))
    assert (states(rejection), rejection.files) == ({"c0": "rejected"}, ())


def test_content_that_was_not_kept_cannot_come_back(scene):
    scene.write("big", "x" * 20)
    tracker = scene.tracker(file_bytes=10)
    tracker.begin()
    scene.write("big", "y" * 20)
    scan = found_by(tracker)
    rejection = scene.rejecter().reject("s", wanted(scan.found))
    assert states(rejection) == {"c0": "unmerged"}
    assert "not kept" in rejection.act.verdicts[0].why


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2)), min_size=1, max_size=5),
    st.data(),
)
def test_changes_of_places_apart_are_taken_back_in_any_order(tmp_path_factory, edits, data):
    scene = Tracked(tmp_path_factory.mktemp("s"))
    scene.write("a", edited())
    tracker = scene.begin()
    lines: dict[str, str] = {}
    found: list[Any] = []
    by_place: dict[int, list[int]] = {}
    for place, text in edits:  # places are three lines apart
        lines[f"n{place * 3}"] = f"edit {len(found)} {text}\n"
        scene.write("a", edited(**lines))
        scan = found_by(tracker)
        by_place.setdefault(place, []).append(len(found))
        found += scan.found
    gone = data.draw(st.sets(st.sampled_from(sorted(by_place))))
    asked = [one for one in wanted(found) if any(int(one.id[1:]) in by_place[p] for p in gone)]
    rejection = scene.rejecter().reject("s", asked)
    assert set(states(rejection).values()) <= {"rejected"}
    left = {name: line for name, line in lines.items() if int(name[1:]) // 3 not in gone}
    assert scene.read("a") == edited(**left)


@pytest.mark.parametrize("apart", [3, pytest.param(1, marks=pytest.mark.long)])
def test_killed_at_every_change_of_a_file_the_next_command_makes_it_whole(tmp_path, apart):
    ends, step = [], 0
    while True:
        scene = Tracked(_place(tmp_path, step))
        asked, before, after = _several(scene)
        code = _run_worker(scene, asked, step)
        between = every_byte(scene.folder)
        assert not [one for one in between if b".prsm-" in os.fsencode(one)], step
        rejecter = scene.rejecter()
        was_begun = rejecter.is_cut_off
        assert was_begun or between in (before, after)
        finished = stored(scene)
        if was_begun:
            [act] = finished
            made = {one.change: one.new for one in act.verdicts}
            assert made == {one.id: "rejected" for one in asked}, step
        assert every_byte(scene.folder) == (after if was_begun else before)
        assert not scene.rejecter().is_cut_off
        ends.append(was_begun)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        step += apart
    assert step > 30
    assert {True, False} == set(ends)


def test_who_writes_between_the_death_and_the_next_command_keeps_what_they_wrote(tmp_path):
    scene = Tracked(tmp_path)
    asked, _, _ = _several(scene)
    step = 0
    while not scene.rejecter().is_cut_off:
        _run_worker(scene, asked, step)
        step += 1
    scene.write("a", "a person's\n")
    [finished] = stored(scene)
    assert scene.read("a") == "a person's\n"
    assert {one.new for one in finished.verdicts} == {"rejected", "unmerged"}


def _place(tmp_path, step):
    place = tmp_path / str(step)
    place.mkdir()
    return place


def _several(scene):
    """Make changes of all kinds; return what is asked, and the folder with and without them."""
    for name in ("a", "gone", "file", "folder/in", "other/in"):
        scene.write(name, "1\n")
    tracker = scene.begin()
    after = every_byte(scene.folder)
    scene.write("a", "2\n")
    (scene.folder / "gone").unlink()
    scene.write("new/file", "3\n")
    (scene.folder / "file").unlink()
    scene.write("file/in", "of what was a file\n")
    for name in ("folder", "other"):
        shutil.rmtree(scene.folder / name)
    scene.write("folder", "a file now\n")
    (scene.folder / "other").symlink_to("new")
    found = found_by(tracker).found
    return wanted(found), every_byte(scene.folder), after


def _run_worker(scene, asked, step):
    told = [(one.id, one.path, one.root, _told(one.before), _told(one.after)) for one in asked]
    done = subprocess.run(
        [sys.executable, str(WORKER), str(scene.home.parent), str(step), json.dumps(told)],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        check=False,
    )
    assert not done.stderr, done.stderr.decode()
    return done.returncode


def _told(entry):
    return None if entry is None else [entry.mode, entry.blob]


def test_without_git_there_is_an_error_and_nothing_changes(scene):
    scene.write("a", "1\n")
    tracker = scene.begin()
    scene.write("a", "2\n")
    scan = found_by(tracker)

    def no_git(*_, **__):
        raise PrsmError("git cannot be started")

    scene.run = no_git
    with pytest.raises(PrsmError):
        scene.rejecter().reject("s", wanted(scan.found))
    assert scene.read("a") == "2\n"
