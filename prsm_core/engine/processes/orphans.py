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
from prsm_core.domain.record import Record
from prsm_core.engine.processes.table import (
    ProcessIdentity,
    boot_id,
    find_family,
    find_remains,
    is_alive,
    kill_family,
    kill_remains,
    own_identity,
    process_identity,
)

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
        own = own_identity()
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
    for path, identities in _records_of_the_dead(state_dir):
        for process in identities[1:]:
            ended += _end(process)
        path.unlink(missing_ok=True)
    return ended


class Orphans(Record, frozen=True, kw_only=True):
    """Processes that live on after their engine."""

    engine: int  # its pid when it lived
    pids: tuple[int, ...]


def find_orphans(state_dir: Path) -> list[Orphans]:
    """Return what dead engines left behind and still lives; touches nothing."""
    found = []
    for _, identities in _records_of_the_dead(state_dir):
        pids = {pid for process in identities[1:] for pid in _survivors(process)}
        if pids:
            found.append(Orphans(engine=identities[0].pid, pids=tuple(sorted(pids))))
    return found


def _records_of_the_dead(state_dir: Path) -> Iterator[tuple[Path, list[ProcessIdentity]]]:
    """Yield each record of an engine that is no more, and whom it names."""
    for path in sorted((state_dir / "runs").glob(f"*{_SUFFIX}")):
        identities = _read(path)
        if not (identities and is_alive(identities[0])):
            yield path, identities


def _survivors(process: ProcessIdentity) -> list[int]:
    """Return what `_end` would end."""
    if _is_pid_of_another(process):
        return []
    if is_alive(process):
        return find_family(process.pid)
    return find_remains(process) if process.boot_id == boot_id() else []


def _end(process: ProcessIdentity) -> bool:
    """End a shim that still lives, or what is left of the session of one that does not."""
    if _is_pid_of_another(process):
        return False
    if is_alive(process):
        kill_family(process.pid)
        return True
    if process.boot_id == boot_id():
        kill_remains(process)
    return False


def _is_pid_of_another(process: ProcessIdentity) -> bool:
    """Return whether the pid was given to another, which needs a session without members."""
    now = process_identity(process.pid)
    return now is not None and now != process


def _read(path: Path) -> list[ProcessIdentity]:
    """Return the identities of a record; a line that was cut off is left out."""
    found = []
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:  # its engine has ended in order at this moment
        return []
    for line in text.splitlines():
        try:
            pid, start_time, boot = json.loads(line)
        except ValueError:
            break
        found.append(ProcessIdentity(pid=pid, start_time=start_time, boot_id=boot))
    return found
