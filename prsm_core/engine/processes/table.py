"""What the kernel knows of processes: identities, families, marks and orphans.

Linux only: it reads /proc and uses prctl. Each program of an engine carries a mark in its
environment, `PID-START[-PLACE]...`: the engine's pid, its start time, and a digest of each folder
of PRSM's own files that it uses, such as its workspace's `.prism`. So it tells what the engine
worked on even after its end. A process can drop its mark, but not its ancestors'.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import signal
import threading
from _ctypes import _SimpleCData, byref
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, field

from prsm_core.config import private_dir
from prsm_core.domain.record import Record
from prsm_core.engine.processes.reaper_shim import (
    MARK,
    NO_BRAND,
    PR_SET_CHILD_SUBREAPER,
    brand_of,
    prctl,
)
from prsm_core.errors import ProcessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


PR_GET_CHILD_SUBREAPER = 37
ZOMBIE_AGE = 0.4  # seconds a zombie is left to whoever may be about to wait for it
KILL_ROUNDS = 50  # a family that forks while it is killed takes more than one
LINEAGE_ROUNDS = 20  # an ancestor may end while its line is read
MAX_ANCESTORS = 1000

DEAD = "ZX"  # states of a process that has ended: zombie, being buried

_PROC = Path("/proc")


class _Int(_SimpleCData):  # type: ignore[type-arg]  # no generic when it runs
    """A place for an int; importing `ctypes` for it would take longer than this module."""

    _type_ = "i"


class ProcessIdentity(Record, frozen=True, kw_only=True):
    """A process that no other can be taken for, even after a reboot or a reuse of its pid."""

    pid: int
    start_time: int  # clock ticks since boot
    boot_id: str


class Relative(Record, frozen=True, kw_only=True):
    """A process in the line of another's ancestors."""

    identity: ProcessIdentity
    session: int  # its leader's pid
    has_terminal: bool


class Mark(Record, frozen=True, kw_only=True):
    """What one mark says."""

    engine: ProcessIdentity
    places: frozenset[str]


class _Stat(Record, frozen=True, kw_only=True):
    pid: int
    state: str
    parent: int
    session: int
    terminal: int  # number of the controlling one, 0 without
    start_time: int


def process_identity(pid: int) -> ProcessIdentity | None:
    """Return the identity of a process, or None."""
    stat = _stat(pid)
    if stat is None:
        return None
    return ProcessIdentity(pid=pid, start_time=stat.start_time, boot_id=boot_id())


def own_identity() -> ProcessIdentity:
    """Return the identity of this process. Raises ProcessError where there is no /proc."""
    own = process_identity(os.getpid())
    if own is None:
        raise ProcessError("this process is not in /proc", hint="prsm needs /proc")
    return own


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether this very process still runs; a zombie does not."""
    stat = _stat(identity.pid)
    return (
        stat is not None
        and stat.state not in DEAD
        and stat.start_time == identity.start_time
        and identity.boot_id == boot_id()
    )


def find_lineage(pid: int) -> tuple[Relative, ...] | None:
    """Return a process and its ancestors, nearest first, up to one that has none here.

    An orphan's parent is a subreaper above it, if there is one. None if part of the line is hidden:
    it has ended, it is another user's and /proc hides it, or the line exceeds MAX_ANCESTORS.
    """
    for _ in range(LINEAGE_ROUNDS):
        line = _line_above(pid)
        if line is not None:
            return line
    return None


def _line_above(pid: int) -> tuple[Relative, ...] | None:
    line: list[Relative] = []
    while pid and len(line) < MAX_ANCESTORS:
        stat = _stat(pid)
        # No parent is younger than its child: that would be one which took over a freed pid.
        if stat is None or (line and stat.start_time > line[-1].identity.start_time):
            return None
        identity = ProcessIdentity(pid=pid, start_time=stat.start_time, boot_id=boot_id())
        has_terminal = stat.terminal != 0
        line.append(Relative(identity=identity, session=stat.session, has_terminal=has_terminal))
        pid = stat.parent
    return None if pid else tuple(line)


def kill_family(pid: int) -> None:
    """SIGKILL every descendant of a process, then the process."""
    for _ in range(KILL_ROUNDS):
        living = [stat.pid for stat in _descendants(pid) if stat.state not in DEAD]
        if not living:
            break
        for member in living:
            _kill(member)
    _kill(pid)


def find_family(pid: int) -> list[int]:
    """Return a process and its descendants, as far as they live."""
    members = [stat for stat in (_stat(pid), *_descendants(pid)) if stat is not None]
    return [stat.pid for stat in members if stat.state not in DEAD]


def kill_remains(shim: ProcessIdentity) -> None:
    """SIGKILL what `find_remains` finds."""
    for _ in range(KILL_ROUNDS):
        remains = find_remains(shim)
        if not remains:
            return
        for pid in remains:
            _kill(pid)


def find_remains(shim: ProcessIdentity) -> list[int]:
    """Return what a shim that was itself killed left behind.

    These are the members of its session, whoever carries its brand, and orphans that came to this
    process. A daemon without a brand that leads its own session looks like one started on purpose
    and is left alone.
    """
    own_session, own_brand = os.getsid(0), _brand(os.getpid())
    brand = brand_of(shim.pid, shim.start_time)
    return [
        stat.pid
        for stat in _all_processes()
        if stat.state not in DEAD
        and stat.start_time >= shim.start_time
        and (
            stat.session == shim.pid
            or _is_adopted(stat, own_session)
            or _is_branded(stat, brand, own_brand)
        )
    ]


class OrphanReaper(Struct, eq=False):
    """Adopts orphans for this process, kills living ones, buries those nobody waits for.

    A living orphan comes from a killed shim, and is known by its brand. The reaper never waits for
    "any child": that would take exit codes from the loop's child watcher and others. Only zombies
    of foreign sessions that nobody took for a while are reaped, and none that any launcher of this
    process owns.
    """

    is_ours: Callable[[int], bool]
    # (pid, start time) -> first seen.
    _seen: dict[tuple[int, int], float] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    _was_subreaper: ClassVar[bool] = False  # before the first of them

    def open(self) -> None:
        """Become a subreaper and listen for SIGCHLD, on the loop that runs now."""
        if not _OPEN:
            OrphanReaper._was_subreaper = _is_subreaper()
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            if threading.current_thread() is threading.main_thread():
                asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, _schedule_all)
        _OPEN.append(self)

    def close(self) -> None:
        """Stop listening and adopting, with the last reaper of this process."""
        _OPEN.remove(self)
        if not _OPEN and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.sweep()
        if not _OPEN:
            prctl(PR_SET_CHILD_SUBREAPER, int(self._was_subreaper))

    def schedule(self) -> None:
        """Look for zombies soon, and again when they have aged."""
        if self in _OPEN and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ZOMBIE_AGE / 2, self._run)

    def sweep(self) -> bool:
        """Kill and reap orphans, aged suspects too; return whether some remain."""
        killed = self._end_branded()
        now = asyncio.get_running_loop().time()
        own_session = os.getsid(0)
        young: dict[tuple[int, int], float] = {}
        for stat in self._zombies(own_session):
            key = (stat.pid, stat.start_time)
            since = self._seen.get(key, now)
            if _is_adopted(stat, own_session) or now - since >= ZOMBIE_AGE:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(stat.pid, os.WNOHANG)
            else:
                young[key] = since
        self._seen = young
        return killed or bool(young)

    def _end_branded(self) -> bool:
        """Kill each living child with a foreign brand: a shim carries none."""
        own_brand, killed = _brand(os.getpid()), False
        for pid in _child_pids(os.getpid()):
            if not _is_anyones(pid, self) and _brand(pid) not in (own_brand, None):
                kill_family(pid)
                killed = True
        return killed

    def _run(self) -> None:
        self._timer = None
        if self.sweep():
            self.schedule()

    def _zombies(self, own_session: int) -> Iterator[_Stat]:
        if not _has_zombies():
            return
        for stat in _children(os.getpid()):
            if (
                stat.state == "Z"
                and stat.session != own_session
                and not _is_anyones(stat.pid, self)
            ):
                yield stat


_OPEN: list[OrphanReaper] = []  # those of this process, of one loop


def _schedule_all() -> None:
    for reaper in _OPEN:
        reaper.schedule()


def _is_anyones(pid: int, closing: OrphanReaper) -> bool:
    return any(reaper.is_ours(pid) for reaper in (closing, *_OPEN))


def _is_adopted(stat: _Stat, own_session: int) -> bool:
    """Return whether a process is a child of this one without having been started by it."""
    return stat.parent == os.getpid() and stat.session not in (own_session, stat.pid)


def _is_branded(stat: _Stat, brand: int, own_brand: int | None) -> bool:
    carried = _brand(stat.pid)
    if carried is None or carried == own_brand:
        return False
    return carried == brand or stat.parent == os.getpid()


def _brand(pid: int) -> int | None:
    try:
        text = read_proc(f"/proc/{pid}/limits")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    hard = text.partition("Max file locks")[2].split(maxsplit=2)[1:2]
    if not hard:  # the limits of a zombie are empty
        return None
    return NO_BRAND if hard == ["unlimited"] else int(hard[0])


def _has_zombies() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False  # there are no children


def _is_subreaper() -> bool:
    value = _Int()
    prctl(PR_GET_CHILD_SUBREAPER, byref(value))
    return bool(value.value)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@cache  # it stays as long as the machine runs
def boot_id() -> str:
    """Return the kernel's id of the time since the machine was started."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _stat(pid: int) -> _Stat | None:
    try:
        text = read_proc(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, so the fields are counted from its end.
    fields = text.rpartition(")")[2].split()
    return _Stat(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
        terminal=int(fields[4]),
        start_time=int(fields[19]),
    )


def read_proc(path: str) -> str:
    """Return the contents of a file of /proc, with as little overhead as possible."""
    with io.FileIO(path) as file:
        return file.readall().decode(errors="replace")


def _all_processes() -> Iterator[_Stat]:
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and (stat := _stat(int(folder.name))) is not None:
            yield stat


def _children(pid: int) -> Iterator[_Stat]:
    for child in _child_pids(pid):
        if (stat := _stat(child)) is not None:
            yield stat


def _child_pids(pid: int) -> list[int]:
    """Return the children of a process; it, or a thread of it, may end at any moment."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, read_proc(f"{task}/children").split())
    return found


def _descendants(pid: int) -> Iterator[_Stat]:
    parents = [pid]
    while parents:
        for child in _children(parents.pop()):
            parents.append(child.pid)
            yield child


def place_digests(folders: Iterable[Path]) -> frozenset[str]:
    """Return the marks' digests of folders, by their real paths."""
    paths = {os.path.realpath(folder) for folder in folders}
    return frozenset(blake2b(os.fsencode(p), digest_size=8).hexdigest() for p in paths)


def format_mark(engine: ProcessIdentity, folders: Iterable[Path]) -> str:
    """Return the mark of an engine that uses these folders."""
    words = (str(engine.pid), str(engine.start_time), *sorted(place_digests(folders)))
    return "-".join(words)


def find_marks(line: Iterable[Relative]) -> list[Mark]:
    """Return the marks in the environments of these processes, as far as readable."""
    texts = {_variable(relative.identity.pid) for relative in line}
    return [mark for text in texts if text is not None and (mark := _parsed(text)) is not None]


def _parsed(text: str) -> Mark | None:
    pid, _, rest = text.partition("-")
    start_time, *places = rest.split("-")
    if not (pid.isdecimal() and start_time.isdecimal()):
        return None
    engine = ProcessIdentity(pid=int(pid), start_time=int(start_time), boot_id=boot_id())
    return Mark(engine=engine, places=frozenset(places))


def _variable(pid: int) -> str | None:
    try:
        variables = read_proc(f"/proc/{pid}/environ").split("\0")
    except OSError:
        return None
    name = f"{MARK}="
    return next((one.removeprefix(name) for one in variables if one.startswith(name)), None)


_log = logging.getLogger("prsm.engine")
_SUFFIX = ".processes"


@contextmanager
def recorded_processes(state_dir: Path) -> Iterator[ProcessRecord]:
    """End what dead engines left behind, then keep a record while this engine lives."""
    ended = end_orphans(state_dir)
    if ended:
        _log.warning("ended %d processes that a dead engine had left behind", ended)
    record = ProcessRecord(state_dir)
    try:
        yield record
    finally:
        record.close()


class ProcessRecord:
    """The record of one engine's processes, a line each; the first line is the engine.

    The reaper shim ends a family when its engine dies. If the shim is killed at the same moment,
    this record lets the next engine end what is left.
    """

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
        """Remove the record: all its processes have ended."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)

    def _write(self, identity: ProcessIdentity) -> None:
        values = [identity.pid, identity.start_time, identity.boot_id]
        os.write(self._descriptor, json.dumps(values).encode() + b"\n")


def end_orphans(state_dir: Path) -> int:
    """End what dead engines left behind; return how many were alive."""
    ended = 0
    for path, identities in _records_of_the_dead(state_dir):
        for process in identities[1:]:
            ended += _end(process)
        path.unlink(missing_ok=True)
    return ended


class Orphans(Record, frozen=True, kw_only=True):
    """Processes that outlive their engine."""

    engine: int  # its pid when it lived
    pids: tuple[int, ...]


def find_orphans(state_dir: Path) -> list[Orphans]:
    """Return what dead engines left behind and still lives; touch nothing."""
    found = []
    for _, identities in _records_of_the_dead(state_dir):
        pids = {pid for process in identities[1:] for pid in _survivors(process)}
        if pids:
            found.append(Orphans(engine=identities[0].pid, pids=tuple(sorted(pids))))
    return found


def _records_of_the_dead(state_dir: Path) -> Iterator[tuple[Path, list[ProcessIdentity]]]:
    for path in sorted((state_dir / "runs").glob(f"*{_SUFFIX}")):
        identities = _read(path)
        if not (identities and is_alive(identities[0])):
            yield path, identities


def _survivors(process: ProcessIdentity) -> list[int]:
    if _is_pid_of_another(process):
        return []
    if is_alive(process):
        return find_family(process.pid)
    return find_remains(process) if process.boot_id == boot_id() else []


def _end(process: ProcessIdentity) -> bool:
    if _is_pid_of_another(process):
        return False
    if is_alive(process):
        kill_family(process.pid)
        return True
    if process.boot_id == boot_id():
        kill_remains(process)
    return False


def _is_pid_of_another(process: ProcessIdentity) -> bool:
    """Return whether the pid was reused, which needs a session without members."""
    now = process_identity(process.pid)
    return now is not None and now != process


def _read(path: Path) -> list[ProcessIdentity]:
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
