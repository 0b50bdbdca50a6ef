"""Files that an agent reads and writes through PRSM, once it is allowed to. All this blocks."""

from __future__ import annotations

import os
from pathlib import Path

from prsm_acp.errors import INVALID_PARAMS, NOT_FOUND, AcpError

_LARGEST = 16 * 1024 * 1024  # bytes of a file


def real_path(path: object) -> str:
    """Return an absolute path without links; raise AcpError if it is not absolute."""
    if not isinstance(path, str) or not is_usable(path):
        raise AcpError(f"an absolute path is needed, not {path!r}", number=INVALID_PARAMS)
    return os.path.realpath(path)


def is_usable(path: str) -> bool:
    """Return whether a path is one that the protocol allows."""
    return "\0" not in path and Path(path).is_absolute()


def read(path: str, line: object, limit: object) -> str:
    """Return a file's text, or `limit` lines from `line` (1 is the first); raise AcpError."""
    text = _read(path)
    if type(line) is not int and type(limit) is not int:
        return text
    first = max(line - 1, 0) if type(line) is int else 0
    last = first + limit if type(limit) is int else None
    return "".join(text.splitlines(keepends=True)[first:last])


def _read(path: str) -> str:
    try:
        if Path(path).stat().st_size > _LARGEST:
            raise AcpError(f"{path} has more than {_LARGEST} bytes", number=INVALID_PARAMS)
        with Path(path).open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError as error:
        raise AcpError(f"Resource not found: {path}", number=NOT_FOUND) from error
    except UnicodeDecodeError as error:
        raise AcpError(f"{path} is not text", number=INVALID_PARAMS) from error
    except OSError as error:
        raise AcpError(f"{path}: {error.strerror}") from error


def write(path: str, text: str) -> None:
    """Write a file, and make the folders above it; raise AcpError if the system refuses."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # The path had no links. One that is there now was made after the decision.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o666), "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise AcpError(f"{path}: {error.strerror}") from error
