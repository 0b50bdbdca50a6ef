"""Remembers which content of a workspace's `.prism` the user trusts, by its hash."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsm_core.config.atomic import replace_file
from prsm_core.config.paths import cannot_be_read, private_dir
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from prsm_core.config.paths import Paths

MAX_FILES = 10_000
MAX_BYTES = 64 << 20
MAX_DEPTH = 100

_CHUNK = 1 << 20


def content_hash(workspace: Path) -> str | None:
    """Hash names and bytes of everything under `.prism`; None if there is no `.prism`.

    Links are hashed as links and never followed, special files by their kind alone.
    Raises ConfigError when something cannot be read or there is too much of it.
    """
    root = workspace / ".prism"
    if not os.path.lexists(root):
        return None
    try:
        return f"sha256:{_hash_entry(root, _Budget(), depth=0)}"
    except OSError as error:
        raise cannot_be_read(error.filename, error) from error


def is_trusted(paths: Paths) -> bool:
    """Return whether the user trusts `.prism` as it is now."""
    if (known := _known(paths)) is None:
        return False  # not even hashed: it may be made to take long
    if known == content_hash(paths.workspace):
        return True
    try:
        with locked(paths):  # a change of the user's own may just be half done
            return _known(paths) == content_hash(paths.workspace)
    except OSError:  # where nothing can be written nobody is changing anything
        return False


def trust(paths: Paths) -> str:
    """Trust `.prism` as it is now and return its hash.

    Raises ConfigError when there is nothing to trust.
    """
    digest = content_hash(paths.workspace)
    if digest is None:
        raise ConfigError(f"{paths.workspace}: has no .prism folder to trust")
    with locked(paths):
        _remember(paths, digest)
    return digest


def untrust(paths: Paths) -> bool:
    """Take trust back; return whether there was any."""
    if not _file(paths).exists():
        return False
    with locked(paths):
        known = _read(paths)
        had = known.pop(str(paths.workspace), None) is not None
        _write(paths, known)
    return had


def change_file(
    paths: Paths,
    name: str,
    change: Callable[[bytes | None], bytes | None],
    *,
    may_begin: Callable[[bytes | None], bool] = lambda _: False,
) -> bool:
    """Change one file of `.prism` on the user's own word; trust in the rest stays as it was.

    What is trusted then is the content that was trusted before with this one file changed: if
    something else has changed meanwhile, nothing is. Call it with the lock held.

    Args:
        paths: The workspace.
        name: A file directly in `.prism`.
        change: Returns the new bytes for the old ones (None: there is no file), or None to leave
            them as they are.
        may_begin: Whether trust may begin with this change where `.prism` holds nothing but this
            file, given its old bytes.

    Returns:
        Whether the file was changed.

    Raises:
        ConfigError: `.prism` or the file is a link, or cannot be read.
        OSError: The file cannot be written.
    """
    path = paths.workspace_dir / name
    old = _own_bytes(path)
    hashes = _hashes(paths.workspace_dir)
    _put(hashes, name, old)
    is_alone = hashes.keys() <= {os.fsencode(name)}
    is_covered = _known(paths) == _digest(hashes) or (is_alone and may_begin(old))
    new = change(old)
    if new is None:
        return False
    paths.workspace_dir.mkdir(exist_ok=True)
    replace_file(path, new)
    if is_covered:
        _put(hashes, name, new)
        _remember(paths, _digest(hashes))
    return True


class _Budget:
    """What a hash may still read; a repository must not make PRSM hang."""

    def __init__(self) -> None:
        self._files = MAX_FILES
        self._bytes = MAX_BYTES

    def spend(self, path: Path, *, files: int = 0, size: int = 0) -> None:
        self._files -= files
        self._bytes -= size
        if self._files < 0 or self._bytes < 0:
            raise ConfigError(f"{path}: too much lies under .prism to be trusted")


def _hash_entry(path: Path, budget: _Budget, depth: int) -> str:
    """Hash one entry by kind; a folder by the names and hashes of what is in it."""
    budget.spend(path, files=1 if depth < MAX_DEPTH else MAX_FILES + 1)
    mode = path.lstat().st_mode
    digest = hashlib.sha256(f"{stat.S_IFMT(mode):o}:".encode())
    if stat.S_ISLNK(mode):
        digest.update(os.fsencode(path.readlink()))
    elif stat.S_ISDIR(mode):
        _add_entries(digest, _hash_entries(path, budget, depth))
    elif stat.S_ISREG(mode):
        _hash_file(path, digest, budget)
    return digest.hexdigest()


def _hash_entries(folder: Path, budget: _Budget, depth: int) -> dict[bytes, str]:
    names = (os.fsencode(entry) for entry in os.listdir(folder))  # noqa: PTH208 - names only
    return {name: _hash_entry(folder / os.fsdecode(name), budget, depth + 1) for name in names}


def _add_entries(digest: hashlib._Hash, hashes: Mapping[bytes, str]) -> None:
    for name in sorted(hashes):
        digest.update(name + b"\0" + hashes[name].encode())


def _hashes(root: Path) -> dict[bytes, str]:
    """Return the hashes of what lies in `.prism`; nothing lies in one that is not there."""
    try:
        return _hash_entries(root, _Budget(), depth=0) if root.exists() else {}
    except OSError as error:
        raise cannot_be_read(error.filename, error) from error


def _put(hashes: dict[bytes, str], name: str, data: bytes | None) -> None:
    """Let a file of `.prism` have these bytes, whatever it had when it was hashed."""
    hashes.pop(os.fsencode(name), None)
    if data is not None:
        digest = hashlib.sha256(f"{stat.S_IFREG:o}:".encode() + data)
        hashes[os.fsencode(name)] = digest.hexdigest()


def _digest(hashes: Mapping[bytes, str]) -> str:
    """Return what `content_hash` returns for a `.prism` in which this lies."""
    digest = hashlib.sha256(f"{stat.S_IFDIR:o}:".encode())
    _add_entries(digest, hashes)
    return f"sha256:{digest.hexdigest()}"


def _own_bytes(path: Path) -> bytes | None:
    """Return what stands in a file of `.prism`, None if there is none; refuse all but files."""
    for link in (path.parent, path):
        if link.is_symlink():
            raise ConfigError(f"{link}: must not be a link; trust covers only what is in .prism")
    if not path.exists():
        return None
    if not path.is_file():
        raise ConfigError(f"{path}: is no file")
    return path.read_bytes()


def _hash_file(path: Path, digest: hashlib._Hash, budget: _Budget) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        while chunk := file.read(_CHUNK):
            budget.spend(path, size=len(chunk))
            digest.update(chunk)


def _file(paths: Paths) -> Path:
    return paths.data / "trust.json"


def _read(paths: Paths) -> dict[str, str]:
    path = _file(paths)
    try:
        known = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise cannot_be_read(path, error) from error
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(known, dict) or not all(isinstance(v, str) for v in known.values()):
        raise _damaged(path)
    return known


def _damaged(path: Path) -> ConfigError:
    return ConfigError(
        f"{path}: cannot be read as the list of trusted workspaces",
        hint="delete it; no workspace is trusted then",
    )


def _known(paths: Paths) -> str | None:
    """Return the hash that the user trusts."""
    return _read(paths).get(str(paths.workspace))


def _remember(paths: Paths, digest: str) -> None:
    _write(paths, {**_read(paths), str(paths.workspace): digest})


def _write(paths: Paths, known: Mapping[str, str]) -> None:
    replace_file(_file(paths), json.dumps(known, indent=1, sort_keys=True).encode())


@contextmanager
def locked(paths: Paths) -> Iterator[None]:
    """Keep other processes out, so that no change of trust or of rules is lost."""
    lock = private_dir(paths.data) / "trust.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
