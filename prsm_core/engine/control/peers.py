"""Who is at the other end of the control socket: a process of a person, or one of an agent.

The kernel says which process connected and from which it descends. Whatever an agent starts has
the engine among its ancestors for as long as it lives: the reaper shims and the engine adopt
orphans, also those of a shim that was killed. So a person is whose line does not lead there, and
who can show the key of the session. Nobody whose line cannot be seen is taken for a person.

A command that acts on PRSM's own files has no session, and so no key. An engine above its process
says that it is an agent's, and so does the mark of one in the environment of this process or of
one above it. Engines that go by other folders and work in another workspace do not matter, so that
PRSM can be tried below PRSM.
"""

from __future__ import annotations

import errno
import hmac
import os
import select
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from prsm_core.engine.control.session_lock import find_owners, named_owners
from prsm_core.engine.processes.table import find_lineage, find_marks, is_alive, place_digests
from prsm_core.errors import ControlError
from prsm_core.kit.local_socket import Credentials, peer_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prsm_core.config import Paths
    from prsm_core.engine.control.session_lock import Owner, SessionLock
    from prsm_core.engine.processes.table import ProcessIdentity, Relative


_SO_PEERPIDFD = 77  # Linux 6.5; `socket` does not name it
_UNKNOWN_TO_KERNEL = frozenset({errno.ENOPROTOOPT, errno.EOPNOTSUPP})

Lineage = tuple["Relative", ...]


class Peer:
    """The process that opened a connection, held so that no other is taken for it."""

    def __init__(self, credentials: Credentials, descriptor: int | None) -> None:
        self.pid = credentials.pid
        self.is_foreign = credentials.is_foreign
        self._descriptor = descriptor

    @classmethod
    def of(cls, connection: socket.socket) -> Self:
        """Return who opened a connection; close it with the connection."""
        credentials = peer_credentials(connection)
        return cls(credentials, _process_descriptor(connection, credentials.pid))

    def __str__(self) -> str:
        return f"pid {self.pid}, {self.program}"

    @property
    def program(self) -> str:
        """The file that it runs, by the kernel's word."""
        try:
            return str(Path(f"/proc/{self.pid}/exe").readlink())
        except OSError:
            return "a program that cannot be seen"

    def lineage(self) -> Lineage | None:
        """Return it and its ancestors, nearest first; None where they cannot be seen."""
        line = find_lineage(self.pid) if self.pid else None
        return line if self._lives() else None  # afterwards: the pid was its own meanwhile

    def _lives(self) -> bool:
        if self._descriptor is None:
            return False
        ended = select.poll()
        ended.register(self._descriptor, select.POLLIN)
        return not ended.poll(0)

    def close(self) -> None:
        """Let go of the process."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def why_no_person(peer: Peer, key: str, lock: SessionLock) -> str | None:
    """Return why a peer does not count as a person, None if it does.

    The engine's own process counts as a person: a frontend lives in it.

    Raises:
        ControlError: the folder of locks cannot be judged by.
    """
    if not hmac.compare_digest(key.encode(errors="replace"), lock.key.encode()):
        return "it does not show the key of this session"
    if peer.pid == os.getpid():
        return None
    line, own = peer.lineage(), find_lineage(os.getpid())
    if line is None or own is None or not sees_own_processes():
        return "its ancestors cannot be seen from here"
    return _why_below(line, own, lock)


def _why_below(line: Lineage, own: Lineage, lock: SessionLock) -> str | None:
    above = identities(line)
    engine = lock.owner.process
    if engine in above:
        return "this engine's agents started it"
    if not above.isdisjoint(lock.owner.leaders):
        return "the client that leads this session started it"
    if lock.owner.leaders and not has_own_terminal(line):
        return "a client leads this session, and it is no process of a terminal of a person"
    if engine in {mark.engine for mark in find_marks(line)}:
        return "it has the environment of this engine's agents"
    others = {root for owner in named_owners(lock.folder) for root in owner.roots}
    if not above.isdisjoint(others - identities(own)):
        return "the agents of another engine started it"
    return None


def identities(line: Iterable[Relative]) -> set[ProcessIdentity]:
    """Return who is in a line."""
    return {relative.identity for relative in line}


def has_own_terminal(line: Lineage) -> bool:
    """Return whether who opened a terminal for this process is above it.

    An orphan is not below the leader of its session: nobody adopts a client's.
    """
    leaders = {relative.identity.pid for relative in line}
    return line[0].has_terminal and line[0].session in leaders


def sees_own_processes() -> bool:
    """Return whether /proc is that of the pids which the kernel tells this process."""
    return str(Path("/proc/self").readlink()) == str(os.getpid())


def _process_descriptor(connection: socket.socket, pid: int) -> int | None:
    """Return a descriptor of the process that connected, None when there is none any more."""
    try:
        told = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
    except OSError as error:
        return _opened_by_pid(pid) if error.errno in _UNKNOWN_TO_KERNEL else None
    return int.from_bytes(told, sys.byteorder)


def _opened_by_pid(pid: int) -> int | None:
    """Return a descriptor of whoever has this pid now; right after it connected that is it."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def require_person(what: str, paths: Paths) -> None:
    """Let nobody pass whom an agent may have started; `what` is what they want to do.

    A process that is an engine itself is a person's: its frontend is in it.

    Raises:
        ControlError: this process may be an agent's, or a lock is held by who does not say so.
    """
    why = _why_no_person(paths)
    if why is not None:
        raise ControlError(
            f"{what} is for a person, and this process is not taken for a person's: {why}",
            hint="agents may look: a person does this in a terminal that no agent has opened",
            code="not_a_person",
        )


def _why_no_person(paths: Paths) -> str | None:
    line = find_lineage(os.getpid())
    places = place_digests((*paths.own_folders, *_configured_above(paths)))
    marks = find_marks(line or ())
    if any(not places.isdisjoint(mark.places) for mark in marks):
        return "it has the environment of an engine's agents"
    owners = find_owners(paths.state)
    if not owners:
        return None
    is_seen = line is not None and sees_own_processes()
    if line is None or not is_seen or not all(is_alive(owner.process) for owner in owners):
        return "an engine runs, and it cannot be seen from here whether that has started it"
    return next(filter(None, (_why_an_agents(line, owner) for owner in owners)), None)


def _configured_above(paths: Paths) -> Iterator[Path]:
    """Yield the `.prism` of the workspace, and of each folder around it.

    An engine's workspace is its own whichever home a command is given: a rule that an agent writes
    there, or in a folder of it, would hold in a later run.
    """
    for folder in (paths.workspace, *paths.workspace.parents):
        yield folder / paths.workspace_dir.name


def _why_an_agents(line: Lineage, owner: Owner) -> str | None:
    """Return why a process of this line is taken for an agent's of this engine, None if it is not.

    A client that leads adopts no orphans, so beside one a person must be in a terminal.
    """
    if line[0].identity == owner.process:
        return None
    above = identities(line)
    if owner.process in above:
        return f"the agents of process {owner.process.pid} started it"
    if not above.isdisjoint(owner.leaders):
        return "the client that leads a session started it"
    if owner.leaders and not has_own_terminal(line):
        return "a client leads a session, and this is no process of a terminal of a person"
    return None
