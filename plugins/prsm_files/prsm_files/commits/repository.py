"""The person's repository of a root, read with the person's own settings, and written by plumbing.

No hook runs, and no filter: of files that one converts nothing is asked here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core import ConfigError
from prsm_files.changes.records import Entry
from prsm_files.commits.lock import stamp_of
from prsm_files.shadow.git import GitFailedError, listed, names, persons_env
from prsm_files.shadow.place import read_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_files.shadow.place import Repository
    from prsm_files.shadow.root import Root

_FEW = 200  # paths that are given to a command as words
# Nobody's address is guessed, and messages are what they are here: UTF-8.
_SETTINGS = ("user.useConfigOnly=true", "i18n.commitEncoding=UTF-8", "core.safecrlf=false")

Entries = dict[str, Entry | None]


class PersonsRepository:
    """What a commit is made on, and with; the index of HEAD's tree is a file of the shadow."""

    def __init__(self, root: Root) -> None:
        if root.repository is None:
            raise ConfigError(f"{root.folder} is no repository", code="no_repository")
        self.root = root
        self.where: Repository = root.repository
        self.git = root.own_git(persons_env(root.environ), _SETTINGS)
        self.stamp = stamp_of(self.where.index)  # first: what is read from now on may be newer
        self.head = read_head(self.where, root.person).commit
        self.ref = self.read_ref()

    @property
    def zeros(self) -> str:
        """The id of nothing, as long as ids are here."""
        wide = self.head or self.git.word("hash-object", "-t", "tree", "--stdin")
        return "0" * len(wide)

    def read_ref(self) -> str | None:
        """Return the branch that HEAD is, as a ref; None where it is detached."""
        said = self.git.ask("symbolic-ref", "--quiet", "HEAD").out
        return said.decode("utf-8", "surrogateescape").strip() or None

    def tip(self, ref: str | None) -> str | None:
        """Return where a branch is now, or HEAD; None where nowhere."""
        said = self.git.ask("rev-parse", "--quiet", "--verify", f"{ref or 'HEAD'}^{{commit}}").out
        return said.decode("ascii").strip() or None

    def check_identity(self) -> None:
        """Raise ConfigError where git does not know who commits."""
        for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            if self.git.ask("var", name).code:
                raise ConfigError(
                    "git does not know who you are, and a commit names its author",
                    hint='git config --global user.name "NAME", and user.email ADDRESS',
                    code="no_identity",
                )

    def in_head(self, paths: Sequence[str]) -> Entries:
        """Return what HEAD has at paths. Raises GitFailedError."""
        if self.head is None:
            return dict.fromkeys(paths)
        args = ("ls-tree", "-r", "-z", self.head)
        return self._entries(paths, self.git.run(*args, *_few(paths)), is_staged=False)

    def in_index(self, paths: Sequence[str]) -> Entries:
        """Return what is staged at paths. Raises GitFailedError."""
        return self._entries(paths, self._staged(paths), is_staged=True)

    def unmerged(self, paths: Sequence[str]) -> set[str]:
        """Return those paths of which the index has several versions."""
        heads = (entry.split(b"\t", 1) for entry in self._staged(paths).split(b"\0") if entry)
        return {os.fsdecode(path) for head, path in heads if head.split()[-1] != b"0"}

    def _staged(self, paths: Sequence[str]) -> bytes:
        return self.git.run("ls-files", "-s", "-z", *_few(paths))

    def _entries(self, paths: Sequence[str], said: bytes, *, is_staged: bool) -> Entries:
        found: Entries = dict.fromkeys(paths)
        for line in said.split(b"\0"):
            head, _, name = line.partition(b"\t")
            path = os.fsdecode(name)
            if path in found:
                mode, *more = head.decode("ascii").split()
                found[path] = Entry(mode, more[0] if is_staged else more[1])
        return found

    def attributes(self, paths: Sequence[str], wanted: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return attributes of paths that are something. Raises GitFailedError."""
        said = self.git.run("check-attr", "-z", "--stdin", *wanted, stdin=listed(paths))
        fields = list(names(said))
        found: dict[str, dict[str, str]] = {}
        for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
            if value != "unspecified":
                found.setdefault(path, {})[name] = value
        return found

    def setting(self, name: str) -> str:
        """Return a setting of the person, or ""."""
        return self.git.ask("config", "--get", name).out.decode("utf-8", "replace").strip()

    def begin_tree(self, index: Path) -> None:
        """Let an index be what HEAD is. Raises GitFailedError."""
        index.unlink(missing_ok=True)
        self.git.run("read-tree", *([self.head] if self.head else ["--empty"]), index=index)

    def put(self, index: Path, entries: Mapping[str, Entry | None]) -> set[str]:
        """Put entries into an index; return the paths at which there is no room for a file."""
        gone = [path for path, entry in entries.items() if entry is None]
        lines = (f"0 {self.zeros}\t".encode("ascii") + os.fsencode(path) + b"\0" for path in gone)
        asked = b"".join(lines)  # first: a folder may come where a file was
        self.git.run("update-index", "-z", "--index-info", stdin=asked, index=index)
        new = [(path, entry) for path, entry in entries.items() if entry is not None]
        clashing: set[str] = set()
        for first in range(0, len(new), _FEW):
            few = new[first : first + _FEW]
            if not self._add(index, few):
                clashing |= {path for path, entry in few if not self._add(index, [(path, entry)])}
        return clashing

    def _add(self, index: Path, entries: Iterable[tuple[str, Entry]]) -> bool:
        """Put files into an index; False, and nothing is put, where there is no room for one."""
        words = [
            word
            for path, entry in entries
            for word in ("--cacheinfo", f"{entry.mode},{entry.blob},{path}")
        ]
        args = ("update-index", "--add", *words)
        output = self.git.ask(*args, index=index)
        if output.code and b"cannot add" not in output.err:
            raise GitFailedError(args, output)
        return not output.code

    def store(self, entries: Iterable[Entry | None]) -> None:
        """Have the repository hold contents that the shadow has. Raises GitFailedError."""
        blobs = sorted({entry.blob for entry in entries if entry is not None})
        asked = "".join(f"{blob}\n" for blob in blobs).encode("ascii")
        told = self.git.run("cat-file", "--batch-check", stdin=asked).splitlines()
        for blob, line in zip(blobs, told, strict=True):
            if line.endswith(b" missing"):
                data = self.root.shadow.run("cat-file", "blob", blob)
                self.git.run("hash-object", "-w", "--stdin", stdin=data)

    def commit(self, index: Path, parent: str | None, message: str) -> str:
        """Make a commit of an index, which no branch has yet. Raises GitFailedError."""
        tree = self.git.word("write-tree", "--missing-ok", index=index)
        parents = () if parent is None else ("-p", parent)
        said = message.encode("utf-8", "surrogateescape")
        return self.git.word("commit-tree", tree, *parents, "-F", "-", stdin=said)

    def move(self, new: str, why: str) -> bool:
        """Let HEAD's branch be a commit, if it is still where it was; whether it is."""
        ref = ("--no-deref", "HEAD") if self.ref is None else (self.ref,)
        old = self.head or self.zeros
        return not self.git.ask("update-ref", "-m", why, *ref, new, old).code

    def has(self, commit: str, ref: str | None) -> bool:
        """Return whether a branch, or a detached HEAD, has a commit."""
        tip = self.tip(ref)
        return tip is not None and not self.git.ask("merge-base", "--is-ancestor", commit, tip).code


def _few(paths: Sequence[str]) -> Sequence[str]:
    """Return paths as words of a command; none, which is all, where there are many."""
    return ("--", *paths) if len(paths) <= _FEW else ()
