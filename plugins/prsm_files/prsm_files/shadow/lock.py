"""One process at a time works on a folder's shadow; the lock of a dead one is free."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsm_core import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOOK_SECONDS = 0.02


@contextmanager
def folder_lock(place: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the lock of a shadow; the folder is made. Raises ConfigError where another keeps it."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"{place}: cannot be written: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        until = time.monotonic() + wait_seconds
        while not _try(file.fileno()):
            if time.monotonic() > until:
                raise ConfigError(
                    "another process is at work on the snapshots of this folder",
                    hint="let it finish, then try again",
                )
            time.sleep(_LOOK_SECONDS)
        yield


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
