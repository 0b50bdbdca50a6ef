"""What the tests of snapshots share: a folder, git run directly, and a look at every byte."""

from __future__ import annotations

import itertools
import os
import resource
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path

from prsm_files.shadow.git import Output
from prsm_files.shadow.records import About
from prsm_files.shadow.root import Limits
from prsm_files.shadow.worktree import Shadow

CONFIG = "[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n[core]\nsafecrlf = false\n"


class DirectGit:
    """The port, on real git, without a helper between; it notes what was run."""

    def __init__(self):
        self.calls = []

    def __call__(self, args, *, cwd, env, stdin=b""):
        self.calls.append(list(args))
        done = subprocess.run(
            [b"git", *map(os.fsencode, args)],
            cwd=cwd,
            env={"PATH": os.environ["PATH"], **env},
            input=stdin,
            capture_output=True,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)


class FailingGit(DirectGit):
    """Fails the n-th checkout as git does on a full disk, with half of the files written."""

    def __init__(self, scene):
        super().__init__()
        self.scene = scene
        self.fails = 1

    def __call__(self, args, **more):
        if "read-tree" in args and self.fails:
            self.fails -= 1
            self.scene.write("d0/f0", "half")
            (self.scene.folder / "d1/f1").unlink(missing_ok=True)
            raise OSError(28, "No space left on device")
        return super().__call__(args, **more)


class Scene:
    """A folder below `tmp_path`, with a person's own home, and its shadow."""

    def __init__(self, tmp_path, *, repository=True, limits=None):
        self.home = tmp_path / "home"
        self.home.mkdir()
        (self.home / ".gitconfig").write_text(CONFIG)
        self.folder = tmp_path / "work"
        self.folder.mkdir()
        self.state = tmp_path / "state"
        self.limits = limits or Limits()
        self.run = DirectGit()
        self.start_numbers(1)
        if repository:
            self.git("init", "-q")

    def start_numbers(self, first):
        """Let the time of snapshots go on from here."""
        self._numbers = itertools.count(first)

    @property
    def environ(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def git(self, *args, at=None, check=True):
        """Run git as the person does."""
        done = subprocess.run(
            ["git", *args],
            cwd=at or self.folder,
            env=self.environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr.decode()
        return os.fsdecode(done.stdout).strip()

    def commit(self, message="c", at=None):
        self.git("add", "-A", at=at)
        self.git("commit", "-q", "--allow-empty", "-m", message, at=at)

    def shadow(self, folder=None, git=None):
        return Shadow(
            git or self.run,
            Path(folder or self.folder),
            self.state,
            environ=self.environ,
            now=lambda: float(next(self._numbers)),
            new_id=lambda: os.urandom(4).hex(),
            limits=self.limits,
        )

    def take(self, **about):
        return self.shadow().take(About(**about))

    def write(self, path, data="x", mode=None):
        """Write a file of the folder, and the folders above it."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
        if mode is not None:
            file.chmod(mode)
        return file

    def read(self, path):
        return (self.folder / path).read_text()

    def person(self):
        """Return all of the person's git that no snapshot may change."""
        where = {"HEAD": self.git("rev-parse", "-q", "--verify", "HEAD", check=False)}
        where["branch"] = self.git("symbolic-ref", "-q", "HEAD", check=False)
        where["refs"] = self.git("for-each-ref")
        where["config"] = (self.folder / ".git" / "config").read_bytes()
        return where

    def staged(self, at=None):
        """Return what the index holds."""
        return self.git("ls-files", "-s", "-v", at=at)


def under_way(scene, what):
    """Let a merge, rebase, bisect or cherry-pick be under way, the file `a` in conflict."""
    scene.write("a", "1\n")
    scene.commit()
    if what == "bisect":
        scene.commit("second")
        scene.git("bisect", "start", "HEAD", "HEAD~1")
        return
    scene.git("checkout", "-q", "-b", "other")
    scene.write("a", "2\n")
    scene.commit()
    scene.git("checkout", "-q", "main")
    scene.write("a", "3\n")
    scene.commit()
    scene.git(what, "other", check=False)


@contextmanager
def small_files():
    """Let no file grow over 64 KiB: as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def every_byte(folder, *, without=()):
    """Return kind, permissions and content of each file, but those of git directories."""
    top = os.fsencode(folder)
    found = {}
    for path in _files(top):
        short = os.path.relpath(path, top)
        if not any(short.startswith(os.fsencode(name)) for name in without):
            found[short] = _one(path)
    return found


def _files(folder):
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.name == b".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry.path


def _one(path):
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return ("link", os.readlink(path))  # noqa: PTH115 - as it is written
    if not stat.S_ISREG(mode):
        return (stat.S_IFMT(mode),)
    return (oct(stat.S_IMODE(mode)), Path(os.fsdecode(path)).read_bytes())
