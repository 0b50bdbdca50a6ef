"""Watches, from a thread of its own, that the event loop goes on; names the code that blocks it.

Code that does not return to the loop stops every agent. It is told of once. If it is a plugin's, a
while later an exception is raised in it, so that it fails as if it had failed by itself: the thread
that the loop runs in is sent a signal, whose handler raises it. The core's own code, and code that
a debugger holds, is told of at most.

What is counted are looks, one a second: a process that was stopped has not been looked at.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prsm_core.plugins.blame import place_of_frame
from prsm_core.plugins.guard import BlockedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from types import FrameType

    from prsm_core.plugins.blame import Place

LOOK_SECONDS = 1.0
TOLD_AFTER = 3  # looks
ENDED_AFTER = 12  # looks

_SIGNAL = signal.SIGURG  # ignored where nobody asks for it

_log = logging.getLogger("prsm.engine")


class LoopWatch:
    """Owns what is known of one loop; `look` is called by one thread, `interrupt` by the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._answered = threading.Event()
        self._answered.set()
        self._looks = 0  # since the loop was asked, without an answer
        self._blocking: Place | None = None
        self._is_condemned = False

    def look(self) -> None:
        """Ask the loop for a sign of life; tell of one that owes it for a while."""
        if self._answered.is_set():
            if self._blocking is not None:
                _log.info("the event loop goes on after about %.0f s", self._looks * LOOK_SECONDS)
            self._looks, self._blocking, self._is_condemned = 0, None, False
            self._answered.clear()
            self._loop.call_soon_threadsafe(self._answered.set)
            return
        self._looks += 1
        if self._looks == TOLD_AFTER:
            self._tell()
        if self._looks >= ENDED_AFTER and self._blocking is not None:
            self._end(self._blocking)

    def _tell(self) -> None:
        self._blocking = place_of_frame(sys._current_frames().get(self._thread))
        if self._blocking is not None:
            seconds = self._looks * LOOK_SECONDS
            _log.warning(
                "%s has blocked all agents for %.0f s: it does not return", self._blocking, seconds
            )

    def _end(self, blocking: Place) -> None:
        if blocking.is_plugin:
            self._is_condemned = True
            signal.pthread_kill(self._thread, _SIGNAL)

    def interrupt(self, _number: int, frame: FrameType | None) -> None:
        """Raise BlockedError in the code that blocks, if it still does."""
        place = place_of_frame(frame) if self._is_condemned else None
        self._is_condemned = False
        blocking = self._blocking
        is_it = place is not None and blocking is not None and place.code is blocking.code
        if is_it and not self._answered.is_set():
            seconds = self._looks * LOOK_SECONDS
            raise BlockedError(f"it has blocked all agents for {seconds:.0f} s")


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Watch a loop that the main thread is about to run."""
    watch, over = LoopWatch(loop), threading.Event()

    def run() -> None:
        while not over.wait(LOOK_SECONDS):
            watch.look()

    before: Any = signal.signal(_SIGNAL, watch.interrupt)
    thread = threading.Thread(target=run, name="prsm loop watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(_SIGNAL, before)
