"""The worktrees that are made from one folder, by whoever has its shadow; every method blocks.

There is one lock for each repository. What is found half made, or half merged, was left by a
process that has died, and is removed, or finished.

A branch is pushed one day, so what the person has in no commit must not get into one by accident.
The agent's own changes are applied to the commit that the branch began at. Those that cannot be
told from the person's are left out, and stay in the worktree. So are commits of the agent's own
taken off the branch; their subjects are kept.

A merge writes all that an agent has changed in its region, or nothing. Each file is merged three
ways; HEAD, staging area and stash stay as they are. What is to be written is on the disk before the
first file changes. Agents whose regions are disjoint can be merged in any order: a path is judged
by its name alone, as the file system compares names.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from msgspec import Struct
from msgspec.structs import asdict, replace

from prsm_core import ConfigError
from prsm_core.files import repo_identity
from prsm_core.kit.filenames import fold_of
from prsm_files.changes.acting import forget, keep
from prsm_files.changes.attribution import is_below
from prsm_files.changes.looking import RootLook
from prsm_files.changes.merging import Words, find_side, merged, merged_lines
from prsm_files.changes.writing import planned, write
from prsm_files.shadow.acts import MERGE, Operation
from prsm_files.shadow.files import folders_above
from prsm_files.shadow.git import GitFailedError, scratch
from prsm_files.shadow.records import FILE_BYTES, LINK, Entry, Left, joined
from prsm_files.shadow.restoring import HinderedError
from prsm_files.shadow.whereabouts import LOCK_SECONDS, folder_lock
from prsm_files.worktrees import making, records
from prsm_files.worktrees.making import index_of, own_index
from prsm_files.worktrees.records import (
    BACKING,
    CONFLICT,
    KEPT,
    LEAVING,
    MAKING,
    MERGED,
    MERGING,
    NOTHING,
    PARTIAL,
    READY,
    SETTLED,
    Outcome,
    Part,
    Tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from prsm_files.shadow.records import Change
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.whereabouts import Where
    from prsm_files.shadow.worktree import Shadow
    from prsm_files.worktrees.making import RootOf

    Writing = Callable[[Sequence[str]], AbstractContextManager[None]]

_SESSION_LETTERS = 6  # of its id, in names


class Result(Struct, frozen=True, kw_only=True):
    """The files of a worktree at a moment."""

    trees: tuple[str, ...]  # for each part, in the shadow of its root
    strange: tuple[Left, ...] = ()  # what is there and is no file that could be merged


def look(root_of: RootOf, tree: Tree, place: Path) -> Result:
    """Store the files of a worktree as they are now; indexes in `place` tell how they were."""
    trees, strange = [], []
    for part in tree.parts:
        try:
            root = root_of(part.path)
        except HinderedError:
            # What the agent did there can be compared with nothing any more.
            strange.append(Left(part.path, "the submodule is not in the folder any more"))
            trees.append(part.result or part.origin)
            continue
        stored, odd = _look_at(root, tree, part, index_of(place, tree, part))
        trees.append(stored)
        strange += [Left(joined(part.path, one.path), one.why) for one in odd]
    return Result(trees=tuple(trees), strange=tuple(strange))


def _look_at(root: Root, tree: Tree, part: Part, index: Path) -> tuple[str, list[Left]]:
    git = root.shadow.on(Path(tree.folder, part.path))
    looked = RootLook(git, index, FILE_BYTES, tree.below(part))
    differing = looked.differing()
    now = looked.now((*differing.changed, *differing.others), {})
    strange = [Left(top, "it is a repository of its own") for top in differing.tops]
    for path, known in now.items():
        if known.entry is not None and not known.entry.blob:
            strange.append(Left(path, known.entry.why))
    stored = {
        path: known.entry for path, known in now.items() if known.entry is None or known.entry.blob
    }
    with scratch(index.with_name("result.index")) as copy:
        root.shadow.run("read-tree", part.origin, index=copy)
        root.shadow.put(stored, copy)
        return root.shadow.word("write-tree", index=copy), strange


@contextmanager
def _silent(_: Sequence[str]) -> Iterator[None]:
    yield


class Whose(Struct, frozen=True):
    """The agent that a worktree is for; `name` is its name in the session."""

    session: str
    agent: str
    name: str


class Made(NamedTuple):
    """A worktree that was made, and what of the folder is not in it."""

    tree: Tree
    notes: tuple[str, ...] = ()


class Worktrees:
    """Makes, merges and removes the worktrees of a folder. Raises PrsmError, and OSError."""

    def __init__(self, shadow: Shadow, where: Where) -> None:
        self.shadow = self._shadow = shadow
        self._where = where
        self._key = repo_identity(shadow.folder).key

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with (
            folder_lock(self._where.repository(self._key), LOCK_SECONDS),
            self._shadow.at_work(),
        ):
            yield

    def make(
        self, whose: Whose, again: str | None = None, *, region: Sequence[str] | None = None
    ) -> Made:
        """Make a worktree of the folder as it is now, on a branch at HEAD, or ConfigError and none.

        One that an agent had before, and that was merged, is made `again` under its id.
        """
        with self._at_work():
            now = self._shadow.now()
            commit = making.check(self._shadow.root, now)
            root = self._shadow.root("")
            tree_id, branch = self._free_names(root, whose, again)
            tree = Tree(
                **asdict(whose),
                id=tree_id,
                key=self._key,
                branch=branch,
                folder=str(self._where.trees / self._key / tree_id),
                parent=str(self._shadow.folder),
                commit=commit,
                parts=tuple(
                    Part(path=state.path, origin=state.tree, base=state.tree) for state in now.roots
                ),
                region=None if region is None else tuple(region),
                port=making.free_port(self._where, tree_id),
            )
            self._write(tree)
            try:
                making.make(self._shadow.root, tree, now.roots, self._place(tree))
            except BaseException:
                self._remove(tree)
                raise
            notes = tuple(f"{one.path} is not in it: {one.reason}" for one in now.skipped)
            return Made(self._write(replace(tree, state=READY)), notes)

    def _free_names(self, root: Root, whose: Whose, again: str | None) -> tuple[str, str]:
        letters = re.sub(r"[^a-z0-9]", "", whose.session.lower())
        short = letters[-_SESSION_LETTERS:] or "session"
        for number in itertools.count(1):
            end = whose.name if number == 1 else f"{whose.name}-{number}"
            tree_id, branch = again or f"{short}-{end}", f"prsm/{short}/{end}"
            folder = self._where.trees / self._key / tree_id
            is_free = not (folder.exists() or self._where.place(self._key, tree_id).exists())
            if again is not None and not is_free:
                raise ConfigError(
                    f"{folder} is there already, and is no worktree of this agent",
                    hint="move it away",
                    code="no_worktree",
                )
            if is_free and not making.has_branch(root, branch):
                return tree_id, branch
        raise AssertionError("numbers do not end")

    def find(self, tree_id: str) -> Tree | None:
        """Return what is known of a worktree; None where it is removed. git is not needed."""
        return records.read(self._where, self._key, tree_id)

    def settle(
        self,
        tree_id: str,
        message: str,
        *,
        is_wanted: bool = True,
        writing: Writing = _silent,
    ) -> Outcome:
        """Commit what the agent has changed on its branch, and merge it if it `is_wanted`.

        Files are written in the context `writing`. What a dead process had begun is finished first.
        What was merged is not merged again.
        """
        with self._at_work():
            tree = self._known(tree_id)
            if tree.state in {MERGING, BACKING}:
                tree = self._carry_out(tree, writing)
            result = look(self._shadow.root, tree, self._place(tree))
            tree = self._settle(tree, result, message, is_wanted=is_wanted)
            if tree.state == MERGING:
                tree = self._carry_out(tree, writing)
            if tree.outcome is None:
                raise RuntimeError("a worktree is settled without an outcome")
            return tree.outcome

    def _settle(self, tree: Tree, result: Result, message: str, *, is_wanted: bool) -> Tree:
        """Know what is to become of an agent's changes, and write nothing of it yet."""
        new, whole = self._differing(tree, result)
        index = making.index_of(self._place(tree), tree, tree.main)
        made, left_out = commit(self._shadow.root(""), tree, whole, index, message)
        region = Projection.of(tree)
        inside = [one for one in new if region.holds(one.name)]
        strange = [one for one in result.strange if region.touches(one.path)]
        # What is outside is told as long as it is there: it is merged never.
        outside = (
            *(Left(one.name, OUTSIDE) for one in whole if not region.holds(one.name)),
            *(
                Left(one.path, f"{OUTSIDE}, and {one.why}")
                for one in result.strange
                if one not in strange
            ),
        )
        outcome = Outcome(
            result=KEPT,
            branch=tree.branch,
            files=tuple(one.name for one in whole),
            commit=made,
            left_out=left_out,
            outside=outside,
            act=None if tree.outcome is None else tree.outcome.act,
        )
        ended = zip(tree.parts, result.trees, strict=True)
        parts = tuple(replace(one, result=now) for one, now in ended)
        tree = replace(tree, state=SETTLED, parts=parts)
        done = replace(outcome, result=PARTIAL if outside else MERGED)
        if not (inside or strange):
            if not (outcome.files or outside):
                outcome = replace(outcome, result=NOTHING)
            elif is_wanted or not outside:
                outcome = done
        elif is_wanted:
            operations, conflicts = plan(self._shadow.root, inside)
            conflicts += strange
            act = None
            if operations and not conflicts:
                act = self._shadow.new_act(MERGE, tree.session, what=tree.name)
                lost = keep(self._shadow, replace(act, wrote=tuple(operations)))
                conflicts = [Left(one.path, why) for one, why in lost.items()]
            if conflicts:
                outcome = replace(outcome, result=CONFLICT, conflicts=tuple(conflicts))
            else:
                tree = replace(tree, state=MERGING, operations=tuple(operations), act=act)
                outcome = done
        return self._write(replace(tree, outcome=outcome))

    def _differing(self, tree: Tree, result: Result) -> tuple[list[Change], list[Change]]:
        new: list[Change] = []
        whole: list[Change] = []
        for one, now in zip(tree.parts, result.trees, strict=True):
            if now == one.origin == one.base or not self._shadow.has_root(one.path):
                continue
            root = self._shadow.root(one.path)
            root.shadow.run("update-ref", f"{tree.ref}/result", now)
            new += root.compare(one.base, now)
            whole += root.compare(one.origin, now)
        return new, whole

    def _write(self, tree: Tree) -> Tree:
        records.write(self._where, tree)
        return tree

    def _carry_out(self, tree: Tree, writing: Writing = _silent) -> Tree:
        """Write what was planned; if a file was changed, or cannot be written, take all back."""
        with writing([one.name for one in tree.operations]):
            if tree.state == MERGING:
                tree = self._merge(tree)
            if tree.state == BACKING:
                # Who wrote one meanwhile keeps it.
                carry_out(self._shadow.root, tree.id, tree.operations, is_back=True)
            return self._write(replace(tree, state=SETTLED, operations=(), act=None))

    def _merge(self, tree: Tree) -> Tree:
        root_of, outcome = (
            self._shadow.root,
            tree.outcome or Outcome(result=CONFLICT, branch=tree.branch),
        )
        act = None if tree.act is None else replace(tree.act, wrote=tree.operations)
        lost = carry_out(root_of, tree.id, tree.operations, top_of=Projection.of(tree).top_of)
        if lost:
            if act is not None:
                forget(self._shadow, act)
            outcome = replace(outcome, result=CONFLICT, conflicts=tuple(lost))
            back = turned(tree.operations)
            return self._write(replace(tree, state=BACKING, operations=back, outcome=outcome))
        for one in tree.parts:
            if one.result != one.base:
                root_of(one.path).shadow.run("update-ref", f"{tree.ref}/base", one.result)
        if act is not None:
            self._shadow.acts.add(act)
            outcome = replace(outcome, act=act.id)
        parts = tuple(replace(one, base=one.result) for one in tree.parts)
        return replace(tree, parts=parts, outcome=outcome)

    def has_changed(self, tree_id: str) -> bool:
        """Return whether an agent has changed something since its worktree was made."""
        with self._at_work():
            return not self._is_untouched(self._known(tree_id))

    def finish(self, tree_id: str) -> bool:
        """Remove a worktree of which all is merged; False: somebody has written there since."""
        with self._at_work():
            tree = self._known(tree_id)
            if tree.state == LEAVING:
                self._remove(tree)
                return True
            if tree.state != SETTLED or tree.outcome is None or not tree.outcome.is_over:
                return False
            if not self._is_as(tree, [one.result for one in tree.parts]):
                return False
            self._leave(tree)
            return True

    def discard(self, tree_id: str) -> None:
        """Remove a worktree in which no agent has worked, whatever is in it."""
        with self._at_work():
            self._leave(self._known(tree_id))

    def _leave(self, tree: Tree) -> None:
        self._remove(self._write(replace(tree, state=LEAVING)))

    def sweep(self, is_lost: Callable[[Tree], bool]) -> list[str]:
        """Remove what is half made, or idle and lost, and finish half merges; return notes."""
        notes = []
        with self._at_work():
            known = list(records.read_all(self._where, self._key))
            going = {one.folder for one in known if one.state == LEAVING}
            for tree in known:
                # What was made from a folder that is gone, or goes, anybody removes.
                is_lost_parent = tree.parent in going or not Path(tree.parent).is_dir()
                is_left = tree.state == LEAVING and is_lost_parent
                if tree.parent != str(self._shadow.folder) and not is_left:
                    continue
                if tree.state in {MERGING, BACKING}:
                    done = self._carry_out(tree).outcome
                    said = CONFLICT if done is None else done.result
                    notes.append(f"a merge of {tree.branch} that was cut off is finished: {said}")
                elif tree.state in {MAKING, LEAVING} or (
                    tree.state == READY and is_lost(tree) and self._is_untouched(tree)
                ):
                    self._remove(tree)
                    if tree.state != LEAVING:
                        notes.append(f"the worktree {tree.folder} was of no use, and is removed")
        return notes

    def _is_untouched(self, tree: Tree) -> bool:
        return self._is_as(tree, [one.origin for one in tree.parts])

    def _is_as(self, tree: Tree, trees: Sequence[str]) -> bool:
        now = look(self._shadow.root, tree, self._place(tree))
        return now.trees == tuple(trees) and not now.strange

    def _known(self, tree_id: str) -> Tree:
        tree = self.find(tree_id)
        if tree is None or tree.state == MAKING:
            raise ConfigError(
                f"there is no worktree {tree_id} of {self._shadow.folder}",
                hint="`git worktree list` shows those that git knows",
                code="no_worktree",
            )
        return tree

    def _remove(self, tree: Tree) -> None:
        making.remove(self._shadow.root, tree, self._place(tree))

    def _place(self, tree: Tree) -> Path:
        return self._where.place(tree.key, tree.id)


_MODULE = "160000"  # the mode of a submodule
_SUBJECTS = 20  # of commits that the agent made

UNCOMMITTED = "it is in no commit"
AMONG_OTHERS = "its changes are among others that are in no commit"
FILTERED = "a program converts it, which is not run here"
IN_SUBMODULE = "it is in a submodule, which has commits of its own"


def commit(
    root: Root, tree: Tree, changes: Sequence[Change], index: Path, message: str
) -> tuple[str | None, tuple[Left, ...]]:
    """Let the branch be one commit of the agent's changes, if any; return it, and what it lacks."""
    head = root.person.tree(tree.commit)
    links = tuple(f"{path}/" for path, entry in head.items() if entry.mode == _MODULE)
    attributes = root.person.attributes([one.path for one in changes], ["filter"])
    filtered = {path for path, known in attributes.items() if known["filter"] != "unset"}
    wanted: dict[str, Entry | None] = {}
    left_out = []
    for one in changes:
        side: Entry | Left | None
        if one.root or one.path.startswith(links):
            side = Left(one.name, IN_SUBMODULE)
        elif one.path in filtered:
            side = Left(one.path, FILTERED)
        else:
            side = _own(root, tree, one, head.get(one.path))
        if isinstance(side, Left):
            left_out.append(side)
        else:
            if side is not None:
                # As the person's repository has it: with its ends of lines.
                how = ("--no-filters",) if side.mode == LINK else ("--path", one.path)
                data, args = root.shadow.blob(side.blob), ("hash-object", "-w", "--stdin", *how)
                side = Entry(side.mode, root.person.word(*args, stdin=data))
            wanted[one.path] = side
    made = _committed(root, tree, wanted, index, message)
    ref = f"refs/heads/{tree.branch}"
    root.person.run("update-ref", "--no-deref", ref, made or tree.commit)
    own_index(root, tree, made or tree.commit)
    return made, tuple(left_out)


def _own(root: Root, tree: Tree, change: Change, head: Entry | None) -> Entry | Left | None:
    """Return what a file of the commit is with the agent's change, in the shadow; None: nothing."""
    if change.before is None or change.after is None:
        is_persons = change.before is not None and head is None
        return Left(change.path, UNCOMMITTED) if is_persons else change.after
    if head is None:
        return Left(change.path, UNCOMMITTED)
    if head.mode == LINK:
        data = root.person.blob(head.blob)
    else:
        data = root.person.run("cat-file", "--filters", f"{tree.commit}:{change.path}")
    # As it would be in a working tree.
    plain = Entry(head.mode, root.shadow.store(data))
    if plain == change.before:
        return change.after
    if LINK in {plain.mode, change.before.mode, change.after.mode}:
        return Left(change.path, AMONG_OTHERS)
    has_own_mode = change.before.mode == change.after.mode
    mode = plain.mode if has_own_mode else change.after.mode
    side = merged_lines(root, plain, change.after, change.before, mode)
    return Left(change.path, AMONG_OTHERS) if side.why else side.entry


def _committed(
    root: Root, tree: Tree, wanted: dict[str, Entry | None], index: Path, message: str
) -> str | None:
    with scratch(index.with_name("commit.index")) as copy:
        root.person.run("read-tree", tree.commit, index=copy)
        root.person.put(wanted, copy)
        made = root.person.word("write-tree", index=copy)
    if made == root.person.word("rev-parse", "--verify", f"{tree.commit}^{{tree}}"):
        return None
    # What the agent said of commits of its own is kept.
    args = ("log", f"-{_SUBJECTS}", "--format=%s", "--no-show-signature")
    known = (tree.outcome.commit if tree.outcome is not None else None) or tree.commit
    log = root.person.ask(*args, f"{known}..refs/heads/{tree.branch}")
    lines = [] if log.code else log.out.decode("utf-8", "replace").splitlines()
    subjects = "\n".join(f"- {line}" for line in reversed(lines))
    text = "\n\n".join(filter(None, (message.strip(), subjects)))
    said = (text + "\n").encode("utf-8", "surrogateescape")
    return root.person.word("commit-tree", made, "-p", tree.commit, stdin=said)


MEANWHILE = "it was changed while the merge was written"
_MEANWHILE = Words(
    gone="it was deleted meanwhile",
    removing="the agent deleted it, and it was changed meanwhile",
    adding="another file of this name was made meanwhile",
    link="it is, or was, a link, and was changed meanwhile",
    binary="it is no text, and is another since",
    lines="the same lines were changed meanwhile",
)


def plan(root_of: RootOf, changes: Sequence[Change]) -> tuple[list[Operation], list[Left]]:
    """Return what a merge would write, deletions first to make room, and what does not merge."""
    operations: list[Operation] = []
    conflicts: list[Left] = []
    going: defaultdict[str, set[str]] = defaultdict(set)
    for one in sorted(changes, key=lambda one: one.after is not None):
        root = root_of(one.root)
        side = find_side(root, one.path, going[one.root])
        new = merged(root, side, base=one.before, other=one.after, words=_MEANWHILE)
        if new.why:
            conflicts.append(Left(one.name, new.why))
        elif new.entry != side.entry:
            operations.append(planned(root, one.path, side.entry, new.entry))
            if new.entry is None:
                going[one.root].add(one.path)
    return operations, conflicts


def carry_out(
    root_of: RootOf,
    tree_id: str,
    operations: Sequence[Operation],
    *,
    is_back: bool = False,
    top_of: Callable[[str], str] = lambda _: "",
) -> list[Left]:
    """Write what is not written yet; return what somebody has changed meanwhile.

    Empty folders go then, up to what `top_of` tells. What cannot be written is returned alone, or,
    on the way back, raises OSError.
    """
    lost = []
    for number, one in enumerate(operations):
        try:
            keeps = _folder_above(top_of(one.name), one.root)
            is_done = write(root_of(one.root), one, f"{tree_id}-{number}", keeps=keeps)
        except (OSError, GitFailedError, HinderedError) as error:
            if is_back:
                raise
            why = error.strerror if isinstance(error, OSError) else getattr(error, "said", error)
            return [Left(one.name, f"it cannot be written: {why}")]
        if not is_done:
            lost.append(Left(one.name, MEANWHILE))
    return lost


def _folder_above(path: str, root: str) -> str:
    above = os.path.dirname(path)  # noqa: PTH120 - a name, from the top
    if not root:
        return above
    return above.removeprefix(f"{root}/") if above.startswith(f"{root}/") else ""


def turned(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return what takes operations back, the last one first."""
    return tuple(
        Operation(
            *(one.root, one.path, one.after, one.before),
            after_bits=one.before_bits,
            folders=one.folders,
        )
        for one in reversed(operations)
    )


OUTSIDE = "it is outside of the agent's region"
ALL = "."


class Projection:
    """Tells what is in a region, by `fold` as the file system compares names; None is all."""

    def __init__(self, region: Iterable[str] | None, fold: Callable[[str], str]) -> None:
        self._fold = fold
        whole = region is None or ALL in region
        self._region = None if whole or region is None else tuple(map(fold, region))

    @classmethod
    def of(cls, tree: Tree) -> Self:
        """Return what is in the region of a worktree."""
        return cls(tree.region, fold_of(tree.parent))

    def holds(self, path: str) -> bool:
        """Return whether a path, from the top, is in the region."""
        return self._region is None or is_below(self._fold(path), self._region)

    def top_of(self, path: str) -> str:
        """Return the file or folder of the region that a path is in, as the path spells it."""
        tops, own = (*folders_above(path), path), self._region or ()
        return next((top for top in tops if self._fold(top) in own), "")

    def touches(self, path: str) -> bool:
        """Return whether a folder is in the region, or has some of it inside."""
        folders = [self._fold(path)]
        return self.holds(path) or any(is_below(own, folders) for own in self._region or ())
