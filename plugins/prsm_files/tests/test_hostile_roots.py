"""Repositories inside a folder that go, come and become links: nothing outside is ever touched."""

from __future__ import annotations

import shutil

import pytest
from prsm_files.changes.merging import Wanted
from prsm_files.shadow.exchange import export_folder, import_folder
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.changes_scene import begun, found_by, wanted
from plugins.prsm_files.tests.shadow_scene import every_byte
from prsm_core.errors import PrsmError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def scene(tmp_path):
    return begun(tmp_path)


@pytest.fixture
def outside(tmp_path):
    """A folder of the person's that no agent may write to."""
    folder = tmp_path / "outside"
    (folder / "own").mkdir(parents=True)
    (folder / "x").write_text("mine")
    (folder / "y").write_text("mine, too")
    (folder / "own" / "x").write_text("mine as well")
    return folder


def make_repository(scene, path, *, is_committed=True):
    """Make a repository in the folder, with one file."""
    scene.write(f"{path}/x", "of the snapshot")
    scene.git("init", "-q", at=scene.folder / path)
    if is_committed:
        scene.commit(at=scene.folder / path)


def put_link(scene, path, leads_to):
    """Let a link be where a folder was."""
    shutil.rmtree(scene.folder / path)
    (scene.folder / path).symlink_to(leads_to)


def ignore(scene, pattern):
    (scene.folder / ".git" / "info" / "exclude").write_text(f"{pattern}\n")


@pytest.mark.parametrize("is_ignored", [True, False])
@pytest.mark.parametrize(("path", "link"), [("sub", "sub"), ("deep/own", "deep")])
def test_a_restore_never_goes_through_a_link_that_is_where_a_repository_was(
    scene, outside, path, link, is_ignored
):
    make_repository(scene, path, is_committed=False)
    taken = scene.take()
    before, theirs = every_byte(scene.folder), every_byte(outside)
    put_link(scene, link, outside)
    if is_ignored:
        ignore(scene, f"/{link}")
    after = every_byte(scene.folder)
    scene.shadow().restore(taken.id)
    assert every_byte(outside) == theirs
    assert every_byte(scene.folder) == before
    scene.shadow().undo()
    assert every_byte(outside) == theirs
    assert every_byte(scene.folder) == after


def test_an_ignored_file_where_a_repository_was_is_kept_and_comes_back(scene):
    make_repository(scene, "sub", is_committed=False)
    taken = scene.take()
    shutil.rmtree(scene.folder / "sub")
    scene.write("sub", "a file")
    ignore(scene, "/sub")
    after = every_byte(scene.folder)
    scene.shadow().restore(taken.id)
    assert scene.read("sub/x") == "of the snapshot"
    scene.shadow().undo()
    assert every_byte(scene.folder) == after


def test_a_change_is_not_taken_back_through_a_link(scene, outside):
    """An agent makes a file like the person's own, and a link to that, to have another there."""
    make_repository(scene, "sub")
    tracker = scene.begin()
    scene.write("sub/x", "what the agent wants there")
    found_by(tracker)
    scene.write("sub/x", "mine")
    found = found_by(tracker).found
    theirs = every_byte(outside)
    put_link(scene, "sub", outside)
    [made] = scene.rejecter().reject("s", wanted(found)).act.verdicts
    assert (made.new, made.why) == ("unmerged", "its repository is gone")
    assert every_byte(outside) == theirs


@pytest.mark.parametrize("is_new", [True, False])
def test_changes_are_not_looked_for_behind_a_link(scene, outside, is_new):
    make_repository(scene, "sub")
    tracker = scene.begin()
    put_link(scene, "sub", outside)
    if is_new:  # another engine goes on
        tracker = scene.tracker()
        tracker.go_on(lambda _: False)
    tracker.observe(["sub/x"])
    scan = found_by(tracker)
    assert [(one.path, one.kind) for one in scan.found] == [("sub", "added")]
    assert is_new or "sub is gone" in scan.notes[0]
    tracker.use(scene.shadow())
    assert found_by(tracker).found == []


def test_permissions_behind_a_link_are_nobodys(scene, outside):
    scene.write("d/x", "1", 0o600)
    scene.take()
    (outside / "x").chmod(0o600)
    put_link(scene, "d", outside)
    taken = scene.take()
    (outside / "x").chmod(0o640)
    scene.write("first", "2")
    scene.take()
    theirs = every_byte(outside)
    assert scene.shadow().restore(taken.id).plan.files() == [("modified", "first")]
    assert every_byte(outside) == theirs


def test_a_snapshot_is_not_taken_in_through_a_link(scene, outside, tmp_path):
    make_repository(scene, "sub")
    taken = scene.take()
    shadow = scene.shadow()
    made = tmp_path / "made"
    export_folder(shadow, taken.id, made)
    (outside / ".git").mkdir()
    put_link(scene, "sub", outside)
    theirs = every_byte(outside)
    with pytest.raises(PrsmError, match="a link is in its place"):
        import_folder(shadow, made)
    with pytest.raises(PrsmError, match="a link is in its place"):
        export_folder(shadow, taken.id, tmp_path / "again")
    assert every_byte(outside) == theirs


@pytest.mark.parametrize("is_link", [True, False])
def test_of_a_repository_that_is_gone_snapshots_are_packed_secured_dropped_and_deleted(
    scene, outside, is_link
):
    make_repository(scene, "sub", is_committed=False)
    first, second = scene.take(), scene.take(kind="run")
    [store] = [one for one in scene.state.glob("shadows/*/*/roots/*") if one.name != "main"]
    assert {one.name for one in store.glob("git/refs/prsm/*")} == {first.id, second.id}
    put_link(scene, "sub", outside)
    if not is_link:
        (scene.folder / "sub").unlink()
    shadow = scene.shadow()
    shadow.pack()
    shadow.secure()
    shadow.delete(first.id)
    assert [one.name for one in store.glob("git/refs/prsm/*")] == [second.id]
    assert shadow.notes == []
    shadow.restore(second.id)
    assert scene.read("sub/x") == "of the snapshot"


def test_a_submodule_that_was_removed_comes_back(scene, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    scene.git("init", "-q", at=other)
    (other / "lib").write_text("1")
    scene.commit(at=other)
    scene.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    scene.commit()
    taken, before = scene.take(), every_byte(scene.folder)
    scene.git("rm", "-q", "-f", "sub")  # its repository stays in .git/modules
    after = every_byte(scene.folder)
    restored = scene.shadow().restore(taken.id)
    assert restored.plan.notes == ("sub was a repository; its files come back, its .git does not",)
    assert every_byte(scene.folder) == before
    scene.shadow().undo()
    assert every_byte(scene.folder) == after


@pytest.mark.parametrize("root", ["sub", "sub/.", "sub/..", "sub/../../outside"])
def test_no_root_of_a_change_leads_through_a_link(scene, outside, root):
    scene.take()
    (scene.folder / "sub").symlink_to(outside)
    theirs = every_byte(outside)
    blob = scene.git("hash-object", str(outside / "x"))
    asked = Wanted(id="c", path=f"{root}/x", root=root, before=None, after=Entry("100644", blob))
    [made] = scene.rejecter().reject("s", [asked]).act.verdicts
    assert made.new == "unmerged"
    assert every_byte(outside) == theirs
    assert (scene.folder / "sub").is_symlink()


def test_a_link_over_what_a_restore_has_written_loses_no_change(scene, outside):
    scene.write("d/x", "1")
    scene.commit()
    taken = scene.take()
    scene.write("d/x", "2")
    tracker = scene.begin()
    scene.shadow().restore(taken.id)
    put_link(scene, "d", outside)
    scan = found_by(tracker)
    assert {(one.path, one.kind) for one in scan.found} == {("d", "added"), ("d/x", "deleted")}
    assert scan.notes == ()


def test_changes_are_found_though_a_repository_goes_that_a_restore_has_just_written(scene):
    make_repository(scene, "sub")
    scene.write("sub/x", "changed")
    taken, tracker = scene.take(), scene.begin()
    scene.write("sub/x", "changed again")
    scene.shadow().restore(taken.id)
    shutil.rmtree(scene.folder / "sub")
    scene.write("first", "2")
    scan = found_by(tracker)
    assert [one.path for one in scan.found] == ["first"]
    assert "sub is gone" in scan.notes[0]


def test_ignored_files_where_a_repository_was_are_kept_and_come_back(scene):
    make_repository(scene, "sub", is_committed=False)
    taken = scene.take()
    shutil.rmtree(scene.folder / "sub")
    scene.write("sub/x", "another")
    scene.write("sub/new", "nobody else has it")
    ignore(scene, "/sub")
    after = every_byte(scene.folder)
    scene.shadow().restore(taken.id)
    assert scene.read("sub/x") == "of the snapshot"
    scene.shadow().undo()
    assert every_byte(scene.folder) == after


def test_a_repository_that_is_ignored_since_is_kept_before_it_is_written_over(scene):
    make_repository(scene, "sub", is_committed=False)
    taken = scene.take()
    scene.write("sub/x", "another")
    scene.write("sub/new", "nobody else has it")
    ignore(scene, "/sub")
    after = every_byte(scene.folder)
    restored = scene.shadow().restore(taken.id)
    assert [state.path for state in restored.safety.roots] == ["", "sub"]
    assert scene.read("sub/x") == "of the snapshot"
    scene.shadow().undo()
    assert every_byte(scene.folder) == after
