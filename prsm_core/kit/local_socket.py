"""Unix sockets for their owner alone, at paths of any length."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ADDRESS_LIMIT = 100  # bytes; an address holds 107, and 103 on some systems
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


class Credentials(NamedTuple):
    """Who is at the other end of a Unix socket, according to the kernel.

    Of a connection that is the process that connected, of a pair its maker. `pid` is 0 for a
    process of another namespace.
    """

    pid: int
    uid: int
    gid: int

    @property
    def is_foreign(self) -> bool:
        """Whether it is another user's."""
        return self.uid != os.geteuid()


def peer_credentials(connection: socket.socket) -> Credentials:
    """Return who is at the other end of a Unix socket."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Credentials(*_CREDENTIALS.unpack(told))


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Give an address of a socket: a path that is too long goes by way of its open folder."""
    if len(os.fsencode(path)) <= ADDRESS_LIMIT:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bind_private(path: Path) -> socket.socket:
    """Return a non-blocking socket of mode 0600, bound at a path anew. Raises OSError."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        os.fchmod(bound.fileno(), 0o600)  # first: the name never has wider rights
        path.unlink(missing_ok=True)
        with short_name(path) as name:
            bound.bind(name)
    except BaseException:
        bound.close()
        raise
    return bound


async def listen_private(
    path: Path,
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
    refuse: Callable[[asyncio.StreamWriter], None],
) -> asyncio.Server:
    """Listen at a path for processes of this user, by `bind_private`. Raises OSError.

    `accept` gets the streams of a connection. `refuse` may tell another user's process why its
    connection is closed.
    """

    def let_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_credentials(writer.get_extra_info("socket")).is_foreign:
            refuse(writer)
            writer.close()
        else:
            accept(reader, writer)

    bound = bind_private(path)
    try:
        return await asyncio.start_unix_server(let_in, sock=bound)
    except BaseException:
        bound.close()
        raise


def shown_to_clients(script: Path, socket_path: Path | None) -> dict[str, str]:
    """Return what a Python script of ours must see in a box to connect to a socket.

    That is Python, the script and the socket: real paths by their names.
    """
    places = [sys.prefix, sys.base_prefix, str(script)]
    if socket_path is not None:
        places.append(str(socket_path))
    return {place: os.path.realpath(place) for place in places}
