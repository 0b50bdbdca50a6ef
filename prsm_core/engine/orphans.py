"""Orphans: processes of an engine that died without ending them.

The reaper shim ends a family when its engine dies. Should the shim itself be killed in the same
moment, this record lets the next engine end what is left: each process is named by pid, start
time and boot, so that no other can be taken for it.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsm_core.config import private_dir
from prsm_core.engine.process_table import (
    ProcessIdentity,
    is_alive,
    kill_family,
    kill_remains,
    process_identity,
)
from prsm_core.errors import ProcessError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_log = logging.getLogger("prsm.engine")
_SUFFIX = ".processes"


@contextmanager
def recorded_processes(state_dir: Path) -> Iterator[ProcessRecord]:
    """End what dead engines left behind, then keep a record for as long as this engine lives."""
    ended = end_orphans(state_dir)
    if ended:
        _log.warning("ended %d processes that a dead engine had left behind", ended)
    record = ProcessRecord(state_dir)
    try:
        yield record
    finally:
        record.close()


class ProcessRecord:
    """The record of one engine's processes, a line each; the first line is the engine."""

    def __init__(self, state_dir: Path) -> None:
        own = process_identity(os.getpid())
        if own is None:
            raise ProcessError("this process is not in /proc", hint="prsm needs /proc")
        self._boot_id = own.boot_id
        folder = private_dir(state_dir / "runs")
        self._path = folder / f"{own.pid}-{own.start_time}-{os.urandom(4).hex()}{_SUFFIX}"
        self._descriptor = os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600
        )
        self._write(own)

    def add(self, pid: int, start_time: int) -> None:
        """Note a process that was started."""
        self._write(ProcessIdentity(pid=pid, start_time=start_time, boot_id=self._boot_id))

    def close(self) -> None:
        """Forget the record: every process of it has been ended."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)

    def _write(self, identity: ProcessIdentity) -> None:
        values = [identity.pid, identity.start_time, identity.boot_id]
        os.write(self._descriptor, json.dumps(values).encode() + b"\n")


def end_orphans(state_dir: Path) -> int:
    """End what dead engines left behind, forget their records; return how many were alive."""
    ended = 0
    for path in sorted((state_dir / "runs").glob(f"*{_SUFFIX}")):
        identities = _read(path)
        if identities and is_alive(identities[0]):
            continue
        for process in identities[1:]:
            ended += _end(process)
        path.unlink(missing_ok=True)
    return ended


def _end(process: ProcessIdentity) -> bool:
    """End a shim that still lives, or what is left of the session of one that does not."""
    now = process_identity(process.pid)
    if now is not None and now != process:
        return False  # its pid is another's now, which it cannot be while its session has members
    if is_alive(process):
        kill_family(process.pid)
        return True
    if process.boot_id == _boot_id():
        kill_remains(process)
    return False


def _boot_id() -> str:
    own = process_identity(os.getpid())
    return "" if own is None else own.boot_id


def _read(path: Path) -> list[ProcessIdentity]:
    """Return the identities of a record; a line that was cut off is left out."""
    found = []
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        try:
            pid, start_time, boot_id = json.loads(line)
        except ValueError:
            break
        found.append(ProcessIdentity(pid=pid, start_time=start_time, boot_id=boot_id))
    return found
