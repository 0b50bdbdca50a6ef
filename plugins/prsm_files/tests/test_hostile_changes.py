"""Tables of hostile trees and moments: changes are found, and taken back, or stay and say why."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import nullcontext

import pytest
from prsm_files.changes.merging import Wanted
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, stored, wanted
from plugins.prsm_files.tests.shadow_scene import every_byte, small_files, under_way
from plugins.prsm_files.tests.test_hostile_trees import TREES
from prsm_core.errors import PrsmError
from tests.plain_user import as_plain_user

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def scene(tmp_path, monkeypatch):
    scene = Tracked(tmp_path)
    monkeypatch.chdir(scene.folder)  # a socket's path has few characters
    scene.write("first", "1")
    scene.commit()
    return scene


def kinds(folder):
    """Return what there is, with that bit alone of permissions which tells a program."""
    return {
        path: (int(one[0], 8) & 0o100, one[1]) if len(one) == 2 and one[0] != "link" else one
        for path, one in every_byte(folder).items()
    }


def states(rejection):
    return {one.new for one in rejection.act.verdicts}


@pytest.mark.parametrize("tree", TREES)
def test_what_changes_in_a_hostile_tree_is_found_and_taken_back_whole(scene, tree):
    steps = tree(scene)
    next(steps)
    tracker = scene.begin()
    before = kinds(scene.folder)
    assert not list(steps)
    after, person, staged = kinds(scene.folder), scene.person(), scene.staged()
    (scene.home / "ran").unlink(missing_ok=True)
    found = found_by(tracker).found
    differs = {path for path in before | after if before.get(path) != after.get(path)}
    ignored = {path for path in differs if path.endswith(b".o")}
    assert {os.fsencode(one.path) for one in found} == differs - ignored
    rejection = scene.rejecter().reject("s", wanted(found))
    stored(scene)
    stays = {path: after.get(path) for path in ignored}
    if states(rejection) == {"rejected"}:
        assert kinds(scene.folder) == {p: o for p, o in (before | stays).items() if o is not None}
    else:
        assert (tree.__name__, states(rejection)) == ("an_ignored_folder_in_the_way", {"unmerged"})
        assert kinds(scene.folder) == after
    assert found_by(tracker).found == []
    assert not (scene.home / "ran").exists(), "no program of the configuration has run"
    assert (scene.person(), scene.staged()) == (person, staged)


@pytest.mark.parametrize("what", ["merge", "rebase", "bisect", "cherry-pick"])
def test_what_is_under_way_goes_on_after_a_rejection(scene, what):
    under_way(scene, what)
    tracker = scene.begin()
    before, status = every_byte(scene.folder), scene.git("status")
    scene.write("a", "by an agent\n")
    scene.write("new", "by an agent\n")
    rejection = scene.rejecter().reject("s", wanted(found_by(tracker).found))
    assert states(rejection) == {"rejected"}
    assert (every_byte(scene.folder), scene.git("status")) == (before, status)


def a_pipe(scene):
    (scene.folder / "a").unlink()
    os.mkfifo(scene.folder / "a")


def a_socket(scene):
    (scene.folder / "a").unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("a")


def a_repository(scene):
    (scene.folder / "a").unlink()
    (scene.folder / "a").mkdir()
    scene.git("init", "-q", at=scene.folder / "a")


def a_file_over_the_cap(scene):
    with (scene.folder / "a").open("wb") as file:
        file.truncate(100 * 2**20 + 1)  # it takes no room on the disk


def a_link_in_a_circle(scene):
    (scene.folder / "a").unlink()
    (scene.folder / "a").symlink_to("a")


def closed_to_us(scene):
    (scene.folder / "a").chmod(0o000)


def a_read_only_folder(scene):
    scene.folder.chmod(0o555)


BIG = "".join(f"{n}\n" for n in range(20_000))


@pytest.mark.parametrize(
    ("old", "hinder", "why", "within"),
    [
        ("1\n", a_pipe, "something else than a file is there", nullcontext),
        ("1\n", a_socket, "something else than a file is there", nullcontext),
        ("1\n", a_repository, "something else than a file is there", nullcontext),
        ("1\n", a_file_over_the_cap, "it is larger than 100 MiB", nullcontext),
        ("1\n", a_link_in_a_circle, "it is, or was, a link, and is another since", nullcontext),
        ("1\n", closed_to_us, "it cannot be read: Permission denied", nullcontext),
        ("1\n", a_read_only_folder, "it cannot be written: Permission denied", nullcontext),
        (BIG, lambda _: None, "it cannot be written: File too large", small_files),
    ],
)
@as_plain_user
def test_what_hinders_one_file_is_said_and_keeps_no_other_from_being_taken_back(
    tmp_path, monkeypatch, old, hinder, why, within
):
    scene = Tracked(tmp_path)
    monkeypatch.chdir(scene.folder)
    scene.write("a", old)
    scene.write("d/b", "1\n")
    scene.commit()
    tracker = scene.begin()
    scene.write("a", "2\n")
    scene.write("d/b", "2\n")
    found = found_by(tracker).found
    hinder(scene)
    with within():
        rejection = scene.rejecter().reject("s", wanted(found))
    assert {one.change: (one.new, one.why) for one in rejection.act.verdicts} == {
        f"c{n}": ("unmerged", why) if one.path == "a" else ("rejected", "")
        for n, one in enumerate(found)
    }
    assert scene.read("d/b") == "1\n"
    assert {one.name for one in scene.folder.iterdir()} <= {"a", "d", ".git"}
    stored(scene)
    assert not scene.rejecter().is_cut_off


def dies(_):
    raise KeyboardInterrupt


def test_a_rejection_that_was_cut_off_is_over_though_its_files_cannot_be_written_any_more(
    scene, monkeypatch
):
    """Else nobody could decide about anything in that folder again."""
    scene.write("a", BIG)
    tracker = scene.begin()
    scene.write("a", "2\n")
    rejecter = scene.rejecter()
    found = found_by(tracker).found
    monkeypatch.setattr(rejecter, "_carry_out", dies)
    with pytest.raises(KeyboardInterrupt):
        rejecter.reject("s", wanted(found))
    with small_files():
        act = scene.rejecter().unfinished("s")
    assert [(one.new, one.why) for one in act.verdicts] == [
        ("unmerged", "it cannot be written: File too large")
    ]
    assert scene.read("a") == "2\n"


def moved_away(scene):
    scene.folder.rename(scene.folder.with_name("elsewhere"))


def no_repository_any_more(scene):
    shutil.rmtree(scene.folder / ".git")


def a_broken_shadow(scene):
    git = scene.shadow().place / "roots" / "main" / "git"
    for pack in git.glob("objects/??/*"):
        pack.write_bytes(b"")


def index_lock(scene):
    (scene.folder / ".git" / "index.lock").touch()


def no_head(scene):
    (scene.folder / ".git" / "HEAD").write_text("")


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (index_lock, ""),
        (no_head, ""),
        (moved_away, "its repository is gone"),
        (no_repository_any_more, "what was there before is gone"),  # it has another shadow
        (a_broken_shadow, "what it would be is gone from the shadow"),
    ],
)
def test_what_happens_to_a_repository_leaves_files_as_before_or_as_after(scene, harm, why):
    """The index of a person is no part of a rejection: a lock of it keeps nobody away."""
    scene.write("a", "1\n")
    tracker = scene.begin()
    before = every_byte(scene.folder)
    scene.write("a", "2\n")
    after = every_byte(scene.folder)
    found = found_by(tracker).found
    harm(scene)
    [decided] = scene.rejecter().reject("s", wanted(found)).act.verdicts
    assert decided.new == ("unmerged" if why else "rejected")
    assert decided.why.startswith(why)
    if scene.folder.exists():
        assert every_byte(scene.folder) == (after if why else before)


def test_a_bare_repository_has_no_changes_and_that_is_said(tmp_path):
    scene = Tracked(tmp_path, repository=False)
    scene.git("init", "-q", "--bare")
    with pytest.raises(PrsmError, match="bare") as caught:
        scene.begin()
    assert caught.value.hint


def test_changes_are_found_before_the_first_commit(tmp_path):
    scene = Tracked(tmp_path)
    scene.write("a", "1\n")
    scene.git("add", "a")
    tracker = scene.begin()
    scene.write("a", "2\n")
    scene.write("b", "2\n")
    rejection = scene.rejecter().reject("s", wanted(found_by(tracker).found))
    assert states(rejection) == {"rejected"}
    assert scene.read("a") == "1\n"
    assert not (scene.folder / "b").exists()


def test_a_file_that_changes_while_it_is_read_is_looked_at_again(scene):
    """The change is told in one look or in two, and no byte of it is lost."""
    scene.write("a", "1\n")
    tracker = scene.begin()
    run, texts = scene.run, iter(("22\n", "333\n"))

    def meanwhile(args, **more):
        done = run(args, **more)
        if "hash-object" in args and (text := next(texts, None)) is not None:
            scene.write("a", text)
        return done

    scene.run = meanwhile
    tracker.use(scene.shadow())
    scene.write("a", "1\n1\n")
    found = [*found_by(tracker).found, *found_by(tracker).found, *found_by(tracker).found]
    assert [one.before for one in found[1:]] == [one.after for one in found[:-1]]
    with tracker.shadow.at_work():
        held = tracker.shadow.root("").shadow.run("cat-file", "blob", found[-1].after.blob)
    assert held == b"333\n"


def test_two_sessions_in_one_folder_take_turns_and_take_back_their_own(scene):
    scene.write("a", "".join(f"{n}\n" for n in range(20)))
    one, other = scene.tracker("one"), scene.tracker("other")
    one.begin()
    other.begin()
    scene.write("a", scene.read("a").replace("3\n", "three\n", 1))
    mine, theirs = found_by(one).found, found_by(other).found
    assert [one.after for one in mine] == [one.after for one in theirs]
    scene.rejecter().reject("one", wanted(mine))  # and its process dies
    assert states(scene.rejecter().reject("other", wanted(theirs))) == {"rejected"}
    assert [act.session for act in stored(scene, "other")] == ["other"]
    assert [act.session for act in stored(scene, "one")] == ["one"], "it is owed until then"
    assert found_by(one).found == []
    assert found_by(other).found == []


@pytest.mark.parametrize("root", ["..", "/etc", "../../x", ".git"])
def test_no_root_leads_out_of_the_folder(scene, root):
    scene.take()
    (scene.folder.parent / "out").write_text("1")
    asked = Wanted(
        id="c", path=f"{root}/out", root=root, before=None, after=Entry("100644", "0" * 40)
    )
    before = every_byte(scene.folder.parent)
    assert states(scene.rejecter().reject("s", [asked])) == {"unmerged"}
    after = every_byte(scene.folder.parent)
    assert {p: o for p, o in after.items() if not p.startswith(b"state/")} == {
        p: o for p, o in before.items() if not p.startswith(b"state/")
    }
