"""Another user's process at a Unix socket whose folder and rights let it in."""

import asyncio
import os
import subprocess
import sys

import pytest

DEADLINE = 20
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

_SCRIPT = """
import os, socket, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
peer = socket.socket(socket.AF_UNIX)
peer.connect(f"/proc/self/fd/{folder}/{sys.argv[2]}")
try:
    peer.sendall(sys.stdin.buffer.read())
    peer.shutdown(socket.SHUT_WR)
except OSError:
    pass  # it is closed already
try:
    while chunk := peer.recv(4096):
        sys.stdout.buffer.write(chunk)
except ConnectionResetError:
    pass  # it was closed before all that was sent was read
"""


async def said_to_nobody(path, told=b""):
    """Send bytes as the user nobody; return all that is answered until the other side closes."""
    path.parent.chmod(0o755)
    path.chmod(0o666)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _SCRIPT, str(path.parent), path.name],
        input=told,
        capture_output=True,
        timeout=DEADLINE,
        check=True,
    )
    return done.stdout
