"""Watches from a thread that the event loop goes on; names the code that blocks it.

Blocking code stops every agent. It is told of once, if each look has found it. In a plugin's code
an exception is raised a while later: a signal's handler in the loop's thread raises it. The core's
own code, and code that a debugger holds, is only told of.

If the looks find different code the process is slow and nobody is blamed; while a plugin still
loads in a thread that was given up, others are blamed late. Looks are counted, one a second: a
stopped process was not looked at.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.loop.blame import Place, place_of_frame

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import FrameType


LOOK_SECONDS = 1.0
TOLD_AFTER = 3  # looks
ENDED_AFTER = 12  # looks that find the same code
SLOW_AFTER = 6  # looks, after which a process is told to be slow

LOADING = "loading "  # how the names of threads begin in which plugins are loaded

_SIGNAL = signal.SIGURG  # ignored where nobody asks for it

_log = logging.getLogger("prsm.engine")


class BlockedError(BaseException):
    """Raised in the code of a plugin that has blocked the event loop for too long."""


class Ticker:
    """Says when to look: each second, until it is stopped."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def wait(self) -> bool:
        """Wait for the next look; return whether there is one."""
        return not self._over.wait(LOOK_SECONDS)

    def stop(self) -> None:
        """Have the one that waits look no more."""
        self._over.set()


class LoopWatch:
    """Owns what is known of one loop; `look` is called by one thread, `interrupt` by the loop's.

    Args:
        loop: The loop.
        where: Says which code its thread runs; None: none to tell of.
        end: Makes its thread call `interrupt`.
        loading: Says which plugins are still being loaded.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        where: Callable[[], Place | None],
        end: Callable[[], None],
        loading: Callable[[], list[str]] = list,
    ) -> None:
        self._loop = loop
        self._where = where
        self._end = end
        self._loading = loading
        self._answered = threading.Event()
        self._answered.set()
        self._looks = 0  # since the loop was asked, without an answer
        self._found: Place | None = None  # by the last look
        self._same = 0  # looks in a row that have found this code
        self._blocking: Place | None = None
        self._is_told = False
        self._is_condemned = False

    def look(self) -> None:
        """Ask the loop for a sign of life; tell of one that owes it for a while."""
        if self._answered.is_set():
            if self._is_told:
                _log.info("the event loop goes on after about %.0f s", self._seconds)
            self._looks, self._same, self._found, self._blocking = 0, 0, None, None
            self._is_told = self._is_condemned = False
            self._answered.clear()
            self._loop.call_soon_threadsafe(self._answered.set)
            return
        self._looks += 1
        self._find()
        if self._looks >= TOLD_AFTER:
            self._tell()
        if self._same >= ENDED_AFTER and self._blocking is not None and self._blocking.is_plugin:
            self._is_condemned = True
            self._end()

    def _find(self) -> None:
        before, self._found = self._found, self._where()
        is_same = self._found is not None and before is not None and self._found.code is before.code
        self._same = self._same + 1 if is_same else int(self._found is not None)

    @property
    def _seconds(self) -> float:
        return self._looks * LOOK_SECONDS

    def _tell(self) -> None:
        """Tell who blocks; of a process that is only slow, once it was slow for long."""
        guests = self._loading()
        if self._blocking is not None:
            return
        if self._same >= (ENDED_AFTER if guests else TOLD_AFTER):
            self._blocking, self._is_told = self._found, True
            text = "%s has blocked all agents for %.0f s: it does not return"
            _log.warning(text, self._blocking, self._seconds)
        elif not self._is_told and self._found and (guests or self._looks >= SLOW_AFTER):
            self._is_told = True
            why = f"plugin {', '.join(guests)} is still being loaded" if guests else "it is busy"
            text = "all agents have waited for %.0f s for this machine: %s"
            _log.warning(text, self._seconds, why)

    def interrupt(self, _number: int, frame: FrameType | None) -> None:
        """Raise BlockedError in the code that blocks, if it still does."""
        place = place_of_frame(frame) if self._is_condemned else None
        self._is_condemned = False
        blocking = self._blocking
        is_it = place is not None and blocking is not None and place.code is blocking.code
        if is_it and not self._answered.is_set():
            raise BlockedError(f"it has blocked all agents for {self._seconds:.0f} s")


@contextmanager
def watched(loop: asyncio.AbstractEventLoop, ticker: Ticker | None = None) -> Iterator[None]:
    """Watch a loop that this thread, the main one, is about to run."""
    ticker = ticker or Ticker()
    me = threading.get_ident()
    end = partial(signal.pthread_kill, me, _SIGNAL)
    watch = LoopWatch(
        loop, lambda: place_of_frame(sys._current_frames().get(me)), end, _loading_plugins
    )

    def run() -> None:
        while ticker.wait():
            watch.look()

    before: Any = signal.signal(_SIGNAL, watch.interrupt)
    thread = threading.Thread(target=run, name="prsm loop watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ticker.stop()
        thread.join()
        signal.signal(_SIGNAL, before)


def _loading_plugins() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return sorted(name.removeprefix(LOADING) for name in names if name.startswith(LOADING))
