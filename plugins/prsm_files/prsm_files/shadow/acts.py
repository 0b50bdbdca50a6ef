"""What PRSM itself did to the files of a folder, and what takes each act back.

A restore writes whatever differs from a snapshot: its safety snapshot takes it back, and its id is
the act's. A rejection, a merge, and the undo of one keeps what each file was before, and after.

The intent of a restore is on the disk before the first file changes, and gone after the last one
did. What is to be done besides is owed until it is done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import ConfigError
from prsm_files.shadow.files import put_json, read_note, sync
from prsm_files.shadow.records import Change, find_id
from prsm_files.shadow.whereabouts import INTENT, OWED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

REJECT, MERGE, RESTORE, UNDO = "reject", "merge", "restore", "undo"
KEPT = 200  # acts of a folder
REFS = "refs/acts"  # what keeps the contents of one, in the git directory of each root
_NAME = re.compile(r"(\d{8})-([0-9a-f]{1,32})\.json")

Owed: TypeAlias = Mapping[str, Any]  # JSON values, of which only their owner knows what they mean


class Operation(Change, frozen=True, gc=False, kw_only=True):
    """A file that an act writes, or wrote, and what it is beside its content."""

    ids: tuple[str, ...] = ()  # the changes that are decided by it
    before_bits: int | None = None  # permissions; None: as git tells them, or it is a link
    after_bits: int | None = None  # None: as those of the file before, or as most have
    folders: tuple[tuple[str, int], ...] = ()  # above it, with permissions: what lacks is made so


class Verdict(Struct, frozen=True, gc=False):
    """What an act decided about a change of a session: it was `old`, and is `new`."""

    session: str
    change: str
    path: str
    old: str
    new: str
    why: str = ""


class Act(Struct, frozen=True, kw_only=True):
    """What PRSM did to files at once."""

    id: str  # for people; that of a restore is the id of its safety snapshot
    kind: str  # reject, merge, restore or undo
    at: float  # Unix seconds
    number: int = 0  # counts the acts of a folder up: which is newer, no clock decides
    seen: int = 0  # the number of the newest snapshot that came before it
    session: str | None = None
    what: str = ""  # in a line
    undoes: str | None = None  # the act that it took back
    wrote: tuple[Operation, ...] = ()  # the files that it wrote one by one
    verdicts: tuple[Verdict, ...] = ()
    owed: tuple[str, ...] = ()  # sessions whose ledger is to tell the verdicts, and does not yet
    target: str | None = None  # the snapshot that a restore went to
    then: Owed | None = None  # what a restore did besides

    @property
    def is_restore(self) -> bool:
        """Whether it wrote what differs from a snapshot, and is taken back by another one."""
        return self.target is not None

    @property
    def safety(self) -> str:
        """The snapshot that takes a restore back."""
        return self.id


class ActLog:
    """Keeps the acts of a folder, one file each. Writing needs the folder's lock."""

    def __init__(self, place: Path) -> None:
        self._folder = place / "acts"

    def all(self) -> Sequence[Act]:
        """Return all acts, oldest first. Raises ConfigError for one that is damaged."""
        return [act for file in self._files() if (act := _read(file)) is not None]

    def last(self) -> Act | None:
        """Return the newest act. Raises ConfigError where it is damaged."""
        files = self._files()
        return _read(files[-1]) if files else None

    def find(self, wanted: str) -> Act | None:
        """Return the act of an id, or of its beginning. Raises ConfigError for several."""
        files = {file.stem[9:]: file for file in self._files()}
        found = find_id(sorted(files), wanted, "act")
        return None if found is None else _read(files[found])

    def add(self, act: Act) -> Act:
        """Keep an act, durably, once however often it is added. Raises OSError."""
        files = self._files()
        if known := [file for file in files if file.stem[9:] == act.id]:
            return _read(known[0]) or act
        act = replace(act, number=1 + (int(files[-1].name[:8]) if files else 0))
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700)
            sync(self._folder.parent)
        self._put(act)
        return act

    def settle(self, act_id: str, session: str) -> None:
        """Note that a session's ledger says what an act decided. Raises OSError."""
        act = self.find(act_id)
        if act is not None and session in act.owed:
            self._put(replace(act, owed=tuple(one for one in act.owed if one != session)))

    def owing(self, session: str | None = None) -> Act | None:
        """Return the oldest act that a session's ledger, or anybody's, does not say yet."""
        acts = (one for one in self.all() if one.owed)
        return next((one for one in acts if session is None or session in one.owed), None)

    def drop(self, act: Act) -> None:
        """Forget an act; what it keeps is its owner's to forget. Raises OSError."""
        self._file(act).unlink(missing_ok=True)

    def _put(self, act: Act) -> None:
        put_json(self._file(act), act, is_durable=True)

    def _file(self, act: Act) -> Path:
        return self._folder / f"{act.number:08}-{act.id}.json"

    def _files(self) -> Sequence[Path]:
        if not self._folder.is_dir():
            return ()
        return sorted(file for file in self._folder.iterdir() if _NAME.fullmatch(file.name))


def nothing_to_undo() -> ConfigError:
    """Return the error of a folder to which nothing was done."""
    return ConfigError(
        "nothing was restored, rejected or merged in this folder, so there is nothing to undo",
        hint="`prsm undo --turn` takes back what agents changed last, `prsm undo --prompt` "
        "all of a prompt; `prsm snapshot list` shows what can be restored",
        code="nothing_to_undo",
    )


def as_of(acts: Sequence[Act], snapshot: int) -> tuple[Verdict, ...]:
    """Return what a restore to the snapshot of that number decides: all is as it was then."""
    then: dict[tuple[str, str], str] = {}
    now: dict[tuple[str, str], Verdict] = {}
    for act in acts:
        for one in act.verdicts:
            key = one.session, one.change
            if act.seen < snapshot:
                then[key] = one.new
            else:
                then.setdefault(key, one.old)
            now[key] = one
    return tuple(
        Verdict(one.session, one.change, one.path, one.new, then[key])
        for key, one in now.items()
        if then[key] != one.new
    )


def owed_by(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return the sessions whose ledgers are to say what was decided."""
    return tuple(dict.fromkeys(one.session for one in verdicts))


_read = partial(
    read_note,
    kind=Act,
    what="an act",
    cure="delete that file: the act cannot be taken back any more",
)


class Intent(Struct, frozen=True):
    """A restore that has begun: from the snapshot `safety` to the snapshot `target`."""

    target: str
    safety: str
    begun_at: float  # Unix seconds
    with_staging: bool = True
    then: Owed | None = None  # what is owed once the files are there: JSON values
    number: int | None = None  # of the snapshot as of which changes are decided; None: the target


class Journal:
    """Owns the files, in the folder of a shadow."""

    def __init__(self, folder: Path) -> None:
        self._intent = folder / INTENT
        self._owed = folder / OWED

    def intent(self) -> Intent | None:
        """Return the restore that is under way, or was cut off."""
        return read_note(self._intent, Intent)

    def begin(self, intent: Intent) -> None:
        """Write the intent, durably. Raises OSError."""
        put_json(self._intent, intent, is_durable=True)

    def finish(self, then: Owed | None = None) -> None:
        """Write what is owed; then end the restore. Raises OSError."""
        if then is not None:
            put_json(self._owed, then, is_durable=True)
        self.abandon()

    def owed(self) -> Owed | None:
        """Return what is to be done besides for a restore that is over; None: nothing."""
        return read_note(self._owed, dict[str, Any])

    def require_nothing_owed(self) -> None:
        """Raise ConfigError while something is owed: another restore would forget it."""
        if self._owed.exists():
            raise ConfigError(
                "what an undo of a prompt was to do with the conversation is not done yet",
                hint="`prsm undo --prompt` does it first, and tells",
                code="owed",
            )

    def settle(self) -> None:
        """Note that what was owed is done. Raises OSError."""
        self._owed.unlink(missing_ok=True)
        sync(self._owed.parent)

    def abandon(self) -> None:
        """End a restore that was taken back."""
        self._intent.unlink(missing_ok=True)
        sync(self._intent.parent)
