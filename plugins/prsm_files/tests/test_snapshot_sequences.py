"""Random sequences of what people, agents and snapshots do end exact: each byte, mode, and HEAD."""

from __future__ import annotations

import random
import shutil

import pytest

from plugins.prsm_files.tests.shadow_scene import Scene, every_byte

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
pytestmark = needs_git
NAMES = ("a", "b", "dir/c", "dir/d", "dir/sub/e", "f g", "ü", "x.log", "out/y", "dir", "a/z")
IGNORED = ("x.log", "out/", "dir/i.log")
STEPS = 14


class Play:
    """One sequence, and what is known of each snapshot."""

    make_scene = Scene

    def __init__(self, tmp_path, seed):
        self.random = random.Random(seed)
        self.scene = self.make_scene(tmp_path)
        self.scene.write(".gitignore", "*.log\nout/\n")
        self.scene.write("a", "first")
        self.scene.commit()
        self.known = {}
        self.is_fresh = False  # the last step was a restore
        self.lost = {}  # ignored files that a restore had to take away
        self.before = None  # what the last restore has replaced

    def seen(self):
        return every_byte(self.scene.folder, without=IGNORED)

    def ignored(self):
        every = every_byte(self.scene.folder)
        mine = {path: what for path, what in every.items() if path.endswith(b".log")}
        return mine | {path: what for path, what in every.items() if path.startswith(b"out/")}

    def moment(self):
        scene = self.scene
        return self.seen(), scene.git("rev-parse", "HEAD"), scene.staged()

    def acts(self):
        acts = [self.edit] * 6 + [self.chmod, self.link, self.rename, self.remove] * 2
        acts += [self.commit, self.stage, self.stage, self.stash, self.touch_ignored]
        return [*acts, self.snapshot, self.snapshot, self.restore, self.restore, self.undo]

    def step(self):
        act = self.random.choice(self.acts())
        act()
        self.is_fresh = act == self.restore

    def files(self):
        return [p for p in every_byte(self.scene.folder) if not p.startswith(b".git")]

    def a_file(self):
        files = sorted(self.files())
        return self.scene.folder / self.random.choice(files).decode() if files else None

    def clear(self, path):
        """Make room for a file: nothing is at its place, and no file above it."""
        for above in [*path.relative_to(self.scene.folder).parents][-2::-1]:
            place = self.scene.folder / above
            if place.is_symlink() or place.is_file():
                place.unlink()
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)

    def edit(self):
        path = self.scene.folder / self.random.choice(NAMES)
        data = self.random.choice((b"", b"one\r\n", b"two\n", b"\0\xff" * 9, b"$Id$\n"))
        if path.is_symlink() or not path.is_file():
            self.clear(path)
        path.write_bytes(data + bytes([self.random.randrange(256)]))

    def chmod(self):
        path = self.a_file()
        if path is not None and not path.is_symlink():
            path.chmod(self.random.choice((0o644, 0o755, 0o600, 0o444, 0o700)))

    def link(self):
        path = self.scene.folder / self.random.choice(NAMES)
        self.clear(path)
        path.symlink_to(self.random.choice(("a", "nowhere", "../..", path.name, "dir")))

    def rename(self):
        path = self.a_file()
        if path is not None:
            to = self.scene.folder / self.random.choice(NAMES)
            if to not in (path, *path.parents) and path not in to.parents:
                self.clear(to)
                if path.is_symlink() or path.exists():
                    path.rename(to)

    def remove(self):
        path = self.a_file()
        if path is not None:
            path.unlink()

    def commit(self):
        self.scene.commit()

    def stage(self):
        path = self.a_file()
        if path is not None:
            self.scene.git("add", "-A", str(path), check=False)

    def stash(self):
        self.scene.git("stash", "-q", check=False)

    def touch_ignored(self):
        folder = self.scene.folder
        self.clear(folder / "out/y")
        (folder / "out/y").write_bytes(self.random.randbytes(3))
        self.clear(folder / "dir/i.log")
        (folder / "dir/i.log").write_bytes(self.random.randbytes(3))

    def snapshot(self):
        moment = self.moment()
        self.known[self.scene.take().id] = moment

    def restore(self):
        if self.known:
            wanted = self.random.choice(sorted(self.known))
            self.go(lambda: self.scene.shadow().restore(wanted), self.known[wanted])

    def undo(self):
        if self.before is not None:
            lost = dict(self.lost) if self.is_fresh else {}
            self.go(self.scene.shadow().undo, self.before)
            assert lost.items() <= self.ignored().items(), "an undo brings them back"

    def go(self, work, expected):
        before, person, ignored = self.moment(), self.scene.person(), self.ignored()
        restored = work()
        files, head, staged = expected
        assert self.seen() == files
        assert not restored.differs
        assert self.scene.person() == person
        now = self.ignored()
        kept = {path: what for path, what in ignored.items() if path in now}
        assert {path: now[path] for path in kept} == kept
        if before[1] == head:
            assert self.scene.staged() == staged
        else:
            assert self.scene.staged() == before[2]
        self.before = before
        for lost in ignored.keys() - now.keys():  # a file of the snapshot is where its folder was
            assert any(lost.startswith(path + b"/") for path in files)
        self.lost = {path: what for path, what in ignored.items() if path not in now}


def play(tmp_path, seed):
    it = Play(tmp_path, seed)
    it.snapshot()
    for _ in range(STEPS):
        it.step()
    it.restore()
    it.undo()


@pytest.mark.parametrize("seed", range(12))
def test_a_sequence_ends_exact(tmp_path, seed):
    play(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_three_hundred_sequences_end_exact(tmp_path, seed):
    play(tmp_path, seed)
