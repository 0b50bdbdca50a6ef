"""What one command in the sandbox sees and may write: the mounts, in their order.

First what covers whole folders (temp folders, sockets), then the workspace, then what stays
read-only in it, then what the configuration opens, and at last what is hidden, so that no mount
brings it back. A hidden folder that holds the workspace is covered first instead. Hidden are
secrets, PRSM's own folders and sockets of others.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from stat import S_ISSOCK
from typing import TYPE_CHECKING

from prsm_core import ProcessError
from prsm_core.kit import names_file
from prsm_core.policies import is_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

MAX_FOLDERS = 1_500  # of a workspace that are looked at, the shallow ones first
MAX_FOUND = 150  # secrets and protected names below its root that are covered
MAX_SOCKETS = 200
SETTLED_NS = 10**9
_NOT_ENTERED = frozenset(
    (".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".tox", ".nox", ".direnv")
)
_SOCKETS = Path("/proc/net/unix")


def foreign_sockets() -> Iterator[str]:
    """Yield the paths of the unix sockets that processes of this network namespace hold open.

    None of them is the command's: it has not started yet. They come each once.
    """
    seen: set[str] = set()
    try:
        lines = _SOCKETS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        path = line[line.find(" /") + 1 :] if " /" in line else ""
        if path and path not in seen and len(seen) < MAX_SOCKETS and _is_socket(path):
            seen.add(path)
            yield path


def _is_socket(path: str) -> bool:
    try:
        return S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


@dataclass(slots=True)
class _Folder:
    """What was found in one folder; what it holds is known as long as its time is the same."""

    changed: int
    below: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()


@dataclass(slots=True)
class WorkspaceIndex:
    """Secrets and protected names in the tree of a workspace, kept from command to command.

    It enters no folder of a version control, of packages or of a virtual environment, and gives
    up after MAX_FOLDERS; the shallow ones come first. A folder is read again when its time of
    change is another one.
    """

    root: str
    is_secret: Callable[[str], bool]
    protected_names: frozenset[str]
    _folders: dict[str, _Folder] = field(default_factory=dict)

    def look(self) -> tuple[list[str], list[str]]:
        """Return the paths of what is secret, and of what is protected; both below the root."""
        secret: list[str] = []
        protected: list[str] = []
        kept: dict[str, _Folder] = {}
        waiting = [self.root]
        for path in waiting:  # it grows meanwhile: the breadth comes first
            if len(kept) >= MAX_FOLDERS:
                break
            folder = self._read(path)
            if folder is None:
                continue
            kept[path] = folder
            secret += folder.secret
            protected += folder.protected
            waiting += folder.below
        self._folders = kept
        return secret[:MAX_FOUND], protected[:MAX_FOUND]

    def _read(self, path: str) -> _Folder | None:
        try:
            changed = os.stat(path).st_mtime_ns  # noqa: PTH116 - called a thousand times
            known = self._folders.get(path)
            if known is not None and known.changed == changed:
                return known
            # One that has just changed may change again within the same tick of its clock.
            settled = time.time_ns() - changed > SETTLED_NS
            with os.scandir(path) as entries:
                return self._sorted_out(changed if settled else -1, list(entries))
        except OSError:
            return None

    def _sorted_out(self, changed: int, entries: list[os.DirEntry[str]]) -> _Folder:
        below: list[str] = []
        secret: list[str] = []
        protected: list[str] = []
        for entry in entries:
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if self.is_secret(name) and not (is_folder and _is_environment(entry.path)):
                secret.append(entry.path)
            elif name.casefold() in self.protected_names:
                protected.append(entry.path)
            elif is_folder and name not in _NOT_ENTERED and not _is_environment(entry.path):
                below.append(entry.path)
        return _Folder(changed, tuple(below), tuple(secret), tuple(protected))


def _is_environment(path: str) -> bool:
    return os.path.exists(f"{path}/pyvenv.cfg")  # noqa: PTH110 - called a thousand times


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of some folders or below one."""
    return any(is_within(path, folder) for folder in folders)


# What stands empty where it is missing, in each folder that a command may write or starts in. Not
# the settings of package managers: those fail on a folder of that name.
STAND_INS = (
    *(".git", ".prism", ".claude", ".codex", ".gemini", ".agents", ".mcp.json", ".vscode", ".idea"),
    *(".cursor", ".husky", ".envrc", ".qwen", ".opencode", ".windsurf", ".kiro", ".roo", ".zed"),
    *(".devcontainer", ".pdbrc", ".gdbinit", ".exrc"),
)
# Where the folder is a home, shells start there, too.
SHELL_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"),
    *(".inputrc", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc"),
    *(".tcshrc", ".login", ".xprofile", ".xinitrc", ".pam_environment", ".gitconfig", ".vimrc"),
)
# What git runs or obeys, within a `.git` that may be written.
GIT_GUARDED = ("config", "config.worktree", "hooks")
SCRATCH = ".cache"  # what tools keep below the home directory; thrown away


@dataclass(frozen=True, kw_only=True)
class View:
    """One command's view; all paths are absolute and resolved.

    Attributes:
        root: The folder that can be written: the workspace, or where the command starts.
        region: All of it that can be written, None for the whole.
        closed: Folders of it that never can be: the regions of others.
        writable: Further paths that can be written.
        hidden: What must not be seen; paths that may lie anywhere, or not exist.
        protected: What is there and stays as it is.
        base: A folder of this engine with `tmp`, `empty` and `nothing` in it.
        path: The folders of the variable PATH.
    """

    root: str
    cwd: str
    region: tuple[str, ...] | None
    closed: tuple[str, ...]
    writable: tuple[str, ...]
    homes: tuple[str, ...]
    hidden: tuple[str, ...]
    protected: tuple[str, ...]
    base: str
    path: tuple[str, ...]

    def options(self) -> Iterator[str]:
        """Yield the options of bubblewrap that mount all this."""
        yield from self._covers()
        yield from ("--bind" if self.region is None else "--ro-bind", self.root, self.root)
        yield from _opened(self.region or (), self.closed)
        yield from _sealed((self.root,) if self.region is None else self.region, self.closed)
        yield from _over_itself("--ro-bind-try", self._shut)
        for path in self.writable:
            if not is_below_any(path, self.closed):
                yield from ("--bind-try", path, path)
                yield from _sealed((path,), self.closed)
        yield from _over_itself("--ro-bind-try", self._guarded)
        for path in self._covered_late:
            empty = "empty" if os.path.isdir(path) else "nothing"  # noqa: PTH112 - many of them
            yield from ("--ro-bind", f"{self.base}/{empty}", path)

    def stand_ins(self) -> Iterator[Path]:
        """Yield the names that must not be missing while the command runs."""
        for place in self._places:
            names = (*STAND_INS, *(SHELL_FILES if place in self.homes else ()))
            for name in names:
                if not is_below_any(f"{place}/{name}", self.writable):
                    yield Path(place, name)
        for path in self.writable:
            if path.endswith("/.git") and Path(path).is_dir():
                yield Path(path, "hooks")

    def stand_in_files(self) -> Iterator[Path]:
        """Yield the files of regions that must not be missing while the command runs."""
        roots = (self.root,) if self.region is None else self.region
        for path in dict.fromkeys((*(self.region or ()), *self.closed)):
            if is_below_any(path, roots) and is_file(path):
                yield Path(path)

    @cached_property
    def _places(self) -> tuple[str, ...]:
        """The folders that get stand-ins: those that a command may write and where it starts."""
        own = (self.root,) if self.region is None else self.region
        roots = [path for path in own if not is_file(path)]
        starts = (self.cwd,) if is_below_any(self.cwd, roots) else ()
        return tuple(dict.fromkeys((*roots, *starts)))

    @cached_property
    def _shut(self) -> tuple[str, ...]:
        standing = (str(path) for path in self.stand_ins())
        paths = dict.fromkeys((*self.protected, *standing))
        # Not those that the configuration opens, nor what a link leads to outside.
        return tuple(
            path
            for path in paths
            if not is_below_any(path, self.writable)
            and is_within(os.path.realpath(path), self.root)
        )

    @cached_property
    def _guarded(self) -> tuple[str, ...]:
        """What git obeys within each `.git` that the configuration opens, but not by name."""
        found: list[str] = []
        for git in (path for path in self.writable if path.endswith("/.git")):
            modules = Path(git, "modules")
            folders = [git, *(str(path) for path in sorted(modules.glob("*"))[:50])]
            found += (f"{folder}/{name}" for folder in folders for name in GIT_GUARDED)
        return tuple(path for path in found if path not in self.writable)

    @cached_property
    def _kept(self) -> tuple[str, ...]:
        return (self.root, self.cwd, *(self.region or ()), *self.writable)

    @cached_property
    def _temps(self) -> tuple[str, ...]:
        named = (tempfile.gettempdir(), "/tmp")  # noqa: S108 - the very folders that are replaced
        return tuple(dict.fromkeys(os.path.realpath(path) for path in named))

    @cached_property
    def _emptied(self) -> tuple[str, ...]:
        """Folders with nothing of the machine's in them, that can be written and are thrown away.

        Sockets of other programs lie in the first ones.
        """
        scratch = (f"{home}/{SCRATCH}" for home in self.homes)
        named = (*("/run", "/var/run", "/var/tmp"), *scratch)  # noqa: S108 - they are replaced
        found = dict.fromkeys(os.path.realpath(path) for path in named if os.path.isdir(path))  # noqa: PTH112
        return tuple(path for path in found if path not in (*self._temps, *self._kept))

    @cached_property
    def _covered_early(self) -> tuple[str, ...]:
        """Hidden folders that hold something which is kept: it is mounted into the empty one."""
        return tuple(
            path
            for path in self._hidden_there
            if path not in self._kept and any(is_within(kept, path) for kept in self._kept)
        )

    @cached_property
    def _hidden_there(self) -> tuple[str, ...]:
        found = dict.fromkeys(os.path.realpath(path) for path in self.hidden)
        return tuple(sorted(path for path in found if os.path.lexists(path)))

    @cached_property
    def _covered_late(self) -> tuple[str, ...]:
        gone = (*self._temps, *self._emptied, *self._covered_early)
        there = (*self._kept, *self._shown)  # shown all the same, with what is hidden in it
        covered: list[str] = []
        for path in self._hidden_there:
            is_gone = is_below_any(path, gone) and not is_below_any(path, there)
            if is_gone or path in (*self._kept, *gone) or is_below_any(path, covered):
                continue
            covered.append(path)
        return tuple(covered)

    def _covers(self) -> Iterator[str]:
        for path in (*self._emptied, *self._covered_early):
            yield from ("--tmpfs", path)
        for path in self._temps:
            yield from ("--bind", os.path.join(self.base, "tmp"), path)  # noqa: PTH118
        yield from _over_itself("--ro-bind-try", self._shown)

    @cached_property
    def _shown(self) -> tuple[str, ...]:
        """Programs, and the names of hosts, that lie in what is covered."""
        shown = (*self.path, os.path.realpath("/etc/resolv.conf"))
        hidden = (*self._emptied, *self._covered_early, *self._temps)
        return tuple(path for path in shown if is_below_any(path, hidden))


def _over_itself(option: str, paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        yield from (option, path, path)


# Regions: an agent writes its own, and none that are others'.


def _opened(folders: Sequence[str], closed: Sequence[str]) -> Iterator[str]:
    """Yield the options that make an agent's own folders writable, but for those that are closed.

    What is missing is made. Raises ProcessError for one that cannot be.
    """
    for folder in folders:
        _make(folder)
        if not any(is_within(folder, other) for other in closed):
            yield from ("--bind", folder, folder)


def _sealed(writable: Sequence[str], closed: Sequence[str]) -> Iterator[str]:
    """Yield the options that make the closed folders read-only inside the writable ones.

    They come behind those that make the others writable. A folder on the way to a closed one
    becomes a mount of its own: it could be renamed otherwise, and another put in its place. A
    closed folder that is missing is made, for what is not there cannot be closed.

    Raises ProcessError for one that cannot be, or that leads elsewhere by now.
    """
    pins: dict[str, None] = {}
    for folder in sorted(closed):
        for area in writable:
            if is_within(folder, area):
                pins.update(dict.fromkeys(_between(area, folder)))
    inside = [folder for folder in closed if is_below_any(folder, writable)]
    for folder in inside:
        _make(folder)
    for pin in sorted(pins, key=len):
        yield from ("--bind", pin, pin)
    for folder in sorted(inside, key=len):
        yield from ("--ro-bind", folder, folder)


def _between(area: str, folder: str) -> list[str]:
    """Return the folders below `area` and above `folder`, none for the same one."""
    above = [os.fspath(path) for path in Path(folder).parents]
    return [path for path in above if is_within(path, area) and path != area]


def is_file(path: str) -> bool:
    """Return whether a region is a file; one that is missing is one by its name."""
    if os.path.lexists(path):
        return not os.path.isdir(path)  # noqa: PTH112 - as the other
    return names_file(path)


def _make(folder: str) -> None:
    """Make a folder where nothing is; what is to be a file stands there already, empty."""
    try:
        if not os.path.lexists(folder):
            Path(folder).mkdir(parents=True, exist_ok=True)
        where = os.path.realpath(folder)
    except OSError as error:
        raise ProcessError(
            f"the region {folder} cannot be made for the sandbox: {error.strerror}",
            hint="remove what is in its way",
        ) from error
    if where != folder:
        raise ProcessError(
            f"the region {folder} has become a link to {where}",
            hint="put the folder back in its place",
        )
