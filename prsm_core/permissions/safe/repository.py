"""Which programs git would start by the configuration of a repository, told without git.

What counts is what one command would start: from the configuration of the repository that git
finds from the folder it runs in, of what that includes, and of the submodules it looks into. The
configuration of the user and of the system is theirs. A folder that looks like a bare repository
is taken for one; git is told elsewhere to ignore such folders, but an old one does not.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.permissions.safe.gitconfig import read_config
from prsm_core.permissions.safe.gitindex import links_of
from prsm_core.permissions.safe.gitkeys import starts
from prsm_core.permissions.within import is_within
from prsm_core.shell.words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_core.permissions.paths import Place
    from prsm_core.permissions.safe.gitconfig import Config
    from prsm_core.shell.words import Word

_STARTS_NOTHING = word_set("version --version")
_GLOBAL_VALUED = word_set("-C -c --git-dir --work-tree --namespace")
# The hook that any command runs which refreshes the index.
_HOOK = "post-index-change"
_MAX_ABOVE = 40  # folders above one another
_MAX_LINK = 4_096  # bytes of a file that says where a repository is
_MAX_REPOSITORIES = 40  # one in another
_MAX_CACHED = 256


def may_start_programs(arguments: Sequence[Word], place: Place) -> bool:
    """Return whether git with these arguments may start what a repository here configures."""
    if not place.is_seen:
        return False
    name, folders = _called(arguments, place)
    if name in _STARTS_NOTHING:
        return False
    return any(_Look(name, place).is_hostile(folder) for folder in folders)


def _called(arguments: Sequence[Word], place: Place) -> tuple[str, list[str]]:
    """Return the subcommand, and the folders where git may look for a repository."""
    folders = list(place.folders)
    at = 0
    while at < len(arguments) and arguments[at].text.startswith("-"):
        text = arguments[at].text
        if text in _STARTS_NOTHING:
            return text, []
        if text == "-C" and at + 1 < len(arguments):
            to = arguments[at + 1].text
            folders = [os.path.normpath(os.path.join(folder, to)) for folder in folders]  # noqa: PTH118
        at += 2 if text in _GLOBAL_VALUED else 1
    return arguments[at].text if at < len(arguments) else "", folders


@dataclass(frozen=True, slots=True)
class _Found:
    """A repository: its folder, the one shared by its work trees, and its work tree."""

    folder: str
    common: str
    work: str


class _Look:
    """What one command would start, in one repository and in those it looks into."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._place = place
        self._left = _MAX_REPOSITORIES

    def is_hostile(self, folder: str) -> bool:
        """Return whether the repository of a folder makes git start a program."""
        try:
            found = self._find(folder)
        except (OSError, ValueError):
            return True
        return found is not None and self._is_hostile(found)

    def _find(self, folder: str) -> _Found | None:
        """Return the repository that git finds from a folder; ValueError if it cannot be told."""
        for _ in range(_MAX_ABOVE):
            if not self._place.looks.spend():
                raise ValueError(folder)
            mode = _mode(f"{folder}/.git")
            if mode is not None:
                return self._at(f"{folder}/.git", mode, folder)
            if _looks_bare(folder):
                raise ValueError(folder)
            if folder == "/":
                return None
            folder = folder.rpartition("/")[0] or "/"
        raise ValueError(folder)

    def _at(self, path: str, mode: int, work: str) -> _Found:
        folder = path
        if stat.S_ISREG(mode):
            text = _line(path)
            if not text.startswith("gitdir:"):
                raise ValueError(path)
            folder = os.path.join(work, text.removeprefix("gitdir:").strip())  # noqa: PTH118
        folder = os.path.realpath(folder)
        common = folder
        if _mode(f"{folder}/commondir") is not None:
            common = os.path.realpath(os.path.join(folder, _line(f"{folder}/commondir")))  # noqa: PTH118
        return _Found(folder, common, os.path.realpath(work))

    def _is_hostile(self, found: _Found) -> bool:
        self._left -= 1
        if self._left < 0:
            return True
        configs: list[Config] = []
        for path in (f"{found.common}/config", f"{found.folder}/config.worktree"):
            configs += self._configs(path, 0)
        settings = [setting for config in configs for setting in config.settings]
        if any(not config.readable for config in configs) or starts(self._name, settings):
            return True
        work = found.work
        for key, value in settings:
            if key == "core.worktree":
                work = os.path.realpath(os.path.join(found.folder, value))  # noqa: PTH118
        if work != found.work and not is_within(work, self._place.root):
            return True
        return self._has_hook(found, work, settings) or self._has_hostile_part(found, work)

    def _configs(self, path: str, depth: int) -> Iterator[Config]:
        """Yield a file of configuration and what it includes."""
        config = read_config(path)
        yield config
        if depth > _MAX_ABOVE:
            raise ValueError(path)
        for key, value in config.settings:
            if key.startswith(("include.", "includeif.")) and key.endswith(".path"):
                yield from self._configs(_included(path, value), depth + 1)

    def _has_hook(self, found: _Found, work: str, settings: Sequence[tuple[str, str]]) -> bool:
        hooks = f"{found.common}/hooks"
        for key, value in settings:
            if key == "core.hookspath":
                hooks = os.path.join(work, os.path.expanduser(value))  # noqa: PTH118, PTH111
        mode = _mode(f"{hooks}/{_HOOK}")
        return mode is not None

    def _has_hostile_part(self, found: _Found, work: str) -> bool:
        """Return whether a submodule with a repository of its own is one that starts a program."""
        for path in links_of(f"{found.folder}/index"):
            if path is None:
                return True
            if not self._place.looks.spend():
                return True
            inner = f"{work}/{path}"
            mode = _mode(f"{inner}/.git")
            if mode is not None and self._is_hostile(self._at(f"{inner}/.git", mode, inner)):
                return True
        return False


def _included(path: str, value: str) -> str:
    to = os.path.expanduser(value)  # noqa: PTH111 - text that may be no path
    return os.path.join(os.path.dirname(path), to)  # noqa: PTH118, PTH120


def _looks_bare(folder: str) -> bool:
    """Return whether a folder has what makes git take it for a repository."""
    if _mode(f"{folder}/HEAD") is None:
        return False
    if _mode(f"{folder}/commondir") is not None:
        return True
    return _mode(f"{folder}/objects") is not None and _mode(f"{folder}/refs") is not None


def _mode(path: str) -> int | None:
    """Return the mode of what a path leads to; None where there is nothing."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116
    except FileNotFoundError:
        # A link that leads nowhere is something all the same.
        return os.lstat(path).st_mode if os.path.islink(path) else None  # noqa: PTH114
    except NotADirectoryError:
        return None


def _line(path: str) -> str:
    """Return the first line of a short file."""
    info = os.stat(path)  # noqa: PTH116
    return _cached_line(path, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_size)


@lru_cache(maxsize=_MAX_CACHED)
def _cached_line(path: str, _mtime: int, _ctime: int, _inode: int, size: int) -> str:
    if size > _MAX_LINK:
        raise ValueError(path)
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(_MAX_LINK).decode().partition("\n")[0].strip()
