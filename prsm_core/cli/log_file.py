"""The log file: private, of bounded size, shared by any number of processes."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import contextmanager, suppress
from logging import FileHandler
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


class PrivateLogFile(FileHandler):
    """Writes to `prsm.log`, which is set aside when it is full.

    Not a RotatingFileHandler, which would import what sends records over the network, at every
    start.

    Whoever finds it full renames it under a lock; all others notice by its inode and follow. A
    record never waits: while another process holds the lock, the file may grow a little over.
    """

    def __init__(self, folder: Path, formatter: Formatter, max_bytes: int) -> None:
        self._lock_path = folder / f"{NAME}.lock"
        self._max_bytes = max_bytes
        self._failed = False
        super().__init__(folder / NAME, encoding="utf-8", delay=True)
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

    def emit(self, record: LogRecord) -> None:
        """Write a record, into a new file where the one that has the name has no room for it."""
        try:
            if not self._has_room(record):
                self._set_aside()
        except Exception:  # noqa: BLE001 - as of every handler: who logs does not fail by it
            self.handleError(record)
        else:
            super().emit(record)

    def _has_room(self, record: LogRecord) -> bool:
        stream = self._follow()
        line = f"{self.format(record)}{self.terminator}".encode(errors="surrogatepass")
        return os.fstat(stream.fileno()).st_size + len(line) < self._max_bytes

    def _set_aside(self) -> None:
        """Set the file aside, unless another process does so at this moment or just did."""
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(lock):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            full = self.stream
            if self._follow() is full:
                for number in reversed(range(KEPT)):
                    with suppress(FileNotFoundError):
                        Path(self._numbered(number)).replace(self._numbered(number + 1))
                self._follow()

    def _numbered(self, number: int) -> str:
        """Return where the file stands that was set aside as the `number`th; the present is 0."""
        return f"{self.baseFilename}.{number}" if number else self.baseFilename

    def close(self) -> None:
        """Close the file; what the disk has not taken of it is lost, and no error of the run."""
        try:
            super().close()
        except OSError:
            self._tell_failed()

    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - of the base class
        """Say once that the file cannot be written; the run goes on without it."""
        self._tell_failed()

    def _tell_failed(self) -> None:
        if not self._failed and sys.stderr is not None:
            error = sys.exc_info()[1]
            error = getattr(error, "strerror", None) or error
            sys.stderr.write(f"prsm: warning: {self.baseFilename} cannot be written: {error}\n")
        self._failed = True

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.fdopen(os.open(self.baseFilename, flags, 0o600), "a", encoding=self.encoding)

    def _follow(self) -> TextIOWrapper:
        """Return the file that has the name now, which is opened unless it is open."""
        stream: TextIOWrapper | None = self.stream
        if stream is not None and _is_named(stream, self.baseFilename):
            return stream
        if stream is not None:
            self.stream = None  # as FileHandler has it without a file
            stream.close()
        self.stream = stream = self._open()
        return stream


def _is_named(stream: TextIOWrapper, path: str) -> bool:
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
