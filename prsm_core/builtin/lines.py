"""Reads lines from a pipe or a file without a thread and without blocking the loop."""

from __future__ import annotations

import asyncio
import os

_CHUNK = 4096
_MAX_LINE = 1 << 20


class LineReader:
    """Reads only while somebody waits for a line; what comes meanwhile is left alone."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = descriptor is None

    async def read_line(self) -> str | None:
        """Return the next line without its end, or None when there is no more."""
        while b"\n" not in self._buffer and not self._ended:
            chunk = await self._read_chunk()
            self._ended = not chunk or len(self._buffer) > _MAX_LINE
            self._buffer += chunk
        line, newline, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace") if line or newline else None

    def begin_answer(self) -> None:
        """Do nothing: a line is read only when it is an answer."""

    def end_answer(self) -> None:
        """Do nothing."""

    async def _read_chunk(self) -> bytes:
        descriptor = self._descriptor
        if descriptor is None:
            return b""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(descriptor, _wake, ready)
        except PermissionError:  # a file or /dev/null: epoll refuses it, and it never blocks
            return os.read(descriptor, _CHUNK)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)
        try:
            return os.read(descriptor, _CHUNK)
        except OSError:  # the terminal was hung up (EIO): the same as its end
            return b""


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
