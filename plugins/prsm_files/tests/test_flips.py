"""Files, folders, links that lead outside and repositories take each other's place, at random.

Whatever is snapshot, restored, undone, found and taken back between: nothing outside changes, and
what a restore replaced comes back whole.
"""

from __future__ import annotations

import random
import shutil
from contextlib import suppress

import pytest

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, stored, wanted
from plugins.prsm_files.tests.shadow_scene import every_byte
from prsm_core.errors import PrsmError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
PLACES = ("a", "a/b", "a/b/c", "r", "r/x", "r/s", "r/s/y", "ignored", "ignored/z")
STEPS = 22


class Flips:
    """One sequence, beside a folder of the person's that has files of the same names."""

    def __init__(self, tmp_path, seed):
        self.random = random.Random(seed)
        self.scene = Tracked(tmp_path)
        self.scene.write(".gitignore", "ignored\n")
        self.scene.write("first", "1")
        self.scene.commit()
        self.outside = tmp_path / "outside"
        for path in ("x", "b/c", "s/y"):
            (self.outside / path).parent.mkdir(parents=True, exist_ok=True)
            (self.outside / path).write_text("1")
        self.theirs = every_byte(self.outside)
        self.tracker = self.scene.begin()
        self.taken, self.found = [], []
        self.done = 0

    def step(self):
        acts = [self.file] * 4 + [self.link] * 3 + [self.repository, self.take, self.back] * 2
        act = self.random.choice([*acts, self.folder, self.ignore, self.scan, self.reject])
        with suppress(PrsmError):  # a restore that would lose something says so, and does nothing
            act()
            self.done += 1
        assert every_byte(self.outside) == self.theirs

    def place(self):
        """Return a place at which nothing is, and above it no file and no link."""
        folder = self.scene.folder
        path = folder / self.random.choice(PLACES)
        for place in [*(folder / one for one in path.relative_to(folder).parents)][-2::-1]:
            if place.is_symlink() or place.is_file():
                place.unlink()
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def file(self):
        path = self.place()
        path.write_text(self.random.choice("123"))
        path.chmod(self.random.choice((0o644, 0o600, 0o755)))

    def link(self):
        there = (str(self.outside), "../outside", "first", "nowhere", str(self.outside / "x"))
        self.place().symlink_to(self.random.choice(there))

    def folder(self):
        self.place().mkdir()

    def repository(self):
        path = self.place()
        path.mkdir()
        (path / "x").write_text(self.random.choice("123"))
        self.scene.git("init", "-q", at=path)
        if self.random.random() < 0.5:
            self.scene.commit(at=path)

    def ignore(self):
        text = self.random.choice(("/r\n", "/a\n", ""))
        (self.scene.folder / ".git" / "info" / "exclude").write_text(text)

    def take(self):
        self.taken.append(self.scene.take())
        self.scene.shadow().secure()

    def back(self):
        if self.taken:
            before = every_byte(self.scene.folder)
            self.scene.shadow().restore(self.random.choice(self.taken).id)
            if self.random.random() < 0.6:
                self.scene.shadow().undo()
                after = every_byte(self.scene.folder)
                assert {path: after.get(path) for path in before} == before

    def scan(self):
        self.found += found_by(self.tracker).found

    def reject(self):
        if self.found:
            some = self.random.sample(self.found, min(3, len(self.found)))
            self.scene.rejecter().reject("s", wanted(some))
            stored(self.scene)


def played(tmp_path, seed):
    flips = Flips(tmp_path, seed)
    for _ in range(STEPS):
        flips.step()
    assert flips.done > STEPS // 2


@pytest.mark.parametrize("seed", [0, 138, 203, 226])
def test_nothing_outside_changes_whatever_takes_whose_place(tmp_path, seed):
    played(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 250))
def test_nothing_outside_ever_changes(tmp_path, seed):
    played(tmp_path, seed)
