"""Stdout belongs to the command: what plugins print while they are loaded is told on stderr."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

STDOUT = 1
SHOWN = 2000  # characters of what one plugin prints

_log = logging.getLogger(__name__)


@contextmanager
def beside_stdout(plugin: str, thread: threading.Thread | None = None) -> Iterator[None]:
    """Log what is printed meanwhile as a warning that names the plugin; stdout gets nothing of it.

    That goes for `sys.stdout`, for the descriptor below it and for programs that inherit it. If
    `thread` goes on afterwards, its part of `sys.stdout` stays cut off.
    """
    aside = _Aside(sys.stdout, plugin, thread)
    with os.fdopen(os.memfd_create("printed"), "r+", encoding="utf-8", errors="replace") as file:
        with _descriptor_leads_to(file.fileno()):
            sys.stdout = aside
            try:
                yield
            finally:
                is_kept = sys.stdout is aside
                sys.stdout = aside if thread and thread.is_alive() else aside.stream
                printed = aside.end()
                if not is_kept:
                    _log.warning("plugin %s changed sys.stdout as it was loaded: put back", plugin)
        file.seek(0)
        _tell(plugin, printed + file.read(SHOWN))


class _Aside:
    """What `sys.stdout` is while a plugin is loaded; who keeps it writes to stdout afterwards."""

    def __init__(self, stream: Any, plugin: str, thread: threading.Thread | None) -> None:
        self.stream = stream
        self._plugin = plugin
        self._thread = thread
        self._printed: list[str] | None = []  # None: the loading is over

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Keep the text, write it, or tell what comes too late."""
        if self._printed is not None:
            self._printed.append(text)
        elif threading.current_thread() is self._thread:
            _tell(self._plugin, text)
        elif self.stream is not None:
            self.stream.write(text)
        return len(text)

    def end(self) -> str:
        """Return what was kept, and keep no more."""
        printed, self._printed = self._printed, None
        return "".join(printed or ())


@contextmanager
def _descriptor_leads_to(descriptor: int) -> Iterator[None]:
    """Let descriptor 1 lead elsewhere, if it is this process's stdout."""
    if sys.__stdout__ is None:
        yield
        return
    streams = {sys.stdout, sys.__stdout__} - {None}
    _flush(streams)
    try:
        kept = os.dup(STDOUT)
    except OSError:  # it was closed
        yield
        return
    try:
        os.dup2(descriptor, STDOUT)
        yield
    finally:
        _flush(streams)
        os.dup2(kept, STDOUT)
        os.close(kept)


def _flush(streams: set[Any]) -> None:
    for stream in streams:
        # What cannot be written stays in the stream: whoever writes next is told.
        with suppress(OSError, ValueError):
            stream.flush()


def _tell(plugin: str, text: str) -> None:
    told = " ".join(text.split())[:SHOWN]
    if told:
        _log.warning("plugin %s printed while it was loaded: %s", plugin, told)
