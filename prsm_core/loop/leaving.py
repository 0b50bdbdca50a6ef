"""The end of the process, which comes whatever plugins left running, and its garbage collection.

Python collects after every few hundred new objects; imports make many times as many that stay, and
at the end all go anyhow. So it collects seldom at work, and never at the start and end.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType


WORDS_SECONDS = 2.0  # how long a stream may take for the last words
EXIT_SECONDS = 5.0  # how long threads, and what is registered to run at exit, may take

_leave_at: float | None = None  # monotonic, of this process
_left_behind: list[Any] = []  # for ever: to throw such a task away would run its code once more


def leave_behind(task: object) -> None:
    """Keep a task that does not end as it is; the process ends without throwing it away."""
    _left_behind.append(task)


def leave_within(seconds: float) -> None:
    """Have the process end within so many seconds, whatever does not end by itself."""
    global _leave_at
    _leave_at = time.monotonic() + seconds


def leave_whenever() -> None:
    """Let the process take its time again."""
    global _leave_at
    _leave_at = None


def time_to_leave(seconds: float) -> float:
    """Return how long a wait of so many seconds may take: half of what is left, if that is less."""
    if _leave_at is None:
        return seconds
    return min(seconds, max(_leave_at - time.monotonic(), 0.0) / 2)


def see_out(code: int) -> None:
    """Have the process end with this exit code in a while, unless it ends by itself.

    Threads that are not daemons, or what runs at exit, could keep it for ever. It ends now if a
    task was left behind.
    """
    if _left_behind:
        _end(code, "")
    if "prsm_core.plugins.manager" in sys.modules:  # else there is no code but ours
        threading.Thread(target=_end_late, args=[code], name="prsm exit", daemon=True).start()


def _end_late(code: int) -> None:
    threading.Event().wait(time_to_leave(EXIT_SECONDS))
    frames, main = sys._current_frames(), threading.main_thread()
    threads = [thread for thread in threading.enumerate() if not thread.daemon and thread != main]
    kept = [
        f"thread {thread.name!r} does not end, at {_place(frames.get(thread.ident or 0))}"
        for thread in threads
    ] or [f"what runs at exit does not end, at {_place(frames.get(main.ident or 0))}"]
    _end(code, f"prsm: warning: {'; '.join(kept)}: it is left behind\n")


def _place(frame: FrameType | None) -> str:
    from prsm_core.loop.blame import place_of_frame

    return str(place_of_frame(frame) or "a place in no code of a plugin")


def _end(code: int, told: str) -> None:
    def write() -> None:
        for stream, text in ((sys.stderr, told), (sys.stdout, "")):
            if stream is not None:
                with suppress(OSError, ValueError):
                    stream.write(text)
                    stream.flush()

    try:  # by a thread: the terminal may take nothing
        writing = threading.Thread(target=write, name="prsm last words", daemon=True)
        writing.start()
        writing.join(WORDS_SECONDS)
    finally:
        os._exit(code & 0xFF)


OBJECTS = 50_000  # that may be new before garbage among them is looked for: some megabytes


def collect_seldom() -> None:
    """Collect after many objects; call it before the imports.

    Imported objects are kept without a look: one takes as long as starting a process.
    """
    gc.set_threshold(OBJECTS)
    importing = [True]

    def keep(phase: str, _: Mapping[str, int]) -> None:
        """Take what there is from the look that begins; it then finds nothing to look at."""
        if importing and phase == "start":
            importing.clear()
            gc.freeze()

    gc.callbacks.append(keep)


def collect_no_more() -> None:
    """Leave what there is to the end of the process."""
    gc.freeze()
