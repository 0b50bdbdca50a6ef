"""Carries out what PRSM does to single files of a folder, and takes it back: each change alone.

The act is on the disk before the first file changes, with what it writes over. Each file is as
before or as after, never between. Then the act owes each session's ledger what it decided. Whoever
comes next finishes what a death cut off.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from prsm_core.files import PENDING, REJECTED, UNMERGED, path_text, text_path
from prsm_files.changes.merging import Side, Wanted, find_side, without
from prsm_files.changes.writing import planned, write
from prsm_files.shadow.acts import KEPT, REFS, REJECT, UNDO, Act, Operation, Verdict, owed_by
from prsm_files.shadow.files import folders_above, put_json, read_note, sync
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.records import Left
from prsm_files.shadow.trackers import note
from prsm_files.shadow.whereabouts import ACT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.records import Entry
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow

GONE = "its repository is gone"
_UNKNOWN = "what it would be is gone from the shadow"
MEANWHILE = "the file was changed meanwhile"


class Acted(NamedTuple):
    """What an act came to."""

    act: Act
    stays: tuple[Left, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were written, from the top of the folder."""
        return tuple(one.name for one in self.act.wrote)

    @property
    def id(self) -> str | None:
        """What `prsm undo` takes it back by; None: there is nothing to take back."""
        return self.act.id if self.act.number else None


class Acting:
    """Carries acts out, and keeps the newest; all methods block. Raises PrsmError, and OSError."""

    def __init__(self, shadow: Shadow, *, most: int = KEPT) -> None:
        self._shadow = shadow
        self._most = most
        self._intent = shadow.place / ACT

    @property
    def is_cut_off(self) -> bool:
        """Whether files, or what a ledger says, are not yet as an act has them."""
        return self._intent.exists() or self._shadow.acts.owing() is not None

    def owes(self, session: str) -> bool:
        """Return whether an act is not over that a session's ledger tells of."""
        begun = read_note(self._intent, Act)
        if begun is not None and session in owed_by(begun.verdicts):
            return True
        return self._shadow.acts.owing(session) is not None

    def recover(self) -> None:
        """Finish the files of an act that was cut off, which a note of the shadow tells."""
        if self._intent.exists():
            with self._shadow.at_work():
                self.carry_on()

    def unfinished(self, session: str) -> Act | None:
        """Finish what was cut off; return an act to tell the ledger of, and then to `finish`."""
        with self._shadow.at_work():
            self.carry_on()
            return self._shadow.acts.owing(session)

    def finish(self, act: Act, session: str) -> None:
        """Note that a session's ledger says what an act decided."""
        with self._shadow.at_work():
            self._shadow.acts.settle(act.id, session)

    def carry_on(self) -> None:
        """Finish the files of an act that a dead process began; the caller has the lock."""
        begun = read_note(self._intent, Act)
        if begun is not None:
            act = self._carry_out(begun).act
            self._shadow.notes.append(f"an act that was cut off is finished: {act.kind} {act.id}")

    def begin(self, act: Act, operations: Sequence[Operation]) -> Acted:
        """Carry out the act; the caller has the lock. What raises has changed nothing."""
        act = replace(act, wrote=tuple(operations))
        lost = keep(self._shadow, act)
        stays = tuple(Left(one.name, why) for one, why in lost.items())
        act = _without(act, lost)
        if not act.wrote and all(one.new == UNMERGED for one in act.verdicts):
            return Acted(act, stays)
        put_json(self._intent, act, is_durable=True)
        acted = self._carry_out(act)
        return acted._replace(stays=(*stays, *acted.stays))

    def _carry_out(self, act: Act) -> Acted:
        """Write what is not written yet; who has changed a file meanwhile keeps it."""
        lost: dict[Operation, str] = {}
        for number, one in enumerate(act.wrote):
            if why := self._write(one, f"{act.id}-{number}"):
                lost[one] = why
        act = _without(act, lost)
        note(self._shadow.place, f"act {act.id}", act.wrote)
        act = replace(act, owed=owed_by(act.verdicts))
        if act.wrote or act.verdicts:
            act = self._shadow.acts.add(act)
        self._intent.unlink(missing_ok=True)
        sync(self._intent.parent)
        for old in self._shadow.acts.all()[: -self._most]:
            if not old.owed:
                forget(self._shadow, old)
                self._shadow.acts.drop(old)
        return Acted(act, tuple(Left(one.name, why) for one, why in lost.items()))

    def _write(self, one: Operation, name: str) -> str:
        """Write one file; return why it stays as it was, "" if it does not."""
        root = self.root(one.root)
        if root is None:
            return GONE
        try:
            return "" if write(root, one, name) else MEANWHILE
        except OSError as error:
            return f"it cannot be written: {error.strerror}"
        except GitFailedError:
            return _UNKNOWN

    def root(self, path: str) -> Root | None:
        """Return the shadow of a root; None where it is gone."""
        return self._shadow.root(path) if self._shadow.has_root(path) else None


def _without(act: Act, lost: Mapping[Operation, str]) -> Act:
    """Return an act without files that stay: a rejection is decided so, an undo leaves verdicts."""
    stays = {id_: why for one, why in lost.items() for id_ in one.ids}
    verdicts = [one for one in act.verdicts if one.change not in stays]
    if act.kind == REJECT:
        verdicts = [
            replace(one, new=UNMERGED, why=stays[one.change]) if one.change in stays else one
            for one in act.verdicts
        ]
    wrote = tuple(one for one in act.wrote if one not in lost)
    return replace(act, wrote=wrote, verdicts=tuple(verdicts))


def keep(shadow: Shadow, act: Act) -> Mapping[Operation, str]:
    """Keep in the shadow what an act will write, and write over; return what is gone, and why."""
    lost: dict[Operation, str] = {}
    for path in dict.fromkeys(one.root for one in act.wrote):
        git = shadow.root(path).shadow
        mine = [one for one in act.wrote if one.root == path]
        blobs = {one: [side.blob for side in (one.before, one.after) if side] for one in mine}
        gone = _take_in(git, [blob for some in blobs.values() for blob in some])
        lost.update((one, _UNKNOWN) for one in mine if gone & set(blobs[one]))
        for name in ("before", "after"):
            sides = [getattr(one, name) for one in mine if one not in lost]
            lines = (f"100644 blob {x.blob}\t{n}\n" for n, x in enumerate(sides) if x is not None)
            tree = git.word("mktree", stdin="".join(lines).encode("ascii"))
            git.run("update-ref", f"{REFS}/{act.id}/{name}", tree)
    return lost


def _take_in(git: GitDir, blobs: Sequence[str]) -> set[str]:
    """Store what lies in the repository alone: it may throw that away. Return what is gone."""
    gone = set()
    for blob in git.missing(dict.fromkeys(blobs), alone=True):
        found = git.ask("cat-file", "blob", blob)
        if found.code:
            gone.add(blob)
        else:
            git.store(found.out)
    return gone


def forget(shadow: Shadow, act: Act) -> None:
    """Forget what an act kept; the next pruning of the shadow removes it. Raises GitFailedError."""
    for path in dict.fromkeys(one.root for one in act.wrote):
        if shadow.has_root(path):
            for name in ("before", "after"):
                shadow.root(path).shadow.run("update-ref", "-d", f"{REFS}/{act.id}/{name}")


class UndoPlan(NamedTuple):
    """What the undo of an act would do."""

    operations: tuple[Operation, ...]
    verdicts: tuple[Verdict, ...]
    stays: tuple[Left, ...]


class Rejecter(Acting):
    """Takes changes back, and acts: of a file one step is taken out, and what came later stays."""

    def reject(self, session: str, wanted: Sequence[Wanted]) -> Acted:
        """Take changes back, newest first. The caller stores each verdict, then `finish`es."""
        with self._shadow.at_work():
            self.carry_on()
            operations, stay = self._planned(wanted)
            verdicts = tuple(
                Verdict(
                    *(session, one.id, path_text(one.path), PENDING),
                    new=UNMERGED if one.id in stay else REJECTED,
                    why=stay.get(one.id, ""),
                )
                for one in wanted
            )
            names = sorted(path_text(one.name) for one in operations)
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            what = f"{names[0]}{more}" if names else ""
            act = self._shadow.new_act(REJECT, session, what=what)
            return self.begin(replace(act, verdicts=verdicts), operations)

    def plan_undo(self, act: Act) -> UndoPlan:
        """Return what `undo` would do; nothing is changed."""
        with self._shadow.at_work():
            self.carry_on()
            return self._undone(act, ())

    def undo(self, act: Act, more: Sequence[Verdict] = ()) -> Acted:
        """Take an act back, in its files alone: changes are as before it, and `more` is decided."""
        with self._shadow.at_work():
            self.carry_on()
            plan = self._undone(act, more)
            new = self._shadow.new_act(UNDO, act.session, what=act.what)
            acted = self.begin(replace(new, undoes=act.id, verdicts=plan.verdicts), plan.operations)
            return acted._replace(stays=(*plan.stays, *acted.stays))

    def _undone(self, act: Act, more: Sequence[Verdict]) -> UndoPlan:
        files = {str(number): one for number, one in enumerate(act.wrote)}
        steps = [
            Wanted(id=id_, path=one.name, root=one.root, before=one.before, after=one.after)
            for id_, one in reversed(files.items())
        ]
        operations, stays = self._planned(steps)
        kept_ids = {id_ for number in stays for id_ in files[number].ids}
        paths = {files[number].name for number in stays}
        verdicts = [
            replace(one, old=one.new, new=one.old, why="")
            for one in act.verdicts
            if one.change not in kept_ids and one.new != UNMERGED
        ]
        verdicts += [one for one in more if text_path(one.path) not in paths]
        by_path: dict[str, list[str]] = {}
        for one in verdicts:
            by_path.setdefault(text_path(one.path), []).append(one.change)
        back = []
        for file in operations:
            undone = files[file.ids[0]]
            # A file that is made anew has the permissions that it had.
            is_new = (
                file.before is None or file.after is None or file.before.mode != file.after.mode
            )
            back.append(
                replace(
                    file,
                    ids=tuple(by_path.get(file.name, ())),
                    after_bits=undone.before_bits if is_new else None,
                    folders=file.folders or undone.folders,
                )
            )
        left = tuple(Left(files[number].name, why) for number, why in stays.items())
        return UndoPlan(tuple(back), tuple(verdicts), left)

    def _planned(self, wanted: Sequence[Wanted]) -> tuple[list[Operation], dict[str, str]]:
        """Return what to write, and why other changes stay; one may first need room."""
        files: dict[tuple[str, str], _File] = {}
        for change in wanted:
            path = change.inner
            one = files.setdefault((change.root, path), _File(self.root(change.root), path))
            one.changes.append(change)
        rooms = defaultdict[str, _Room](_Room)
        waiting, count = list(files.items()), -1
        while len(waiting) != count:
            count = len(waiting)
            waiting = [
                ((root, path), one)
                for (root, path), one in waiting
                if not one.is_decided_now(rooms[root])
            ]
        stay = {id_: why for one in files.values() for id_, why in one.stay().items()}
        operations = [one.operation() for one in files.values() if one.side.entry != one.was]
        # What makes room comes first.
        operations.sort(key=lambda one: one.after is not None)
        return operations, {one.id: stay[one.id] for one in wanted if one.id in stay}


class _File:
    def __init__(self, root: Root | None, path: str) -> None:
        self.changes: list[Wanted] = []
        self.was: Entry | None = None
        self.side = Side(None, GONE)
        self.ids: list[str] = []  # of changes that are taken back
        self._stay: dict[str, str] = {}  # why others are not
        self._root, self._path = root, path

    def is_decided_now(self, room: _Room) -> bool:
        """Decide about the changes, if that can be done yet; return whether it can."""
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

    def stay(self) -> dict[str, str]:
        """Return the changes that are not taken back, by id, each with the reason."""
        return {
            one.id: self._stay.get(one.id, self.side.why)
            for one in self.changes
            if one.id not in self.ids
        }


class _Room:
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
            above = set(folders_above(path))
            if path in self._folders or above & self._coming:
                return False
            self._coming.add(path)
            self._folders |= above
        return True
