"""What git throws away once history was rewritten, snapshots have by then: on real git."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugins.prsm_files.tests.shadow_scene import Scene, every_byte
from prsm_core.errors import PrsmError


@pytest.fixture
def scene(tmp_path):
    return first_commit(Scene(tmp_path))


def first_commit(scene):
    for number in range(3):
        scene.write(f"d{number}/f{number}", f"{number}\n")
        scene.write(f"d{number}/deep/g{number}", f"deep {number}\n")
    scene.commit("first")
    return scene


def throw_away(scene):
    """Have git throw away at once what it would throw away one day."""
    scene.git("reflog", "expire", "--expire=now", "--all")
    scene.git("gc", "-q", "--prune=now")


def amend(scene, path="d0/f0", data="another\n"):
    scene.write(path, data)
    scene.git("add", "-A")
    scene.git("commit", "-q", "--amend", "-m", "amended")


def restored(scene, snapshot):
    scene.shadow().restore(snapshot.id)
    return every_byte(scene.folder)


def ran(scene, work):
    """Return which commands of git some work has run."""
    before = len(scene.run.calls)
    work()
    return {word for call in scene.run.calls[before:] for word in call if word[0] not in "-/"}


def test_a_snapshot_outlives_an_amended_commit_that_git_throws_away(scene):
    before, taken = every_byte(scene.folder), scene.take()
    amend(scene)
    assert scene.shadow().secure() > 0
    throw_away(scene)
    assert restored(scene, taken) == before


def test_without_it_the_snapshot_is_lost(scene):
    """So the test above is about something."""
    taken = scene.take()
    amend(scene)
    throw_away(scene)
    with pytest.raises(PrsmError, match="git gc"):
        scene.shadow().restore(taken.id)


def test_a_snapshot_outlives_a_branch_that_was_deleted(scene):
    scene.git("checkout", "-q", "-b", "other")
    scene.write("d1/f1", "of the branch\n")
    scene.commit("on a branch")
    before, taken = every_byte(scene.folder), scene.take()
    scene.git("checkout", "-q", "main")
    assert scene.shadow().secure() == 0, "a branch leads to it"
    scene.git("branch", "-q", "-D", "other")
    assert scene.shadow().secure() > 0
    throw_away(scene)
    assert restored(scene, taken) == before


def test_folders_that_were_committed_after_the_first_snapshot_are_taken_in_too(scene):
    """Their files are stored by the shadow, but git lends it the folders."""
    scene.take()
    scene.write("d2/deep/g2", "later\n")
    scene.commit("second")
    before, taken = every_byte(scene.folder), scene.take()
    scene.git("reset", "-q", "--hard", "HEAD~1")
    scene.shadow().secure()
    throw_away(scene)
    assert restored(scene, taken) == before


def test_of_what_is_still_there_nothing_is_copied(scene):
    for number in range(40):
        scene.write(f"many/{number}", f"{number}\n" * 100)
    scene.commit("many")
    taken = scene.take()
    amend(scene)
    assert 0 < scene.shadow().secure() < 12, "one file and the folders around it"
    throw_away(scene)
    assert len(restored(scene, taken)) > 40


def test_it_is_done_once_and_again_for_new_snapshots_and_new_losses(scene):
    before, taken = every_byte(scene.folder), scene.take()
    amend(scene)
    assert scene.shadow().secure() > 0
    assert "pack-objects" not in ran(scene, lambda: scene.shadow().secure())
    then, second = every_byte(scene.folder), scene.take()
    assert scene.shadow().secure() == 0
    amend(scene, data="a third\n")
    assert scene.shadow().secure() > 0
    throw_away(scene)
    assert restored(scene, taken) == before
    assert restored(scene, second) == then


def test_where_nothing_was_rewritten_history_is_looked_at_and_no_more(scene):
    scene.take()
    scene.write("d0/f0", "next\n")
    scene.commit("second")
    scene.take()
    found = ran(scene, lambda: scene.shadow().secure())
    assert "rev-list" in found
    assert "pack-objects" not in found


def test_a_folder_without_a_repository_or_snapshots_borrows_nothing(tmp_path):
    bare = Scene(tmp_path, repository=False)
    bare.write("a")
    assert bare.shadow().secure() == 0
    bare.take()
    assert bare.shadow().secure() == 0


def test_a_repository_in_the_folder_is_secured_by_itself(scene):
    inner = scene.folder / "inner"
    inner.mkdir()
    scene.git("init", "-q", at=inner)
    scene.write("inner/a", "inside\n")
    scene.commit("inside", at=inner)
    before, taken = every_byte(scene.folder, without={".git"}), scene.take()
    scene.write("inner/a", "other\n")
    scene.git("commit", "-q", "-a", "--amend", "-m", "amended", at=inner)
    assert scene.shadow().secure() > 0
    scene.git("reflog", "expire", "--expire=now", "--all", at=inner)
    scene.git("gc", "-q", "--prune=now", at=inner)
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder, without={".git"}) == before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"lost": 3, "snapshots": []}', "null"])
def test_a_note_that_cannot_be_read_is_none(scene, damage):
    before, taken = every_byte(scene.folder), scene.take()
    amend(scene)
    [place] = scene.state.glob("shadows/*/*/roots/main")
    (place / "secured.json").write_text(damage)
    assert scene.shadow().secure() > 0
    assert json.loads((place / "secured.json").read_text())["snapshots"] == [taken.id]
    throw_away(scene)
    assert restored(scene, taken) == before


def test_a_ref_that_leads_nowhere_keeps_nothing_from_being_taken_in(scene):
    before, taken = every_byte(scene.folder), scene.take()
    amend(scene)
    (scene.folder / ".git/refs/heads/broken").write_text("1" * 40 + "\n")
    assert scene.shadow().secure() > 0
    (scene.folder / ".git/refs/heads/broken").unlink()
    throw_away(scene)
    assert restored(scene, taken) == before


ACTS = st.lists(
    st.sampled_from(["write", "commit", "amend", "branch", "back", "reset", "snapshot"]),
    max_size=8,
)


def outlived(folder, acts, data):
    """Take snapshots while history is rewritten at random; restore all of them at the end."""
    scene = first_commit(Scene(folder))
    kept = [(scene.take(), every_byte(scene.folder, without={".git"}))]
    for number, act in enumerate([*acts, "snapshot"]):
        path = data.draw(st.sampled_from(["d0/f0", "d1/deep/g1", "new"]))
        if act == "write":
            scene.write(path, f"{number}\n")
        elif act == "commit":
            scene.commit(f"c{number}")
        elif act == "amend":
            amend(scene, path, f"amended {number}\n")
        elif act == "branch":
            scene.git("checkout", "-q", "-B", f"b{number}")
        elif act == "back":
            scene.git("checkout", "-q", "-f", "main")
            names = scene.git("for-each-ref", "--format=%(refname:short)", "refs/heads/b*")
            for name in names.split():
                scene.git("branch", "-q", "-D", name)
        elif act == "reset":
            scene.git("reset", "-q", "--hard", "HEAD~1", check=False)
        else:
            kept.append((scene.take(), every_byte(scene.folder, without={".git"})))
        scene.shadow().secure()
    throw_away(scene)
    for snapshot, content in kept:
        scene.shadow().restore(snapshot.id)
        assert every_byte(scene.folder, without={".git"}) == content


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTS, st.data())
def test_whatever_happens_to_history_each_snapshot_outlives_it(tmp_path_factory, acts, data):
    outlived(tmp_path_factory.mktemp("securing"), acts, data)


@pytest.mark.long
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTS, st.data())
def test_a_hundred_histories_are_outlived(tmp_path_factory, acts, data):
    outlived(tmp_path_factory.mktemp("securing"), acts, data)
