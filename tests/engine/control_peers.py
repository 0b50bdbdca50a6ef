"""A control server over any application, and peers that speak to it in bytes."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from prsm_core.engine.control.operations import OPERATIONS
from prsm_core.engine.control.server import ControlServer
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.control.wire import encode_request
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.local_socket import short_name

DEADLINE = 20  # seconds; a test that needs them has failed
SESSION = "session"
PING = b'{"op":"ping"}\n'


def idle_app(**operations) -> Any:
    """Return an application that can do what a test gives it, by `group.name`, and nothing else."""
    app = SimpleNamespace()
    for operation, does in operations.items():
        group, _, name = operation.partition(".")
        vars(app).setdefault(group, SimpleNamespace())
        setattr(getattr(app, group), name, does)
    return app


@asynccontextmanager
async def serving(
    state, app=None, *, session=SESSION, clock=None, end=None, visits=None, **operations
):
    """Own a session and serve an application on its socket; yields the socket's path."""
    surprises = []
    with SessionLock.take(state, session, since=1.0) as lock:
        async with Background(lambda *surprise: surprises.append(surprise)) as background:
            server = ControlServer(
                app or idle_app(),
                lock,
                start_soon=background.start,
                clock=clock or SystemClock(),
                operations={**OPERATIONS, **operations},
                end=end,
                visits=visits,
            )
            async with server:
                yield lock.owner.socket
    assert surprises == []


@asynccontextmanager
async def connected(path):
    """Speak to the socket in bytes."""
    with short_name(path) as name:
        reader, writer = await asyncio.open_unix_connection(name)
    try:
        async with asyncio.timeout(DEADLINE):
            yield SimpleNamespace(read=reader.readline, write=writer.write, end=writer.write_eof)
    finally:
        writer.transport.abort()


def keyed(path, op, /, **args):
    """Return a request that shows the key which lies beside the socket."""
    return encode_request(op, args, path.with_suffix(".key").read_text())


async def ask(path, line):
    async with connected(path) as peer:
        peer.write(line)
        return json.loads(await peer.read())
