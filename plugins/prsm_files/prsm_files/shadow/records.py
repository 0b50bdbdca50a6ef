"""Values: a snapshot, what differs from it, and what it left out.

Paths are text as `os.fsdecode` gives it: what is no UTF-8 is kept, and can be told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from prsm_core import ConfigError
from prsm_core.door import FileLeft
from prsm_core.files import path_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LINK, PROGRAM, FILE = "120000", "100755", "100644"
FILE_BYTES = 100 * 2**20  # of one file whose content is kept
MANUAL, SAFETY, RESCUE = "manual", "safety", "rescue"
RUN, PROMPT = "run", "prompt"
AUTOMATIC = frozenset({RUN, PROMPT})  # of the engine, before what a person says
MOST_SKIPPED = 1000  # that a snapshot names


class Entry(Struct, frozen=True, gc=False):
    """A file or a link; None stands for neither."""

    mode: str  # as git has it: one of the above
    blob: str  # the id of its content, or of where it leads; "" if that is not kept
    why: str = ""  # it is not kept
    mark: str = ""  # tells one content that is not kept from another


class About(NamedTuple):
    """What a snapshot is taken for."""

    kind: str = MANUAL
    description: str = ""
    session: str | None = None
    position: int | None = None
    agent: str | None = None


class Skipped(Struct, frozen=True, gc=False):
    """A file that a snapshot does not hold."""

    path: str  # from the top of the folder
    reason: str
    size: int = 0  # bytes


class Left(Struct, frozen=True):
    """A file that something leaves as it is, or out, and why."""

    path: str  # from the top of the folder
    why: str

    def told(self) -> FileLeft:
        """Return it as people are told of it."""
        return FileLeft(path=path_text(self.path), why=self.why)


class Staging(Struct, frozen=True, gc=False):
    """A person's index, as it was."""

    blob: str  # of its bytes
    tree: str  # what keeps that which it names
    mtime_ns: int  # by which git tells what it must look at again


class RootState(Struct, frozen=True, gc=False, kw_only=True):
    """One root at a moment; `path` is from the top of the folder, "" for the folder itself."""

    path: str
    tree: str
    modes: str | None = None  # a blob
    head: str | None = None  # None: no commit yet, or no repository
    branch: str | None = None  # None: detached, or no repository
    under_way: str | None = None  # a merge, rebase, bisect …
    staging: Staging | None = None


class Snapshot(Struct, frozen=True, kw_only=True):
    """All files of a folder that git would not ignore, with the staging area, at a moment."""

    id: str
    created_at: float  # Unix seconds
    number: int = 0  # counts those of the folder up: which is newer, no clock decides
    # manual, run and prompt (before what a person says), safety (before a restore), rescue (after
    # one that was cut off)
    kind: str = MANUAL
    description: str = ""
    session: str | None = None
    position: int | None = None  # of the newest commit of that session in the ledger
    agent: str | None = None
    folder: str = ""
    roots: tuple[RootState, ...] = ()  # the folder itself first
    unquiet: tuple[str, ...] = ()  # agents, and what they ran that may have written meanwhile
    skipped: tuple[Skipped, ...] = ()
    skipped_count: int = 0
    notes: tuple[str, ...] = ()

    @property
    def bytes_skipped(self) -> int:
        """How much of the files is not in it, of those that it names."""
        return sum(one.size for one in self.skipped)

    @property
    def main(self) -> RootState:
        """The folder itself."""
        return self.roots[0]

    def root(self, path: str) -> RootState | None:
        """Return the state of a root, None where there was none."""
        return next((root for root in self.roots if root.path == path), None)


class Change(Struct, frozen=True, gc=False):
    """What was at a path of a root, and what is there instead."""

    root: str  # from the top of the folder
    path: str  # from the top of that
    before: Entry | None
    after: Entry | None

    @property
    def name(self) -> str:
        """The path from the top of the folder."""
        return joined(self.root, self.path)

    @property
    def kind(self) -> str:
        """What the change does to the path: added, deleted, or modified."""
        if self.before is None:
            return "added"
        return "deleted" if self.after is None else "modified"


class RootPlan(Struct, frozen=True, kw_only=True):
    """What a restore would change in one root."""

    path: str
    changes: tuple[Change, ...]
    permissions: tuple[str, ...] = ()  # paths of which no more than these would change


class Sparing(NamedTuple):
    """What of a root a restore leaves as it is, though the snapshot has it otherwise."""

    files: Mapping[str, Entry | None] = {}  # what they are to be, by path from the top of the root
    modes: tuple[str, ...] = ()  # files that keep their permissions
    stays: tuple[Left, ...] = ()


class Plan(Struct, frozen=True, kw_only=True):
    """What a restore would change."""

    snapshot: Snapshot
    roots: tuple[RootPlan, ...]
    notes: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    stays: tuple[Left, ...] = ()

    def files(self) -> Sequence[tuple[str, str]]:
        """Return what happens to each file, and its path from the top of the folder."""
        found = []
        for root in self.roots:
            found += [(one.kind, one.name) for one in root.changes]
            found += [("mode", joined(root.path, path)) for path in root.permissions]
        return found


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did; `safety` is the snapshot that takes it back."""

    plan: Plan
    safety: Snapshot
    notes: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()  # paths that another program changed meanwhile


def joined(root: str, path: str) -> str:
    """Return a path from the top of the folder."""
    return f"{root}/{path}" if root else path


def beginning_with(wanted: str, ids: Iterable[str]) -> list[str]:
    """Return the ids that begin with what is wanted; none for an empty text."""
    text = wanted.strip().lower()
    return [one for one in ids if text and one.startswith(text)]


def find_id(ids: Sequence[str], wanted: str, what: str) -> str | None:
    """Return the id that is meant, by its beginning, if any is. Raises ConfigError for several."""
    text = wanted.strip().lower()
    fits = [text] if text in ids else beginning_with(text, ids)
    if len(fits) > 1:
        raise ConfigError(
            f"several {what}s begin with {wanted!r}: {', '.join(fits[:5])}",
            hint="give more of the id",
            code=f"ambiguous_{what}",
        )
    return fits[0] if fits else None
