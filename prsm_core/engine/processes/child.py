"""A running child process: its pipes, its end, and bringing it about."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from signal import SIGCONT, SIGTERM, SIGUSR1, SIGUSR2
from typing import TYPE_CHECKING, cast

from prsm_core.engine.processes.table import kill_family
from prsm_core.errors import LineTooLongError, ProcessError
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prsm_core.engine.processes.table import ProcessIdentity
    from prsm_core.interfaces.clock import Clock

    OnExit = Callable[["RunningProcess"], None]


MAX_LINE = 16 * 2**20  # bytes; the documented limit of one line of output
HIGH_WATER = 2**20  # bytes of whole lines held for a slow reader before the child has to wait
PIPE_CAPACITY = 2**20  # bytes; the most an ended child can have left in its pipe
TAIL_SIZE = 64 * 2**10  # bytes of stderr that are kept
DRAIN_SECONDS = 2.0  # how long an ended child's pipes are read while somebody holds them open


class Sink:
    """Where the bytes of one output pipe go; this one drops them."""

    def attach(self, pipe: asyncio.ReadTransport) -> None:
        """Take the pipe, to pause and resume it."""

    def feed(self, data: bytes) -> None:
        """Take what was read."""

    def release(self) -> None:
        """Stop holding the pipe back: the child has ended and the rest is bounded."""

    def end(self) -> None:
        """Note that no more will come."""


class ByteTail(Sink):
    """Keeps the last `limit` bytes."""

    def __init__(self, limit: int = TAIL_SIZE) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.truncated = False

    def feed(self, data: bytes) -> None:
        """Append, and drop what is too old."""
        self.truncated = self.truncated or len(self._kept) + len(data) > self._limit
        self._kept += data[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    @property
    def text(self) -> str:
        """The kept bytes, decoded with replacement."""
        return self._kept[-self._limit :].decode("utf-8", "replace")


class ByteHead(ByteTail):
    """Keeps the first `limit` bytes, and drops the rest."""

    def feed(self, data: bytes) -> None:
        """Append what has room."""
        room = self._limit - len(self._kept)
        self._kept += data[:room]
        self.truncated = self.truncated or len(data) > room


class LineBuffer(Sink):
    """Splits output into lines for one reader, and makes the child wait for it.

    It never holds more than one line of the limit and a high water's worth of whole lines. After a
    line over the limit everything is dropped, so that the child can run to its end.
    """

    def __init__(self, name: str, *, limit: int = MAX_LINE, high_water: int = HIGH_WATER) -> None:
        self._name = name
        self._limit = limit
        self._high_water = high_water
        self._lines: deque[bytes] = deque()
        self._size = 0  # bytes in self._lines
        self._partial = bytearray()
        self._pipe: asyncio.ReadTransport | None = None
        self._changed = asyncio.Event()
        self._ended = False
        self._too_long = False

    def attach(self, pipe: asyncio.ReadTransport) -> None:
        """Take the pipe, to pause and resume it."""
        self._pipe = pipe

    def feed(self, data: bytes) -> None:
        """Split what was read; pause the pipe when the reader is too far behind."""
        if self._too_long:
            return
        first, *rest = data.split(b"\n")
        self._partial += first
        for piece in rest:
            self._push(self._partial)
            self._partial = bytearray(piece)
        if len(self._partial) > self._limit + 1:  # the one may be the return of a CRLF
            self._refuse()
        if self._size > self._high_water and self._pipe is not None:
            self._pipe.pause_reading()
        self._changed.set()

    def release(self) -> None:
        """Read the rest of an ended child's pipe even while its reader is behind."""
        self._high_water += PIPE_CAPACITY
        self._resume()

    def end(self) -> None:
        """Give out the last, unfinished line and then the end."""
        self._pipe = None
        self._ended = True
        if self._partial and not self._too_long:
            self._push(self._partial)
        self._partial.clear()
        self._changed.set()

    async def next(self) -> bytes | None:
        """Return the next line, None at the end; raise LineTooLongError in its place."""
        while not self._lines:
            if self._too_long:
                raise LineTooLongError(
                    f"{self._name} wrote a line of more than {self._limit} bytes",
                    hint="the output cannot be read on; stop the process",
                )
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        line = self._lines.popleft()
        self._size -= len(line) + 1
        if self._size <= self._high_water // 2:
            self._resume()
        return line

    def _push(self, line: bytearray) -> None:
        if self._too_long:
            return
        if line.endswith(b"\r"):
            del line[-1:]
        if len(line) > self._limit:
            self._refuse()
            return
        self._lines.append(bytes(line))
        self._size += len(line) + 1

    def _refuse(self) -> None:
        self._too_long = True
        self._partial.clear()

    def _resume(self) -> None:
        if self._pipe is not None:
            self._pipe.resume_reading()


class StdinPipe(asyncio.BaseProtocol):
    """Writes to a child's standard input, no faster than the child reads.

    It is a pipe and not asyncio's socket pair: bash takes a socket for a remote shell and reads
    start-up files, and no program can open /dev/stdin on one. `on_closed` is called once it is
    closed here, for whatever reason.
    """

    def __init__(self, name: str, on_closed: Callable[[], None]) -> None:
        self._name = name
        self._on_closed = on_closed
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._finishing = False  # we have closed it ourselves
        self._broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the pipe."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def pause_writing(self) -> None:
        """Make writers wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the writers; what they wrote was read only if we closed the pipe ourselves."""
        self._broken = exc is not None or not self._finishing
        self._transport = None
        self._writable.set()
        self._on_closed()

    async def write(self, data: bytes) -> None:
        """Write and wait until the child has room for more; ProcessError if it is closed."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise self._closed_error()
        transport.write(data)
        await self._writable.wait()
        if self._broken or (transport.is_closing() and not self._finishing):
            raise self._closed_error()

    def close(self) -> None:
        """Let the child read what was written, then the end."""
        self._finishing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once and drop what was not read."""
        self._finishing = False
        transport = self._transport
        if transport is None:
            return
        # One that is closing and has nothing left to write is about to say that it is closed;
        # aborted then, asyncio says so twice and fails the second time.
        if not transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()

    def _closed_error(self) -> ProcessError:
        return ProcessError(
            f"the standard input of {self._name} is closed",
            hint="the process has ended or takes no more input",
        )


class _OutputPipe(asyncio.Protocol):
    """Passes a pipe's bytes to its sink at once; asyncio would first go round the loop."""

    def __init__(self, sink: Sink, told: asyncio.BaseProtocol) -> None:
        self._sink = sink
        self._told = told

    def data_received(self, data: bytes) -> None:
        """Pass output on."""
        self._sink.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the pipe on."""
        self._told.connection_lost(exc)


class ProcessWire(asyncio.SubprocessProtocol):
    """Carries what the loop reports of one child to its sinks, and its end to whoever waits.

    The end of the process counts, not that of its pipes: a grandchild can hold them open for ever,
    so they are read for DRAIN_SECONDS more and then closed.
    """

    def __init__(
        self, stdout: Sink, stderr: Sink, stdin: StdinPipe | None, on_exit: Callable[[], None]
    ) -> None:
        self._sinks = {1: stdout, 2: stderr}
        self._stdin = stdin
        self._on_exit = on_exit
        self._transport: asyncio.SubprocessTransport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()  # exited, and all output has been read or given up
        self._returncode = 0

    @property
    def pid(self) -> int:
        """The process id, once the process was started."""
        return self._connected().get_pid()

    @property
    def was_killed(self) -> bool:
        """Whether the shim itself was ended by a signal."""
        return self._returncode < 0

    @property
    def exit_code(self) -> int:
        """The exit code, 128+n for signal n."""
        return 128 - self._returncode if self.was_killed else self._returncode

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the pipes to the sinks."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        for fd, sink in self._sinks.items():
            pipe = cast("asyncio.ReadTransport", self._transport.get_pipe_transport(fd))
            pipe.set_protocol(_OutputPipe(sink, pipe.get_protocol()))
            sink.attach(pipe)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what asyncio had read before the sinks had the pipes.

        It reads a pipe as soon as that is open, and holds the data until `connection_made` has run:
        with a busy loop and a short program, all of it. It comes before what is read later.
        """
        self._sinks[fd].feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Pass the end of a pipe on."""
        self._sinks[fd].end()

    def process_exited(self) -> None:
        """Begin the end: read the rest of the output for a while."""
        transport = self._connected()
        self._returncode = transport.get_returncode() or 0
        self._deadline = asyncio.get_running_loop().call_later(DRAIN_SECONDS, transport.close)
        for sink in self._sinks.values():
            sink.release()
        if self._stdin is not None:
            self._stdin.abort()
        self.exited.set()
        self._on_exit()

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish: the process has exited and its pipes are closed."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._connected().close()
        self.closed.set()

    def close(self) -> None:
        """Stop reading a process that has exited; `closed` follows at once."""
        self._connected().close()

    def _connected(self) -> asyncio.SubprocessTransport:
        if self._transport is None:
            raise ProcessError("the process has not been started")
        return self._transport


FORCE_SECONDS = 3.0  # after a kill the shim has this long to end its family by itself


class RunningProcess:
    """A program under its reaper shim; its whole family ends with it."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        on_exit: OnExit,
        *,
        stdout: Sink,
        stderr: Sink,
        stdin: StdinPipe | None = None,
    ) -> None:
        self.name = name
        self.identity: ProcessIdentity | None = None  # of the shim; known once it was started
        self.wire = ProcessWire(stdout, stderr, stdin, self._ended)
        self._clock = clock
        self._on_exit = on_exit
        self._force_timer: asyncio.TimerHandle | None = None
        self.is_own = False  # a helper of PRSM itself, no program of an agent

    @property
    def pid(self) -> int:
        """The process id of the shim."""
        return self.wire.pid

    @property
    def has_exited(self) -> bool:
        """Whether the program has ended."""
        return self.wire.exited.is_set()

    async def exits_within(self, seconds: float) -> bool:
        """Wait for the end for at most `seconds`; return whether it came."""
        return await first_of(self._clock, seconds, self.wire.exited.wait)

    async def wait(self) -> int:
        """Return the exit code, 128+n for signal n, once the output has been read or given up."""
        await self.wire.closed.wait()
        return self.wire.exit_code

    async def stop(self, grace: float = 5.0) -> int:
        """Send TERM, after `grace` seconds (at most 30) KILL; return the exit code."""
        self._signal(SIGTERM)
        try:
            if not await self.exits_within(grace):
                self.kill()
            return await self.wait()
        except asyncio.CancelledError:
            self.kill()
            raise

    def kill(self) -> None:
        """End the process and its family at once (the way to stop for a resume)."""
        self._signal(SIGUSR1)
        self._signal(SIGCONT)  # a stopped shim would not hear the other
        if self._force_timer is None and not self.has_exited:
            loop = asyncio.get_running_loop()
            self._force_timer = loop.call_later(FORCE_SECONDS, kill_family, self.pid)

    def _signal(self, signum: int) -> None:
        # Not the transport's send_signal: it polls, which can take the exit code from the watcher.
        if not self.has_exited:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def tell_end(self) -> None:
        """Report the end of the whole family to whoever asked."""

    def _ended(self) -> None:
        if self._force_timer is not None:
            self._force_timer.cancel()
        self._on_exit(self)


class ChildProcess(RunningProcess):
    """A process to talk with, line by line; implements `interfaces.provider.Process`."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        on_exit: OnExit,
        on_end: Callable[[ChildProcess], None] | None = None,
    ) -> None:
        self.stdin = StdinPipe(name, self._end_input)
        self.told = ""  # how it came to its end, by who knows that; the last line of stderr
        self._on_end = on_end
        self._stdout = LineBuffer(name)
        self._stderr = ByteTail()
        super().__init__(
            name, clock, on_exit, stdout=self._stdout, stderr=self._stderr, stdin=self.stdin
        )

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of stderr, decoded with replacement, and how it came to its end."""
        text = self._stderr.text
        return f"{text.rstrip()}\n{self.told}\n".lstrip() if self.told else text

    def tell_end(self) -> None:
        """Report the end of the whole family to whoever asked."""
        if self._on_end is not None:
            self._on_end(self)

    async def write(self, data: bytes) -> None:
        """Write to stdin; raise ProcessError if the process has closed it."""
        await self.stdin.write(data)

    def close_stdin(self) -> None:
        """Close stdin once everything was read; safe to call twice."""
        self.stdin.close()

    def _end_input(self) -> None:
        if self.identity is not None:  # it was started
            self._signal(SIGUSR2)  # the shim has kept it open, too

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield stdout lines to one reader, 16 MiB each at most, else raise LineTooLongError."""
        while (line := await self._stdout.next()) is not None:
            yield line

    async def stop(self, grace: float = 5.0) -> int:
        """Close stdin, send TERM, after `grace` seconds (at most 30) KILL; return the exit code."""
        self.close_stdin()
        return await super().stop(grace)


class CapturedProcess(RunningProcess):
    """A process without input that keeps the first `limit` bytes of each output, or the last."""

    def __init__(
        self, name: str, clock: Clock, on_exit: OnExit, limit: int, *, keep_end: bool = False
    ) -> None:
        keeper = ByteTail if keep_end else ByteHead
        self._stdout = keeper(limit)
        self._stderr = keeper(limit)
        super().__init__(name, clock, on_exit, stdout=self._stdout, stderr=self._stderr)

    @property
    def stdout(self) -> str:
        """The kept part of stdout, decoded with replacement."""
        return self._stdout.text

    @property
    def stderr(self) -> str:
        """The kept part of stderr, decoded with replacement."""
        return self._stderr.text

    @property
    def truncated(self) -> bool:
        """Whether there was more output than was kept."""
        return self._stdout.truncated or self._stderr.truncated
