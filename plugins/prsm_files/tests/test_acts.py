"""Whatever PRSM wrote to files is undone by its act's id, byte for byte, and nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_files.changes.acting import Rejecter
from prsm_files.changes.writing import sweep
from prsm_files.shadow.acts import RESTORE, UNDO, Act, Verdict, as_of
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.records import FILE_BYTES

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, stored, wanted
from plugins.prsm_files.tests.shadow_scene import every_byte, small_files
from plugins.prsm_files.tests.trees_scene import Grove, inside, text

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.requirement("U27"),
]


@pytest.fixture
def scene(tmp_path):
    return Tracked(tmp_path)


def changed(scene):
    """Have changes of all kinds made; return them, as they are asked to be taken back."""
    scene.write("text", "".join(f"{n}\n" for n in range(20)))
    scene.write("binary", bytes(range(256)) * 9)
    scene.write("secret", "s\n", mode=0o600)
    scene.write("run", "x\n")
    scene.write("file", "1\n")
    tracker = scene.begin()
    scene.write("text", "".join(f"{n if n != 3 else 'three'}\n" for n in range(20)))
    scene.write("binary", bytes(range(255, -1, -1)) * 9)
    (scene.folder / "secret").unlink()
    (scene.folder / "run").chmod(0o755)
    scene.write("closed/deep/new", b"\0made\xff", mode=0o640)
    (scene.folder / "closed").chmod(0o700)
    (scene.folder / "link").symlink_to("text")
    (scene.folder / "file").unlink()
    scene.write("file/in", "a folder now\n")
    return wanted(found_by(tracker).found)


def test_a_rejection_is_undone_byte_for_byte_and_so_is_that(scene):
    asked = changed(scene)
    before = every_byte(scene.folder)
    rejecter = scene.rejecter()
    first = rejecter.reject("s", asked)
    after = every_byte(scene.folder)
    assert before != after
    undone = scene.rejecter().undo(first.act)
    assert (every_byte(scene.folder), undone.stays) == (before, ())
    again = scene.rejecter().undo(undone.act)
    assert every_byte(scene.folder) == after
    assert scene.rejecter().undo(again.act).act.undoes == again.id
    assert every_byte(scene.folder) == before
    log = scene.shadow().acts.all()
    assert [act.kind for act in log] == ["reject", "undo", "undo", "undo"]
    assert [one.number for one in log] == [1, 2, 3, 4]
    assert {one.new for one in undone.act.verdicts} == {"pending"}
    assert {one.new for one in again.act.verdicts} == {"rejected"}


def test_an_earlier_act_is_undone_and_what_came_since_stays(scene):
    for name in ("a", "b"):
        scene.write(name, "".join(f"{n}\n" for n in range(20)))
    tracker = scene.begin()
    for name in ("a", "b"):
        scene.write(name, scene.read(name).replace("3\n", "three\n", 1))
    one, other = wanted(found_by(tracker).found)
    first = scene.rejecter().reject("s", [one])
    scene.rejecter().reject("s", [other])
    text = scene.read(one.path).replace("15\n", "the person's\n")
    scene.write(one.path, text)
    scene.write("theirs", "x\n")
    undone = scene.rejecter().undo(first.act)
    assert undone.files == (one.path,)
    assert scene.read(one.path) == text.replace("3\n", "three\n", 1), "merged"
    assert "three" not in scene.read(other.path)
    assert scene.read("theirs") == "x\n"


def test_what_was_edited_since_and_does_not_merge_stays_and_is_named(scene):
    scene.write("a", "1\n")
    scene.write("b", "1\n")
    tracker = scene.begin()
    scene.write("a", "2\n")
    scene.write("b", "2\n")
    rejected = scene.rejecter().reject("s", wanted(found_by(tracker).found))
    scene.write("a", "the person's\n")
    undone = scene.rejecter().undo(rejected.act)
    assert (scene.read("a"), scene.read("b")) == ("the person's\n", "2\n")
    assert [one.path for one in undone.stays] == ["a"]
    assert [(one.path, one.new) for one in undone.act.verdicts] == [("b", "pending")]


def test_what_is_ignored_by_now_comes_back_with_what_a_person_wrote_there(scene):
    tracker = scene.begin()
    scene.write("build.log", "an agent's\n")
    asked = wanted(found_by(tracker).found)
    scene.write(".gitignore", "*.log\n")
    rejected = scene.rejecter().reject("s", asked)
    assert not (scene.folder / "build.log").exists()
    scene.rejecter().undo(rejected.act)
    assert scene.read("build.log") == "an agent's\n"


def test_what_is_too_large_to_be_kept_is_not_written(scene):
    tracker = scene.begin()
    scene.write("a", "1\n")
    asked = wanted(found_by(tracker).found)
    with scene.write("a", "a person's file that has grown\n").open("r+b") as file:
        file.truncate(FILE_BYTES + 1)
    rejection = scene.rejecter().reject("s", asked)
    assert (rejection.id, rejection.act.verdicts[0].new) == (None, "unmerged")
    assert (scene.folder / "a").stat().st_size == FILE_BYTES + 1


def test_where_nothing_more_can_be_kept_an_act_is_refused_and_nothing_changes(scene):
    scene.write("a", "1\n")
    tracker = scene.begin()
    scene.write("a", "2\n")
    asked = wanted(found_by(tracker).found)
    scene.write("a", "2\n" + os.urandom(200_000).hex())
    before = every_byte(scene.folder)
    with small_files(), pytest.raises((GitFailedError, OSError)):
        scene.rejecter().reject("s", asked)
    assert every_byte(scene.folder) == before
    assert scene.shadow().acts.last() is None


def test_what_the_repository_throws_away_is_kept_here(scene):
    """Git has the person's text by chance, so it would not be stored here without need."""
    scene.write("a", "".join(f"{n}\n" for n in range(20)))
    scene.commit()
    tracker = scene.begin()
    scene.write("a", scene.read("a").replace("3\n", "three\n", 1))
    asked = wanted(found_by(tracker).found)
    mine = scene.read("a").replace("15\n", "the person's\n")
    scene.write("a", mine)
    scene.git("add", "a")
    scene.git("reset", "-q")
    rejected = scene.rejecter().reject("s", asked)
    scene.git("gc", "-q", "--prune=now")
    scene.rejecter().undo(rejected.act)
    assert scene.read("a") == mine


def test_a_merge_is_undone_and_done_again_and_heads_and_indexes_stay(tmp_path):
    grove = Grove(tmp_path)
    before, person = grove.bytes(), grove.everything()
    tree = grove.make()
    inside(tree, "a").write_text(text(n2="the person's\n", n15="w1's\n"))
    inside(tree, "folder/new").write_bytes(b"\0new")
    inside(tree, "b").unlink()
    outcome = grove.settle(tree)
    merged = grove.bytes()
    assert outcome.result == "merged"
    grove.trees().finish(tree.id)
    grove.git("gc", "-q", "--prune=now")
    act = grove.shadow().acts.last()
    assert (act.kind, act.id, act.session) == ("merge", outcome.act, "session")
    rejecter = acting_on(grove)
    undone = rejecter.undo(act)
    assert grove.bytes() == before
    rejecter.undo(undone.act)
    assert grove.bytes() == merged
    assert {**grove.everything(), "refs": None} == {**person, "refs": None}


def acting_on(scene):
    return Rejecter(scene.shadow())


def test_a_restore_says_again_what_was_pending_then(scene):
    """Whatever the files are by now: a rejection in between is taken back with them."""
    scene.write("a", "1\n")
    tracker = scene.begin()
    scene.write("a", "2\n")
    asked = wanted(found_by(tracker).found)
    with_change = scene.take()
    scene.rejecter().reject("s", asked)
    assert [act.kind for act in stored(scene)] == ["reject"]
    without = scene.take()
    states = []
    for snapshot in (with_change, without, without):
        scene.shadow().restore(snapshot.id)
        states.append([(one.old, one.new) for act in stored(scene) for one in act.verdicts])
    assert states == [[("rejected", "pending")], [("pending", "rejected")], []]
    scene.shadow().undo(of=scene.shadow().acts.all()[1])
    assert [one.new for act in stored(scene) for one in act.verdicts] == []
    assert scene.read("a") == "1\n"


@given(st.lists(st.sampled_from(["reject", "undo", "snapshot"]), max_size=12), st.data())
def test_decisions_are_as_of_any_snapshot(steps, data):
    """A model: what a change was when each snapshot was taken is told by `as_of`."""
    acts: list[Act] = []
    state, taken = "pending", {0: "pending"}
    for kind in steps:
        if kind == "snapshot":
            taken[len(taken)] = state
            continue
        new = "rejected" if kind == "reject" else "pending"
        verdict = Verdict("s", "c", "a", state, new)
        acts.append(
            Act(id=f"{len(acts):x}", kind=kind, at=0.0, seen=len(taken) - 1, verdicts=(verdict,))
        )
        state = new
    number = data.draw(st.sampled_from(sorted(taken)[1:] or [0]))
    if number:
        made = as_of(acts, number)
        assert (made[0].new if made else state) == taken[number]


def test_old_acts_are_forgotten_with_what_they_kept(scene):
    scene.write("a", "1\n")
    tracker = scene.begin()
    for number in range(4):
        scene.write("a", f"{number + 2}\n")
        found = found_by(tracker).found
        Rejecter(scene.shadow(), most=2).reject("s", wanted(found))
        stored(scene)
    kept = [act.id for act in scene.shadow().acts.all()]
    assert len(kept) <= 3
    [place] = scene.state.glob("shadows/*/*/roots/main/git")
    refs = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname:lstrip=2)", "refs/acts"],
        env={**os.environ, "GIT_DIR": str(place)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split()
    assert {ref.split("/")[0] for ref in refs} == set(kept)


def test_a_restore_is_undone_by_its_id_though_others_came_since(scene):
    scene.write("a", "1\n")
    taken = scene.take()
    scene.write("a", "2\n")
    first = scene.shadow().restore(taken.id)
    scene.write("a", "3\n")
    scene.shadow().restore(taken.id)
    log = scene.shadow().acts
    assert [act.kind for act in log.all()] == [RESTORE, RESTORE]
    scene.shadow().undo(of=log.find(first.safety.id[:6]))
    assert scene.read("a") == "2\n"
    assert (log.last().kind, log.last().undoes) == (UNDO, first.safety.id)
    scene.shadow().undo()
    assert scene.read("a") == "1\n"


@pytest.mark.parametrize("elsewhere", ["state", "git", "nowhere"])
def test_a_new_file_is_prepared_where_git_does_not_look(tmp_path, monkeypatch, elsewhere):
    """In our own folder, else in git's; where neither is near, the next command removes it."""
    scene = Tracked(tmp_path, repository=elsewhere != "nowhere")
    scene.write("d/a", "1\n")
    tracker = scene.begin()
    scene.write("d/a", "2\n")
    asked = wanted(found_by(tracker).found)
    seen, link = [], os.replace
    here = scene.folder.stat().st_dev

    def as_if_far(self, **more):
        found = stat(self, **more)
        is_far = elsewhere != "state" and str(self).startswith(str(scene.state))
        return os.stat_result((*found[:2], here + is_far, *found[3:10]))

    def dies(self, target):
        seen.append((self, set(names(scene))))
        if os.fspath(target).endswith("d/a"):
            raise KeyboardInterrupt
        return link(self, target)

    stat = Path.stat
    monkeypatch.setattr(Path, "stat", as_if_far)
    monkeypatch.setattr(Path, "replace", dies)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        scene.rejecter().reject("s", asked)
    monkeypatch.undo()
    new, there = seen[-1]
    strays = [name for name in there if ".prsm-" in name]
    if elsewhere == "nowhere":
        assert strays == [f"d/{new.name}"]
        sweep(scene.shadow().place)
        assert not [name for name in names(scene) if ".prsm-" in name]
    else:
        assert strays == []
        assert (".git" in new.parts) is (elsewhere == "git")
        assert scene.git("status", "--porcelain", "-uall").split() == ["??", "d/a"]


@pytest.fixture
def far(tmp_path):
    """A folder on another file system than PRSM's state, and than the other folders of a test."""
    memory = Path("/dev/shm")  # noqa: S108 - a file system of its own
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip(f"{memory} is not there, or on the same file system")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.parametrize("git_lies", ["in it", "elsewhere"])
def test_a_folder_on_another_file_system_is_acted_on_as_any(tmp_path, far, git_lies):
    scene = Tracked(tmp_path, repository=False)
    scene.folder = far
    own = [] if git_lies == "in it" else ["--separate-git-dir", str(tmp_path / "git")]
    scene.git("init", "-q", *own)
    asked = changed(scene)
    before = every_byte(far)
    first = scene.rejecter().reject("s", asked)
    after = every_byte(far)
    assert before != after
    undone = scene.rejecter().undo(first.act)
    assert (every_byte(far), undone.stays) == (before, ())
    scene.rejecter().undo(undone.act)
    assert every_byte(far) == after
    assert not [name for name in names(scene) if ".prsm-" in name]


def test_what_lies_in_a_submodule_is_taken_back_and_brought_back(tmp_path):
    scene, library = Tracked(tmp_path), tmp_path / "library"
    library.mkdir()
    scene.git("init", "-q", at=library)
    (library / "code").write_text("1\n")
    scene.commit(at=library)
    scene.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub"
    )
    scene.commit()
    tracker = scene.begin()
    scene.write("sub/code", "2\n")
    scene.write("sub/new", "made\n")
    asked = wanted(found_by(tracker).found)
    before = every_byte(scene.folder)
    first = scene.rejecter().reject("s", asked)
    assert scene.git("status", "--porcelain", at=scene.folder / "sub") == ""
    undone = scene.rejecter().undo(first.act)
    assert (every_byte(scene.folder), undone.stays) == (before, ())


def names(scene):
    """Return all files of the folder that `git add -A` would see."""
    for folder, folders, files in os.walk(scene.folder):
        folders[:] = [one for one in folders if one != ".git"]
        yield from (os.path.relpath(f"{folder}/{one}", scene.folder) for one in files)
