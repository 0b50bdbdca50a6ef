"""What PRSM notes beside a shadow is written whole, and what is torn all the same does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from prsm_files.changes.acting import Acting
from prsm_files.commits import Committer

from plugins.prsm_files.tests.shadow_scene import Scene, every_byte
from prsm_core.errors import ConfigError

NOTES = ("young.json", "modes.json", "forced.json", "borrowed", "secured.json", "git/info/exclude")


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    scene.write(".gitignore", "ignored\n")
    scene.write("a", "a\n", mode=0o640)
    scene.write("b", "b\n", mode=0o755)
    scene.commit()
    return scene


def place_of(scene):
    [place] = scene.state.glob("shadows/*/*/roots/main")
    return place


@pytest.mark.parametrize("name", ["intent.json", "owed.json"])
@pytest.mark.parametrize("left", [b"", b"\0\0", b"[]"], ids=["empty", "zeros", "another"])
def test_a_note_of_what_is_to_be_done_that_is_damaged_is_told_with_its_cure(scene, name, left):
    taken = scene.take()
    note = scene.shadow().place / name
    note.write_bytes(left)
    scene.write("a", "other\n")
    shadow = scene.shadow()
    reads = {"intent.json": shadow.take, "owed.json": shadow.journal.owed}
    with pytest.raises(ConfigError, match=f"what {name} says .* cannot be read") as caught:
        reads[name]()
    assert "then delete that file" in str(caught.value.hint)
    note.unlink(missing_ok=True)
    scene.shadow().restore(taken.id)
    assert scene.read("a") == "a\n"


def test_so_it_is_for_an_act_and_for_commits(scene):
    shadow = scene.shadow()
    shadow.take()
    acting, committer = Acting(shadow), Committer(shadow)
    for owner, finish in ((acting, acting.recover), (committer, committer.unfinished)):
        owner._intent.write_bytes(b"\0")
        with pytest.raises(ConfigError, match="cannot be read"):
            finish()


@pytest.mark.parametrize("left", [b"", b"[]", b'{"id": 1}'], ids=["empty", "another", "odd"])
def test_an_act_that_is_damaged_is_told_with_its_cure(scene, left):
    taken = scene.take()
    scene.write("a", "other\n")
    scene.shadow().restore(taken.id)
    [note] = (scene.shadow().place / "acts").iterdir()
    note.write_bytes(left)
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        scene.shadow().undo()
    assert "delete that file" in str(caught.value.hint)
    note.unlink()
    with pytest.raises(ConfigError) as nothing:
        scene.shadow().undo()
    assert nothing.value.code == "nothing_to_undo"


def test_where_files_were_borrowed_from_is_not_believed_if_it_is_damaged(scene):
    scene.take()
    (place_of(scene) / "borrowed").write_bytes(b"\xff\0")
    before, taken = every_byte(scene.folder), scene.take()
    assert (place_of(scene) / "borrowed").read_text() == scene.git("rev-parse", "HEAD")
    scene.write("a", "other\n")
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before


@pytest.mark.parametrize("said", ["no JSON", "[]", '{"id": "abcd"}', '{"roots": 5}'])
def test_a_snapshot_that_says_nothing_of_use_is_left_out_and_told(scene, said):
    taken = scene.take()
    shadow = scene.shadow()
    with shadow.at_work():
        git = shadow.root("").shadow
        commit = git.word("commit-tree", taken.main.tree, stdin=said.encode())
        git.run("update-ref", "refs/prsm/abcd", commit)
    assert [one.id for one in shadow.snapshots()] == [taken.id]
    assert shadow.notes == ["snapshot abcd is damaged, and is left out"]


@pytest.mark.parametrize("left", [b"", b'["a'], ids=["empty", "half"])
@pytest.mark.parametrize("name", NOTES)
def test_a_note_that_is_torn_keeps_nobody_from_snapshots(scene, name, left):
    before, taken = every_byte(scene.folder), scene.take()
    note = place_of(scene) / name
    note.write_bytes(left if name != "borrowed" else b"")
    scene.write("a", "other\n", mode=0o600)
    second, then = scene.take(), every_byte(scene.folder)
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before
    scene.shadow().restore(second.id)
    assert every_byte(scene.folder) == then


def test_notes_are_never_opened_to_be_written_over(scene, monkeypatch):
    """A process that dies once one is open, and empty, would leave it so."""
    written = set()

    def noting(real):
        def noted(self, *args, **more):
            written.add(self.name)
            return real(self, *args, **more)

        return noted

    for name in ("write_bytes", "write_text"):
        monkeypatch.setattr(Path, name, noting(getattr(Path, name)))
    scene.shadow().take()
    (scene.folder / "a").chmod(0o600)
    scene.shadow().take()
    assert {"young.json.new", "modes.json.new"} <= written
    assert not {Path(name).name for name in NOTES} & written
