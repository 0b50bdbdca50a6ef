"""Remembers which content of a workspace's `.prism` the user trusts, and in which folder.

Content is known by its hash. A copy, a clone or a restored backup is another folder: its inode,
birth time or root commits differ. Each of these alone is weak: inodes are reused, some file
systems note no births, and a fork shares its origin's root.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import convert, to_builtins
from msgspec.structs import asdict

from prsm_core.config.paths import cannot_be_read, private_dir, written_path
from prsm_core.config.snapshot import Scope, take_snapshot
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.kit.regular import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.config.effects import Effect
    from prsm_core.config.paths import Paths
    from prsm_core.config.snapshot import Snapshot

T = TypeVar("T")

NOTHING = "nothing"  # what is trusted of a workspace without any content in `.prism`

ROOTS_SECONDS = 20.0  # for git to walk a history, once, when trust is given
FIND_SECONDS = 5.0  # for git to look a commit up
MAX_ROOTS = 100

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX_SIZE = 256
_MASK, _BTIME_SECONDS, _BTIME_NANOSECONDS = (0, 4), (80, 88), (88, 92)  # in struct statx
# The repository's own configuration is read. What it could start, or fetch, is switched off.
_QUIET = (
    "--no-pager",
    "--no-replace-objects",
    *("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never"),
)
_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


class Standing(Record, frozen=True, kw_only=True):
    """What lies in `.prism`, read once, and whether the user trusts exactly that.

    `lost` says why trust no longer holds; None if none was given, or it holds.
    """

    snapshot: Snapshot
    trusted: bool
    lost: str | None = None


class Grant(Record, frozen=True, kw_only=True):
    """What the user has said of a workspace.

    Attributes:
        content: The hash of `.prism`, or NOTHING.
        folder: The folder itself; None if it was not there to look at.
        roots: The root commits of its history.
    """

    content: str
    folder: Folder | None = None
    roots: tuple[str, ...] = ()


class Review(Standing, frozen=True, kw_only=True):
    """What a person who is asked for trust should know.

    Attributes:
        effects: What the content does.
        before: What the content trusted last did; None if that is not known.
    """

    effects: Sequence[Effect]
    before: Sequence[Effect] | None

    @property
    def added(self) -> frozenset[Effect]:
        """What was not so when the workspace was trusted last; nothing if it never was."""
        return frozenset() if self.before is None else frozenset(self.effects) - {*self.before}

    @property
    def gone(self) -> frozenset[Effect]:
        """What is no longer so."""
        return frozenset() if self.before is None else frozenset(self.before) - {*self.effects}


def check_trust(paths: Paths, *, given: bool = False) -> Standing:
    """Read `.prism` and return it with whether the user trusts what was read.

    Use the content of the snapshot: the folder may have changed since. With `given` the user trusts
    it for this run. Raises ConfigError when it cannot be read.
    """
    if given:
        return Standing(snapshot=take_snapshot(paths.workspace, Scope.CONFIGURATION), trusted=True)
    if _known(paths) is None:
        return Standing(snapshot=take_snapshot(paths.workspace, Scope.RULES), trusted=False)
    standing = _compared(paths)
    if standing.trusted:
        return standing
    try:
        with locked(paths):  # a change of the user's own may just be half done
            return _compared(paths)
    except OSError:  # where nothing can be written nobody is changing anything
        return standing


def is_trusted(paths: Paths) -> bool:
    """Return whether the user trusts `.prism` as it is now."""
    if _known(paths) is None:
        return False  # not even hashed: it may be made to take long
    return check_trust(paths).trusted


def review(paths: Paths) -> Review:
    """Return what lies in `.prism`, what it does, and what was trusted last."""
    from prsm_core.config.effects import effects_of

    standing = _compared(paths)
    effects = effects_of(standing.snapshot)
    return Review(**asdict(standing), effects=effects, before=_effects_before(paths))


def trust(paths: Paths, snapshot: Snapshot | None = None) -> str:
    """Trust a snapshot of `.prism`, or what lies there now; return its hash. Raises ConfigError.

    A workspace without one is trusted as it is; what appears there later is not.
    """
    if snapshot is None:
        snapshot = take_snapshot(paths.workspace)
    with _telling(paths), locked(paths):
        # The person has been told what agents may have written, and trusts it as it is now.
        written_path(paths).unlink(missing_ok=True)
        return _remember(paths, snapshot)


def untrust(paths: Paths) -> bool:
    """Take trust back; return whether there was any. Raises ConfigError as `trust` does."""
    if not _file(paths).exists():
        return False
    with _telling(paths), locked(paths):
        known = _read(paths)
        had = known.pop(str(paths.workspace), None) is not None
        _write(paths, known)
        _record(paths).unlink(missing_ok=True)
    return had


def change_file(
    paths: Paths,
    name: str,
    change: Callable[[bytes | None], bytes | None],
    may_begin: Callable[[bytes | None], bool],
) -> bool:
    """Change one file of `.prism` on the user's own word; trust in the rest stays as it was.

    Then the trusted content is the old one with this file changed: if anything else has changed
    meanwhile, nothing is trusted. Call it with the lock held.

    Args:
        paths: The workspace.
        name: The policy file, or another that configures PRSM, directly in `.prism`.
        change: Returns the new bytes for the old ones (None: no file), or None for no change.
        may_begin: Given the old bytes, whether trust may begin with this change if `.prism` holds
            nothing else.

    Returns:
        Whether the file was changed.

    Raises:
        ConfigError: `.prism` or the file is a link, or cannot be read.
        OSError: The file cannot be written.
    """
    snapshot = take_snapshot(paths.workspace)
    old = snapshot.data(name)
    is_alone = snapshot.entries.keys() <= {name}
    grant = _known(paths)
    holds = grant is not None and _why_lost(grant, paths, snapshot) is None
    is_covered = holds or (is_alone and may_begin(old))
    new = change(old)
    if new is None:
        return False
    paths.workspace_dir.mkdir(exist_ok=True)
    replace_file(paths.workspace_dir / name, new)
    if is_covered:
        _remember(paths, snapshot.with_file(name, new), grant if holds else None)
    return True


def _compared(paths: Paths) -> Standing:
    grant, snapshot = _known(paths), take_snapshot(paths.workspace)
    if grant is None:
        return Standing(snapshot=snapshot, trusted=False)
    lost = _why_lost(grant, paths, snapshot)
    return Standing(snapshot=snapshot, trusted=lost is None, lost=lost)


def _why_lost(grant: Grant, paths: Paths, snapshot: Snapshot) -> str | None:
    """Return why the user's word is not about this content in this folder, None if it is."""
    is_same = snapshot.is_empty if grant.content == NOTHING else grant.content == snapshot.digest
    if not is_same:
        return "it has changed since it was trusted"
    if grant.folder != _identify(paths.workspace):
        return "another folder is at this path than the one that was trusted"
    if not has_commits(paths.workspace, grant.roots):
        return "its repository is not known to be the one that was trusted"
    return None


def _file(paths: Paths) -> Path:
    return paths.data / "trust.json"


def _record(paths: Paths) -> Path:
    """Return where it stands what the trusted content does, to tell later what has changed."""
    name = hashlib.sha256(os.fsencode(paths.workspace)).hexdigest()[:32]
    return paths.data / "trusted" / f"{name}.json"


def _load(path: Path, build: Callable[[Any], T], what: str, without: str) -> T | None:
    try:
        return build(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot_be_read(path, error) from error
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        text = f"{path}: cannot be read as {what}"
        raise ConfigError(text, hint=f"delete it; {without}") from error


def _read(paths: Paths) -> dict[str, Grant]:
    def build(known: Any) -> dict[str, Grant]:
        return {str(name): convert(value, Grant) for name, value in known.items()}

    what, without = "the list of trusted workspaces", "no workspace is trusted then"
    return _load(_file(paths), build, what, without) or {}


def _known(paths: Paths) -> Grant | None:
    return _read(paths).get(str(paths.workspace))


def _effects_before(paths: Paths) -> Sequence[Effect] | None:
    from prsm_core.config.effects import Effect

    def build(noted: Any) -> Sequence[Effect]:
        return [Effect(str(group), str(text)) for group, text in noted["effects"]]

    without = "then it is not told what has changed"
    return _load(_record(paths), build, "what was trusted", without)


def _remember(paths: Paths, snapshot: Snapshot, before: Grant | None = None) -> str:
    """Write down that a content is trusted; in the folder of the grant `before`, if it held."""
    from prsm_core.config.effects import effects_of

    digest = NOTHING if snapshot.is_empty or snapshot.digest is None else snapshot.digest
    grant = Grant(
        content=digest,
        folder=_identify(paths.workspace) if before is None else before.folder,
        roots=root_commits(paths.workspace) if before is None else before.roots,
    )
    noted = {
        "workspace": str(paths.workspace),
        "effects": [(effect.group, effect.text) for effect in effects_of(snapshot)],
    }
    record = _record(paths)
    private_dir(record.parent)
    replace_file(record, json.dumps(noted, indent=1).encode())
    _write(paths, {**_read(paths), str(paths.workspace): grant})
    return digest


def _write(paths: Paths, known: Mapping[str, Grant]) -> None:
    told = {name: to_builtins(grant) for name, grant in known.items()}
    replace_file(_file(paths), json.dumps(told, indent=1, sort_keys=True).encode())


@contextmanager
def _telling(paths: Paths) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{error.filename or _file(paths)}: cannot be written: {error.strerror}",
            hint="check the disk: space, permissions; or PRSM_HOME names another folder",
        ) from error


@contextmanager
def locked(paths: Paths) -> Iterator[None]:
    """Keep other processes out, so that no change of trust or of rules is lost."""
    lock = private_dir(paths.data) / "trust.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Folder(Record, frozen=True, kw_only=True):
    """A folder, told from all others; `born` is in nanoseconds, None where nobody notes it."""

    device: int
    inode: int
    born: int | None


def _identify(folder: Path) -> Folder | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return Folder(device=found.st_dev, inode=found.st_ino, born=birth_time(folder))


def birth_time(path: Path) -> int | None:
    """Return when a file was made, in nanoseconds; None where the system does not say."""
    import ctypes  # few workspaces are trusted, and it costs what a start is measured by

    statx = getattr(ctypes.CDLL(None), "statx", None)  # Python 3.11 has no call for it
    if statx is None:
        return None
    place = ctypes.create_string_buffer(_STATX_SIZE)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, place):
        return None
    mask, seconds, rest = (
        int.from_bytes(place.raw[start:end], sys.byteorder)
        for start, end in (_MASK, _BTIME_SECONDS, _BTIME_NANOSECONDS)
    )
    return seconds * 10**9 + rest if mask & _STATX_BTIME else None


def root_commits(folder: Path) -> tuple[str, ...]:
    """Return the root commits of what is checked out.

    None without a repository or a commit, in a shallow clone, or if git does not answer in time.
    """
    if _ask(folder, ("rev-parse", "--is-shallow-repository"), FIND_SECONDS) != "false\n":
        return ()
    told = _ask(folder, ("rev-list", "--max-parents=0", "HEAD", "--"), ROOTS_SECONDS) or ""
    return tuple(sorted(told.split())[:MAX_ROOTS])


def has_commits(folder: Path, commits: Sequence[str]) -> bool:
    """Return whether the repository of a folder has these commits; without any nobody is asked."""
    if not commits:
        return True
    asked = "".join(f"{commit}\n" for commit in commits)
    told = _ask(folder, ("cat-file", "--batch-check=%(objecttype)"), FIND_SECONDS, asked)
    return told == "commit\n" * len(commits)


def _ask(folder: Path, words: Sequence[str], seconds: float, given: str = "") -> str | None:
    git = shutil.which("git")
    if git is None or not git.startswith(os.sep):
        return None
    environ = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            (git, "-C", folder, *_QUIET, *words),
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            env=environ | _VARIABLES,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
