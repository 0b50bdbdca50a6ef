"""The socket that the bridge listens on: only this user may connect to it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from prsm_core import ConfigError
from prsm_core.kit import bind_private, make_private
from prsm_mcp.wire import TCP_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")


def listen_unix(path: Path) -> tuple[socket.socket, str]:
    """Return a socket of mode 0600 in a folder of mode 0700, and its address.

    One that a dead engine left in its place is removed. The path may be longer than the 107 bytes
    that an address holds: proxies know the same way around.

    Raises:
        ConfigError: nothing can be listened on there.
    """
    try:
        make_private(path.parent).chmod(0o700)
        return bind_private(path), str(path)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be listened on: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
        ) from error


def listen_tcp() -> tuple[socket.socket, str]:
    """Return a socket on the loopback interface and its address; the token alone protects it."""
    bound = socket.create_server(("127.0.0.1", 0))
    bound.setblocking(False)
    return bound, f"{TCP_PREFIX}127.0.0.1:{bound.getsockname()[1]}"
