"""Log records: one-line warnings on stderr, and a run's records in a private log file."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from contextlib import closing, contextmanager, suppress
from logging import FileHandler, Formatter, LogRecord
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from prsm_core.config import private_dir
from prsm_core.kit.text import escape_prose, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import TextIOWrapper

    Redact = Callable[[str], str]  # takes the secrets out of a text


NAME = "prsm.log"
MAX_BYTES = 1 << 20
KEPT = 3  # older files: prsm.log.1 is the newest of them


class PrivateLogFile(FileHandler):
    """Writes to `prsm.log`, of bounded size and shared by any number of processes.

    RotatingFileHandler would import network handlers at every start. The process that finds the
    file full renames it under a lock; others notice by its inode. Nobody waits for the lock:
    meanwhile the file may grow a little over its bound.
    """

    def __init__(self, folder: Path, formatter: Formatter, max_bytes: int = MAX_BYTES) -> None:
        self._lock_path = folder / f"{NAME}.lock"
        self._max_bytes = max_bytes
        self._failed = False
        super().__init__(folder / NAME, encoding="utf-8", delay=True)
        self.setFormatter(formatter)

    def emit(self, record: LogRecord) -> None:
        """Write a record, into a new file if the current one is full."""
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
        """Rename the full file, unless another process is doing so or just did."""
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
        return f"{self.baseFilename}.{number}" if number else self.baseFilename

    def close(self) -> None:
        """Close the file. What the disk does not take is lost but fails no run."""
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
        """Return the file that has the name now; open it if needed."""
        stream: TextIOWrapper | None = self.stream
        if stream is not None:
            with suppress(FileNotFoundError):
                named = Path(self.baseFilename).stat()
                if os.path.samestat(named, os.fstat(stream.fileno())):
                    return stream
            self.stream = None  # as FileHandler has it without a file
            stream.close()
        self.stream = stream = self._open()
        return stream


_TRACED = "prsm_core.plugins"
_TOLD = "prsm.told"  # what people are to know, though nothing is wrong


class BriefFormatter(logging.Formatter):
    """Writes the message and the exception on one line."""

    def __init__(self, redact: Redact = str) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without control characters."""
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text += f": {type(error).__name__}: {error}"
        level = "" if record.name == _TOLD else f"{record.levelname.lower()}: "
        return f"prsm: {level}{first_line(self._redact(text), 500)}"


class FullFormatter(logging.Formatter):
    """Writes everything, tracebacks too; all lines but the first are indented."""

    def __init__(self, layout: str, redact: Redact = str) -> None:
        super().__init__(layout)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Return lines without control characters."""
        return escape_prose(self._redact(super().format(record))).replace("\n", "\n  ")


class _Stderr(logging.StreamHandler[TextIO]):
    """The handler for a person; `debug` makes it show everything of ours."""

    def __init__(self, *, debug: bool) -> None:
        super().__init__(sys.stderr)
        self._debug = debug
        self.redact_with(str)
        self.addFilter(self._is_shown)

    def redact_with(self, redact: Redact) -> None:
        layout = "prsm: %(levelname)s: %(name)s: %(message)s"
        self.setFormatter(FullFormatter(layout, redact) if self._debug else BriefFormatter(redact))

    def emit(self, record: logging.LogRecord) -> None:
        """Write to the current stderr: a frontend may have replaced it to protect its screen."""
        self.setStream(sys.stderr)
        super().emit(record)

    def _is_shown(self, record: logging.LogRecord) -> bool:
        is_wanted = self._debug or record.name.startswith(_TRACED)
        is_for_people = record.levelno >= logging.WARNING or record.name == _TOLD
        return is_for_people or (is_wanted and is_ours(record))


def configure_logging(*, debug: bool) -> None:
    """Send warnings and errors to stderr, with `debug` every record of PRSM and its plugins.

    PRSM_TRACE_PLUGINS=1 adds how plugins were loaded.
    """
    level = logging.DEBUG if debug else logging.WARNING
    logging.basicConfig(handlers=[_Stderr(debug=debug)], level=level)
    logging.getLogger(_TOLD).setLevel(min(level, logging.INFO))
    if os.environ.get("PRSM_TRACE_PLUGINS") == "1":
        logging.getLogger(_TRACED).setLevel(logging.INFO)


def redact_stderr(redact: Redact) -> None:
    """Make `redact` take secrets out of what goes to stderr from now on."""
    for shown in logging.getLogger().handlers:
        if isinstance(shown, _Stderr):
            shown.redact_with(redact)


@contextmanager
def log_to_file(folder: Path, redact: Redact) -> Iterator[None]:
    """Log to `folder`/prsm.log inside the block, with the error that ends it.

    Debug records are included if `configure_logging` wants them. `redact` then also cleans stderr.
    """
    root = logging.getLogger()
    redact_stderr(redact)
    level = root.level
    root.setLevel(min(level, logging.INFO))
    layout = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
    with closing(PrivateLogFile(private_dir(folder), FullFormatter(layout, redact))) as file:
        file.addFilter(lambda record: record.levelno >= logging.WARNING or is_ours(record))
        root.addHandler(file)
        try:
            yield
        except BaseException as error:
            file.handle(_last_record(error))
            raise
        finally:
            root.removeHandler(file)
            root.setLevel(level)


def is_ours(record: logging.LogRecord) -> bool:
    """Return whether PRSM or a plugin wrote the record: libraries may log anything."""
    return record.name.startswith("prsm")


def _last_record(error: BaseException) -> logging.LogRecord:
    """Return the closing record for the file only: the error boundary writes to stderr."""
    failed = isinstance(error, Exception | BaseExceptionGroup)
    return logging.LogRecord(
        name="prsm.cli",
        level=logging.ERROR if failed else logging.INFO,
        pathname=__file__,
        lineno=0,
        msg="ended by an error" if failed else "interrupted",
        args=(),
        exc_info=(type(error), error, error.__traceback__) if failed else None,
    )
