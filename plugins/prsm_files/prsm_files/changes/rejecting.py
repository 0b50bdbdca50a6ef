"""Takes changes back, each alone: what came after stays. Undoes what was done to single files.

Both are the same: of a file that was one thing, and became another, that step is taken out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.files import PENDING, REJECTED, UNMERGED, path_text, text_path
from prsm_files.changes.acting import GONE, Acted, Acting, Stays, entry_of
from prsm_files.changes.merging import Side, Wanted, find_side, without
from prsm_files.changes.writing import Operation, planned
from prsm_files.shadow.acts import REJECT, UNDO, Act, Verdict
from prsm_files.shadow.records import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_files.changes.records import Entry
    from prsm_files.shadow.acts import Wrote
    from prsm_files.shadow.root import Root


class Decided(Struct, frozen=True):
    """What became of a change that was to be taken back; `why` says why it stays."""

    id: str
    state: str  # rejected | unmerged
    why: str = ""


class Rejection(NamedTuple):
    """What was decided for a session, and the act that it was done by."""

    session: str
    decided: tuple[Decided, ...]
    acted: Acted

    @property
    def written(self) -> tuple[str, ...]:
        """The files that were written for it."""
        return self.acted.files


class UndoPlan(NamedTuple):
    """What the undo of an act would do."""

    operations: tuple[Operation, ...]
    verdicts: tuple[Verdict, ...]
    stays: tuple[Stays, ...]


class Rejecter(Acting):
    """Takes changes of a folder back, and acts; see `Acting` for what was cut off."""

    def plan(self, wanted: Sequence[Wanted]) -> list[Decided]:
        """Return what would become of changes, given newest first; nothing is changed."""
        with self._shadow.at_work():
            return self._planned(wanted)[1]

    def reject(self, session: str, wanted: Sequence[Wanted]) -> Rejection:
        """Take changes back, given newest first. What is decided is to be stored, then `finish`."""
        with self._shadow.at_work():
            self.carry_on()
            operations, decided = self._planned(wanted)
            paths = {one.id: path_text(one.path) for one in wanted}
            act = self._shadow.new_act(REJECT, session, what=_files(operations))
            verdicts = tuple(
                Verdict(session, one.id, paths[one.id], PENDING, one.state, one.why)
                for one in decided
            )
            acted = self.begin(replace(act, verdicts=verdicts), operations)
            made = {one.change: one for one in acted.act.verdicts}
            return Rejection(
                session,
                tuple(Decided(one.id, made[one.id].new, made[one.id].why) for one in decided),
                acted,
            )

    def plan_undo(self, act: Act) -> UndoPlan:
        """Return what `undo` would do; nothing is changed."""
        with self._shadow.at_work():
            self.carry_on()
            return self._undone(act, ())

    def undo(self, act: Act, more: Sequence[Verdict] = ()) -> Acted:
        """Take an act back: only its files are written, and what was edited since is merged.

        What does not merge stays. What is decided about changes is as it was before the act, with
        `more` that is decided by it. That is to be stored, then `finish`.
        """
        with self._shadow.at_work():
            self.carry_on()
            plan = self._undone(act, more)
            new = self._shadow.new_act(UNDO, act.session, what=act.what)
            acted = self.begin(replace(new, undoes=act.id, verdicts=plan.verdicts), plan.operations)
            return acted._replace(stays=(*plan.stays, *acted.stays))

    def _undone(self, act: Act, more: Sequence[Verdict]) -> UndoPlan:
        """Take each file's step out, as if it were a change of its own."""
        files = {str(number): one for number, one in enumerate(act.wrote)}
        operations, decided = self._planned([_step(*one) for one in reversed(files.items())])
        stays = {one.id: one.why for one in decided if one.state == UNMERGED}
        kept_ids = {id_ for number in stays for id_ in files[number].ids}
        paths = {joined(files[number].root, files[number].path) for number in stays}
        verdicts = [
            replace(one, old=one.new, new=one.old, why="")
            for one in act.verdicts
            if one.change not in kept_ids and one.new != UNMERGED
        ]
        verdicts += [one for one in more if text_path(one.path) not in paths]
        by_path: dict[str, list[str]] = {}
        for one in verdicts:
            by_path.setdefault(text_path(one.path), []).append(one.change)
        return UndoPlan(
            tuple(_back(one, files[one.ids[0]], by_path) for one in operations),
            tuple(verdicts),
            tuple(Stays(joined(files[n].root, files[n].path), why) for n, why in stays.items()),
        )

    def _planned(self, wanted: Sequence[Wanted]) -> tuple[list[Operation], list[Decided]]:
        """Decide about all; a path that only others of them leave free is looked at after those."""
        files: dict[tuple[str, str], _File] = {}
        for change in wanted:
            path = change.inner
            one = files.setdefault((change.root, path), _File(self.root(change.root), path))
            one.changes.append(change)
        _decide(files)
        made = {decided.id: decided for one in files.values() for decided in one.decided()}
        operations = [one.operation() for one in files.values() if one.side.entry != one.was]
        operations.sort(key=lambda one: one.new is not None)  # what makes room comes first
        return operations, [made[change.id] for change in wanted]


def _step(id_: str, one: Wrote) -> Wanted:
    path = joined(one.root, one.path)
    before, after = entry_of(one.before), entry_of(one.after)
    return Wanted(id=id_, path=path, root=one.root, before=before, after=after)


def _back(one: Operation, undone: Wrote, by_path: Mapping[str, Sequence[str]]) -> Operation:
    """Return what takes a file back, with its permissions where it is made anew."""
    bits = None
    is_new = one.old is None or one.new is None or one.old.mode != one.new.mode
    if is_new and undone.before is not None:
        bits = undone.before.bits
    ids = tuple(by_path.get(joined(one.root, one.path), ()))
    folders = one.folders or undone.folders
    return replace(one, ids=ids, new_bits=bits, folders=folders)


def _files(operations: Sequence[Operation]) -> str:
    names = sorted(path_text(joined(one.root, one.path)) for one in operations)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else ""


class _File:
    """One file while changes of it are taken back, newest first."""

    def __init__(self, root: Root | None, path: str) -> None:
        self.changes: list[Wanted] = []
        self.was: Entry | None = None
        self.side = Side(None, GONE)
        self.ids: list[str] = []  # of changes that are taken back
        self._stay: dict[str, str] = {}  # why others are not
        self._root, self._path = root, path

    def is_decided_now(self, room: _Room) -> bool:
        """Decide about the changes, if that can be; whether it can."""
        if self._root is None:
            return False
        self.side = find_side(self._root, self._path, room.going)
        if self.side.why:
            return False
        self.was = self.side.entry
        for change in self.changes:
            left = without(self._root, self.side, change)
            if left.why:
                self._stay[change.id] = left.why
            else:
                self.side = left
                self.ids.append(change.id)
        if not room.takes(self._path, self.was, self.side.entry):
            self.side, self.ids = Side(self.was, "another file is to be in its place"), []
        return True

    def operation(self) -> Operation:
        if self._root is None:
            raise RuntimeError("a file whose repository is gone is written")
        return planned(self._root, self._path, self.was, self.side.entry, tuple(self.ids))

    def decided(self) -> Iterator[Decided]:
        for change in self.changes:
            if change.id in self.ids:
                yield Decided(change.id, REJECTED)
            else:
                yield Decided(change.id, UNMERGED, self._stay.get(change.id, self.side.why))


class _Room:
    """Which paths of a root are free, by what is decided so far."""

    def __init__(self) -> None:
        self.going: set[str] = set()
        self._coming: set[str] = set()
        self._folders: set[str] = set()  # of what comes

    def takes(self, path: str, old: Entry | None, new: Entry | None) -> bool:
        """Take note of what a path will be; False: one that comes as well is in its place."""
        if old is not None:
            if new is None:
                self.going.add(path)
            return True
        if new is not None:
            parts = path.split("/")
            above = {"/".join(parts[:count]) for count in range(1, len(parts))}
            if path in self._folders or above & self._coming:
                return False
            self._coming.add(path)
            self._folders |= above
        return True


def _decide(files: Mapping[tuple[str, str], _File]) -> None:
    """Decide about all files that are fit, and about those for which they make room."""
    rooms: dict[str, _Room] = {}
    waiting, count = list(files.items()), -1
    while len(waiting) != count:
        count = len(waiting)
        waiting = [
            ((root, path), one)
            for (root, path), one in waiting
            if not one.is_decided_now(rooms.setdefault(root, _Room()))
        ]
