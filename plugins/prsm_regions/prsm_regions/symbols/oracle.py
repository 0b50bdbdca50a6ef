"""The oracle: symbols of all worktrees of a repository, at no token.

Everything that blocks runs in one thread of its own, a file at a time, and a look whose waiter is
gone stops after the file it is at. Looks at one tree that are asked for at once are one look.

Interfaces: of what files define, what others may use; for who builds upon a region.

An outline is for who works in a region: all that is there, with lines, in 0.3 of the source. An
interface has no private names, no places, and of types every public member.

The index of a tree, kept like its files: what changed since the last look is read again.

The index on disk: definitions by the hash of a text, and which text each file of a tree holds.

One index serves all worktrees of a repository: a text that two of them hold is parsed once. It is a
cache. One that is torn, of another version or no database is made anew, by whichever process sees
it first; the name of the file holds the version, so that two versions do not take turns at that.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prsm_regions.symbols import answers
from prsm_regions.symbols.answers import Found
from prsm_regions.symbols.definitions import (
    HOLDERS,
    Definition,
    UnreadableError,
    cut,
    definitions,
    one_line,
)
from prsm_regions.symbols.files import look, read, walk
from prsm_regions.symbols.grammars import fingerprint, grammar_of
from prsm_regions.symbols.outlines import (
    MAX_FILE,
    is_local,
    outline_of_file,
    outline_of_region,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from prsm_regions.symbols.files import Stamp

    ListFiles = Callable[[str], Awaitable[Iterable[str] | None]]
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

    from prsm_regions.symbols.files import Content
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

Known = dict[str, tuple["Stamp", int]]  # path: its stamp, and the blob it held

T = TypeVar("T")


class StoppedError(Exception):
    """Whoever waited for a look has gone; what was read so far is kept."""


class Index:
    """Owns the store of one repository; it belongs to one thread at a time."""

    def __init__(self, path: Path, *, busy_s: float | None = None) -> None:
        """Begin with its place; others are waited for so many seconds, 10 unless it is said."""
        self._store = Store(path) if busy_s is None else Store(path, busy_s)
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
        """Bring the index to what these files of a tree hold now, and forget all others of it.

        Blocks. Raises StoppedError soon after `is_stopped` says so, and TimeoutError where another
        process holds the index for too long.
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
        tree = self._trees[self._store.opened, root] = tree_id(db, root)
        known = self._known_of(db, tree, version)
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
                drop_files(db, tree, gone)
            for path in gone:
                del known[path]
        self._known[tree] = (version, known)

    def _known_of(self, db: sqlite3.Connection, tree: int, version: _Version) -> Known:
        kept = self._known.pop(tree, None)
        return kept[1] if kept and kept[0] == version else known_files(db, tree)

    def _take(self, db: sqlite3.Connection, tree: int, root: str, path: str, known: Known) -> None:
        """Read a file anew; what vanished meanwhile is left to the next look."""
        content = read(root, path, time.time_ns())
        grammar = grammar_of(path)
        if content is None or grammar is None:
            return
        digest = content.hash or hashlib.sha1(repr(content.stamp).encode()).digest()  # noqa: S324
        blob = find_blob(db, digest, fingerprint(grammar))
        if blob is None:
            blob = self._parse(db, digest, content, grammar)
        put_file(db, tree, path, content.stamp, blob)
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
        return self._store.using(lambda db: with_name(db, self._tree(db, root), name, limit))

    def in_file(self, root: str, path: str) -> list[Definition]:
        """Return what a file defines, by place; as of the last look."""
        return self._store.using(lambda db: in_file(db, self._tree(db, root), path))

    def names(self, root: str, shortest: int, longest: int) -> list[str]:
        """Return all names of such a length."""
        return self._store.using(lambda db: names(db, self._tree(db, root), shortest, longest))

    def unread(self, root: str) -> list[tuple[str, str]]:
        """Return the files that nobody looked into, and why."""
        return self._store.using(lambda db: unread(db, self._tree(db, root)))

    def stamps(self, root: str) -> dict[str, Stamp]:
        """Return the files of a tree with their stamps, as of the last look."""
        known = self._store.using(lambda db: self._seen(db, root))
        return {path: stamp for path, (stamp, _) in known.items()}

    def _seen(self, db: sqlite3.Connection, root: str) -> Known:
        tree = self._tree(db, root)
        kept = self._known.get(tree)
        fresh = kept is not None and kept[0] == self._version(db)
        return kept[1] if kept and fresh else known_files(db, tree)

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

    def __init__(self, path: Path, busy_s: float = _BUSY_S) -> None:
        self._busy_s = busy_s
        self._path = path.with_name(f"{path.name}-v{VERSION}.sqlite3")
        self._name = str(self._path)  # looked at before each use
        self._db: sqlite3.Connection | None = None
        self.opened = 0  # times: what was known of an earlier file is not of this one

    @property
    def path(self) -> Path:
        """The file of this version's index."""
        return self._path

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
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def _opened(self) -> sqlite3.Connection:
        if self._db is None or not os.access(self._name, os.F_OK):
            self.close()
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                with self._alone():
                    self._db = self._connect()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) and _is_held(error):
                    raise
                self._remake()
                with self._alone():
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
        with open(f"{self._path}.lock", "w", encoding="ascii") as lock:  # noqa: PTH123
            while not _is_taken(lock):
                if time.monotonic() >= end:
                    raise TimeoutError(_HELD)
                time.sleep(_LOOK_S)
            yield

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self._path, timeout=self._busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            self._make_tables(db)
        except BaseException:
            db.close()
            raise
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
                    Path(f"{self._path}{end}").unlink(missing_ok=True)

    def _is_sound(self) -> bool:
        """Return whether another process has made it anew meanwhile."""
        try:
            db = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=_BUSY_S)
        except sqlite3.Error:
            return False
        try:
            found = db.execute("PRAGMA user_version").fetchone() == (VERSION,)
            return bool(found and db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except sqlite3.Error:
            return False
        finally:
            db.close()


def _is_taken(lock: TextIO) -> bool:
    """Take a lock for as long as the file is open; return whether it was free."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(error: sqlite3.OperationalError) -> bool:
    """Return whether another process holds it, by the primary code of what SQLite said."""
    return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _is_torn(error: sqlite3.OperationalError) -> bool:
    """Return whether the file is to blame: its tables are gone, or the disk gives none of it."""
    said = str(error)
    return any(part in said for part in ("no such table", "no such column", "disk I/O error"))


def tree_id(db: sqlite3.Connection, root: str) -> int:
    """Return the number of a tree, a new one for one that is not known."""
    db.execute("INSERT OR IGNORE INTO tree (root) VALUES (?)", (root,))
    (number,) = db.execute("SELECT id FROM tree WHERE root = ?", (root,)).fetchone()
    return int(number)


def known_files(db: sqlite3.Connection, tree: int) -> Known:
    """Return what the index has of a tree."""
    rows = db.execute(
        "SELECT path, size, modified, changed, inode, blob FROM file WHERE tree = ?", (tree,)
    )
    return {path: (tuple(stamp), blob) for path, *stamp, blob in rows}


def put_file(db: sqlite3.Connection, tree: int, path: str, stamp: Stamp, blob: int) -> None:
    """Note what a file holds."""
    db.execute(
        "INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, ?)", (tree, path, *stamp, blob)
    )


def drop_files(db: sqlite3.Connection, tree: int, paths: Iterable[str]) -> None:
    """Forget files that are gone."""
    db.executemany("DELETE FROM file WHERE tree = ? AND path = ?", [(tree, p) for p in paths])


def find_blob(db: sqlite3.Connection, digest: bytes, grammar: str) -> int | None:
    """Return the number of a text that was parsed before."""
    row = db.execute(
        "SELECT id FROM blob WHERE hash = ? AND grammar = ?", (digest, grammar)
    ).fetchone()
    return row and int(row[0])


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
    gone = [n for n, root in db.execute("SELECT id, root FROM tree") if not os.path.isdir(root)]  # noqa: PTH112
    for number in gone:
        db.execute("DELETE FROM file WHERE tree = ?", (number,))
        db.execute("DELETE FROM tree WHERE id = ?", (number,))
    db.execute("DELETE FROM blob WHERE id NOT IN (SELECT blob FROM file)")
    db.execute("DELETE FROM symbol WHERE blob NOT IN (SELECT id FROM blob)")


def with_name(
    db: sqlite3.Connection, tree: int, name: str, limit: int
) -> list[tuple[str, Definition]]:
    """Return what has a name in a tree, with the paths."""
    rows = db.execute(_SAME_NAME, (tree, name, limit))
    return [(row[0], Definition(*row[1:])) for row in rows]


def in_file(db: sqlite3.Connection, tree: int, path: str) -> list[Definition]:
    """Return what a file defines, by place."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM symbol JOIN file ON file.blob = symbol.blob"  # noqa: S608
        " WHERE file.tree = ? AND file.path = ? ORDER BY n",
        (tree, path),
    )
    return [Definition(*row) for row in rows]


def names(db: sqlite3.Connection, tree: int, shortest: int, longest: int) -> list[str]:
    """Return the names of a tree that are so many characters long."""
    rows = db.execute(
        "SELECT DISTINCT name FROM symbol WHERE length(name) BETWEEN ? AND ?"
        " AND EXISTS (SELECT 1 FROM file WHERE file.blob = symbol.blob AND file.tree = ?)",
        (shortest, longest, tree),
    )
    return [name for (name,) in rows]


def unread(db: sqlite3.Connection, tree: int) -> list[tuple[str, str]]:
    """Return the files that nobody looked into, and why."""
    rows = db.execute(
        "SELECT file.path, blob.why FROM file JOIN blob ON blob.id = file.blob"
        " WHERE file.tree = ? AND blob.why <> '' ORDER BY file.path",
        (tree,),
    )
    return [(path, why) for path, why in rows]


class Oracle:
    """Owns the index of one repository; an async context manager.

    `list_files` gives the files of a tree, relative to it, None where it cannot be told: then the
    tree is walked. `index` is a path in a folder of PRSM's, never in the workspace.
    """

    def __init__(self, index: Path, *, list_files: ListFiles | None = None) -> None:
        self._index = Index(index)
        self._list_files = list_files
        self._thread = ThreadPoolExecutor(1, "prsm-symbols")
        self._looks: dict[str, _Looks] = {}

    async def __aenter__(self) -> Oracle:
        """Return itself."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close the index, behind what still runs."""
        self._thread.submit(self._index.close)
        self._thread.shutdown(wait=False)

    @property
    def parsed(self) -> int:
        """How many texts were parsed."""
        return self._index.parsed

    async def refresh(self, root: str) -> None:
        """Bring the index to what the tree holds now; one look serves all who ask meanwhile."""
        root = os.path.realpath(root)  # noqa: ASYNC240 - one path, and no bodies
        looks = self._looks.setdefault(root, _Looks())
        wanted = looks.begun + 1
        async with looks.lock:
            if looks.done >= wanted:
                return
            looks.begun += 1
            number = looks.begun
            paths = await self._list_files(root) if self._list_files else None
            await self._run(lambda is_stopped: self._refresh(root, paths, is_stopped))
            looks.done = number

    async def find(self, root: str, name: str, near: Sequence[str] = ()) -> list[Found]:
        """Return what has a name, as of the last look, best first; `near` are places it may be at.

        `a.B.c` is the `c` that is in `B`, in a module `a`; where there is none, any `c`.
        """
        root = os.path.realpath(root)  # noqa: ASYNC240
        within, own = answers.split_name(name)
        if not own:
            return []
        rows = await self._run(lambda _: self._index.with_name(root, own, answers.MAX_FOUND))
        return answers.best([Found(path, one) for path, one in rows], within, near)

    async def lookup(self, root: str, name: str) -> str | None:
        """Look at the tree and answer for a name; None where nothing has it."""
        await self.refresh(root)
        found = await self.find(root, name)
        return answers.render(found) if found else None

    async def near(self, root: str, name: str) -> list[str]:
        """Return names of the tree that are like one that it does not have, best first."""
        root = os.path.realpath(root)  # noqa: ASYNC240
        own = answers.split_name(name)[1]
        return await self._run(
            lambda _: answers.near_names(own, self._index.names(root, *answers.lengths_near(own)))
        )

    async def unread(self, root: str) -> list[tuple[str, str]]:
        """Return the files that were not looked into, and why."""
        root = os.path.realpath(root)  # noqa: ASYNC240
        return await self._run(lambda _: self._index.unread(root))

    async def stamps(self, root: str, region: str) -> dict[str, Stamp]:
        """Return the files of a region as the last look saw them; equal ones are unchanged."""
        root = os.path.realpath(root)  # noqa: ASYNC240
        found = await self._run(lambda _: self._index.stamps(root))
        return {path: stamp for path, stamp in found.items() if is_below(path, region)}

    async def outline_of_file(self, root: str, path: str) -> str:
        """Return the outline of a file as it is now: 0.3 of its bytes at most."""
        return await self._run(lambda _: outline_of_file(root, path, time.time_ns()))

    async def outline(self, root: str, region: str) -> str:
        """Return the outline of a region as of the last look; blank where it defines nothing."""
        root = os.path.realpath(root)  # noqa: ASYNC240
        stamps = await self.stamps(root, region)
        return await self._run(
            lambda _: outline_of_region(
                (path, stamp[0], self._index.in_file(root, path))
                for path, stamp in sorted(stamps.items())
            )
        )

    async def interface(self, root: str, region: str) -> str:
        """Return what a region offers others as of the last look; blank where that is nothing."""
        root = os.path.realpath(root)  # noqa: ASYNC240
        stamps = await self.stamps(root, region)
        return await self._run(
            lambda _: interface_of_region(
                (path, self._index.in_file(root, path)) for path in sorted(stamps)
            )
        )

    def _refresh(
        self, root: str, paths: Iterable[str] | None, is_stopped: Callable[[], bool]
    ) -> None:
        self._index.refresh(root, walk(root) if paths is None else paths, is_stopped)

    async def _run(self, work: Callable[[Callable[[], bool]], T]) -> T:
        """Run some work in the thread; it is told when nobody waits for it any more."""
        stop = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, stop.is_set)
        finally:
            stop.set()


class _Looks:
    """Looks at one tree: how many have begun, and the last that is over."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.begun = 0
        self.done = 0


def is_below(path: str, region: str) -> bool:
    """Return whether a path is a region's or in it, both relative to the workspace."""
    place = region.strip("/").removesuffix("/**").removesuffix("/*")
    return place in {"", ".", "**"} or path == place or path.startswith(f"{place}/")


__all__ = ["Oracle", "StoppedError", "is_below"]


_INDENT = "  "


def interface(path: str, found: Sequence[Definition]) -> str:
    """Return the signatures of a file that others may use, 12 kB at most; blank without any.

    What is private is so by the language's own marks, in the name or before it; where a language
    has none that a definition shows, all is public.
    """
    grammar = grammar_of(path)
    if grammar is None:
        return ""
    shows = _SHOWS[grammar.query]
    hidden = {_whole(one) for one in found if not shows(one, found)}
    lines = [
        f"{_INDENT * _depth(one)}{_signature(one)}"
        for one in found
        if not is_local(one, found) and not _is_hidden(_whole(one), hidden)
    ]
    return cut("\n".join([path, *lines]), MAX_FILE) if lines else ""


def interface_of_region(files: Iterable[tuple[str, Sequence[Definition]]]) -> str:
    """Return the interfaces of files, by path; those beyond 24 kB are counted."""
    return together(interface(path, found) for path, found in files)


def _whole(one: Definition) -> str:
    return f"{one.scope}.{one.name}" if one.scope else one.name


def _is_hidden(name: str, hidden: set[str]) -> bool:
    """Return whether a name, or what it is in, is private."""
    parts = name.split(".")
    return any(".".join(parts[: end + 1]) in hidden for end in range(len(parts)))


def _depth(one: Definition) -> int:
    return one.scope.count(".") + 1 if one.scope else 0


def _signature(one: Definition) -> str:
    """Return a definition without its members, which have lines of their own."""
    return one_line(one.text.partition("\n    ")[0] if one.kind in HOLDERS else one.text)


def _by_underscore(one: Definition, _: Sequence[Definition]) -> bool:
    is_dunder = one.name.startswith("__") and one.name.endswith("__")
    return is_dunder or not one.name.startswith("_")


def _by_capital(one: Definition, _: Sequence[Definition]) -> bool:
    return one.name[:1].isupper()


def _by_pub(one: Definition, found: Sequence[Definition]) -> bool:
    """Return whether Rust says `pub`; members of traits, and what implements one, need none."""
    if one.kind in {"impl", "variant", "macro"} or one.text.startswith("pub"):
        return True
    return any(
        _whole(other) == one.scope
        and other.start <= one.start <= other.end
        and (other.kind == "trait" or (other.kind == "impl" and " for " in other.text))
        for other in found
    )


def _by_private(one: Definition, _: Sequence[Definition]) -> bool:
    """Return whether a member is not named as private, nor said to be."""
    before = one.text[: one.text.find(one.name)].split()
    return not one.name.startswith("#") and "private" not in before


def _by_static(one: Definition, _: Sequence[Definition]) -> bool:
    """Return whether others may link to it: in C what is static at the top is of its file alone."""
    return bool(one.scope) or not one.text.startswith("static ")


_SHOWS: dict[str, Callable[[Definition, Sequence[Definition]], bool]] = {
    "python": _by_underscore,
    "javascript": _by_private,
    "typescript": _by_private,
    "go": _by_capital,
    "rust": _by_pub,
    "java": _by_private,
    "c": _by_static,
    "cpp": _by_static,
}
