"""Log records: warnings on stderr, one line each for a person, and a run's in a file of its own."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from prsm_core.kit.text import escape_prose, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Redact = Callable[[str], str]  # takes the secrets out of a text

_TRACED = "prsm_core.plugins"
_TOLD = "prsm.told"  # what people are to know, though nothing is wrong


class BriefFormatter(logging.Formatter):
    """Writes the message and, in its line, the exception."""

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
    """Writes everything, tracebacks too; only the first line of a record is not indented."""

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
        """Write a record where stderr leads now: a frontend may keep its screen in order so."""
        self.setStream(sys.stderr)
        super().emit(record)

    def _is_shown(self, record: logging.LogRecord) -> bool:
        is_wanted = self._debug or record.name.startswith(_TRACED)
        is_for_people = record.levelno >= logging.WARNING or record.name == _TOLD
        return is_for_people or (is_wanted and is_ours(record))


def configure_logging(*, debug: bool) -> None:
    """Send warnings and errors to stderr, with `debug` every record of PRSM and its plugins.

    PRSM_TRACE_PLUGINS=1 adds what becomes of the plugins.
    """
    level = logging.DEBUG if debug else logging.WARNING
    logging.basicConfig(handlers=[_Stderr(debug=debug)], level=level)
    logging.getLogger(_TOLD).setLevel(min(level, logging.INFO))
    if os.environ.get("PRSM_TRACE_PLUGINS") == "1":
        logging.getLogger(_TRACED).setLevel(logging.INFO)


def redact_stderr(redact: Redact) -> None:
    """Let `redact` take the secrets out of what goes to stderr from now on."""
    for shown in logging.getLogger().handlers:
        if isinstance(shown, _Stderr):
            shown.redact_with(redact)


@contextmanager
def log_to_file(folder: Path, redact: Redact) -> Iterator[None]:
    """Keep the records of what runs inside in `folder`/prsm.log, with the error that ends it.

    Debug records are among them if `configure_logging` wants them. From now on `redact` also
    takes the secrets out of what goes to stderr.
    """
    from prsm_core.cli.log_file import PrivateLogFile

    root = logging.getLogger()
    redact_stderr(redact)
    level = root.level
    root.setLevel(min(level, logging.INFO))
    layout = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
    with PrivateLogFile.opened(folder, FullFormatter(layout, redact)) as file:
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
    """Return whether PRSM or a plugin wrote it: what libraries log may hold anything."""
    return record.name.startswith("prsm")


def _last_record(error: BaseException) -> logging.LogRecord:
    """Return what the file alone is told: stderr has it from the boundary for errors."""
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
