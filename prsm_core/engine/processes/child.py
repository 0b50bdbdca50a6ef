"""A running child process: its input and output, waiting for its end, and bringing it about."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from signal import SIGCONT, SIGTERM, SIGUSR1, SIGUSR2
from typing import TYPE_CHECKING

from prsm_core.engine.processes.io import ByteHead, ByteTail, LineBuffer, ProcessWire, StdinPipe
from prsm_core.engine.processes.table import kill_family
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prsm_core.engine.processes.io import Sink
    from prsm_core.engine.processes.table import ProcessIdentity
    from prsm_core.interfaces.clock import Clock

    OnExit = Callable[["RunningProcess"], None]

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
        """Return the exit code, 128+n for signal n, once the output has been read.

        A pipe that somebody still holds delays this by two seconds at most.
        """
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
        """Tell that the whole family has ended to whoever asked to be told."""
        return

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
        """Tell that the whole family has ended to whoever asked to be told."""
        if self._on_end is not None:
            self._on_end(self)

    async def write(self, data: bytes) -> None:
        """Write to stdin; raise ProcessError when the process has closed it."""
        await self.stdin.write(data)

    def close_stdin(self) -> None:
        """Close stdin once it has read what was written; closing it twice is fine."""
        self.stdin.close()

    def _end_input(self) -> None:
        if self.identity is not None:  # it was started
            self._signal(SIGUSR2)  # the shim has kept it open, too

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield stdout lines without their end, 16 MiB at most, else LineTooLongError.

        They end with stdout, which a process may close long before it ends. One reader only.
        """
        while (line := await self._stdout.next()) is not None:
            yield line

    async def stop(self, grace: float = 5.0) -> int:
        """Close stdin, send TERM, after `grace` seconds (at most 30) KILL; return the exit code."""
        self.close_stdin()
        return await super().stop(grace)


class CapturedProcess(RunningProcess):
    """A process without input of which the first `limit` bytes of each output are kept.

    With `keep_end` it is the last ones.
    """

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
