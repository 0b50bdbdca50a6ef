"""The log file: private, of bounded size, shared by any number of processes."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Self

from prsm_core.config import private_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import TextIOWrapper
    from logging import Formatter, LogRecord

NAME = "prsm.log"
MAX_BYTES = 1 << 20
KEPT = 3  # older files: prsm.log.1 is the newest of them


class PrivateLogFile(RotatingFileHandler):
    """Writes to `prsm.log`, which is set aside when it is full.

    Whoever finds it full renames it under a lock; all others notice by its inode and follow. A
    record never waits: while another process holds the lock, the file may grow a little over.
    """

    def __init__(self, folder: Path, formatter: Formatter, max_bytes: int) -> None:
        self._lock_path = folder / f"{NAME}.lock"
        self._failed = False
        super().__init__(
            folder / NAME, maxBytes=max_bytes, backupCount=KEPT, encoding="utf-8", delay=True
        )
        self.setFormatter(formatter)

    @classmethod
    @contextmanager
    def opened(
        cls, folder: Path, formatter: Formatter, max_bytes: int = MAX_BYTES
    ) -> Iterator[Self]:
        """Open the file of a folder, which is made where it is missing, and close it."""
        handler = cls(private_dir(folder), formatter, max_bytes)
        try:
            yield handler
        finally:
            handler.close()

    def shouldRollover(self, record: LogRecord) -> bool:  # noqa: N802 - of the base class
        """Return whether the file that has the name now has no room for the record."""
        self._follow()
        return bool(super().shouldRollover(record))

    def doRollover(self) -> None:  # noqa: N802 - of the base class
        """Set the file aside, unless another process does so at this moment or just did."""
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(lock):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if not self._follow():
                super().doRollover()

    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - of the base class
        """Say once that the file cannot be written; the run goes on without it."""
        if not self._failed and sys.stderr is not None:
            error = sys.exc_info()[1]
            error = getattr(error, "strerror", None) or error
            sys.stderr.write(f"prsm: warning: {self.baseFilename} cannot be written: {error}\n")
        self._failed = True

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.fdopen(os.open(self.baseFilename, flags, 0o600), "a", encoding=self.encoding)

    def _follow(self) -> bool:
        """Open the file that has the name now, unless it is open; return whether it was not."""
        stream: TextIOWrapper | None = self.stream
        if stream is not None and _is_named(stream, self.baseFilename):
            return False
        if stream is not None:
            stream.close()
        self.stream = self._open()
        return True


def _is_named(stream: TextIOWrapper, path: str) -> bool:
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
