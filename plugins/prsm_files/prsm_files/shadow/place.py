"""What the repository of a root says of itself, which is only read: HEAD, what is under way."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from prsm_core import ConfigError
from prsm_core.files import find_git_dir
from prsm_core.kit.regular import read_regular
from prsm_files.shadow.files import mode_of, status_if_any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.records import Snapshot

# A file of the git directory that is there as long as something is under way.
_UNDER_WAY = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
MOST = 100  # repositories in a folder


class Repository(Struct, frozen=True):
    """The git directory of a root, and the one that it shares with other worktrees."""

    git_dir: Path
    common_dir: Path

    @property
    def index(self) -> Path:
        """The person's index."""
        return self.git_dir / "index"

    @property
    def objects(self) -> Path:
        """Where its content lies."""
        return self.common_dir / "objects"

    @property
    def index_lock(self) -> Path:
        """What is there while a program writes the person's index."""
        return self.git_dir / "index.lock"

    def read_exclude(self) -> bytes:
        """Return the patterns of what git ignores here alone. Raises OSError."""
        exclude = self.common_dir / "info" / "exclude"
        return read_regular(exclude) if exclude.is_file() else b""

    @property
    def under_way(self) -> str | None:
        """What of git is under way: a merge, rebase, cherry-pick, revert or bisect."""
        found = (kind for name, kind in _UNDER_WAY.items() if (self.git_dir / name).exists())
        return next(found, None)


class Head(NamedTuple):
    """Where HEAD is; there is no commit yet, or no branch where it is detached."""

    commit: str | None
    branch: str | None


def find_repository(root: Path) -> Repository | None:
    """Return the repository of which `root` is the top, None where it is of none."""
    found = find_git_dir(root)
    return None if found is None else Repository(*found)


def is_own(repository: Repository, root: Path, top: Path) -> bool:
    """Return whether a repository is that of `root`, in the folder `top`, and no other folder's.

    One that lies outside is its own where git notes so, or where git keeps submodules of `top`.
    """
    if root == top or repository.git_dir.is_relative_to(top):
        return True
    above = find_repository(top)
    if above is not None and repository.git_dir.is_relative_to(above.common_dir):
        return "modules" in repository.git_dir.relative_to(above.common_dir).parts
    try:
        noted = os.fsdecode(read_regular(repository.git_dir / "gitdir")).rstrip("\n")
    except OSError:
        return False
    return os.path.realpath(noted) == str(root / ".git")


def require_files(root: Path, common_dir: Path) -> None:
    """Raise ConfigError for a bare repository: it has no files."""
    if root == common_dir and (root / "objects").is_dir() and (root / "HEAD").is_file():
        raise ConfigError(
            f"{root} is a bare repository: it has no files to take a snapshot of",
            hint="go to a clone or a worktree of it",
        )


def read_head(git: GitDir) -> Head:
    """Return where HEAD of a person's repository is."""
    commit = git.ask("rev-parse", "--quiet", "--verify", "HEAD^{commit}").out
    ref = os.fsdecode(git.ask("symbolic-ref", "--quiet", "HEAD").out).strip()
    return Head(commit.decode("ascii").strip() or None, ref.removeprefix("refs/heads/") or None)


class RealFolders:
    """Tells, for one look at a root, which folders are folders and not links to some."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._known: dict[str, bool] = {"": True}

    def holds(self, path: str) -> bool:
        """Return whether the folders above a path are real ones."""
        parent = path.rpartition("/")[0]
        known = self._known.get(parent)
        if known is None:
            found = status_if_any(f"{self._root}/{parent}") if self.holds(parent) else None
            known = found is not None and stat.S_ISDIR(found.st_mode)
            self._known[parent] = known
        return known

    def has(self, folder: str) -> bool:
        """Return whether there is a folder, and no link on the way to it."""
        return self.holds(f"{folder}/")

    def is_behind_link(self, path: str) -> bool:
        """Return whether a folder above a path is a link."""
        parent = path.rpartition("/")[0]
        if not parent or self.holds(path):
            return False
        return os.path.islink(f"{self._root}/{parent}") or self.is_behind_link(parent)  # noqa: PTH114

    def mode_of(self, path: str) -> int | None:
        """Return the permissions of a file, None for anything else, and behind a link."""
        return mode_of(f"{self._root}/{path}") if self.holds(path) else None


def submodules(folder: Path, person: GitDir) -> list[str]:
    """Return the paths of submodules, also of ignored ones; none if the index cannot be read."""
    if not (folder / ".gitmodules").is_file():
        return []
    entries = person.ask("ls-files", "-s", "-z").out.split(b"\0")
    return [os.fsdecode(one.partition(b"\t")[2]) for one in entries if one.startswith(b"160000 ")]


def roots_among(folder: Path, paths: Iterable[str]) -> list[str]:
    """Return those paths that are tops of repositories, without the slash at their end."""
    real = RealFolders(folder)
    tops = dict.fromkeys(path.rstrip("/") for path in paths)
    return sorted(
        top for top in tops if real.has(top) and find_repository(Path(folder, top)) is not None
    )


def roots_below(snapshot: Snapshot, path: str) -> list[str]:
    """Return the roots that lie in a root, but not in another one there; from its top."""
    top = f"{path}/" if path else ""
    below = [state.path for state in snapshot.roots if state.path and state.path.startswith(top)]
    return [
        one[len(top) :] for one in below if not any(one.startswith(f"{other}/") for other in below)
    ]
