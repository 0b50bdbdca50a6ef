"""The port by which git is run, and what it may know of the person's settings: next to nothing.

No hook, filter, monitor or pager of anybody's configuration runs.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prsm_core import ProcessError, PrsmError
from prsm_files.shadow.records import Entry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_LOCKED = re.compile(rb"Unable to create '([^\n]+\.lock)': File exists")
_MOST_LOCKS = 8  # that one command may meet
FEW = 200  # paths that are given to a command as words; of more all is asked for
_NO_PROGRAMS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_NAME, _MAIL = "prsm", "prsm@localhost"
_FIXED = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": _NAME,
    "GIT_AUTHOR_EMAIL": _MAIL,
    "GIT_COMMITTER_NAME": _NAME,
    "GIT_COMMITTER_EMAIL": _MAIL,
}
# Where the person's own settings lie, for the one command that reads a name of a file from them.
_CONFIGURED = ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL")
_OF_PERSON = ("HOME", "XDG_CONFIG_HOME", *_CONFIGURED)
_WHO = tuple(
    f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE")
)
_AS_NOBODY = frozenset({*_CONFIGURED, *_WHO, "GIT_ATTR_NOSYSTEM"})


class Output(NamedTuple):
    """What a command of git did."""

    code: int
    out: bytes
    err: bytes


class Git(Protocol):
    """Runs a command of git with `env` and PATH, and waits. Raises ProcessError where it cannot."""

    def __call__(
        self, args: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes = b""
    ) -> Output:
        """Run git with these arguments."""
        ...


class FolderGoneError(ProcessError):
    """git cannot work in a folder: it was removed, or nobody may enter it."""

    code = "folder_gone"

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(
            f"there is no folder {folder} to work in ({why}): it was removed while it was in use",
            hint="what was committed, and what snapshots hold, is not lost",
        )


class GitFailedError(PrsmError):
    """A command of git failed, in a way that nobody foresaw."""

    code = "git"

    def __init__(self, args: Sequence[str], output: Output) -> None:
        said = output.err.decode("utf-8", "replace").strip() or f"exit code {output.code}"
        super().__init__(
            f"git {args[0]} failed: {said}",
            hint="`git status` in the folder may tell more; nothing was changed by this command",
        )
        self.said = said


class ContentGoneError(PrsmError):
    """What a snapshot had from the repository is there no more; nothing was changed."""

    code = "content_gone"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is gone: it was in the repository alone, which has thrown it away (git gc)",
            hint="this snapshot cannot be restored; `prsm snapshot pack` keeps others from that",
        )


class GitDir:
    """Runs git on one git directory and one working tree.

    In one that `is_ours` nobody else runs git: a lock of git's there was left by a dead one, and
    goes.
    """

    def __init__(
        self,
        git: Git,
        git_dir: Path,
        work_tree: Path,
        *,
        objects: Sequence[Path] = (),
        settings: Sequence[str] = (),
        env: Mapping[str, str] = _FIXED,
        is_ours: bool = False,
    ) -> None:
        self.path = git_dir
        self.work_tree = work_tree
        self._git = git
        self._env = env
        self._is_ours = is_ours
        self._objects = ":".join(map(_quoted, objects))
        self._settings = [word for one in settings for word in ("-c", one)]

    def on(self, work_tree: Path) -> GitDir:
        """Return the same git directory on another working tree: give it an index of its own."""
        other = copy(self)
        other.work_tree = work_tree
        return other

    def ask(
        self,
        *args: str,
        stdin: bytes = b"",
        index: Path | None = None,
        alone: bool = False,
        is_literal: bool = True,
    ) -> Output:
        """Run a command: `alone` with no objects of others, with patterns if not `is_literal`."""
        env = {
            **self._env,
            "GIT_LITERAL_PATHSPECS": str(int(is_literal)),
            "GIT_DIR": str(self.path),
            "GIT_WORK_TREE": str(self.work_tree),
            "GIT_INDEX_FILE": str(index or self.path / "index"),
        }
        if self._objects and not alone:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = self._objects
        argv = (*_NO_PROGRAMS, *self._settings, *args)
        output = self._git(argv, cwd=str(self.work_tree), env=env, stdin=stdin)
        for _ in range(_MOST_LOCKS if self._is_ours else 0):
            if not (output.code and self._unlock(output.err, index)):
                break
            output = self._git(argv, cwd=str(self.work_tree), env=env, stdin=stdin)
        return output

    def _unlock(self, said: bytes, index: Path | None) -> bool:
        """Remove the lock that a command found, if it is ours; whether it was."""
        found = _LOCKED.search(said)
        if found is None:
            return False
        lock = os.fsdecode(found[1])
        if not (lock.startswith(f"{self.path}/") or lock == f"{index}.lock"):
            return False
        Path(lock).unlink(missing_ok=True)
        return True

    def run(
        self, *args: str, stdin: bytes = b"", index: Path | None = None, alone: bool = False
    ) -> bytes:
        """Run a command and return what it printed. Raises GitFailedError."""
        output = self.ask(*args, stdin=stdin, index=index, alone=alone)
        if output.code:
            raise GitFailedError(args, output)
        return output.out

    def word(self, *args: str, stdin: bytes = b"", index: Path | None = None) -> str:
        """Run a command and return the one word that it printed. Raises GitFailedError."""
        return self.run(*args, stdin=stdin, index=index).decode("ascii").strip()

    def blob(self, name: str) -> bytes:
        """Return what a blob holds. Raises GitFailedError."""
        return self.run("cat-file", "blob", name)

    def store(self, data: bytes) -> str:
        """Store a content here, though others have it: they may throw it away. Return its id."""
        args = ("hash-object", "-w", "--no-filters", "--stdin")
        return self.run(*args, stdin=data, alone=True).decode("ascii").strip()

    def missing(self, blobs: Collection[str], *, alone: bool = False) -> list[str]:
        """Return the objects that are not there, or are damaged; with `alone` not here."""
        if not blobs:
            return []
        said = self.run("cat-file", "--batch-check", stdin=as_lines(blobs), alone=alone)
        lines = said.decode("ascii").splitlines()
        return [line.split(" ")[0] for line in lines if line.endswith(" missing")]

    def tree(self, name: str, paths: Sequence[str] = ()) -> dict[str, Entry]:
        """Return the files of a tree: all of them, or those at paths. Raises GitFailedError."""
        few = ("--", *paths) if len(paths) <= FEW else ()
        found = _entries(self.run("ls-tree", "-r", "-z", "--full-tree", name, *few), blob=2)
        return {path: found[path] for path in paths if path in found} if paths else found

    def in_index(self, paths: Sequence[str], index: Path | None = None) -> dict[str, Entry]:
        """Return what an index has at paths. Raises GitFailedError."""
        if not paths:
            return {}
        few = ("--", *paths) if len(paths) <= FEW else ()
        found = _entries(self.run("ls-files", "-s", "-z", *few, index=index), blob=1)
        return {path: found[path] for path in paths if path in found}

    def attributes(self, paths: Sequence[str], wanted: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return attributes of paths that are something. Raises GitFailedError."""
        said = self.run("check-attr", "-z", "--stdin", *wanted, stdin=listed(paths))
        fields = [os.fsdecode(field) for field in said.split(b"\0")[:-1]]
        found: dict[str, dict[str, str]] = {}
        for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
            if value != "unspecified":
                found.setdefault(path, {})[name] = value
        return found

    def remove(self, paths: Sequence[str], index: Path | None = None) -> None:
        """Take paths out of an index. Raises GitFailedError."""
        if paths:
            args = ("update-index", "-z", "--force-remove", "--stdin")
            self.run(*args, stdin=listed(paths), index=index)

    def put(self, entries: Mapping[str, Entry | None], index: Path) -> None:
        """Have an index say this of paths; None: there is nothing. Raises GitFailedError."""
        # What goes comes first: a folder may be where a file was.
        self.remove([path for path, entry in entries.items() if entry is None], index)
        lines = (f"{one.mode} {one.blob}\t{path}\0" for path, one in entries.items() if one)
        if told := os.fsencode("".join(lines)):
            args = ("update-index", "--add", "--replace", "-z", "--index-info")
            self.run(*args, stdin=told, index=index)


def persons_env(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return an environment with the person's own settings, in which commits are theirs."""
    env = {name: value for name, value in _FIXED.items() if name not in _AS_NOBODY}
    names = (*_OF_PERSON, *_WHO, "EMAIL")
    return env | {name: environ[name] for name in names if name in environ}


def excludes_file(
    git: Git, git_dir: Path | None, work_tree: Path, environ: Mapping[str, str]
) -> str | None:
    """Return the file of the person's own patterns of what git ignores; None: there is none."""
    env = {name: value for name, value in _FIXED.items() if name not in _CONFIGURED}
    env |= {name: environ[name] for name in _OF_PERSON if name in environ}
    if git_dir is not None:
        env["GIT_DIR"] = str(git_dir)
    args = ("config", "--type=path", "-z", "--get", "core.excludesFile")
    output = git(args, cwd=str(work_tree), env=env)
    if output.code == 0:
        return os.fsdecode(output.out.rstrip(b"\0")) or None
    folder = environ.get("XDG_CONFIG_HOME") or (
        os.path.join(environ["HOME"], ".config") if environ.get("HOME") else ""  # noqa: PTH118
    )
    usual = f"{folder}/git/ignore"
    return usual if folder and os.access(usual, os.R_OK) else None


def names(listed: bytes) -> Iterator[str]:
    """Yield the names of a list that ends each by a zero byte."""
    return (os.fsdecode(name) for name in listed.split(b"\0") if name)


def listed(paths: Sequence[str]) -> bytes:
    """Return names as git reads them with -z."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def as_lines(words: Iterable[str]) -> bytes:
    """Return words as git reads them, one a line."""
    return "".join(f"{word}\n" for word in words).encode("ascii")


def _entries(said: bytes, *, blob: int) -> dict[str, Entry]:
    """Return files by path; `blob` is the number of the word that is the id of the content."""
    found = {}
    for line in filter(None, said.split(b"\0")):
        head, _, path = line.partition(b"\t")
        words = head.decode("ascii").split()
        found[os.fsdecode(path)] = Entry(words[0], words[blob])
    return found


@contextmanager
def scratch(index: Path) -> Iterator[Path]:
    """Have an index for the block that is not there yet, nor a lock that a dead one has left."""
    lock = index.with_name(f"{index.name}.lock")
    try:
        for one in (index, lock):
            one.unlink(missing_ok=True)
        yield index
    finally:
        index.unlink(missing_ok=True)


def _quoted(path: Path) -> str:
    """Return a path as a list of paths holds it, which a colon would divide."""
    text = str(path)
    if not any(char in text for char in ':"\\\n'):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
