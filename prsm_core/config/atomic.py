"""Replaces files as a whole: a reader, or a crash, finds the old bytes or the new ones."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file; one that is new can be read by this user alone. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(descriptor, path.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
