"""Starts a program that outlives this one and its terminal.

It is no provider's and no agent's: no shim ends it, and nobody here waits for it.
"""

from __future__ import annotations

import subprocess
import sys
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class DetachedProcess(Protocol):
    """A program that was started so."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def terminate(self) -> None:
        """Ask it to end, if it has not."""
        ...

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        ...

    def poll(self) -> int | None:
        """Return its exit code, None while it runs; one that has ended is buried then."""
        ...


class _Detached(subprocess.Popen[bytes]):
    """Whoever started it may be gone before it: that it runs then is what it is for."""

    def __del__(self) -> None:
        """Warn of nothing."""


def start_detached(
    argv: Sequence[str], *, keep: int, stderr: IO[bytes] | None = None
) -> DetachedProcess:
    """Start a program in a session of its own, in this folder, with this environment.

    No signal of this terminal reaches it. It reads nothing, its stdout leads nowhere, and `stderr`
    is this program's if it is not given, until it lets go of it. It has the descriptor `keep` under
    the same number.
    """
    return _Detached(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr if stderr is None else stderr,
        start_new_session=True,
        pass_fds=(keep,),
    )
