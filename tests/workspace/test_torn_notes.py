"""What PRSM notes beside a shadow is written whole, and what is torn all the same does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workspace.shadow_scene import Scene, every_byte

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
