"""Remembers which content of a workspace's `.prism` the user trusts, by its hash."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.config.paths import private_dir
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    budget = _Budget()
    try:
        return f"sha256:{_hash_entry(root, budget, depth=0)}"
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from error


def is_trusted(paths: Paths) -> bool:
    """Return whether the user trusts `.prism` as it is now."""
    known = _read(paths).get(str(paths.workspace))
    # An unknown workspace is not even hashed: it may be made to take long.
    return known is not None and known == content_hash(paths.workspace)


def trust(paths: Paths) -> str:
    """Trust `.prism` as it is now and return its hash.

    Raises ConfigError when there is nothing to trust.
    """
    digest = content_hash(paths.workspace)
    if digest is None:
        raise ConfigError(f"{paths.workspace}: has no .prism folder to trust")
    with _locked(paths):
        _write(paths, {**_read(paths), str(paths.workspace): digest})
    return digest


def untrust(paths: Paths) -> bool:
    """Take trust back; return whether there was any."""
    if not _file(paths).exists():
        return False
    with _locked(paths):
        known = _read(paths)
        had = known.pop(str(paths.workspace), None) is not None
        _write(paths, known)
    return had


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
        for name in sorted(os.fsencode(entry) for entry in os.listdir(path)):  # noqa: PTH208 - names only
            below = _hash_entry(path / os.fsdecode(name), budget, depth + 1)
            digest.update(name + b"\0" + below.encode())
    elif stat.S_ISREG(mode):
        _hash_file(path, digest, budget)
    return digest.hexdigest()


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
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    if not isinstance(known, dict) or not all(isinstance(v, str) for v in known.values()):
        raise _damaged(path)
    return known


def _damaged(path: Path) -> ConfigError:
    return ConfigError(
        f"{path}: cannot be read as the list of trusted workspaces",
        hint="delete it; no workspace is trusted then",
    )


def _write(paths: Paths, known: dict[str, str]) -> None:
    path = _file(paths)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".trust-")  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _locked(paths: Paths) -> Iterator[None]:
    """Keep other processes out, so that taking trust back cannot be lost."""
    lock = private_dir(paths.data) / "trust.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
