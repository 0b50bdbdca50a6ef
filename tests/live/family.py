"""The family of an engine: every process that exists because of it, however it hides."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from prsm_core.engine.processes.table import (
    DEAD,
    ProcessIdentity,
    find_family,
    is_alive,
    process_identity,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The processes of an engine at one time, and the marks of those that come after.

    home: A folder that is in the environment, or above the working folder, of any of them.
    members: The engine and its descendants.
    sessions: Those that they lead or are in, but for the one of this process.
    """

    home: Path
    members: frozenset[ProcessIdentity]
    sessions: frozenset[int]

    def living(self) -> set[int]:
        """Return whoever of the family still runs, born meanwhile or not; cheap until the end."""
        known = {member.pid for member in self.members if is_alive(member)}
        return known or {pid for pid in _pids() if self._has_mark(pid)}

    def _has_mark(self, pid: int) -> bool:
        entry = Path(f"/proc/{pid}")
        try:
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] in DEAD:
                return False
            if os.getsid(pid) in self.sessions:
                return True
            cwd = (entry / "cwd").readlink()
            return (
                cwd.is_relative_to(self.home)
                or os.fsencode(self.home) in (entry / "environ").read_bytes()
            )
        except OSError:  # it has ended meanwhile, or belongs to the system
            return False


def family_of(engine: int, home: Path) -> Family:
    """Return the family of a running engine."""
    pids = find_family(engine)
    found = [identity for pid in pids if (identity := process_identity(pid)) is not None]
    sessions = set()
    for member in found:
        with contextlib.suppress(ProcessLookupError):
            sessions.add(os.getsid(member.pid))
    own = os.getsid(0)
    return Family(home=home, members=frozenset(found), sessions=frozenset(sessions - {own}))


def runs(engine: int, command: str) -> bool:
    """Return whether a descendant of the engine runs exactly this command, which has no quotes."""
    wanted = b"".join(os.fsencode(word) + b"\0" for word in command.split())
    return any(command_line(pid) == wanted for pid in find_family(engine))


def command_line(pid: int) -> bytes:
    """Return the words of a process, each ended by a zero byte; nothing where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
