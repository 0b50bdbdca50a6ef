"""Makes a worktree: a branch at HEAD, and a folder with the files as they are now, byte by byte.

What is in no commit comes along: changes of tracked files, and files that git does not know. What
git ignores does not. No program that anybody's configuration names runs: files are not checked out
by the person's repository, whose filters would, but by the shadow, which has the bytes.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.workspace.shadow.git import names
from prsm_core.workspace.shadow.modes import mode_of
from prsm_core.workspace.shadow.place import read_head

if TYPE_CHECKING:
    from prsm_core.workspace.shadow.git import GitDir
    from prsm_core.workspace.shadow.place import Repository
    from prsm_core.workspace.shadow.records import RootState, Snapshot
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.worktrees.records import Tree

_ATTRIBUTES = ".gitattributes"
_FILTERS = re.compile(rb"(?:^|\s)filter(?:=|\s|$)", re.M)
_UNFINISHED = frozenset({"merge", "rebase", "cherry-pick", "revert"})
SHOWN = 5  # names in an error


class Beside(Record, frozen=True):
    """A worktree, as `RootLook` looks at one: what is read there is stored in the shadow."""

    folder: Path
    shadow: GitDir
    path: str = ""
    hidden: tuple[str, ...] = ()


def beside(root: Root, tree: Tree) -> Beside:
    """Return a worktree with the shadow of the root that it was made from."""
    folder = Path(tree.folder)
    return Beside(folder, root.shadow.on(folder))


class Beginning(NamedTuple):
    """What a worktree begins with."""

    commit: str
    state: RootState
    notes: tuple[str, ...]  # what is not in it


def check(root: Root, now: Snapshot) -> Beginning:
    """Return what a worktree of a folder begins with. Raises ConfigError where none can be made.

    `now` is the folder as it was stored just before.
    """
    repository = _repository(root)
    if len(now.roots) > 1:
        inside = ", ".join(one.path for one in now.roots[1:][:SHOWN])
        raise _refused(
            f"there are repositories in it ({inside}), which a worktree would lack",
            "have agents take turns in this folder, or give each a region of its own",
        )
    if repository.under_way in _UNFINISHED:
        raise _refused(
            f"a {repository.under_way} is under way", f"finish it, or git {_abort(repository)}"
        )
    commit = read_head(repository, root.person).commit
    if commit is None:
        raise _refused("there is no commit yet", "make a first one: git commit --allow-empty")
    if filtered := _filtered(root, repository):
        raise _refused(
            f"programs convert its files (filter in {filtered}), which are not run here",
            "have agents take turns in this folder, or give each a region of its own",
        )
    notes = tuple(f"{one.path} is not in it: {one.reason}" for one in now.skipped)
    return Beginning(commit, now.main, notes)


def _repository(root: Root) -> Repository:
    if root.repository is None:
        raise _refused("it is in no git repository", "make it one: git init, then commit")
    return root.repository


def _abort(repository: Repository) -> str:
    return f"{repository.under_way} --abort"


def _refused(why: str, hint: str) -> ConfigError:
    return ConfigError(f"no worktree can be made: {why}", hint=hint, code="no_worktree")


def _filtered(root: Root, repository: Repository) -> str | None:
    """Return a file of attributes that names a filter."""
    listed = root.shadow.run("ls-files", "-z", "--", _ATTRIBUTES)
    globbed = root.shadow.ask(
        "ls-files", "-z", "--", f":(glob)**/{_ATTRIBUTES}", is_literal=False
    ).out
    files = {Path(root.folder, name) for name in names(listed + globbed)}
    files.add(repository.common_dir / "info" / "attributes")
    found = (file for file in sorted(files) if _FILTERS.search(_text(file)))
    first = next(found, None)
    return None if first is None else os.path.relpath(first, root.folder)


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes() if file.is_file() else b""
    except OSError:  # git reads it no more than we do
        return b""


def has_branch(root: Root, branch: str) -> bool:
    """Return whether the person's repository has a branch of this name."""
    ref = f"refs/heads/{branch}"
    return not root.person.ask("show-ref", "--quiet", "--verify", ref).code


def make(root: Root, tree: Tree, state: RootState, index: Path) -> None:
    """Make branch and folder, and have `index` tell how its files were. Raises GitFailedError.

    The record of the worktree says that it is being made: who finds it so removes what is there.
    """
    folder = Path(tree.folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    root.shadow.run("update-ref", f"{tree.ref}/origin", tree.origin)
    root.shadow.run("update-ref", f"{tree.ref}/base", tree.base)
    where = (str(folder), tree.commit)
    root.person.run(
        "worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", tree.branch, *where
    )
    own_index(root, tree, tree.commit)
    shadow = beside(root, tree).shadow
    shadow.run("read-tree", "--reset", "-u", tree.origin, index=index)
    modes = root.modes(state)
    for path in names(shadow.run("ls-files", "-z", index=index)):
        place = f"{folder}/{path}"
        has = mode_of(place)
        if has is None:  # a link has none
            continue
        if (mode := modes.of(path, is_program=bool(has & stat.S_IXUSR))) != has:
            os.chmod(place, mode)  # noqa: PTH101 - a name that need not be UTF-8


def own_index(root: Root, tree: Tree, commit: str) -> None:
    """Let the staging area of a worktree be that of a commit: agents ask git what differs."""
    place = admin(root, tree)
    if place is not None:
        there = root.person.on(Path(tree.folder))
        there.run("read-tree", commit, index=place / "index")


def admin(root: Root, tree: Tree) -> Path | None:
    """Return where git keeps what is a worktree's own, in the person's repository, if it does.

    It may be half made, or half removed: then it does not say any more whose it is.
    """
    all_ = _repository(root).common_dir / "worktrees"
    wanted = f"{tree.folder}/.git"
    for file in sorted(all_.glob("*/gitdir")):
        if os.fsdecode(file.read_bytes()).rstrip("\n") == wanted:
            return file.parent
    own = all_ / tree.id
    return own if own.is_dir() and not (own / "gitdir").exists() else None
