"""Takes changes back, each alone: what came after stays. Cut off anywhere, it is finished later.

What is to be written is on the disk before the first file changes. Each file changes at once, by a
new one that takes its place, so it is as before or as after, never between. The intent stays until
its owner has stored what was decided, so that the tree and the ledger agree.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.workspace.changes.merging import find_side, without
from prsm_core.workspace.changes.records import Entry
from prsm_core.workspace.changes.writing import Operation, write
from prsm_core.workspace.shadow.journal import sync
from prsm_core.workspace.shadow.records import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.workspace.changes.merging import Side, Wanted
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.shadow.worktree import Shadow

REJECTED, UNMERGED = "rejected", "unmerged"


class Decided(Record, frozen=True):
    """What became of a change that was to be taken back; `why` says why it stays."""

    id: str
    state: str  # rejected | unmerged
    why: str = ""


class Rejection(NamedTuple):
    """What was decided for a session, and the paths that were written."""

    session: str
    decided: tuple[Decided, ...]
    paths: tuple[str, ...] = ()


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
        try:
            given: dict[str, Any] = json.loads(self._intent.read_bytes())
        except FileNotFoundError:
            return None
        return str(given["session"])

    @property
    def is_cut_off(self) -> bool:
        """Whether some were taken back, and that is not stored yet."""
        return self._intent.exists()

    def unfinished(self) -> Rejection | None:
        """Finish what a process that has died began; what was decided is to be stored anew."""
        with self._shadow.at_work():
            if not self._intent.exists():
                return None
            given: dict[str, Any] = json.loads(self._intent.read_bytes())
            operations = [_operation(one) for one in given["operations"]]
            decided = [Decided(**one) for one in given["decided"]]
            return self._carry_out(given["session"], operations, decided)

    def finish(self) -> None:
        """Note that what was decided is stored."""
        self._intent.unlink(missing_ok=True)
        sync(self._intent.parent)

    def _planned(self, wanted: Sequence[Wanted]) -> tuple[list[Operation], list[Decided]]:
        files: dict[tuple[str, str], _File] = {}
        decided = []
        for change in wanted:
            root = self._root(change.root)
            if root is None:
                decided.append(Decided(change.id, UNMERGED, "its repository is gone"))
                continue
            place = change.root, change.inner
            if place not in files:
                files[place] = _File(find_side(root, change.inner))
            decided.append(files[place].take_back(root, change))
        operations = [
            Operation(root, path, file.was, file.side.entry, tuple(file.ids))
            for (root, path), file in files.items()
            if file.side.entry != file.was
        ]
        return operations, decided

    def _root(self, path: str) -> Root | None:
        folder = self._shadow.folder / path
        return self._shadow.root(path) if folder.is_dir() else None

    def _write_intent(
        self, session: str, operations: Sequence[Operation], decided: Sequence[Decided]
    ) -> None:
        told = {
            "session": session,
            "operations": [msgspec.to_builtins(one) for one in operations],
            "decided": [msgspec.to_builtins(one) for one in decided],
        }
        descriptor, name = tempfile.mkstemp(dir=self._intent.parent, prefix=".reject-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(told).encode("ascii"))
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(self._intent)
        sync(self._intent.parent)

    def _carry_out(
        self, session: str, operations: Sequence[Operation], decided: Sequence[Decided]
    ) -> Rejection:
        """Write what is not written yet; who has changed a file meanwhile keeps it."""
        lost: set[str] = set()
        written = []
        for number, one in enumerate(operations):
            root = self._root(one.root)
            if root is None or not write(root, one, f".prsm-{number}.new"):
                lost.update(one.ids)
            else:
                written.append(joined(one.root, one.path))
        all_ = (
            Decided(one.id, UNMERGED, "the file was changed meanwhile") if one.id in lost else one
            for one in decided
        )
        return Rejection(session, tuple(all_), tuple(written))


class _File:
    """One file while changes of it are taken back, newest first."""

    def __init__(self, side: Side) -> None:
        self.was = side.entry
        self.side = side
        self.ids: list[str] = []

    def take_back(self, root: Root, change: Wanted) -> Decided:
        left = without(root, self.side, change)
        if left.why:
            return Decided(change.id, UNMERGED, left.why)
        self.side = left
        self.ids.append(change.id)
        return Decided(change.id, REJECTED)


def _operation(given: dict[str, Any]) -> Operation:
    old, new = (None if one is None else Entry(**one) for one in (given["old"], given["new"]))
    return Operation(given["root"], given["path"], old, new, tuple(given["ids"]))
