"""One reading of a workspace's `.prism`: what is hashed is what is used.

Every file is opened once. Its bytes are hashed and, if they configure PRSM, kept for parsing, so
that nothing can change in between.
"""

from __future__ import annotations

import hashlib
import os
import stat
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from prsm_core.config.document import MAX_BYTES as MAX_FILE_BYTES
from prsm_core.config.paths import CONFIG, POLICY, STEMS, cannot_be_read, require_one, spellings
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_FILES = 10_000
MAX_BYTES = 64 << 20
MAX_DEPTH = 100

_CHUNK = 1 << 20
_USED = frozenset(name for stem in STEMS for name in spellings(stem))
_FOLDERS = frozenset({"", "agents"})
_RULES = frozenset((*spellings(CONFIG), *spellings(POLICY)))
MAX_NAMED = 20  # unknown files; a repository must not fill the screen
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Scope(Enum):
    """How much of `.prism` is read: a repository must not make PRSM read for nothing."""

    ALL = "all"  # with the hash
    CONFIGURATION = "configuration"  # what configures PRSM
    RULES = "rules"  # what holds without trust: the configuration itself and the policy


class Entry(Record, frozen=True, kw_only=True):
    """One entry of `.prism`: its hash, and how it is told to people ("file", "link to …")."""

    digest: str
    kind: str
    size: int = 0


class Snapshot(Record, frozen=True, kw_only=True):
    """What lay in `.prism` when it was read.

    Attributes:
        folder: The folder itself; `is_there` tells whether it exists.
        files: The bytes of the files that configure PRSM, by their path in the folder.
        refused: Why such a file cannot be taken (a link, a pipe), by path; "" is the folder.
        unread: Such files that the scope leaves out.
        unknown: Files in their places that configure nothing; at most MAX_NAMED.
        entries: Everything in the folder by its path; empty unless it was read whole.
        digest: The hash of all of it; None unless it was read whole, or if there is none.
    """

    folder: Path
    is_there: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)
    digest: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing: no folder, or one with nothing in it. Only if read whole."""
        return not self.is_there or self.digest == _EMPTY

    def path(self, name: str) -> Path:
        """Return where an entry lies."""
        return self.folder / name

    def settings_files(self) -> list[str]:
        """Return the paths of what sets something, but for the policy; also of what is refused."""
        return sorted(self._names() - {*spellings(POLICY)})

    def name_of(self, stem: str) -> str:
        """Return how a file is spelled here. Raises ConfigError if both spellings exist."""
        return require_one(self.folder, stem, self._names())

    def _names(self) -> set[str]:
        return {*self.files, *self.refused, *self.unread}

    def agents(self) -> list[str]:
        """Return the paths of the experts in markdown, and of what only looks like one."""
        return [name for name in self.settings_files() if name.startswith("agents/")]

    def data(self, name: str) -> bytes | None:
        """Return a file's bytes, None for no file. Raises ConfigError for anything else there."""
        for refused in ("", *(("agents",) if name.startswith("agents/") else ()), name):
            if refused in self.refused:
                raise ConfigError(f"{self.path(refused)}: {self.refused[refused]}")
        return self.files.get(name)

    def with_file(self, name: str, data: bytes) -> Snapshot:
        """Return what lies there once a file directly in the folder has these bytes."""
        digest = _digest(stat.S_IFREG, data)
        entries = {**self.entries, name: Entry(digest=digest, kind="file", size=len(data))}
        top = {os.fsencode(path): e.digest for path, e in entries.items() if "/" not in path}
        files = {**self.files, name: data} if name in _USED else self.files
        whole = _digest_of_folder(top)
        return replace(self, is_there=True, files=files, entries=entries, digest=f"sha256:{whole}")


def take_snapshot(workspace: Path, scope: Scope = Scope.ALL) -> Snapshot:
    """Read `.prism` without following links. Raises ConfigError if it is unreadable or too big."""
    root = workspace / ".prism"
    if not os.path.lexists(root):
        return Snapshot(folder=root)
    reader = _Reader(root)
    digest = None
    try:
        if scope is Scope.ALL:
            digest = reader.read_all()
        else:
            reader.read_used(_RULES if scope is Scope.RULES else None)
        unknown = _unknown(root)
    except OSError as error:
        raise cannot_be_read(error.filename or root, error) from error
    return Snapshot(
        folder=root,
        is_there=True,
        files=reader.files,
        refused=reader.refused,
        unread=frozenset(reader.unread),
        unknown=unknown,
        entries=reader.entries,
        digest=None if digest is None else f"sha256:{digest}",
    )


class _Reader:
    """Owns one reading, and what it may still read: a repository must not make PRSM hang."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left_files = MAX_FILES
        self._left_bytes = MAX_BYTES
        self.files: dict[str, bytes] = {}
        self.refused: dict[str, str] = {}
        self.unread: set[str] = set()
        self.entries: dict[str, Entry] = {}

    def read_all(self) -> str:
        return self._entry("", 0).digest

    def read_used(self, only: frozenset[str] | None) -> None:
        """Read what configures PRSM, or `only` these files of it, and note the others."""
        if not self._is_folder(""):
            return
        names = [*_USED, *(f"agents/{name}" for name in self._agents())]
        for name in sorted(names):
            try:
                self._read_used(name, is_read=only is None or name in only)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.refused[name] = f"cannot be read: {error.strerror}"

    def _read_used(self, name: str, *, is_read: bool) -> None:
        mode = (self._root / name).lstat().st_mode
        if not stat.S_ISREG(mode):
            self.refused[name] = _why(mode)
        elif is_read:
            self._file(name)
        else:
            self.unread.add(name)

    def _agents(self) -> Iterator[str]:
        if os.path.lexists(self._root / "agents") and self._is_folder("agents"):
            yield from (n for n in os.listdir(self._root / "agents") if n.endswith(".md"))  # noqa: PTH208 - names only

    def _is_folder(self, name: str) -> bool:
        mode = (self._root / name).lstat().st_mode
        if not stat.S_ISDIR(mode):
            self.refused[name] = _why(mode)
        return stat.S_ISDIR(mode)

    def _entry(self, name: str, depth: int) -> Entry:
        self._spend(name, files=1 if depth < MAX_DEPTH else MAX_FILES + 1)
        path = self._root / name
        mode = path.lstat().st_mode
        kind, data = stat.S_IFMT(mode), b""
        if stat.S_ISREG(mode) and name not in _FOLDERS:
            return self._note(name, self._file(name))
        if _is_used(name) or (name in _FOLDERS and not stat.S_ISDIR(mode)):
            self.refused[name] = _why(mode)
        told = "special file"
        if stat.S_ISDIR(mode):
            return self._note(name, Entry(digest=self._folder(name, depth), kind="folder"))
        if stat.S_ISLNK(mode):
            data = os.fsencode(path.readlink())
            told = f"link to {os.fsdecode(data)}"
        return self._note(name, Entry(digest=_digest(kind, data), kind=told))

    def _note(self, name: str, entry: Entry) -> Entry:
        if name:
            self.entries[name] = entry
        return entry

    def _folder(self, name: str, depth: int) -> str:
        hashes = {}
        for below in os.listdir(self._root / name):  # noqa: PTH208 - names only
            path = f"{name}/{below}" if name else below
            hashes[os.fsencode(below)] = self._entry(path, depth + 1).digest
        return _digest_of_folder(hashes)

    def _file(self, name: str) -> Entry:
        kept = bytearray() if _is_used(name) else None
        digest, size = hashlib.sha256(f"{stat.S_IFREG:o}:".encode()), 0
        descriptor = os.open(self._root / name, _OPEN)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{self._root / name}: changes while it is read")
            while chunk := file.read(_CHUNK):
                self._spend(name, size=len(chunk))
                digest.update(chunk)
                size += len(chunk)
                if kept is not None and len(kept) <= MAX_FILE_BYTES:
                    kept += chunk
        if kept is not None:
            self.files[name] = bytes(kept)
        return Entry(digest=digest.hexdigest(), kind="file", size=size)

    def _spend(self, name: str, *, files: int = 0, size: int = 0) -> None:
        self._left_files -= files
        self._left_bytes -= size
        if self._left_files < 0 or self._left_bytes < 0:
            raise ConfigError(f"{self._root / name}: too much lies under .prism to be trusted")


def _unknown(root: Path) -> tuple[str, ...]:
    found = []
    for folder in ("", "agents/"):
        path = root / folder
        if path.is_symlink() or not path.is_dir():
            continue
        with os.scandir(path) as entries:
            for entry in islice(entries, MAX_FILES):
                name = f"{folder}{entry.name}"
                if not _is_used(name) and not entry.is_dir(follow_symlinks=False):
                    found.append(name)
    return tuple(sorted(found)[:MAX_NAMED])


def _is_used(name: str) -> bool:
    folder, _, last = name.rpartition("/")
    return name in _USED or (folder == "agents" and last.endswith(".md"))


def _why(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "must not be a link; trust covers only what is in .prism"
    return "is not a regular file"


def _digest(kind: int, data: bytes) -> str:
    return hashlib.sha256(f"{kind:o}:".encode() + data).hexdigest()


def _digest_of_folder(hashes: Mapping[bytes, str]) -> str:
    told = b"".join(name + b"\0" + hashes[name].encode() for name in sorted(hashes))
    return _digest(stat.S_IFDIR, told)


_EMPTY = f"sha256:{_digest_of_folder({})}"
