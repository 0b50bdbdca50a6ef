"""What each commit of a repository holds: accepted changes, and nothing else of the files.

Each change is merged onto what HEAD has, as if it alone had been made there: what is pending, and
what a person has edited, is no part of it. It is merged onto what is staged, too. What does not
merge with both is left out.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.domain.record import Record
from prsm_core.workspace.changes.merging import Side, Words, merged
from prsm_core.workspace.commits.converting import Converter
from prsm_core.workspace.commits.records import Left
from prsm_core.workspace.shadow.records import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.workspace.changes.merging import Wanted
    from prsm_core.workspace.changes.records import Entry
    from prsm_core.workspace.commits.records import Asked
    from prsm_core.workspace.commits.repository import Entries, PersonsRepository

_ONTO_HEAD = Words(
    gone="HEAD has no such file: what was there before is in no commit",
    removing="HEAD has another file there than the one that it deletes",
    adding="HEAD has another file there than the one that it makes",
    link="HEAD has something else there, and links and submodules do not merge",
    binary="HEAD has something else there, and it is no text",
    lines="HEAD has other lines where it changed some",
)
_ONTO_STAGED = Words(
    **dict.fromkeys(_ONTO_HEAD.__struct_fields__, "what is staged of the file is in its way")
)


class Layer(Record, frozen=True, kw_only=True):
    """One commit to make: the changes that it holds, and what differs from the one before it."""

    asked: Asked
    changes: tuple[Wanted, ...]
    entries: Mapping[str, Entry | None]  # by path in the repository


class RepositoryPlan(NamedTuple):
    """The commits of one repository, oldest first, what its index becomes, and what is left out."""

    layers: tuple[Layer, ...]
    staged: Entries
    left: tuple[Left, ...]
    held: tuple[str, ...]  # changes that HEAD has already, by whomever


class Planner:
    """Plans the commits of one repository; writes to the shadow alone. Raises GitFailedError."""

    def __init__(self, person: PersonsRepository, asked: Sequence[Asked]) -> None:
        self._person = person
        self._asked = asked
        self._paths = sorted({change.inner for one in asked for change in one.changes})
        self._converter = Converter(person, self._paths)
        self._head = person.in_head(self._paths)
        self._index = person.in_index(self._paths)
        self._held: set[str] = set()
        self._scratch = person.root.place / "commit.index"

    def plan(self) -> RepositoryPlan:
        """Return what is to be done, as far as it can be."""
        barred = self._unfit()
        while True:
            self._held.clear()
            layers, left = self._layers(barred)
            staged, more = self._staged(layers)
            more = more or self._without_room(layers, staged)
            if not more:
                return RepositoryPlan(tuple(layers), staged, tuple(left), tuple(self._held))
            barred |= more

    def _unfit(self) -> dict[str, str]:
        """Return paths of which nothing is committed, and why."""
        found = {}
        for path in self._paths:
            if (name := self._converter.filter_of(path)) is not None:
                found[path] = f"git has a filter convert it ({name}): stage it with `git add`"
        for path in self._person.unmerged(self._paths):
            found[path] = "it has conflicts in the index: resolve them first"
        return found

    def _layers(self, barred: Mapping[str, str]) -> tuple[list[Layer], list[Left]]:
        """Return commits, each after those before it; one that is asked for may become several.

        A change that builds on one of another agent waits until that is committed.
        """
        files = {path: Side(entry) for path, entry in self._head.items()}
        rest = [(one, one.changes) for one in self._asked]
        layers: list[Layer] = []
        left: list[Left] = []
        while rest:
            left, waiting = [], []
            count = len(layers)
            for one, changes in rest:
                taken, kept = self._taken(files, changes, barred)
                if taken:
                    entries = {change.inner: files[change.inner].entry for change in taken}
                    layers.append(Layer(asked=one, changes=tuple(taken), entries=entries))
                if kept:
                    waiting.append((one, tuple(change for change, _ in kept)))
                    left += [Left(change.id, why) for change, why in kept]
            if len(layers) == count:
                break
            rest = waiting
        return layers, left

    def _taken(
        self, files: dict[str, Side], changes: Iterable[Wanted], barred: Mapping[str, str]
    ) -> tuple[list[Wanted], list[tuple[Wanted, str]]]:
        """Merge changes onto files; return those that were, and others with why they were not."""
        taken: list[Wanted] = []
        kept: list[tuple[Wanted, str]] = []
        for change in changes:
            path = change.inner
            if path in barred:
                kept.append((change, barred[path]))
                continue
            side = merged(
                self._person.root,
                files[path],
                base=self._converter.stored(path, change.before),
                other=self._converter.stored(path, change.after),
                words=_ONTO_HEAD,
            )
            if side.why:
                kept.append((change, side.why))
            elif side.entry == files[path].entry == self._head[path]:
                self._held.add(change.id)
            else:
                files[path] = side
                taken.append(change)
        return taken, kept

    def _staged(self, layers: Sequence[Layer]) -> tuple[Entries, dict[str, str]]:
        """Return what the index becomes at each path, and paths where that cannot be."""
        final: Entries = {}
        for layer in layers:
            final.update(layer.entries)
        staged: Entries = {}
        barred: dict[str, str] = {}
        for path, entry in final.items():
            now, head = self._index[path], self._head[path]
            side = merged(self._person.root, Side(now), base=head, other=entry, words=_ONTO_STAGED)
            staged[path] = side.entry
            if side.why:
                barred[path] = side.why
        return staged, barred

    def _without_room(self, layers: Sequence[Layer], staged: Entries) -> dict[str, str]:
        """Return paths at which there is a folder, or a file above them."""
        clashing: set[str] = set()
        self._person.begin_tree(self._scratch)
        for layer in layers:
            clashing |= self._person.put(self._scratch, layer.entries)
        copy_index(self._person, self._scratch)
        clashing |= self._person.put(self._scratch, staged)
        self._scratch.unlink(missing_ok=True)
        return dict.fromkeys(clashing, "a file and a folder have the same name there")


def copy_index(person: PersonsRepository, copy: Path) -> None:
    """Copy the person's index, whole, for changing it; none becomes an empty one."""
    try:
        shutil.copy2(person.where.index, copy)  # with its time: by it git tells what may be young
    except FileNotFoundError:
        person.git.run("read-tree", "--empty", index=copy)
        return
    person.git.run("update-index", "--no-split-index", index=copy)


def files_of(layer: Layer) -> tuple[str, ...]:
    """Return the files of a commit, from the top of the folder."""
    return tuple(dict.fromkeys(joined(one.root, one.inner) for one in layer.changes))


def only(asked: Iterable[Asked], root: str) -> list[Asked]:
    """Return what is asked for in one repository."""
    found = []
    for one in asked:
        changes = tuple(change for change in one.changes if change.root == root)
        if changes:
            found.append(replace(one, changes=changes))
    return found
