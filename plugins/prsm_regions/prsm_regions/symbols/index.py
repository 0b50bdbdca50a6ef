"""The index of a tree, kept like its files: what changed since the last look is read again.

One index serves all worktrees of a repository: a text that two of them hold is parsed once. It is a
cache. One that is torn is made anew, by whichever process sees it first; the name of the file holds
the version, so that two versions do not take turns at that.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_regions.symbols.definitions import Definition, UnreadableError, definitions
from prsm_regions.symbols.files import look, read
from prsm_regions.symbols.grammars import fingerprint, grammar_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prsm_regions.symbols.files import Content, Stamp
    from prsm_regions.symbols.grammars import Grammar

_Version = tuple[int, int]
_BATCH = 100  # files in a transaction, and seconds: others get their turn, a stop loses no more
_BATCH_S = 0.5

VERSION = 1
_BUSY_S = 10.0
_LOOK_S = 0.005  # between two looks at a lock
_HELD = "another process holds the index of symbols"
_SCHEMA = """
CREATE TABLE tree (id INTEGER PRIMARY KEY, root TEXT NOT NULL UNIQUE);
CREATE TABLE blob (
    id INTEGER PRIMARY KEY, hash BLOB NOT NULL, grammar TEXT NOT NULL, why TEXT NOT NULL,
    UNIQUE (hash, grammar));
CREATE TABLE file (
    tree INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    changed INTEGER NOT NULL, inode INTEGER NOT NULL, blob INTEGER NOT NULL,
    PRIMARY KEY (tree, path)) WITHOUT ROWID;
CREATE INDEX file_blob ON file (blob, tree);
CREATE TABLE symbol (
    blob INTEGER NOT NULL, n INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
    scope TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (blob, n)) WITHOUT ROWID;
CREATE INDEX symbol_name ON symbol (name);
"""
_COLUMNS = "kind, name, scope, start, stop, text"
# CROSS: by the name first, or sqlite would go through all files of the tree.
_SAME_NAME = f"""
    SELECT file.path, {", ".join(f"symbol.{column}" for column in _COLUMNS.split(", "))}
    FROM symbol CROSS JOIN file ON file.blob = symbol.blob AND file.tree = ?
    WHERE symbol.name = ? LIMIT ?"""  # noqa: S608 - ours alone
_IN_FILE = f"""
    SELECT {_COLUMNS} FROM symbol JOIN file ON file.blob = symbol.blob
    WHERE file.tree = ? AND file.path = ? ORDER BY n"""  # noqa: S608 - ours alone
_NAMES = """
    SELECT DISTINCT name FROM symbol WHERE length(name) BETWEEN ?2 AND ?3
    AND EXISTS (SELECT 1 FROM file WHERE file.blob = symbol.blob AND file.tree = ?1)"""
_UNREAD = """
    SELECT file.path, blob.why FROM file JOIN blob ON blob.id = file.blob
    WHERE file.tree = ? AND blob.why <> '' ORDER BY file.path"""

T = TypeVar("T")

Known = dict[str, tuple["Stamp", int]]  # path: its stamp, and the blob it held


class StoppedError(Exception):
    """Whoever waited for a look has gone; what was read so far is kept."""


class Index:
    """Owns the store of one repository; it belongs to one thread at a time."""

    def __init__(self, path: Path, *, busy_s: float = _BUSY_S) -> None:
        """Begin with its place; others are waited for so many seconds."""
        self._store = Store(path, busy_s)
        self._known: dict[int, tuple[_Version, Known]] = {}  # by tree
        self._trees: dict[tuple[int, str], int] = {}  # by root, in which file
        self._pruned = False
        self.parsed = 0  # texts since it was made

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._store.path

    def close(self) -> None:
        """Let go of the file."""
        self._known.clear()
        self._store.close()

    def refresh(
        self, root: str, paths: Iterable[str], is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """Bring the index to what these files of a tree hold now, and forget all others; blocks.

        Raises StoppedError soon after `is_stopped` says so, TimeoutError as `Store.using`.
        """
        wanted = [path for path in paths if grammar_of(path) is not None]
        self._store.using(lambda db: self._refresh(db, root, wanted, is_stopped))

    def _refresh(
        self,
        db: sqlite3.Connection,
        root: str,
        paths: list[str],
        is_stopped: Callable[[], bool],
    ) -> None:
        if not self._pruned:
            with self._store.changing(db):
                prune(db)
            self._pruned = True
        version = self._version(db)  # from before: what others write meanwhile is read next time
        db.execute("INSERT OR IGNORE INTO tree (root) VALUES (?)", (root,))
        self._trees.pop((self._store.opened, root), None)  # another process may have pruned it
        tree = self._tree(db, root)
        known = self._known_files(db, tree, version)
        self._known.pop(tree, None)  # what is changed below is right only once all of it is done
        stamps = {path: stamp for path in paths if (stamp := look(root, path)) is not None}
        gone = known.keys() - stamps.keys()
        changed = [
            path
            for path, stamp in reversed(stamps.items())  # the first is taken first, from the end
            if (before := known.get(path)) is None or before[0] != stamp
        ]
        while changed:
            end = time.monotonic() + _BATCH_S
            with self._store.changing(db):
                for _ in range(min(_BATCH, len(changed))):
                    if is_stopped() or time.monotonic() > end:
                        break
                    self._take(db, tree, root, changed.pop(), known)
            if is_stopped():
                raise StoppedError
        if gone:
            with self._store.changing(db):
                dropped = "DELETE FROM file WHERE tree = ? AND path = ?"
                db.executemany(dropped, [(tree, path) for path in gone])
            for path in gone:
                del known[path]
        self._known[tree] = (version, known)

    def _take(self, db: sqlite3.Connection, tree: int, root: str, path: str, known: Known) -> None:
        """Read a file anew; what vanished meanwhile is left to the next look."""
        content = read(root, path, time.time_ns())
        grammar = grammar_of(path)
        if content is None or grammar is None:
            return
        digest = content.hash or hashlib.sha1(repr(content.stamp).encode()).digest()  # noqa: S324 - a name
        asked = "SELECT id FROM blob WHERE hash = ? AND grammar = ?"
        row = db.execute(asked, (digest, fingerprint(grammar))).fetchone()
        blob = int(row[0]) if row else self._parse(db, digest, content, grammar)
        made = "INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, ?)"
        db.execute(made, (tree, path, *content.stamp, blob))
        known[path] = (content.stamp, blob)

    def _parse(
        self, db: sqlite3.Connection, digest: bytes, content: Content, grammar: Grammar
    ) -> int:
        found: list[Definition] = []
        why = content.why
        if content.text is not None:
            try:
                found = definitions(content.text, grammar)
            except UnreadableError as error:
                why = str(error)
            self.parsed += 1
        return put_blob(db, digest, fingerprint(grammar), why, found)

    def with_name(self, root: str, name: str, limit: int) -> list[tuple[str, Definition]]:
        """Return what has a name, with the paths; as of the last look."""
        rows = self._rows(_SAME_NAME, root, name, limit)
        return [(row[0], Definition(*row[1:])) for row in rows]

    def in_file(self, root: str, path: str) -> list[Definition]:
        """Return what a file defines, by place; as of the last look."""
        return [Definition(*row) for row in self._rows(_IN_FILE, root, path)]

    def names(self, root: str, shortest: int, longest: int) -> list[str]:
        """Return all names of such a length."""
        return [name for (name,) in self._rows(_NAMES, root, shortest, longest)]

    def unread(self, root: str) -> list[tuple[str, str]]:
        """Return the files that nobody looked into, and why."""
        return [(path, why) for path, why in self._rows(_UNREAD, root)]

    def _rows(self, query: str, root: str, *given: object) -> list[tuple[Any, ...]]:
        """Return what a query finds whose first value is a tree."""
        return self._store.using(
            lambda db: db.execute(query, (self._tree(db, root), *given)).fetchall()
        )

    def stamps(self, root: str) -> dict[str, Stamp]:
        """Return the files of a tree with their stamps, as of the last look."""
        known = self._store.using(
            lambda db: self._known_files(db, self._tree(db, root), self._version(db))
        )
        return {path: stamp for path, (stamp, _) in known.items()}

    def _known_files(self, db: sqlite3.Connection, tree: int, version: _Version) -> Known:
        """Return what the index has of a tree, in memory where nobody else has written since."""
        read_at, known = self._known.get(tree, (None, {}))
        if read_at == version:
            return known
        query = "SELECT path, size, modified, changed, inode, blob FROM file WHERE tree = ?"
        rows = db.execute(query, (tree,))
        return {path: (tuple(stamp), blob) for path, *stamp, blob in rows}

    def _tree(self, db: sqlite3.Connection, root: str) -> int:
        known = self._trees.get((self._store.opened, root))
        if known is not None:
            return known
        row = db.execute("SELECT id FROM tree WHERE root = ?", (root,)).fetchone()
        if row is None:
            return -1
        self._trees[self._store.opened, root] = int(row[0])
        return int(row[0])

    def _version(self, db: sqlite3.Connection) -> _Version:
        """Return what changes where the file is another, or another connection has written."""
        return self._store.opened, int(db.execute("PRAGMA data_version").fetchone()[0])


class Store:
    """Owns the connection; it belongs to one thread at a time."""

    def __init__(self, path: Path, busy_s: float) -> None:
        self._busy_s = busy_s
        self.path = path.with_name(f"{path.name}-v{VERSION}.sqlite3")
        self._db: sqlite3.Connection | None = None
        self.opened = 0  # times: what was known of an earlier file is not of this one

    def close(self) -> None:
        """Close it; it opens again with its next use."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def using(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work on the index; where it is found torn, once more on a new one.

        Raises TimeoutError where another process holds it for too long.
        """
        try:
            return work(self._opened())
        except sqlite3.OperationalError as error:
            if _is_held(error):
                raise TimeoutError(_HELD) from error
            if not _is_torn(error):
                raise
            self._remake()
        except sqlite3.DatabaseError:
            self._remake()
        return work(self._opened())

    @contextlib.contextmanager
    def changing(self, db: sqlite3.Connection) -> Iterator[None]:
        """Write in one transaction."""
        with db:
            db.execute("BEGIN IMMEDIATE")
            yield

    def _opened(self) -> sqlite3.Connection:
        if self._db is None or not os.access(self.path, os.F_OK):
            self.close()
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                self._db = self._connect()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) and _is_held(error):
                    raise
                self._remake()
                self._db = self._connect()
            self.opened += 1
        return self._db

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let nobody else open the index or make it anew meanwhile.

        Who makes a new file one with a write-ahead log is not waited for by SQLite: to another who
        does so at the same time it says at once that the file is locked. Raises TimeoutError.
        """
        end = time.monotonic() + self._busy_s
        with open(f"{self.path}.lock", "w", encoding="ascii") as lock:  # noqa: PTH123 - a text
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise TimeoutError(_HELD) from None
                time.sleep(_LOOK_S)
            yield

    def _connect(self) -> sqlite3.Connection:
        with self._alone(), contextlib.ExitStack() as stack:
            db = sqlite3.connect(
                self.path, timeout=self._busy_s, isolation_level=None, check_same_thread=False
            )
            stack.callback(db.close)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            self._make_tables(db)
            stack.pop_all()
        return db

    def _make_tables(self, db: sqlite3.Connection) -> None:
        """Make the tables where there are none; raise DatabaseError for those of others."""
        with self.changing(db):
            (found,) = db.execute("PRAGMA user_version").fetchone()
            if found == VERSION:
                return
            if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError(f"an index of version {found}")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={VERSION}")

    def _remake(self) -> None:
        """Remove an index that cannot be used; others who have it open go on with the old one."""
        self.close()
        with self._alone():
            if not self._is_sound():
                for end in ("", "-wal", "-shm"):
                    Path(f"{self.path}{end}").unlink(missing_ok=True)

    def _is_sound(self) -> bool:
        """Return whether another process has made it anew meanwhile."""
        place = f"file:{self.path}?mode=ro"
        try:
            with contextlib.closing(sqlite3.connect(place, uri=True, timeout=_BUSY_S)) as db:
                found = db.execute("PRAGMA user_version").fetchone() == (VERSION,)
                return bool(found and db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except sqlite3.Error:
            return False


def _is_held(error: sqlite3.OperationalError) -> bool:
    """Return whether another process holds it, by the primary code of what SQLite said."""
    return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _is_torn(error: sqlite3.OperationalError) -> bool:
    """Return whether the file is to blame: its tables are gone, or the disk gives none of it."""
    said = str(error)
    return any(part in said for part in ("no such table", "no such column", "disk I/O error"))


def put_blob(
    db: sqlite3.Connection, digest: bytes, grammar: str, why: str, found: Sequence[Definition]
) -> int:
    """Keep what a text defines; `why` says why nobody looked into it."""
    number = db.execute(
        "INSERT INTO blob (hash, grammar, why) VALUES (?, ?, ?)", (digest, grammar, why)
    ).lastrowid
    db.executemany(
        "INSERT INTO symbol VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (number, n, one.kind, one.name, one.scope, one.start, one.end, one.text)
            for n, one in enumerate(found)
        ],
    )
    return int(number or 0)


def prune(db: sqlite3.Connection) -> None:
    """Forget trees whose folder is gone, and texts that no file holds."""
    trees = db.execute("SELECT id, root FROM tree").fetchall()
    # Path would raise for a name that is too long here.
    for number in (number for number, root in trees if not os.path.isdir(root)):  # noqa: PTH112
        db.execute("DELETE FROM file WHERE tree = ?", (number,))
        db.execute("DELETE FROM tree WHERE id = ?", (number,))
    db.execute("DELETE FROM blob WHERE id NOT IN (SELECT blob FROM file)")
    db.execute("DELETE FROM symbol WHERE blob NOT IN (SELECT id FROM blob)")
