"""The index of a tree, kept like its files: what changed since the last look is read again."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from prsm_regions.symbols import store
from prsm_regions.symbols.definitions import Definition, UnreadableError, definitions
from prsm_regions.symbols.files import look, read
from prsm_regions.symbols.grammars import fingerprint, grammar_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from prsm_regions.symbols.files import Content, Stamp
    from prsm_regions.symbols.grammars import Grammar

_Version = tuple[int, int]
_BATCH = 100  # files in a transaction, and seconds: others get their turn, a stop loses no more
_BATCH_S = 0.5


class StoppedError(Exception):
    """Whoever waited for a look has gone; what was read so far is kept."""


class Index:
    """Owns the store of one repository; it belongs to one thread at a time."""

    def __init__(self, path: Path, *, busy_s: float | None = None) -> None:
        """Begin with its place; others are waited for so many seconds, 10 unless it is said."""
        self._store = store.Store(path) if busy_s is None else store.Store(path, busy_s)
        self._known: dict[int, tuple[_Version, store.Known]] = {}  # by tree
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
                store.prune(db)
            self._pruned = True
        version = self._version(db)  # from before: what others write meanwhile is read next time
        tree = self._trees[self._store.opened, root] = store.tree_id(db, root)
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
                store.drop_files(db, tree, gone)
            for path in gone:
                del known[path]
        self._known[tree] = (version, known)

    def _known_of(self, db: sqlite3.Connection, tree: int, version: _Version) -> store.Known:
        kept = self._known.pop(tree, None)
        return kept[1] if kept and kept[0] == version else store.known_files(db, tree)

    def _take(
        self, db: sqlite3.Connection, tree: int, root: str, path: str, known: store.Known
    ) -> None:
        """Read a file anew; what vanished meanwhile is left to the next look."""
        content = read(root, path, time.time_ns())
        grammar = grammar_of(path)
        if content is None or grammar is None:
            return
        digest = content.hash or hashlib.sha1(repr(content.stamp).encode()).digest()  # noqa: S324
        blob = store.find_blob(db, digest, fingerprint(grammar))
        if blob is None:
            blob = self._parse(db, digest, content, grammar)
        store.put_file(db, tree, path, content.stamp, blob)
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
        return store.put_blob(db, digest, fingerprint(grammar), why, found)

    def with_name(self, root: str, name: str, limit: int) -> list[tuple[str, Definition]]:
        """Return what has a name, with the paths; as of the last look."""
        return self._store.using(lambda db: store.with_name(db, self._tree(db, root), name, limit))

    def in_file(self, root: str, path: str) -> list[Definition]:
        """Return what a file defines, by place; as of the last look."""
        return self._store.using(lambda db: store.in_file(db, self._tree(db, root), path))

    def names(self, root: str, shortest: int, longest: int) -> list[str]:
        """Return all names of such a length."""
        return self._store.using(
            lambda db: store.names(db, self._tree(db, root), shortest, longest)
        )

    def unread(self, root: str) -> list[tuple[str, str]]:
        """Return the files that nobody looked into, and why."""
        return self._store.using(lambda db: store.unread(db, self._tree(db, root)))

    def stamps(self, root: str) -> dict[str, Stamp]:
        """Return the files of a tree with their stamps, as of the last look."""
        known = self._store.using(lambda db: self._seen(db, root))
        return {path: stamp for path, (stamp, _) in known.items()}

    def _seen(self, db: sqlite3.Connection, root: str) -> store.Known:
        tree = self._tree(db, root)
        kept = self._known.get(tree)
        fresh = kept is not None and kept[0] == self._version(db)
        return kept[1] if kept and fresh else store.known_files(db, tree)

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
