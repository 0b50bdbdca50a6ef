"""Makes and removes a worktree: a branch at HEAD, and a folder with the files byte by byte.

What is in no commit comes along, but not what git ignores. No configured program runs: the shadow
has the bytes. A submodule has its files as well, and is no repository there.

Each step of a removal may have been done already, by a process that has died. Worktrees of a
deleted session are left first, without git; whoever has git then removes them.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core import ConfigError
from prsm_files.shadow.files import mode_of
from prsm_files.shadow.git import names
from prsm_files.shadow.place import read_head, roots_below, submodules
from prsm_files.shadow.records import joined
from prsm_files.shadow.restoring import HinderedError
from prsm_files.shadow.whereabouts import LOCK_SECONDS, folder_lock
from prsm_files.worktrees.records import LEAVING, MAKING, all_trees, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_files.shadow.place import Repository
    from prsm_files.shadow.records import RootState, Snapshot
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.whereabouts import Where
    from prsm_files.worktrees.records import Part, Tree

    RootOf = Callable[[str], Root]

_UNFINISHED = frozenset({"merge", "rebase", "cherry-pick", "revert"})
SHOWN = 5  # names in an error
# Below those that Linux gives to connections.
PORTS = range(20_000, 30_000)


def check(root_of: RootOf, now: Snapshot) -> str:
    """Return the commit that a worktree of a folder, as it is `now`, begins at, or ConfigError."""
    root = root_of("")
    repository = _repository(root)
    strangers: list[str] = []
    for state in now.roots:
        around = root_of(state.path)
        known = set(submodules(around.folder, around.person)) if around.repository else set()
        inside = [path for path in roots_below(now, state.path) if path not in known]
        strangers += [joined(state.path, path) for path in inside]
    if strangers:
        shown = ", ".join(strangers[:SHOWN])
        raise _refused(
            f"there are repositories in it ({shown}), which a worktree would lack",
            "have agents take turns in this folder, or give each a region of its own",
        )
    if repository.under_way in _UNFINISHED:
        what = repository.under_way
        raise _refused(f"a {what} is under way", f"finish it, or git {what} --abort")
    commit = read_head(root.person).commit
    if commit is None:
        raise _refused("there is no commit yet", "make a first one: git commit --allow-empty")
    return commit


def _repository(root: Root) -> Repository:
    if root.repository is None:
        raise _refused("it is in no git repository", "make it one: git init, then commit")
    return root.repository


def _refused(why: str, hint: str) -> ConfigError:
    return ConfigError(f"no worktree can be made: {why}", hint=hint, code="no_worktree")


def has_branch(root: Root, branch: str) -> bool:
    """Return whether the person's repository has a branch of this name."""
    ref = f"refs/heads/{branch}"
    return not root.person.ask("show-ref", "--quiet", "--verify", ref).code


def make(root_of: RootOf, tree: Tree, states: Sequence[RootState], place: Path) -> None:
    """Make branch and folder, with indexes in `place`; a record says so. Raises GitFailedError."""
    root, folder = root_of(""), Path(tree.folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    where = (str(folder), tree.commit)
    root.person.run(
        "worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", tree.branch, *where
    )
    own_index(root, tree, tree.commit)
    for part, state in zip(tree.parts, states, strict=True):
        _fill(root_of(part.path), tree, part, state, index_of(place, tree, part))


def free_port(where: Where, tree_id: str) -> int:
    """Return a free port that no worktree has; the same for one made again, if it can be."""
    taken = {tree.port for tree in all_trees(where)}
    first = int.from_bytes(blake2b(os.fsencode(tree_id), digest_size=4).digest()) % len(PORTS)
    for number in range(len(PORTS)):
        port = PORTS[(first + number) % len(PORTS)]
        if port not in taken and _is_free(port):
            return port
    raise _refused("no port is free for its servers", "end some of what listens on this machine")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def index_of(place: Path, tree: Tree, part: Part) -> Path:
    """Return the index that tells how the files of a part were at first."""
    number = tree.parts.index(part)
    return place / (f"index-{number}" if number else "index")


def _fill(root: Root, tree: Tree, part: Part, state: RootState, index: Path) -> None:
    root.shadow.run("update-ref", f"{tree.ref}/origin", part.origin)
    root.shadow.run("update-ref", f"{tree.ref}/base", part.base)
    folder = Path(tree.folder, part.path)
    folder.mkdir(parents=True, exist_ok=True)
    there = root.shadow.on(folder)
    there.run("read-tree", "--reset", "-u", part.origin, index=index)
    modes = root.modes(state)
    for path in names(there.run("ls-files", "-z", index=index)):
        place = f"{folder}/{path}"
        # A link has no permissions.
        if (has := mode_of(place)) is not None:
            mode = modes.of(path, is_program=bool(has & stat.S_IXUSR))
            if mode != has:
                os.chmod(place, mode)  # noqa: PTH101 - a name that need not be UTF-8


def own_index(root: Root, tree: Tree, commit: str) -> None:
    """Let the staging area of a worktree be that of a commit: agents ask git what differs."""
    place = admin(root, tree)
    if place is not None:
        there = root.person.on(Path(tree.folder))
        there.run("read-tree", commit, index=place / "index")


def admin(root: Root, tree: Tree) -> Path | None:
    """Return where the person's git keeps what is a worktree's own, also of a half made one."""
    all_ = _repository(root).common_dir / "worktrees"
    wanted = f"{tree.folder}/.git"
    for file in sorted(all_.glob("*/gitdir")):
        if os.fsdecode(file.read_bytes()).rstrip("\n") == wanted:
            return file.parent
    own = all_ / tree.id
    return own if own.is_dir() and not (own / "gitdir").exists() else None


def remove(root_of: RootOf, tree: Tree, place: Path) -> None:
    """Remove all of a worktree, and its branch unless somebody has moved it."""
    root, folder = root_of(""), Path(tree.folder)
    if folder.exists():
        shutil.rmtree(folder)
    if root.repository is not None:
        if (known := admin(root, tree)) is not None:
            shutil.rmtree(known)
        ref = f"refs/heads/{tree.branch}"
        said = root.person.ask("rev-parse", "--quiet", "--verify", ref)
        own = {tree.commit, None if tree.outcome is None else tree.outcome.commit}
        if not said.code and said.out.decode("ascii").strip() in own:
            root.person.run("update-ref", "--no-deref", "-d", ref)
    for part in tree.parts:
        # What a submodule's shadow has of one that is gone stays until that shadow goes.
        with suppress(HinderedError):
            for name in ("origin", "base", "result"):
                root_of(part.path).shadow.ask("update-ref", "-d", f"{tree.ref}/{name}")
    shutil.rmtree(place)


def worktrees_of(where: Where, session: str) -> list[Tree]:
    """Return the worktrees of a session, none half made or being removed. Raises OSError."""
    mine = (tree for tree in all_trees(where) if tree.session == session)
    return [tree for tree in mine if tree.state not in {MAKING, LEAVING}]


def leave(where: Where, session: str) -> int:
    """Give up the worktrees of a session; return how many. Raises ConfigError, and OSError."""
    trees = worktrees_of(where, session)
    for key in dict.fromkeys(tree.key for tree in trees):
        with folder_lock(where.repository(key), LOCK_SECONDS):
            for tree in trees:
                if tree.key == key:
                    write(where, replace(tree, state=LEAVING))
    return len(trees)


def folders_left(where: Where) -> list[Path]:
    """Return working trees that are there, of worktrees that are given up. Raises OSError."""
    leaving = (tree.parent for tree in all_trees(where) if tree.state == LEAVING)
    parents = {Path(parent) for parent in leaving if where.find(parent) is None}
    return sorted(parent for parent in parents if parent.is_dir())
