"""Commits what an agent has changed on its branch, and nothing that was in no commit before.

A branch is pushed one day. So what the person has in no commit must not be in one by accident: the
agent's own changes are applied to the commit that the branch began at. Where they cannot be told
from what the person has changed beside, or are of a file that is in no commit, they are left out
of the commit, which is said; they are in the worktree still. Commits that the agent made by itself
are taken off the branch for the same reason: their subjects are kept in the message.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.workspace.changes.merging import merged_lines
from prsm_core.workspace.changes.records import LINK, Entry
from prsm_core.workspace.shadow.git import listed
from prsm_core.workspace.worktrees.making import own_index
from prsm_core.workspace.worktrees.records import Left
from prsm_core.workspace.worktrees.results import fresh, put

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.worktrees.records import Tree
    from prsm_core.workspace.worktrees.results import Changed

_FEW = 200  # paths that are given to a command as words
_UNSET = frozenset({b"unspecified", b"unset"})
_SUBJECTS = 20  # of commits that the agent made

UNCOMMITTED = "it is in no commit"
AMONG_OTHERS = "its changes are among others that are in no commit"
FILTERED = "a program converts it, which is not run here"
IN_SUBMODULE = "it is in a submodule, which has commits of its own"


class Committed(NamedTuple):
    """What is on the branch: a commit, None if it is the one it began at; and what is not."""

    commit: str | None
    left_out: tuple[Left, ...]


def commit(
    root: Root, tree: Tree, changes: Sequence[Changed], index: Path, message: str
) -> Committed:
    """Let the branch be one commit of what the agent has changed. Raises GitFailedError."""
    links = _submodules(root, tree.commit)
    head = _in_commit(root, tree.commit, [one.path for one in changes])
    filtered = _filtered(root, [one.path for one in changes])
    wanted: dict[str, Entry | None] = {}
    left_out = []
    for one in changes:
        if one.root or one.path.startswith(links):
            left_out.append(Left(one.name, IN_SUBMODULE))
            continue
        if one.path in filtered:
            left_out.append(Left(one.path, FILTERED))
            continue
        side = _own(root, tree, one, head.get(one.path))
        if isinstance(side, Left):
            left_out.append(side)
        else:
            wanted[one.path] = None if side is None else _in_repository(root, one.path, side)
    made = _committed(root, tree, wanted, index, message)
    _move(root, tree, made)
    own_index(root, tree, made or tree.commit)
    return Committed(made, tuple(left_out))


def _own(root: Root, tree: Tree, change: Changed, head: Entry | None) -> Entry | Left | None:
    """Return what a file of the commit is with the agent's change, in the shadow; None: nothing."""
    if change.before is None or change.after is None:
        is_persons = change.before is not None and head is None
        return Left(change.path, UNCOMMITTED) if is_persons else change.after
    if head is None:
        return Left(change.path, UNCOMMITTED)
    if (plain := _as_file(root, tree, change.path, head)) == change.before:
        return change.after
    if LINK in {plain.mode, change.before.mode, change.after.mode}:
        return Left(change.path, AMONG_OTHERS)
    has_own_mode = change.before.mode == change.after.mode
    mode = plain.mode if has_own_mode else change.after.mode
    side = merged_lines(root, plain, change.after, change.before, mode)
    return Left(change.path, AMONG_OTHERS) if side.why else side.entry


def _as_file(root: Root, tree: Tree, path: str, head: Entry) -> Entry:
    """Return a committed file as it would be in a working tree, stored in the shadow."""
    if head.mode == LINK:
        data = root.person.run("cat-file", "blob", head.blob)
    else:
        data = root.person.run("cat-file", "--filters", f"{tree.commit}:{path}")
    return Entry(head.mode, root.shadow.word("hash-object", "-w", "--stdin", stdin=data))


def _in_repository(root: Root, path: str, entry: Entry) -> Entry:
    """Return a file as the person's repository has it, stored there: with its ends of lines."""
    data = root.shadow.run("cat-file", "blob", entry.blob)
    how = ("--no-filters",) if entry.mode == LINK else ("--path", path)
    return Entry(entry.mode, root.person.word("hash-object", "-w", "--stdin", *how, stdin=data))


def _in_commit(root: Root, commit: str, paths: Sequence[str]) -> dict[str, Entry]:
    if not paths:
        return {}
    few = tuple(paths) if len(paths) <= _FEW else ()
    said = root.person.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *few)
    wanted, found = set(paths), {}
    for line in filter(None, said.split(b"\0")):
        head, _, name = line.partition(b"\t")
        mode, _, blob = head.decode("ascii").split(" ")
        if (path := os.fsdecode(name)) in wanted:
            found[path] = Entry(mode, blob)
    return found


def _submodules(root: Root, commit: str) -> tuple[str, ...]:
    """Return the submodules of a commit, each with a slash behind."""
    said = root.person.run("ls-tree", "-r", "-z", "--full-tree", commit)
    rows = (row.partition(b"\t") for row in said.split(b"\0"))
    return tuple(f"{os.fsdecode(name)}/" for head, _, name in rows if head.startswith(b"160000 "))


def _filtered(root: Root, paths: Sequence[str]) -> set[str]:
    """Return the paths for which attributes name a filter by now."""
    if not paths:
        return set()
    said = root.person.run("check-attr", "-z", "--stdin", "filter", stdin=listed(paths))
    fields = said.split(b"\0")[:-1]
    triples = zip(fields[::3], fields[2::3], strict=True)
    return {os.fsdecode(name) for name, value in triples if value not in _UNSET}


def _committed(
    root: Root, tree: Tree, wanted: dict[str, Entry | None], index: Path, message: str
) -> str | None:
    copy = fresh(index.with_name("commit.index"))
    root.person.run("read-tree", tree.commit, index=copy)
    put(root.person, wanted, copy)
    made = root.person.word("write-tree", index=copy)
    if made == root.person.word("rev-parse", "--verify", f"{tree.commit}^{{tree}}"):
        return None
    text = "\n\n".join(filter(None, (message.strip(), _subjects(root, tree))))
    said = (text + "\n").encode("utf-8", "surrogateescape")
    return root.person.word("commit-tree", made, "-p", tree.commit, stdin=said)


def _subjects(root: Root, tree: Tree) -> str:
    """Return what the agent said of commits of its own on the branch."""
    args = ("log", f"-{_SUBJECTS}", "--format=%s", "--no-show-signature")
    known = (tree.outcome.commit if tree.outcome is not None else None) or tree.commit
    said = root.person.ask(*args, f"{known}..refs/heads/{tree.branch}")
    lines = said.out.decode("utf-8", "replace").splitlines() if not said.code else []
    return "\n".join(f"- {line}" for line in reversed(lines))


def _move(root: Root, tree: Tree, made: str | None) -> None:
    ref = f"refs/heads/{tree.branch}"
    root.person.run("update-ref", "--no-deref", ref, made or tree.commit)
