"""Takes changes back, each alone: what came after stays. Cut off anywhere, it is finished later.

What is to be written is on the disk before the first file changes. Each file changes at once, by a
new one that takes its place, so it is as before or as after, never between. The intent stays until
its owner has stored what was decided, so that the tree and the ledger agree.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.workspace.changes.merging import Side, find_side, without
from prsm_core.workspace.changes.records import Entry
from prsm_core.workspace.changes.writing import Operation, write
from prsm_core.workspace.shadow.files import put, read_note, sync
from prsm_core.workspace.shadow.git import GitFailedError
from prsm_core.workspace.shadow.records import joined
from prsm_core.workspace.shadow.written import note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core.workspace.changes.merging import Wanted
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.shadow.worktree import Shadow
    from prsm_core.workspace.shadow.written import Content, Writing

REJECTED, UNMERGED = "rejected", "unmerged"
GONE = "its repository is gone"


class Decided(Record, frozen=True):
    """What became of a change that was to be taken back; `why` says why it stays."""

    id: str
    state: str  # rejected | unmerged
    why: str = ""


class Rejection(NamedTuple):
    """What was decided for a session, and the files that were written for it."""

    session: str
    decided: tuple[Decided, ...]
    written: tuple[str, ...] = ()


class Rejecter:
    """Takes changes of a folder back; every method blocks. Raises PrsmError, and OSError."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._intent = shadow.place / "reject.json"

    def plan(self, wanted: Sequence[Wanted]) -> list[Decided]:
        """Return what would become of changes, given newest first; nothing is changed."""
        with self._shadow.at_work():
            return self._planned(wanted)[1]

    def reject(self, session: str, wanted: Sequence[Wanted]) -> Rejection:
        """Take changes back, given newest first. What is decided is to be stored, then `finish`.

        One that was cut off is to be finished before: see `unfinished`.
        """
        with self._shadow.at_work():
            if self._intent.exists():
                raise ConfigError(
                    f"a rejection in session {self.session} was cut off, and is to be finished",
                    hint=f"finish it: prsm changes list --session {self.session}",
                    code="cut_off",
                )
            operations, decided = self._planned(wanted)
            if not operations:
                return Rejection(session, tuple(decided))
            self._write_intent(session, operations, decided)
            return self._carry_out(session, operations, decided)

    @property
    def session(self) -> str | None:
        """Whose rejection was cut off; None: nobody's was."""
        given = read_note(self._intent)
        return None if given is None else str(given["session"])

    @property
    def is_cut_off(self) -> bool:
        """Whether some were taken back, and that is not stored yet."""
        return self._intent.exists()

    def unfinished(self) -> Rejection | None:
        """Finish what a process that has died began; what was decided is to be stored anew."""
        with self._shadow.at_work():
            given = read_note(self._intent)
            if given is None:
                return None
            operations = [_operation(one) for one in given["operations"]]
            decided = [Decided(**one) for one in given["decided"]]
            return self._carry_out(given["session"], operations, decided)

    def finish(self) -> None:
        """Note that what was decided is stored."""
        self._intent.unlink(missing_ok=True)
        sync(self._intent.parent)

    def _planned(self, wanted: Sequence[Wanted]) -> tuple[list[Operation], list[Decided]]:
        """Decide about all; a path that only others of them leave free is looked at after those."""
        files: dict[tuple[str, str], _File] = {}
        for change in wanted:
            path = change.inner
            one = files.setdefault((change.root, path), _File(self._root(change.root), path))
            one.changes.append(change)
        _decide(files)
        made = {decided.id: decided for one in files.values() for decided in one.decided()}
        operations = [
            Operation(root, path, one.was, one.side.entry, tuple(one.ids))
            for (root, path), one in files.items()
            if one.side.entry != one.was
        ]
        operations.sort(key=lambda one: one.new is not None)  # what makes room comes first
        return operations, [made[change.id] for change in wanted]

    def _root(self, path: str) -> Root | None:
        return self._shadow.root(path) if self._shadow.has_root(path) else None

    def _write_intent(
        self, session: str, operations: Sequence[Operation], decided: Sequence[Decided]
    ) -> None:
        told = {
            "session": session,
            "act": secrets.token_hex(8),
            "operations": [msgspec.to_builtins(one) for one in operations],
            "decided": [msgspec.to_builtins(one) for one in decided],
        }
        put(self._intent, json.dumps(told).encode("ascii"), is_durable=True)

    def _carry_out(
        self, session: str, operations: Sequence[Operation], decided: Sequence[Decided]
    ) -> Rejection:
        """Write what is not written yet; who has changed a file meanwhile keeps it."""
        lost: dict[str, str] = {}
        written: dict[str, dict[str, Writing]] = {}
        for number, one in enumerate(operations):
            if why := self._write(one, f".prsm-{number}.new"):
                lost.update(dict.fromkeys(one.ids, why))
            else:
                writing = (_content(one.old), _content(one.new))
                written.setdefault(one.root, {})[one.path] = writing
        note(self._shadow.place, f"reject {self._id()}", written)
        return Rejection(
            session,
            tuple(
                Decided(one.id, UNMERGED, lost[one.id]) if one.id in lost else one
                for one in decided
            ),
            tuple(joined(root, path) for root, paths in written.items() for path in paths),
        )

    def _id(self) -> str:
        """Return what tells this rejection from others, also once it is carried out again."""
        given: Mapping[str, Any] = json.loads(self._intent.read_bytes())
        return str(given["act"])

    def _write(self, one: Operation, beside: str) -> str:
        """Write one file; return why it stays as it was, "" if it does not.

        One that cannot be written keeps no other from it, and is tried again when a person asks.
        """
        root = self._root(one.root)
        if root is None:
            return GONE
        try:
            return "" if write(root, one, beside) else "the file was changed meanwhile"
        except OSError as error:
            return f"it cannot be written: {error.strerror}"
        except GitFailedError:
            return "what it would be is gone from the shadow"


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

    def decided(self) -> Iterator[Decided]:
        """Yield what becomes of each change."""
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


def _content(entry: Entry | None) -> Content:
    return None if entry is None else (entry.mode, entry.blob)


def _operation(given: dict[str, Any]) -> Operation:
    old, new = (None if one is None else Entry(**one) for one in (given["old"], given["new"]))
    return Operation(given["root"], given["path"], old, new, tuple(given["ids"]))
