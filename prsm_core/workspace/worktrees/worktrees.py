"""The worktrees that are made from one folder, by whoever has its shadow; every method blocks.

One lock for each repository: whoever has it finds nothing half made, or half merged, that is being
worked on. So what is found so was left by a process that has died, and is removed, or finished.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.workspace.changes.acting import forget, keep, wrote_of
from prsm_core.workspace.identity import repo_identity
from prsm_core.workspace.shadow.acts import MERGE
from prsm_core.workspace.shadow.lock import folder_lock
from prsm_core.workspace.shadow.whereabouts import LOCK_SECONDS
from prsm_core.workspace.worktrees import making, merging, records, removing, results
from prsm_core.workspace.worktrees.committing import commit
from prsm_core.workspace.worktrees.projection import Projection, part
from prsm_core.workspace.worktrees.records import (
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
    Left,
    Outcome,
    Part,
    Tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from prsm_core.workspace.shadow.acts import Act
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.shadow.whereabouts import Where
    from prsm_core.workspace.shadow.worktree import Shadow
    from prsm_core.workspace.worktrees.results import Changed, Result

_SESSION_LETTERS = 6  # of its id, in names


@contextmanager
def _silent(_: Sequence[str]) -> Iterator[None]:
    yield


def _with_files(act: Act, tree: Tree) -> Act:
    """Return the act of a merge with the files that it writes."""
    return replace(act, wrote=tuple(map(wrote_of, tree.operations)))


class Whose(Record, frozen=True):
    """The agent that a worktree is for; `name` is its name in the session."""

    session: str
    agent: str
    name: str

    @property
    def short(self) -> str:
        """The session in few letters, fit for the name of a branch."""
        letters = re.sub(r"[^a-z0-9]", "", self.session.lower())
        return letters[-_SESSION_LETTERS:] or "session"


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
        """Make a worktree of the folder as it is now, on a branch at HEAD.

        One that an agent had before, and that was merged, is made `again` under its id. Of what
        is changed in it the `region` is merged, files and folders from its top; None is all.
        Raises ConfigError (code `no_worktree`) where none can be made; nothing is left behind then.
        """
        with self._at_work():
            begins = making.check(self._shadow.root, self._shadow.now())
            root = self._shadow.root("")
            tree_id, branch = self._free_names(root, whose, again)
            tree = Tree(
                id=tree_id,
                key=self._key,
                **{name: getattr(whose, name) for name in ("session", "agent", "name")},
                branch=branch,
                folder=str(self._where.trees / self._key / tree_id),
                parent=str(self._shadow.folder),
                commit=begins.commit,
                parts=tuple(
                    Part(path=state.path, origin=state.tree, base=state.tree)
                    for state in begins.states
                ),
                region=None if region is None else tuple(region),
                port=making.free_port(self._where, tree_id),
            )
            records.write(self._where, tree)
            try:
                making.make(self._shadow.root, tree, begins.states, self._place(tree))
            except BaseException:
                self._remove(tree)
                raise
            tree = replace(tree, state=READY)
            records.write(self._where, tree)
            return Made(tree, begins.notes)

    def _free_names(self, root: Root, whose: Whose, again: str | None) -> tuple[str, str]:
        """Return an id and a branch that nobody has."""
        number = 1
        while True:
            end = whose.name if number == 1 else f"{whose.name}-{number}"
            tree_id, branch = again or f"{whose.short}-{end}", f"prsm/{whose.short}/{end}"
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
            number += 1

    def find(self, tree_id: str) -> Tree | None:
        """Return what is known of a worktree; None where it is removed. git is not needed."""
        return records.read(self._where, self._key, tree_id)

    def settle(
        self,
        tree_id: str,
        message: str,
        *,
        is_wanted: bool = True,
        writing: Callable[[Sequence[str]], AbstractContextManager[None]] = _silent,
    ) -> Outcome:
        """Commit what the agent has changed on its branch, and merge it if it `is_wanted`.

        Files of the folder are written `writing` them: in that context, which is told which.

        What a process that has died had begun is finished first. What was merged already is told
        again until `finish`, and merged no second time.
        """
        with self._at_work():
            tree = self._known(tree_id)
            if tree.state in {MERGING, BACKING}:
                tree = self._carry_out(tree, writing)
            result = results.look(self._shadow.root, tree, self._place(tree))
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
        made = commit(self._shadow.root(""), tree, whole, index, message)
        parted = part(Projection.of(tree), result, new=new, whole=whole)
        outcome = Outcome(
            result=KEPT,
            branch=tree.branch,
            files=tuple(one.name for one in whole),
            commit=made.commit,
            left_out=made.left_out,
            outside=parted.outside,
            act=None if tree.outcome is None else tree.outcome.act,
        )
        done = PARTIAL if parted.outside else MERGED
        ended = zip(tree.parts, result.trees, strict=True)
        parts = tuple(replace(one, result=now) for one, now in ended)
        tree = replace(tree, state=SETTLED, parts=parts)
        if not (parted.changes or parted.strange):
            is_idle = not (outcome.files or parted.outside)
            if is_wanted or not parted.outside:
                outcome = replace(outcome, result=NOTHING if is_idle else done)
            return self._write(replace(tree, outcome=outcome))
        if not is_wanted:
            return self._write(replace(tree, outcome=outcome))
        operations, conflicts = merging.plan(self._shadow.root, parted.changes)
        if conflicts or parted.strange:
            all_ = (*conflicts, *parted.strange)
            outcome = replace(outcome, result=CONFLICT, conflicts=all_)
            return self._write(replace(tree, outcome=outcome))
        outcome = replace(outcome, result=done)
        tree = replace(tree, state=MERGING, operations=tuple(operations), outcome=outcome)
        if operations:
            act = self._shadow.new_act(MERGE, tree.session, what=tree.name)
            if lost := keep(self._shadow, _with_files(act, tree)):
                left = tuple(Left(one.path, why) for one, why in lost.items())
                outcome = replace(outcome, result=CONFLICT, conflicts=left)
                tree = replace(tree, state=SETTLED, operations=(), outcome=outcome)
                return self._write(tree)
            tree = replace(tree, act=act)
        return self._write(tree)

    def _differing(self, tree: Tree, result: Result) -> tuple[list[Changed], list[Changed]]:
        """Return what differs from what was merged last, and from the beginning."""
        new: list[Changed] = []
        whole: list[Changed] = []
        for one, now in zip(tree.parts, result.trees, strict=True):
            if now == one.origin == one.base or not self._shadow.has_root(one.path):
                continue
            root = self._shadow.root(one.path)
            root.shadow.run("update-ref", f"{tree.ref}/result", now)
            new += results.differing(root, one.base, now)
            whole += results.differing(root, one.origin, now)
        return new, whole

    def _write(self, tree: Tree) -> Tree:
        records.write(self._where, tree)
        return tree

    def _carry_out(
        self,
        tree: Tree,
        writing: Callable[[Sequence[str]], AbstractContextManager[None]] = _silent,
    ) -> Tree:
        """Write what was planned; if a file was changed, or cannot be written, take all back."""
        with writing(list(map(merging.name_of, tree.operations))):
            return self._write_all(tree)

    def _write_all(self, tree: Tree) -> Tree:
        root_of = self._shadow.root
        if tree.state == MERGING:
            region = Projection.of(tree)
            lost = merging.carry_out(root_of, tree.id, tree.operations, top_of=region.top_of)
            if not lost:
                for one in tree.parts:
                    if one.result != one.base:
                        base = f"{tree.ref}/base"
                        root_of(one.path).shadow.run("update-ref", base, one.result)
                if tree.act is not None and tree.outcome is not None:
                    self._shadow.acts.add(_with_files(tree.act, tree))
                    tree = replace(tree, outcome=replace(tree.outcome, act=tree.act.id))
                parts = tuple(replace(one, base=one.result) for one in tree.parts)
                return self._over(replace(tree, parts=parts))
            conflict = Outcome(result=CONFLICT, branch=tree.branch, conflicts=tuple(lost))
            if (known := tree.outcome) is not None:
                conflict = replace(known, result=CONFLICT, conflicts=tuple(lost))
            if tree.act is not None:
                forget(self._shadow, _with_files(tree.act, tree))
            back = merging.turned(tree.operations)
            tree = replace(tree, state=BACKING, operations=back, outcome=conflict)
            records.write(self._where, tree)
        merging.carry_out(root_of, tree.id, tree.operations, is_back=True)  # who wrote one keeps it
        return self._over(tree)

    def _over(self, tree: Tree) -> Tree:
        return self._write(replace(tree, state=SETTLED, operations=(), act=None))

    def has_changed(self, tree_id: str) -> bool:
        """Return whether an agent has changed something since its worktree was made."""
        with self._at_work():
            return not self._is_untouched(self._known(tree_id))

    def finish(self, tree_id: str) -> bool:
        """Remove a worktree of which all is merged; whether it is gone.

        One whose files are not those that were merged stays: somebody has written there since.
        """
        with self._at_work():
            tree = self._known(tree_id)
            if tree.state == LEAVING:
                self._remove(tree)
                return True
            if tree.state != SETTLED or tree.outcome is None or not tree.outcome.is_over:
                return False
            now = results.look(self._shadow.root, tree, self._place(tree))
            if now.trees != tuple(one.result for one in tree.parts) or now.strange:
                return False
            tree = replace(tree, state=LEAVING)
            records.write(self._where, tree)
            self._remove(tree)
            return True

    def discard(self, tree_id: str) -> None:
        """Remove a worktree in which no agent has worked, whatever is in it."""
        with self._at_work():
            tree = replace(self._known(tree_id), state=LEAVING)
            records.write(self._where, tree)
            self._remove(tree)

    def sweep(self, is_lost: Callable[[Tree], bool]) -> list[str]:
        """Remove what was left half made, and finish what was left half merged; return what was.

        Worktrees that nobody will ever work in, which `is_lost` tells, go if they are as they were
        made. Others' folders of the repository are left to those who begin there.
        """
        notes = []
        with self._at_work():
            known = list(records.read_all(self._where, self._key))
            for tree in known:
                if not self._is_ours(tree, known):
                    continue
                if tree.state in {MERGING, BACKING}:
                    done = self._carry_out(tree).outcome
                    said = CONFLICT if done is None else done.result
                    notes.append(f"a merge of {tree.branch} that was cut off is finished: {said}")
                elif tree.state in {MAKING, LEAVING} or self._is_idle(tree, is_lost):
                    self._remove(tree)
                    if tree.state != LEAVING:
                        notes.append(f"the worktree {tree.folder} was of no use, and is removed")
        return notes

    def _is_ours(self, tree: Tree, known: Sequence[Tree]) -> bool:
        """Whether a worktree was made from this folder; or from one that is gone, or goes, too."""
        if tree.parent == str(self._shadow.folder):
            return True
        going = {one.folder for one in known if one.state == LEAVING}
        return tree.state == LEAVING and (tree.parent in going or not Path(tree.parent).is_dir())

    def _is_idle(self, tree: Tree, is_lost: Callable[[Tree], bool]) -> bool:
        return tree.state == READY and is_lost(tree) and self._is_untouched(tree)

    def _is_untouched(self, tree: Tree) -> bool:
        now = results.look(self._shadow.root, tree, self._place(tree))
        return now.trees == tuple(one.origin for one in tree.parts) and not now.strange

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
        removing.remove(self._shadow.root, tree, self._place(tree))

    def _place(self, tree: Tree) -> Path:
        return self._where.place(tree.key, tree.id)
