"""Stdout and stderr without waiting: a thread writes what goes to a terminal or a pipe.

A terminal held by Ctrl-S, or a busy reader of a pipe, would block the event loop and with it all
agents. So a command that may run an engine calls `write_aside`: its streams become `Outlet`s, which
take text at once and let a `Pump` write it.

The queue is bounded. Writers that can wait call `room_in` between texts and lose nothing. Text
beyond the limit is dropped, and the next one says how many lines are missing; but for stdout to a
program, which holds results, the writer waits.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

if TYPE_CHECKING:
    import asyncio

ROOM = 64 * 1024  # bytes waiting, above which writers that can wait do so
LIMIT = 256 * 1024  # bytes waiting, above which text is dropped
BEHIND = 8 * 1024  # bytes waiting, above which refreshing a screen is of no use
PATIENCE = 3.0  # seconds without progress, after which the end of the process waits no longer
SETTLE_SECONDS = 0.5  # for which a flush waits where it may
LOST = "prsm: {count} lines were not shown: the terminal took nothing"
"""What the next text that finds room says of those that were dropped."""
CHUNK = 4096  # bytes that a terminal is given at once, so that a slow one shows progress


class Pump:
    """Writes to one terminal or pipe, in a thread that begins with the first text.

    A pump that is given up drops all, so that the process can end; with `keeps` only once the
    person has asked to leave.
    """

    def __init__(self, descriptor: int, *, keeps: bool, patience: float) -> None:
        # A copy: descriptors 1 and 2 are led elsewhere while plugins work.
        self.descriptor = os.dup(descriptor)
        self.is_terminal = os.isatty(descriptor)
        self.keeps = keeps
        self._patience = patience
        self.size = 0  # bytes waiting
        self.is_given_up = False
        self._pending: deque[bytes] = deque()
        self._written = 0
        self._stalled_at = -1  # bytes written when a flush waited in vain
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._error: OSError | None = None
        self._is_hurried = False

    def put(self, data: bytes) -> None:
        """Queue data. Raises the OSError that a write has met."""
        with self._changed:
            self.check()
            if self.is_given_up or not data:
                return
            self._pending.append(data)
            self.size += len(data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="prsm output", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def check(self) -> None:
        """Raise the OSError that a write has met: the reader or the terminal has gone."""
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror)

    def hurry(self) -> None:
        """From now on give up a descriptor that makes no progress while somebody waits for it."""
        self._is_hurried = True

    async def until(self, most: int) -> None:
        """Wait until at most so many bytes are waiting. Raises as `put` does."""
        while self._holds(most):
            if not await self._progress(most) and self._is_hurried:
                self.give_up()
        self.check()

    def block(self, most: int) -> None:
        """Wait in this thread until at most so many bytes are waiting."""
        with self._changed:
            while self._holds(most):
                written = self._written

                def has_progress(written: int = written) -> bool:
                    return self._written != written or not self._holds(most)

                timeout = self._patience if self._is_hurried else None
                if not self._changed.wait_for(has_progress, timeout):
                    self.give_up()

    def settle(self) -> None:
        """Wait a moment in this thread until all is written; once for each stall."""
        with self._changed:
            if self._stalled_at == self._written:
                return
            if not self._changed.wait_for(lambda: not self._holds(0), SETTLE_SECONDS):
                self._stalled_at = self._written

    def finish(self) -> None:
        """Wait in this thread until all is written or given up. Errors are nobody's after that."""
        self.block(0)
        self._error = None

    def give_up(self) -> None:
        """Drop what is waiting and all that follows."""
        with self._changed:
            self.is_given_up = True
            self._pending.clear()
            self.size = 0
            self._wake()

    def close(self) -> None:
        """End the thread, which has nothing left to write."""
        self.give_up()
        if self._thread is not None:
            self._thread.join(self._patience)
        if self._thread is None or not self._thread.is_alive():
            os.close(self.descriptor)

    def _holds(self, most: int) -> bool:
        return self.size > most and not self.is_given_up

    async def _progress(self, most: int) -> bool:
        import asyncio  # the first line of `prsm run` must not wait for this import

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._changed:
            if not self._holds(most):
                return True
            self._waiting.append((loop, future))
        try:
            return bool((await asyncio.wait({future}, timeout=self._patience))[0])
        finally:
            future.cancel()

    def _wake(self) -> None:
        """Tell everybody who waits; the lock is held."""
        self._changed.notify_all()
        waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, future)

    def _run(self) -> None:
        while data := self._take():
            try:
                written = self._write(data)
            except OSError as error:
                with self._changed:
                    self._error = error
                    self.give_up()
                return
            with self._changed:
                self._written += written
                if not self.is_given_up:
                    self.size -= written
                    if rest := data[written:]:
                        self._pending.appendleft(rest)
                self._wake()

    def _take(self) -> bytes:
        most = CHUNK if self.is_terminal else ROOM
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self.is_given_up)
            taken = bytearray()
            while self._pending and len(taken) < most:
                taken += self._pending.popleft()
            if len(taken) > most:
                self._pending.appendleft(bytes(taken[most:]))
        return bytes(taken[:most])

    def _write(self, data: bytes) -> int:
        while True:
            try:
                return os.write(self.descriptor, data)
            except BlockingIOError:  # another program has made the shared descriptor non-blocking
                select.select((), (self.descriptor,), ())


class Outlet(io.TextIOBase):
    """A text stream over a Pump. It flushes every text at once, and its writer does not wait."""

    def __init__(self, pump: Pump, stream: TextIO) -> None:
        self.pump = pump
        self._stream = stream
        self._lost = 0

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return self._stream.encoding or "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """What the stream below does with characters that it cannot encode."""
        return self._stream.errors or "strict"

    @property
    def buffer(self) -> BinaryIO:
        """The bytes of the stream below. They pass the queue by, and go where 1 or 2 lead now."""
        return self._stream.buffer

    @property
    def is_behind(self) -> bool:
        """Whether so much is waiting that refreshing a screen is of no use."""
        return self.pump.size > BEHIND

    def write(self, text: str) -> int:
        """Queue a text. Return 0 if it was dropped; raise the OSError that a write has met."""
        if not isinstance(text, str):
            raise TypeError(f"a str is needed, not {type(text).__name__}")
        if self.pump.size >= LIMIT:
            if not self.pump.keeps:
                self._lost += text.count("\n") or 1
                return 0
            self.pump.block(LIMIT)
        lost = self.take_lost()
        notice = LOST.format(count=lost) + "\n" if lost else ""
        self.pump.put((notice + text).encode(self.encoding, self.errors))
        return len(text)

    def take_lost(self) -> int:
        """Return how many lines were dropped since the last call; for a screen that tells it."""
        lost, self._lost = self._lost, 0
        return lost

    def flush(self) -> None:
        """Raise a write's OSError; another thread first waits a moment for a lent terminal."""
        if self.pump.is_terminal and threading.current_thread() is not threading.main_thread():
            self.pump.settle()
        self.pump.check()

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether this leads to a terminal."""
        return self.pump.is_terminal

    def fileno(self) -> int:
        """Return the pump's descriptor, which stays when 1 and 2 are led elsewhere."""
        return self.pump.descriptor


# The outlets of this process, and the streams that they replace.
_pumps: dict[tuple[int, int], Pump] = {}
_replaced: list[tuple[str, TextIO, Outlet]] = []


def write_aside(*, patience: float = PATIENCE) -> None:
    """Let a thread write stdout and stderr until `finish_output`. No-op if one does already.

    Files and memory stay as they are. Two streams to one place share a pump, which keeps their
    order.
    """
    if _pumps:
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        place = _stalling_place(stream)
        if place is None:
            continue
        if place not in _pumps:
            keeps = name == "stdout" and not stream.isatty()
            _pumps[place] = Pump(stream.fileno(), keeps=keeps, patience=patience)
        outlet = Outlet(_pumps[place], stream)
        _replaced.append((name, stream, outlet))
        setattr(sys, name, outlet)


def hurry_output(*, even_results: bool = False) -> None:
    """Give up a terminal that takes nothing; with `even_results` stdout to a program, too."""
    for pump in _pumps.values():
        if even_results or not pump.keeps:
            pump.hurry()


def redirect_stdout(descriptor: int) -> None:
    """Let the outlet of stdout, if there is one, lead to where another descriptor leads."""
    for name, _, outlet in _replaced:
        if name == "stdout":
            os.dup2(descriptor, outlet.pump.descriptor, inheritable=False)
            outlet.pump.keeps = False


def finish_output() -> None:
    """Write what can be written; restore the streams, except those that were given up."""
    hurry_output()
    for pump in _pumps.values():
        try:
            pump.finish()
        except KeyboardInterrupt:
            hurry_output(even_results=True)
            pump.finish()
    for name, stream, outlet in _replaced:
        if getattr(sys, name) is outlet and not outlet.pump.is_given_up:
            setattr(sys, name, stream)
    for pump in _pumps.values():
        if not pump.is_given_up:
            pump.close()
    _pumps.clear()
    _replaced.clear()


async def room_in(*streams: TextIO) -> None:
    """Wait until these streams take more without loss. Raises the OSError that a write has met."""
    for stream in streams:
        if isinstance(stream, Outlet):
            await stream.pump.until(ROOM)


async def drained(*streams: TextIO) -> None:
    """Wait until these streams have written everything. Raises as `room_in` does."""
    for stream in streams:
        if isinstance(stream, Outlet):
            await stream.pump.until(0)


def _stalling_place(stream: Any) -> tuple[int, int] | None:
    """Return the device and inode of a terminal, pipe or socket; None for anything else."""
    if stream is None or isinstance(stream, Outlet):
        return None
    try:
        status = os.fstat(stream.fileno())
    except (AttributeError, OSError, ValueError):  # in memory, or closed
        return None
    is_pipe = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
    if not is_pipe and not stream.isatty():
        return None
    stream.flush()
    return status.st_dev, status.st_ino


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
