"""The lock of a session: one process owns it, and tells whoever asks who it is.

`runs/<session>.lock` is flocked for the owner's life, so it is free as soon as the owner is gone,
however it ended. What the file says is only read while somebody holds that lock. Beside it lies
`runs/<session>.key`, a secret of this owner: who shows it may read what this user may.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import asdict

from prsm_core.config import private_dir
from prsm_core.domain.record import Record
from prsm_core.engine.processes.table import ProcessIdentity, is_alive, process_identity
from prsm_core.errors import ConfigError, ControlError, SessionOwnedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTLE_SECONDS = 1.0  # for an owner that has not written who it is, or a reader's short look
POLL_SECONDS = 0.002

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")  # the socket's address has 107 bytes
_FOR_OTHERS = 0o077
_KEY_BYTES = 32
MAX_LOCKS = 1000


class Owner(Record, frozen=True, kw_only=True):
    """The process that owns a session; `leaders` are those who drive it from outside, if any."""

    process: ProcessIdentity
    socket: Path  # of its control server
    since: float  # Unix seconds
    leaders: tuple[ProcessIdentity, ...] = ()

    @property
    def roots(self) -> tuple[ProcessIdentity, ...]:
        """The processes below which agents run."""
        return (self.process, *self.leaders)


class SessionLock:
    """Held by the owner of a session until `release`; also a context manager."""

    def __init__(
        self, session: str, path: Path, descriptor: int, owner: Owner, key: str = ""
    ) -> None:
        self.session = session
        self.owner = owner
        self.key = key
        self._path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def take(
        cls,
        state_dir: Path,
        session: str,
        *,
        since: float,
        leaders: tuple[ProcessIdentity, ...] = (),
    ) -> Self:
        """Become the owner of a session; `since` is Unix seconds, to tell others.

        A lock whose owner has died is taken over.

        Raises:
            SessionOwnedError: another process, or this one, owns the session.
            ConfigError: the lock cannot be kept there.
        """
        if not _NAME.fullmatch(session):
            raise ConfigError(f"{session!r} is no name for a session")
        path = _private_runs(state_dir) / f"{session}.lock"
        try:
            descriptor = _lock(path, session)
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be locked: {error.strerror}",
                hint="PRSM_HOME names another folder for all state",
            ) from error
        owner = Owner(
            process=_own_identity(),
            socket=path.with_suffix(".sock"),
            since=since,
            leaders=leaders,
        )
        with ExitStack() as stack:
            stack.callback(os.close, descriptor)
            key = _new_key(path)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _describe(owner), 0)
            stack.pop_all()
        return cls(session, path, descriptor, owner, key)

    @property
    def folder(self) -> Path:
        """Where the locks of all sessions lie."""
        return self._path.parent

    def release(self) -> None:
        """Let the session go; a second call does nothing."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with ExitStack() as stack:
            stack.callback(os.close, descriptor)
            # While it is held: afterwards both names may be another owner's.
            if _is_named(descriptor, self._path):
                self.owner.socket.unlink(missing_ok=True)
                _key_path(self._path).unlink(missing_ok=True)
                self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


def find_owner(state_dir: Path, session: str) -> Owner | None:
    """Return who owns the session now, None when nobody does; creates nothing.

    Raises:
        ControlError: the lock is held, but not by a process that says who it is.
    """
    if not _NAME.fullmatch(session):
        return None
    path = state_dir / "runs" / f"{session}.lock"
    for is_last in _until_settled():
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
            owner = _read_owner(descriptor)
        finally:
            os.close(descriptor)
        if owner is not None and (is_last or is_alive(owner.process)):
            return owner
    raise ControlError(
        f"session {session} is held by a process that does not say who it is",
        hint=f"see which one: fuser {path}",
        code="unknown_owner",
    )


def find_owners(state_dir: Path) -> list[Owner]:
    """Return who owns a session now; raises ControlError as `find_owner` does."""
    sessions = sorted(path.stem for path in (state_dir / "runs").glob("*.lock"))
    return [owner for name in sessions if (owner := find_owner(state_dir, name)) is not None]


def unbegun(state_dir: Path, prefix: str) -> SessionOwnedError | None:
    """Return the error of a session that no ledger has, and a process owns; None for no such one.

    A session comes into its ledger with its first run. Its id may be told by its beginning.
    """
    start = prefix.lower()
    runs = state_dir / "runs"
    for path in sorted(runs.glob("*.lock")) if start else ():
        session = path.stem
        if session.lower().startswith(start) and (owner := find_owner(state_dir, session)):
            return SessionOwnedError(
                f"{_owned_by(session, owner)}, and no run of it has begun yet",
                hint="begin one where it is open; from then on it can be reached from anywhere",
            )
    return None


def read_key(state_dir: Path, session: str) -> str:
    """Return what the owner of a session keeps secret; nothing where that cannot be read."""
    try:
        return _key_path(state_dir / "runs" / f"{session}.lock").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):  # the owner refuses who does not show it, and says so
        return ""


def named_owners(runs: Path) -> list[Owner]:
    """Return who is named by the locks of a folder; who has died is among them.

    Raises:
        ControlError: there are more than MAX_LOCKS.
    """
    found = []
    for count, path in enumerate(runs.glob("*.lock")):
        if count >= MAX_LOCKS:
            raise ControlError(
                f"{runs} holds more than {MAX_LOCKS} locks",
                hint="remove those of sessions that do not run; `prsm doctor` names them",
                code="too_many_locks",
            )
        if (owner := _named_owner(path)) is not None:
            found.append(owner)
    return found


def _named_owner(path: Path) -> Owner | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:  # its owner has just ended
        return None
    try:
        return _read_owner(descriptor)
    finally:
        os.close(descriptor)


def _key_path(lock: Path) -> Path:
    return lock.with_suffix(".key")


def _new_key(lock: Path) -> str:
    """Return a new secret, written for this user alone in place of a dead owner's."""
    path, key = _key_path(lock), secrets.token_hex(_KEY_BYTES)
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
        ) from error
    return key


def _lock(path: Path, session: str) -> int:
    """Return a descriptor that holds the lock.

    A refused lock need not be an owner's: a reader that looks for one holds it for a moment. So
    only an owner that is alive counts at once; in another pid namespace none is seen to be.
    """
    owner = None
    for is_last in _until_settled():
        with ExitStack() as stack:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, descriptor)
            if _try_lock(descriptor, fcntl.LOCK_EX) and _is_named(descriptor, path):
                stack.pop_all()
                return descriptor
            owner = _read_owner(descriptor)
        if is_last or (owner is not None and is_alive(owner.process)):
            break
    raise _refusal(session, owner)


def _until_settled() -> Iterator[bool]:
    """Yield now and again, for SETTLE_SECONDS; True is the last time."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        yield False
        time.sleep(POLL_SECONDS)
    yield True


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(descriptor: int, path: Path) -> bool:
    """Return whether this open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _own_identity() -> ProcessIdentity:
    identity = process_identity(os.getpid())
    if identity is None:
        raise ConfigError("this process is not in /proc", hint="prsm needs /proc to be mounted")
    return identity


def _describe(owner: Owner) -> bytes:
    values = {
        **asdict(owner.process),
        "socket": str(owner.socket),
        "since": owner.since,
        "leaders": [asdict(leader) for leader in owner.leaders],
    }
    return json.dumps(values).encode() + b"\n"


def _read_owner(descriptor: int) -> Owner | None:
    """Return what the file says; None while it says nothing, or not all of it."""
    try:
        values = json.loads(os.pread(descriptor, 8192, 0))
        return Owner(
            process=_read_identity(values),
            socket=Path(values["socket"]),
            since=float(values["since"]),
            leaders=tuple(map(_read_identity, values.get("leaders", ()))),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OSError):
        return None


def _read_identity(values: Mapping[str, Any]) -> ProcessIdentity:
    return ProcessIdentity(
        pid=int(values["pid"]),
        start_time=int(values["start_time"]),
        boot_id=str(values["boot_id"]),
    )


def _refusal(session: str, owner: Owner | None) -> SessionOwnedError:
    return SessionOwnedError(
        _owned_by(session, owner),
        hint=f"follow it: prsm attach {session}; "
        f"or end its run: prsm kill master --session {session}",
    )


def _owned_by(session: str, owner: Owner | None) -> str:
    who = "another process"
    if owner is not None:
        since = datetime.fromtimestamp(owner.since).astimezone()
        who = f"process {owner.process.pid} since {since.isoformat(sep=' ', timespec='seconds')}"
    return f"session {session} is owned by {who}"


def _private_runs(state_dir: Path) -> Path:
    """Return the folder of the locks, which only this user may enter."""
    runs = private_dir(state_dir / "runs")
    found = runs.stat()
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"{runs}: belongs to another user", hint="PRSM_HOME names another folder for all state"
        )
    if found.st_mode & _FOR_OTHERS:
        runs.chmod(0o700)
    return runs
