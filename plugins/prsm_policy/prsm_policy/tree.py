"""What a program that reads whole folders would meet: secret names, and links that lead out.

One index of each workspace is kept between decisions. A folder is read again if the times of its
last change differ, or are so recent that it may change again within the same tick.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.policies import UntoldError, part_of, secret_part
from prsm_policy.secret_names import may_be_secrets, needs_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prsm_core.policies import Part

    Shown = tuple[Part, ...]

MAX_FOLDERS = 3_000  # looked at for one decision
MAX_NAMES = 25_000  # read anew for one decision
MAX_KEPT = 20_000  # folders of one index
MAX_LINKS = 500  # resolved for one decision
MAX_SECONDS = 0.025  # CPU time of one decision
_MAX_FILE = 64 * 1024  # bytes of a file that says what else is read
_SETTLED = 2_000_000_000  # ns after which a folder that has not changed has another time if it does

# Package managers fill these with what everybody can download.
_PUBLISHED = frozenset({"node_modules", "site-packages", "dist-packages", ".tox", ".nox", ".venv"})
_IGNORES = (".gitignore", ".ignore", ".rgignore")
_CREDENTIALS = re.compile(
    rb"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{16,}@|extraheader|(?:token|pass\w*|secret)\s*=",
    re.IGNORECASE,
)
_ALTERNATIVES = re.compile(r"([^{}]*)\{([^{}/\[\]\\]+)\}([^{}]*)")
_GIT_FOLDER = re.compile(r"/\.git(?:/modules(?:/|$)|$)")
_GIT_STORES = frozenset({"objects", "refs", "logs", "lfs", "hooks", "info"})  # nothing to look for


class Reach(Struct, frozen=True, kw_only=True):
    """How a program reads a folder: what of it, and whether it follows links.

    The name of each file must match one of the `narrow` patterns. Folders named in `skips` are left
    out, and files and folders that match one of `leaves_out`. With `names_only` it shows no more
    than names: then only links that lead out matter.
    """

    hidden: bool = True
    follows: bool = False
    names_only: bool = False
    narrow: tuple[Part, ...] = ()
    skips: frozenset[str] = frozenset()
    leaves_out: tuple[Part, ...] = ()

    def takes(self, name: str) -> bool:
        """Return whether a file of that name may be read."""
        if self._is_left_out(name):
            return False
        names = {name, name.lower()}
        return not self.narrow or any(
            part.may_match(each, dots=False) for part in self.narrow for each in names
        )

    def passes_by(self, name: str) -> bool:
        """Return whether a folder of that name is surely not gone into."""
        return name in self.skips or self._is_left_out(name)

    def _is_left_out(self, name: str) -> bool:
        return any(part.sure.fullmatch(name) is not None for part in self.leaves_out)


class _Folder(Struct, frozen=True):
    """What was in a folder: only what matters."""

    stamp: tuple[int, ...]
    settled: bool
    folders: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()


class Bounds(Struct):
    """What one decision may still look at; beyond that it raises UntoldError."""

    folders: int = MAX_FOLDERS
    names: int = MAX_NAMES
    links: int = MAX_LINKS
    seconds: float = MAX_SECONDS
    until: float | None = None  # in CPU seconds of this thread, from the first look on

    def folder(self) -> None:
        """Count a folder that is looked at."""
        now = time.thread_time()
        if self.until is None:
            self.until = now + self.seconds
        self.folders -= 1
        if self.folders < 0 or now > self.until:
            raise UntoldError("the folder is too large to be looked through")

    def are_spent(self) -> bool:
        """Return whether nothing more may be looked at."""
        is_late = self.until is not None and time.thread_time() > self.until
        return is_late or min(self.folders, self.names, self.links) < 0

    def read(self, count: int) -> None:
        """Count names that are read anew."""
        self.names -= count
        if self.names < 0:
            raise UntoldError("the folder is too large to be looked through")

    def link(self) -> None:
        """Count a link that is followed."""
        self.links -= 1
        if self.links < 0:
            raise UntoldError("the folder holds too many links")


class TreeIndex:
    """The folders of one resolved workspace as they were last read."""

    def __init__(self, root: str, *, now: Callable[[], int] = time.time_ns) -> None:
        self._root = root
        self._now = now  # ns, of the clock that files are stamped by
        self._folders: dict[str, _Folder] = {}

    def why_not(self, paths: Iterable[str], reach: Reach, bounds: Bounds) -> str | None:
        """Return what speaks against reading all below resolved paths, None if nothing does."""
        try:
            return next(self._objections(paths, reach, bounds), None)
        except UntoldError as error:
            return str(error)

    def _objections(self, paths: Iterable[str], reach: Reach, bounds: Bounds) -> Iterator[str]:
        stack = [(path, () if reach.hidden else tuple(_opened_above(path))) for path in paths]
        seen = {path for path, _ in stack}
        while stack:
            where, shown = stack.pop()
            known = self._folder(where, bounds)
            if known is None:
                continue
            if not reach.hidden and known.ignores:
                shown += tuple(_opened(where, known.ignores))
            inner = [f"{where}/{name}" for name in _entered(where, known, reach, shown)]
            if not reach.names_only:
                yield from self._secrets(where, known, reach, shown)
            for name in known.links if reach.follows else ():
                bounds.link()
                target = os.path.realpath(f"{where}/{name}")
                if (reason := self._why_not_follow(target, reach)) is not None:
                    yield reason
                inner.append(target)
            stack += [(each, shown) for each in inner if each not in seen]
            seen.update(inner)

    def _secrets(self, where: str, known: _Folder, reach: Reach, shown: Shown) -> Iterator[str]:
        is_published = not _PUBLISHED.isdisjoint(self._below(where).split("/"))
        for name in known.secrets if not is_published else ():
            if reach.takes(name) and _is_shown(name, reach, shown):
                yield f"{self._below(where)}/{name} may hold a secret"
        if _GIT_FOLDER.search(self._below(where)):
            for name in ("config", "config.worktree"):
                data = _head(f"{where}/{name}") if reach.takes(name) else None
                if data and (len(data) > _MAX_FILE or _CREDENTIALS.search(data)):
                    yield f"{self._below(where)}/{name} holds credentials"

    def _why_not_follow(self, target: str, reach: Reach) -> str | None:
        if target != self._root and not target.startswith(self._root.rstrip("/") + "/"):
            return f"a link leads to {target}, outside the workspace"
        part = None if reach.names_only else secret_part(self._below(target))
        return None if part is None else f"a link leads to {part}, which may hold a secret"

    def _below(self, path: str) -> str:
        return path[len(self._root) :]

    def _folder(self, path: str, bounds: Bounds) -> _Folder | None:
        """Return what is in a folder, None for what is none; read anew if it may have changed."""
        bounds.folder()
        try:
            status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - for each folder
        except OSError:
            self._folders.pop(path, None)
            return None
        if not stat.S_ISDIR(status.st_mode):
            return None
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = self._folders.get(path)
        if known is not None and known.settled and known.stamp == stamp:
            return known
        settled = max(stamp[2:]) + _SETTLED < self._now()
        known = self._read(path, stamp, bounds, settled=settled)
        if known is not None:
            if len(self._folders) >= MAX_KEPT:
                self._folders.clear()
            self._folders[path] = known
        return known

    def _read(
        self, path: str, stamp: tuple[int, ...], bounds: Bounds, *, settled: bool
    ) -> _Folder | None:
        below = self._below(path)
        try:
            with os.scandir(path) as entries:
                seen = list(islice(entries, bounds.names + 1))
                folders = [entry.name for entry in seen if entry.is_dir(follow_symlinks=False)]
                links = [entry.name for entry in seen if entry.is_symlink()]
        except OSError:  # no folder, or one that the reader may not read either
            return None
        bounds.read(len(seen))
        names = [entry.name for entry in seen]
        others = {*folders, *links}
        if not needs_path(below):
            names = may_be_secrets(names)
        names = [name for name in names if name not in others]
        secrets = [name for name in names if secret_part(f"{below}/{name}") is not None]
        ignores = [name for name in names if name in _IGNORES]
        return _Folder(stamp, settled, tuple(folders), tuple(secrets), tuple(links), tuple(ignores))


class Trees:
    """The indexes of the workspaces that were asked about last."""

    def __init__(self, *, size: int = 4, now: Callable[[], int] = time.time_ns) -> None:
        self._size = size
        self._now = now
        self._by_root: OrderedDict[str, TreeIndex] = OrderedDict()

    def of(self, root: str) -> TreeIndex:
        """Return the index of a resolved workspace."""
        index = self._by_root.get(root)
        if index is None:
            index = self._by_root[root] = TreeIndex(root, now=self._now)
        self._by_root.move_to_end(root)
        if len(self._by_root) > self._size:
            self._by_root.popitem(last=False)
        return index


def _entered(where: str, known: _Folder, reach: Reach, shown: Shown) -> Iterator[str]:
    """Yield the names of the folders in a folder that have to be looked at."""
    is_git = _GIT_FOLDER.search(where) is not None
    for name in known.folders:
        if reach.passes_by(name) or not _is_shown(name, reach, shown):
            continue
        if (reach.follows or name not in _PUBLISHED) and not (is_git and name in _GIT_STORES):
            yield name


def _is_shown(name: str, reach: Reach, shown: Shown) -> bool:
    """Return whether a program that skips hidden names sees one."""
    if reach.hidden or name[:1] != ".":
        return True
    return any(part.may_match(name, dots=False) for part in shown)


def _opened_above(path: str) -> Iterator[Part]:
    """Yield what the files above a folder take out of what is ignored."""
    while path not in {"", "/"}:
        yield from _opened(f"{path}/.git/info", ("exclude",))
        path = path.rpartition("/")[0]
        yield from _opened(path, _IGNORES)


def _opened(folder: str, names: tuple[str, ...]) -> Iterator[Part]:
    """Yield the patterns behind `!` in files of ignored names: rg then reads hidden ones, too."""
    for name in names:
        data = _head(f"{folder}/{name}")
        if data is None or b"!" not in data:
            continue
        if len(data) > _MAX_FILE:
            raise UntoldError(f"{name} is too long")
        for line in data.decode(errors="replace").removeprefix("\ufeff").splitlines():
            if line.startswith("!"):
                for text in filter(None, line[1:].strip().split("/")):
                    yield from map(part_of, alternatives(text))


def alternatives(text: str) -> list[str]:
    """Return what a pattern with one group of braces stands for, as rg reads it: `{a,b}.py`."""
    match = _ALTERNATIVES.fullmatch(text)
    if match is None:
        if "{" in text:
            raise UntoldError("the braces in the pattern cannot be told")
        return [text]
    return [f"{match[1]}{each}{match[3]}" for each in match[2].split(",")]


def _head(path: str) -> bytes | None:
    """Return the beginning of a file, None where there is none; a pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, _MAX_FILE + 1) if is_file else None
    except OSError:
        return None
    finally:
        os.close(descriptor)
