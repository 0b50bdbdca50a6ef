"""Carries out what PRSM does to single files of a folder, so that it can be taken back.

What is written over or deleted is kept first. The act is on the disk before the first file changes.
Each file changes at once, by a new one that takes its place, so it is as before or as after, never
between. Then the act is in the folder's list, and owes the ledger what it decided until its session
says so: the tree and the ledger agree. Whoever comes next finishes what a death cut off.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from prsm_core.files import REJECTED, UNMERGED
from prsm_files.changes.records import Entry
from prsm_files.changes.writing import Operation, write
from prsm_files.shadow.acts import KEPT, REFS, REJECT, Act, Held, Wrote, owed_by, read_act
from prsm_files.shadow.files import put, read_note, sync
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.records import joined
from prsm_files.shadow.whereabouts import ACT
from prsm_files.shadow.written import note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow
    from prsm_files.shadow.written import Content, Writing

GONE = "its repository is gone"
_UNKNOWN = "what it would be is gone from the shadow"
MEANWHILE = "the file was changed meanwhile"


class Stays(NamedTuple):
    """A file that an act left as it is, and why."""

    path: str  # from the top of the folder
    why: str


class Acted(NamedTuple):
    """What an act came to."""

    act: Act
    stays: tuple[Stays, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were written, from the top of the folder."""
        return tuple(joined(one.root, one.path) for one in self.act.wrote)

    @property
    def id(self) -> str | None:
        """What `prsm undo` takes it back by; None: there is nothing to take back."""
        return self.act.id if self.act.number else None


class Acting:
    """Carries acts out in a folder; every method blocks. Raises PrsmError, and OSError.

    Of those that are done the newest are kept, `most` of them.
    """

    def __init__(self, shadow: Shadow, *, most: int = KEPT) -> None:
        self._shadow = shadow
        self._most = most
        self._intent = shadow.place / ACT

    @property
    def is_cut_off(self) -> bool:
        """Whether an act is not over: files, or what a ledger says, are not as it has them."""
        return self._intent.exists() or self._shadow.acts.owing() is not None

    def owes(self, session: str) -> bool:
        """Return whether an act is not over that a session's ledger tells of."""
        given = read_note(self._intent)
        if given is not None and any(one["session"] == session for one in given["verdicts"]):
            return True
        return self._shadow.acts.owing(session) is not None

    def recover(self) -> None:
        """Finish the files of an act that was cut off, which a note of the shadow tells."""
        if self._intent.exists():
            with self._shadow.at_work():
                self.carry_on()

    def unfinished(self, session: str) -> Act | None:
        """Finish the files of an act that was cut off; return one that a ledger is to tell of.

        `finish` it once the ledger does. There may be more of them.
        """
        with self._shadow.at_work():
            self.carry_on()
            return self._shadow.acts.owing(session)

    def finish(self, act: Act, session: str) -> None:
        """Note that a session's ledger says what an act decided."""
        with self._shadow.at_work():
            self._shadow.acts.settle(act.id, session)

    def carry_on(self) -> None:
        """Finish the files of an act that a process which has died began; it has the lock."""
        given = read_note(self._intent)
        if given is not None:
            act = self._carry_out(read_act(given)).act
            self._shadow.notes.append(f"an act that was cut off is finished: {act.kind} {act.id}")

    def begin(self, act: Act, operations: Sequence[Operation]) -> Acted:
        """Carry out the act. Keep what it overwrites first. The caller holds the lock.

        Raises GitFailedError and OSError where that cannot be, and then nothing has changed.
        """
        act = replace(act, wrote=tuple(map(wrote_of, operations)))
        lost = keep(self._shadow, act)
        act = _without(act, lost)
        if not act.wrote and not any(one.new != UNMERGED for one in act.verdicts):
            return Acted(act, tuple(_stays(lost)))
        put(self._intent, json.dumps(msgspec.to_builtins(act)).encode("ascii"), is_durable=True)
        acted = self._carry_out(act)
        return acted._replace(stays=(*_stays(lost), *acted.stays))

    def _carry_out(self, act: Act) -> Acted:
        """Write what is not written yet; who has changed a file meanwhile keeps it."""
        lost: dict[Wrote, str] = {}
        written: dict[str, dict[str, Writing]] = {}
        for number, one in enumerate(act.wrote):
            if why := self._write(one, f"{act.id}-{number}"):
                lost[one] = why
            else:
                writing = (_content(one.before), _content(one.after))
                written.setdefault(one.root, {})[one.path] = writing
        note(self._shadow.place, f"act {act.id}", written)
        act = _without(act, lost)
        act = replace(act, owed=owed_by(act.verdicts))
        if act.wrote or act.verdicts:
            act = self._shadow.acts.add(act)
        self._intent.unlink(missing_ok=True)
        sync(self._intent.parent)
        self._trim()
        return Acted(act, tuple(_stays(lost)))

    def _write(self, one: Wrote, name: str) -> str:
        """Write one file; return why it stays as it was, "" if it does not.

        One that cannot be written keeps no other from it, and is tried again when a person asks.
        """
        root = self.root(one.root)
        if root is None:
            return GONE
        try:
            return "" if write(root, operation_of(one), name) else MEANWHILE
        except OSError as error:
            return f"it cannot be written: {error.strerror}"
        except GitFailedError:
            return _UNKNOWN

    def root(self, path: str) -> Root | None:
        """Return the shadow of a root; None where it is gone."""
        return self._shadow.root(path) if self._shadow.has_root(path) else None

    def _trim(self) -> None:
        old = [act for act in self._shadow.acts.all()[: -self._most] if not act.owed]
        for act in old:
            forget(self._shadow, act)
        self._shadow.acts.drop(old)


def _without(act: Act, lost: Mapping[Wrote, str]) -> Act:
    """Return an act without files that stay, and why they do.

    A rejection that does not come to be is decided so; an undo leaves what was decided.
    """
    stays = {id_: why for one, why in lost.items() for id_ in one.ids}
    verdicts = []
    for one in act.verdicts:
        if one.change not in stays:
            verdicts.append(one)
        elif act.kind == REJECT and one.new == REJECTED:
            verdicts.append(replace(one, new=UNMERGED, why=stays[one.change]))
    wrote = tuple(one for one in act.wrote if one not in lost)
    return replace(act, wrote=wrote, verdicts=tuple(verdicts))


def _stays(lost: Mapping[Wrote, str]) -> Iterator[Stays]:
    return (Stays(joined(one.root, one.path), why) for one, why in lost.items())


def keep(shadow: Shadow, act: Act) -> Mapping[Wrote, str]:
    """Keep what an act will write over, and what it will write, in the shadow itself.

    Returns the files of which that cannot be had any more, and why. Raises GitFailedError.
    """
    lost: dict[Wrote, str] = {}
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
    asked = "".join(f"{blob}\n" for blob in dict.fromkeys(blobs)).encode("ascii")
    said = git.run("cat-file", "--batch-check", stdin=asked, alone=True)
    gone = set()
    for line in said.splitlines():
        if line.endswith(b" missing"):
            blob = line.split(b" ")[0].decode("ascii")
            found = git.ask("cat-file", "blob", blob)
            if found.code:
                gone.add(blob)
            else:
                git.run("hash-object", "-w", "--stdin", stdin=found.out, alone=True)
    return gone


def forget(shadow: Shadow, act: Act) -> None:
    """Forget what an act kept; the next pruning of the shadow removes it. Raises GitFailedError."""
    for path in dict.fromkeys(one.root for one in act.wrote):
        if shadow.has_root(path):
            for name in ("before", "after"):
                shadow.root(path).shadow.run("update-ref", "-d", f"{REFS}/{act.id}/{name}")


def wrote_of(one: Operation) -> Wrote:
    """Return an operation as an act keeps it."""
    return Wrote(
        root=one.root,
        path=one.path,
        before=_held(one.old, one.old_bits),
        after=_held(one.new, one.new_bits),
        ids=one.ids,
        folders=one.folders,
    )


def operation_of(one: Wrote) -> Operation:
    """Return an operation that an act keeps."""
    return Operation(
        one.root,
        one.path,
        entry_of(one.before),
        entry_of(one.after),
        one.ids,
        None if one.before is None else one.before.bits,
        None if one.after is None else one.after.bits,
        one.folders,
    )


def entry_of(held: Held | None) -> Entry | None:
    """Return what was at a path, as changes have it."""
    return None if held is None else Entry(held.mode, held.blob)


def _held(entry: Entry | None, bits: int | None) -> Held | None:
    return None if entry is None else Held(entry.mode, entry.blob, bits)


def _content(held: Held | None) -> Content:
    return None if held is None else (held.mode, held.blob)
