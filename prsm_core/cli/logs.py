"""Log records for a person: one line each on stderr, tracebacks only with --debug."""

from __future__ import annotations

import logging
import os

from prsm_core.builtin.text import escape_prose, one_line


class BriefFormatter(logging.Formatter):
    """Writes the message and, in its line, the exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without control characters."""
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text += f": {type(error).__name__}: {error}"
        return f"prsm: {record.levelname.lower()}: {one_line(text, 500)}"


class _DebugFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escape_prose(super().format(record))


def configure_logging(*, debug: bool) -> None:
    """Send warnings and errors to stderr, and what plugins do if PRSM_TRACE_PLUGINS=1."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        _DebugFormatter("prsm: %(levelname)s: %(name)s: %(message)s") if debug else BriefFormatter()
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    if os.environ.get("PRSM_TRACE_PLUGINS") == "1":
        logging.getLogger("prsm_core.plugins").setLevel(logging.INFO)
