"""Tells which repository a folder belongs to; all worktrees of one share its identity."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from prsm_core.domain.record import Record

_POINTER_LIMIT = 64 * 1024  # bytes of a `.git` or `commondir` file; real ones hold one path


class RepoIdentity(Record, frozen=True, kw_only=True):
    """A repository, or a folder that is in none.

    Attributes:
        root: The top of this working tree, or the folder itself.
        common_dir: git's common directory, shared by all worktrees, or the folder itself.
        key: A readable name with a hash of `common_dir`: [a-z0-9-], fit for a folder's name.
    """

    root: Path
    common_dir: Path
    key: str


def repo_identity(path: Path) -> RepoIdentity:
    """Return the identity of the repository around `path`, links resolved, without running git."""
    folder = Path(path).resolve()
    if folder.is_file():
        folder = folder.parent
    for root in (folder, *folder.parents):
        dot_git = root / ".git"
        if _is_git_dir(dot_git):
            return _identity(root, dot_git.resolve())
        if dot_git.is_file():
            _, common_dir = _linked(dot_git) or (None, root)
            return _identity(root, common_dir)
        if _is_git_dir(root):  # a bare repository
            return _identity(root, root)
    return _identity(folder, folder)


def _identity(root: Path, common_dir: Path) -> RepoIdentity:
    named = common_dir.parent if common_dir.name == ".git" else common_dir
    slug = re.sub(r"[^a-z0-9]+", "-", named.name.removesuffix(".git").lower()).strip("-")
    digest = hashlib.sha256(os.fsencode(common_dir)).hexdigest()[:12]
    return RepoIdentity(
        root=root, common_dir=common_dir, key=f"{slug[:40].strip('-') or 'folder'}-{digest}"
    )


def _is_git_dir(path: Path) -> bool:
    """Look for what git looks for, so that an empty `.git` folder is passed over."""
    head = path / "HEAD"
    return (
        (head.is_file() or head.is_symlink())
        and (path / "objects").is_dir()
        and (path / "refs").is_dir()
    )


def find_git_dir(root: Path) -> tuple[Path, Path] | None:
    """Return the git directory of a working tree's top, and the common one of all its worktrees."""
    dot_git = root / ".git"
    if _is_git_dir(dot_git):
        git_dir = dot_git.resolve()
        return git_dir, git_dir
    return _linked(dot_git) if dot_git.is_file() else None


def _linked(dot_git: Path) -> tuple[Path, Path] | None:
    """Follow the `.git` file of a worktree or submodule; None if it leads nowhere."""
    try:
        text = _read_pointer(dot_git)
        if not text.startswith("gitdir: "):
            return None
        git_dir = (dot_git.parent / text.removeprefix("gitdir: ")).resolve()
        pointer = git_dir / "commondir"
        common_dir = (git_dir / _read_pointer(pointer)).resolve() if pointer.exists() else git_dir
        return (git_dir, common_dir) if _is_git_dir(common_dir) else None
    except (OSError, ValueError, RuntimeError):  # unreadable, a null byte, a loop of links
        return None


def _read_pointer(path: Path) -> str:
    from prsm_core.kit.regular import read_regular  # of worktrees and submodules alone

    return os.fsdecode(read_regular(path, _POINTER_LIMIT)).rstrip("\r\n")


def is_in_repository(folder: str) -> bool:
    """Return whether git may know the files of a folder, which may be gone; blocks."""
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises for another machine's name
        return False
    identity = repo_identity(Path(folder))
    return identity.common_dir != identity.root
