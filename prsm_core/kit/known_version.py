"""The versions that programs have printed, kept until the program changes.

Some take seconds of CPU to print theirs, and nothing but another file makes it another one. What
is kept is a hint: a file that is missing, torn or wrong is as good as none, and one that cannot
be written costs the next look the same time again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FILE = "versions.json"
_LONGEST = 200  # characters of a line that is a version
_LARGEST = 100_000  # bytes of a file that is read
_ENTRIES = 20  # a person may have tried some programs

Stamp = list[list[Any]]  # path, times of change in ns, size and inode of each file of a command


def recall(command: Sequence[str], env: Mapping[str, str] | None, folder: Path) -> str | None:
    """Return what a command has printed, None unless its program is known to be the same."""
    stamp = program_stamp(command, env)
    if stamp is None:
        return None
    entry = _load(folder / _FILE).get(_key(command))
    if not isinstance(entry, dict) or entry.get("files") != stamp:
        return None
    printed = entry.get("printed")
    return printed if isinstance(printed, str) and 0 < len(printed) <= _LONGEST else None


def remember(
    command: Sequence[str], env: Mapping[str, str] | None, folder: Path, printed: str
) -> None:
    """Keep what a command has printed, where a change of its program can be told."""
    stamp = program_stamp(command, env)
    if stamp is None or not 0 < len(printed) <= _LONGEST:
        return
    kept = _load(folder / _FILE)
    kept.pop(_key(command), None)
    newest = dict(list(kept.items())[1 - _ENTRIES :])
    newest[_key(command)] = {"files": stamp, "printed": printed}
    with suppress(OSError):
        _replace(folder / _FILE, json.dumps(newest).encode())


def program_stamp(command: Sequence[str], env: Mapping[str, str] | None = None) -> Stamp | None:
    """Return what changes when a program does; None where that lies in no file of the command.

    What `npx tool` or `sh -c tool` runs is such a case: no word but a switch may be no file.
    """
    path = os.pathsep.join(filter(None, ((env or {}).get("PATH"), os.environ.get("PATH"))))
    first = shutil.which(command[0], path=path)
    files = [] if first is None else [Path(first)]
    others = [Path(word) for word in command[1:] if not word.startswith("-")]
    try:
        if first is None or not all(other.is_absolute() for other in others):
            return None
        return [_stamp(file) for file in (*files, *others)]
    except (OSError, ValueError):
        return None


def _stamp(file: Path) -> list[Any]:
    real = file.resolve(strict=True)
    seen = real.stat()
    if not real.is_file():
        raise OSError(f"{real} is no file")
    return [str(real), seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino]


def _key(command: Sequence[str]) -> str:
    return json.dumps(list(command))


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            kept = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _replace(path: Path, data: bytes) -> None:
    """Write a file as a whole: who reads it meanwhile finds the old one."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
