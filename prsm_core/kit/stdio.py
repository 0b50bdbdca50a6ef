"""A protocol on this process's own stdin and stdout, for the client that started it.

Only the protocol's frames go to stdout; what plugins or libraries print goes to stderr, and stdin
is empty for everybody else.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsm_core.errors import ConfigError
from prsm_core.loop.output import redirect_stdout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_FIRST_FREE = 3  # below are the standard descriptors


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The descriptors that lead to the client; `open` closes them."""

    incoming: int
    outgoing: int

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Speak to the client by streams; its descriptors are closed on leaving."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        incoming = os.fdopen(self.incoming, "rb", buffering=0)
        outgoing = os.fdopen(self.outgoing, "wb", buffering=0)
        with incoming, outgoing:
            sending, flow = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), outgoing
            )
            receiving: asyncio.BaseTransport | None = None
            try:
                if _is_stream(self.incoming):
                    receiving, _ = await loop.connect_read_pipe(
                        lambda: asyncio.StreamReaderProtocol(reader), incoming
                    )
                else:  # a file: it never blocks, and the loop cannot wait for it
                    reader.feed_data(incoming.read())
                    reader.feed_eof()
                yield reader, asyncio.StreamWriter(sending, flow, None, loop)
            finally:
                sending.close()
                if receiving is not None:
                    receiving.close()


def take_stdio(client: str = "client", *, hint: str | None = None) -> Wire:
    """Keep stdin and stdout for the client alone, from now on.

    `client` and `hint` are for the error: what is missing, and how it begins. Raises ConfigError if
    no program is at the other end.
    """
    if sys.stdin is None or os.isatty(0) or not _is_stream(1):
        raise ConfigError(f"there is no {client} on stdin and stdout", hint=hint)
    wire = Wire(incoming=_moved(0), outgoing=_moved(1))
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    elsewhere = empty if sys.stderr is None else 2
    os.dup2(elsewhere, 1)
    redirect_stdout(elsewhere)
    os.close(empty)
    return wire


def _is_stream(descriptor: int) -> bool:
    """Whether a program can be at the other end."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # the process was started without it
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _moved(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
