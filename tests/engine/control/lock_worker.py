"""Owns a session in a process of its own.

`hold STATE SESSION` owns it until the end of stdin. `race STATE SESSION MARKER ROUNDS` owns it
again and again; nobody else may then hold the marker.
"""

import os
import sys
from pathlib import Path

from prsm_core.engine.control.session_lock import SessionLock, find_owner
from prsm_core.errors import SessionOwnedError


def hold(state, session):
    with SessionLock.take(Path(state), session, since=1_700_000_000.0):
        sys.stdout.write("held\n")
        sys.stdout.flush()
        sys.stdin.read()


def race(state, session, marker, rounds):
    owned = 0
    while owned < int(rounds):
        try:
            lock = SessionLock.take(Path(state), session, since=1.0)
        except SessionOwnedError:
            continue
        with lock:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            owner = find_owner(Path(state), session)
            assert owner is not None
            assert owner.process.pid == os.getpid()
            Path(marker).unlink()
        owned += 1


if __name__ == "__main__":
    act = hold if sys.argv[1] == "hold" else race
    act(*sys.argv[2:])
