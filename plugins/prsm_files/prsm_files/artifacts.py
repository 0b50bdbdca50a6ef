"""Checks the files an agent says it made or changed: where they are, and whether they are new."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_files.shadow.files import begin_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_FILES = 100  # of one claim
MAX_BYTES = 64 * 2**20  # read for one claim
CLOCK_SLACK = 0.05  # seconds; the kernel stamps files with a coarse clock
_CHUNK = 2**20


class Artifact(Struct, frozen=True, kw_only=True):
    """A claimed file that is there; `path` is relative and resolved."""

    name: str  # as the agent wrote it
    path: str
    size: int
    is_executable: bool
    changed_at: float  # by the kernel, Unix seconds: unlike that of its content, none can set it


class Blob(Struct, frozen=True, kw_only=True):
    """A file as git knew it."""

    id: str  # hash of the object, in hex
    size: int
    is_executable: bool


def find_artifacts(folder: str, names: Sequence[str]) -> tuple[list[Artifact], list[str]]:
    """Return the files that lie below `folder`, links resolved, and what is wrong with others."""
    root = Path(os.path.realpath(folder))
    found: list[Artifact] = []
    gaps = [f"{len(names) - MAX_FILES} more files were not checked"] * (len(names) > MAX_FILES)
    for name in names[:MAX_FILES]:
        artifact = _find(root, name)
        if isinstance(artifact, Artifact):
            found.append(artifact)
        else:
            gaps.append(f"{name!r} {artifact}")
    return found, gaps


def _find(root: Path, name: str) -> Artifact | str:
    if "\0" in name:
        return "is not a path"
    path = Path(os.path.realpath(root / name))
    if not path.is_relative_to(root):
        return "is outside the agent's folder"
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return "is a folder" if stat.S_ISDIR(status.st_mode) else "is not a file"
    return Artifact(
        name=name,
        path=str(path.relative_to(root)),
        size=status.st_size,
        is_executable=bool(status.st_mode & stat.S_IXUSR),
        changed_at=status.st_ctime,
    )


def touched_since(artifacts: Sequence[Artifact], since: float) -> tuple[list[Artifact], list[str]]:
    """Return the files touched since then, in Unix seconds, and what is wrong with others."""
    touched = [one for one in artifacts if one.changed_at >= since - CLOCK_SLACK]
    untouched = [one for one in artifacts if one.changed_at < since - CLOCK_SLACK]
    return touched, [f"{one.name!r} was not changed since the agent began" for one in untouched]


def find_unchanged(
    folder: str, artifacts: Sequence[Artifact], before: Mapping[str, Blob]
) -> list[str]:
    """Return what is wrong with files that are as they were `before` the agent began."""
    root = Path(os.path.realpath(folder))
    gaps = []
    room = MAX_BYTES
    for artifact in artifacts:
        blob = before.get(artifact.path)
        if blob is None or artifact.size != blob.size:
            continue
        if artifact.is_executable != blob.is_executable:
            continue
        room -= artifact.size
        gap = _compare(root, artifact, blob) if room >= 0 else "is too large to be compared"
        if gap is not None:
            gaps.append(f"{artifact.name!r} {gap}")
    return gaps


def _compare(root: Path, artifact: Artifact, blob: Blob) -> str | None:
    """Hash a file as git does, but without the filters of the repository: they are programs."""
    digest = begin_hash(artifact.size, blob.id)
    try:
        descriptor = os.open(root / artifact.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            left = artifact.size
            while left > 0 and (chunk := file.read(min(left, _CHUNK))):
                digest.update(chunk)
                left -= len(chunk)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is as it was before the agent began" if digest.hexdigest() == blob.id else None
