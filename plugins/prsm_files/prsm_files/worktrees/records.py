"""What is known of a worktree: one file, replaced whole, so that a crash leaves the old or the new.

making    being made; whoever finds it so removes it: the one who made it has died
ready     its agent works in it
merging   its operations are being written into the folder that it came from
backing   they are being taken back: somebody has changed one of the files meanwhile
settled   merged, or not; the outcome says it
leaving   being removed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.door import LeftWorktree
from prsm_core.files import path_text
from prsm_files.shadow.acts import Act, Operation  # noqa: TC001 - msgspec reads the annotations
from prsm_files.shadow.files import from_json, put_json, sync
from prsm_files.shadow.records import Left  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_files.shadow.whereabouts import Where

RECORD = "record.json"

MAKING, READY, MERGING, BACKING = "making", "ready", "merging", "backing"
SETTLED, LEAVING = "settled", "leaving"

MERGED, CONFLICT, NOTHING, KEPT = "merged", "conflict", "nothing", "kept"
PARTIAL = "partial"


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of an agent's changes at its end."""

    # merged, partial (what is in the agent's region is merged, if anything is, and it has changed
    # something else), conflict (nothing was written), nothing (there were no changes), or kept (the
    # agent did not succeed, so that nothing was tried)
    result: str
    branch: str
    files: tuple[str, ...] = ()  # that the agent has changed, from the top of the worktree
    conflicts: tuple[Left, ...] = ()
    commit: str | None = None  # None: the branch has none of its own
    left_out: tuple[Left, ...] = ()  # of that commit
    outside: tuple[Left, ...] = ()  # not in its region: this is merged never
    act: str | None = None  # by which `prsm undo` takes the merge back, if it wrote anything

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is in the worktree alone."""
        return self.result in {MERGED, NOTHING}


class Part(Struct, frozen=True, kw_only=True):
    """The files of one repository in a worktree: of the main one, or of a submodule."""

    path: str  # from the top of the worktree; empty for the main repository
    origin: str  # what they were at first, a tree of the shadow of that repository's folder
    base: str  # what of them has been merged so far, likewise
    result: str = ""  # what the outcome is about, likewise


class Tree(Struct, frozen=True, kw_only=True):
    """One worktree."""

    id: str  # among those of its repository
    key: str  # of the repository
    session: str
    agent: str
    name: str
    branch: str  # its whole name is refs/heads/ and this
    folder: str
    parent: str  # the top of the working tree that it was made from, and is merged into
    commit: str  # that the branch began at
    parts: tuple[Part, ...]  # the main one is the first
    state: str = MAKING  # see the module
    operations: tuple[Operation, ...] = ()  # what is being written, or taken back
    outcome: Outcome | None = None  # while files are being written, what it is to be
    region: tuple[str, ...] | None = None  # what is merged, from its top; "." is all, None too
    act: Act | None = None  # the merge, but for the files that it writes
    port: int = 0  # for servers of its agent; no other worktree has it

    @property
    def ref(self) -> str:
        """What its trees are kept by, in the parent's shadow."""
        return f"refs/worktrees/{self.id}"

    @property
    def main(self) -> Part:
        """The files of the repository itself."""
        return self.parts[0]

    def below(self, part: Part) -> tuple[str, ...]:
        """Return where the submodules in a part lie, from its top, each with a slash behind."""
        top = f"{part.path}/" if part.path else ""
        paths = (one.path for one in self.parts if one is not part)
        return tuple(f"{path.removeprefix(top)}/" for path in paths if path.startswith(top))


def read(where: Where, key: str, tree_id: str) -> Tree | None:
    """Return what is known of a worktree; None where there is none. Raises OSError."""
    try:
        return from_json((where.place(key, tree_id) / RECORD).read_bytes(), Tree)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_all(where: Where, key: str) -> Iterator[Tree]:
    """Yield what is known of a repository's worktrees, in the order of their ids."""
    for file in sorted(where.repository(key).glob(f"*/{RECORD}")):
        tree = read(where, key, file.parent.name)
        if tree is not None:
            yield tree


def all_trees(where: Where) -> Iterator[Tree]:
    """Yield what is known of the worktrees of all repositories. Raises OSError."""
    for key in where.repository_keys():
        yield from read_all(where, key)


def left_of(where: Where, key: str, session: str) -> Iterator[Tree]:
    """Yield the worktrees of a session's ended agents whose work is merged nowhere."""
    for tree in read_all(where, key):
        is_over = tree.outcome is not None and tree.outcome.is_over
        if tree.session == session and tree.state == SETTLED and not is_over:
            yield tree


def told_left(tree: Tree) -> LeftWorktree:
    """Return such a worktree as `Changes.worktrees` tells it."""
    outcome = tree.outcome or Outcome(result=KEPT, branch=tree.branch)
    return LeftWorktree(
        agent=tree.agent,
        name=tree.name,
        branch=tree.branch,
        folder=path_text(tree.folder),
        parent=path_text(tree.parent),
        result=outcome.result,
        files=tuple(map(path_text, outcome.files)),
        conflicts=tuple(left.told() for left in outcome.conflicts),
        outside=tuple(left.told() for left in outcome.outside),
    )


def write(where: Where, tree: Tree) -> None:
    """Know this of a worktree, durably. Raises OSError."""
    place = where.place(tree.key, tree.id)
    is_new = not place.exists()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    put_json(place / RECORD, tree, is_durable=True)
    if is_new:
        sync(place.parent)
