"""Removes a worktree: its folder, what git keeps of it, its branch, and at last its record.

Each step may have been done already, by a process that has died. Those of a session that is deleted
are left first, for which git is not needed; whoever has git then removes what is left.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_files.shadow.hindrances import HinderedError
from prsm_files.shadow.whereabouts import LOCK_SECONDS, folder_lock
from prsm_files.worktrees.making import admin
from prsm_files.worktrees.records import LEAVING, MAKING, read_all, write

if TYPE_CHECKING:
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.whereabouts import Where
    from prsm_files.worktrees.making import RootOf
    from prsm_files.worktrees.records import Tree


def remove(root_of: RootOf, tree: Tree, place: Path) -> None:
    """Remove all of a worktree; `place` is where its record lies. Raises OSError, GitFailedError.

    The branch goes if it is where this worktree left it: one that somebody has moved is theirs.
    """
    root, folder = root_of(""), Path(tree.folder)
    if folder.exists():
        shutil.rmtree(folder)
    if root.repository is not None:
        known = admin(root, tree)
        if known is not None:
            shutil.rmtree(known)
        _drop_branch(root, tree)
    for part in tree.parts:
        # What a submodule's shadow has of one that is gone stays until that shadow goes.
        with suppress(HinderedError):
            for name in ("origin", "base", "result"):
                root_of(part.path).shadow.ask("update-ref", "-d", f"{tree.ref}/{name}")
    shutil.rmtree(place)


def worktrees_of(where: Where, session: str) -> list[Tree]:
    """Return the worktrees of a session in all repositories, but for those that are being removed.

    What is half made is not among them. Raises OSError.
    """
    found = (
        tree
        for key in where.repository_keys()
        for tree in read_all(where, key)
        if tree.session == session
    )
    return [tree for tree in found if tree.state not in {MAKING, LEAVING}]


def leave(where: Where, session: str) -> int:
    """Give up the worktrees of a session, with what is in them alone; return how many there are.

    Raises ConfigError where another process is at work on some, and OSError.
    """
    trees = worktrees_of(where, session)
    for key in dict.fromkeys(tree.key for tree in trees):
        with folder_lock(where.repository(key), LOCK_SECONDS):
            for tree in trees:
                if tree.key == key:
                    write(where, replace(tree, state=LEAVING))
    return len(trees)


def folders_left(where: Where) -> list[Path]:
    """Return the working trees from which worktrees were made that are given up; those there are.

    Raises OSError.
    """
    parents = {
        Path(tree.parent)
        for key in where.repository_keys()
        for tree in read_all(where, key)
        if tree.state == LEAVING and where.find(tree.parent) is None
    }
    return sorted(parent for parent in parents if parent.is_dir())


def _drop_branch(root: Root, tree: Tree) -> None:
    ref = f"refs/heads/{tree.branch}"
    said = root.person.ask("rev-parse", "--quiet", "--verify", ref)
    own = {tree.commit, None if tree.outcome is None else tree.outcome.commit}
    if not said.code and said.out.decode("ascii").strip() in own:
        root.person.run("update-ref", "--no-deref", "-d", ref)
