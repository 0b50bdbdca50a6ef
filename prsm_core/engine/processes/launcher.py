"""Start processes, each under the reaper shim that ends its whole family."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
import subprocess
import sys
from contextlib import asynccontextmanager
from errno import ENOENT
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from prsm_core.engine.processes.child import CapturedProcess, ChildProcess
from prsm_core.engine.processes.table import (
    OrphanReaper,
    format_mark,
    kill_remains,
    process_identity,
)
from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.kit.clocks import Parting
from prsm_core.kit.environment import child_environment, with_loopback
from prsm_core.kit.programs import require_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from prsm_core.engine.processes.child import RunningProcess, StdinPipe
    from prsm_core.interfaces.clock import Clock

    OnStart = Callable[[int, int], None]


SHIM = Path(__file__).with_name("reaper_shim.py")
START_SECONDS = 30.0  # for a program to be executed, on the busiest machine
STOP_GRACE_LIMIT = 30.0  # seconds; the shim itself kills this long after a TERM
SDK_GRACE = 2.0  # the same where a vendor's SDK starts and ends the process
CLOSE_GRACE = 2.0
CLOSE_SECONDS = 10.0  # the grace, the shim's own time after a kill, and the drain of pipes
UMASK = 0o022  # the engine's is private, but files in the workspace are the user's


def install_child_watcher() -> None:
    """Watch children by pidfd, as Python 3.12 does by itself; call it before `asyncio.run`."""
    if sys.version_info < (3, 12):
        asyncio.get_event_loop_policy().set_child_watcher(asyncio.PidfdChildWatcher())


class ProcessLauncher:
    """Starts processes and owns them until they end; open it with `async with`.

    Start it on the main thread's loop: the kernel reports an engine's death to a shim when the
    thread that started it ends. `environ`, by default this process's own, `pass_env` and
    `workspace` are those of `child_environment`. `on_start(pid, start_time)` is told of every shim,
    to find its orphans after a crash. Programs' marks name the `places`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        environ: Mapping[str, str] | None = None,
        pass_env: Sequence[str] = (),
        workspace: Path | None = None,
        on_start: OnStart | None = None,
        parting: Parting | None = None,
        places: Iterable[Path] = (),
    ) -> None:
        self._clock = clock
        self._parting = parting or Parting(clock)
        source = os.environ if environ is None else environ
        self._environ = child_environment(source, pass_env, workspace)
        self._on_start = on_start
        own = process_identity(os.getpid())
        # Without /proc nobody could tell whose mark it is.
        self.mark = str(os.getpid()) if own is None else format_mark(own, places)
        self._live: dict[int, RunningProcess] = {}
        self._with_pipes: list[RunningProcess] = []  # also ended ones that are still read
        self._reaper = OrphanReaper(self._live.__contains__)
        self._open = False

    async def __aenter__(self) -> Self:
        self._reaper.open()
        self._open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def live(self) -> tuple[RunningProcess, ...]:
        """The processes that have not ended, in order of their start."""
        return tuple(self._live.values())

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a program: the allow-list plus `env`."""
        return with_loopback({**self._environ, **(env or {})})

    @property
    def of_agents(self) -> int:
        """How many processes have not ended, without PRSM's own helpers."""
        return sum(not process.is_own for process in self._live.values())

    async def start(
        self,
        argv: Sequence[str],
        *,
        name: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        is_own: bool = False,
        inherit: Sequence[int] = (),
        on_end: Callable[[ChildProcess], None] | None = None,
    ) -> ChildProcess:
        """Start argv with the allow-listed environment plus `env`; return once it runs.

        One that `is_own` is a helper of PRSM, counted for no agent. The program gets the open files
        of `inherit` under their numbers. `on_end` is called once its family has ended, before
        anybody who waits for that continues. Raises ProviderNotAvailableError if the program is
        missing or cannot be executed, ProcessError if the folder is missing or the launcher closed.
        """
        process = ChildProcess(name, self._clock, self._ended, on_end)
        process.is_own = is_own
        async with _read_end(process.stdin) as stdin:
            await self._run(process, argv, stdin, cwd, env or {}, inherit)
        return process

    async def capture(
        self,
        argv: Sequence[str],
        *,
        name: str,
        limit: int,
        keep_end: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        inherit: Sequence[int] = (),
    ) -> CapturedProcess:
        """Start argv without input, as `start` does; keep the first or last bytes of its output."""
        process = CapturedProcess(name, self._clock, self._ended, limit, keep_end=keep_end)
        await self._run(process, argv, subprocess.DEVNULL, cwd, env or {}, inherit)
        return process

    def shielded(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return argv under the shim, for SDKs that start processes themselves."""
        return _shim_argv(self.mark, argv, SDK_GRACE, "-")

    def kill_programs(self) -> None:
        """Kill agents' programs, not PRSM's helpers; a vendor's SDK ends its own."""
        for process in self.live:
            if not process.is_own:
                process.kill()

    async def aclose(self) -> None:
        """End every process: TERM, a grace, then KILL; ProcessError if one withstands that."""
        if not self._open:
            return
        self._open = False
        try:
            seconds = self._parting.most_for_programs(CLOSE_SECONDS)
            grace = min(CLOSE_GRACE, seconds / 4)
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for process in self.live:
                    _ = group.create_task(process.stop(grace))
        except TimeoutError as error:
            names = ", ".join(f"{process.name} (pid {process.pid})" for process in self.live)
            raise ProcessError(
                f"could not be ended: {names}",
                hint="the kernel does not let go of them; look for a hung disk or network mount",
            ) from error
        finally:
            for process in self.live:
                process.kill()
            self._reaper.close()
            await self._close_pipes()

    async def _close_pipes(self) -> None:
        """Stop reading ended processes: pipes left open complain once the loop is closed."""
        for process in self._with_pipes:
            if process.has_exited:
                process.wire.close()
                await process.wire.closed.wait()
        self._with_pipes.clear()

    async def _run(
        self,
        process: RunningProcess,
        argv: Sequence[str],
        stdin: int,
        cwd: str | None,
        env: Mapping[str, str],
        inherit: Sequence[int] = (),
    ) -> None:
        self._require_open(process.name)
        require_folder(process.name, cwd)
        environ = self.environment(env)
        report, status = socket.socketpair()
        with report:
            with status:
                files = (status.fileno(), *inherit)
                command = _shim_argv(self.mark, argv, STOP_GRACE_LIMIT, str(files[0]))
                await _execute(process, command, stdin, files, cwd, environ)
            self._with_pipes = [p for p in self._with_pipes if not p.wire.closed.is_set()]
            self._with_pipes.append(process)
            try:
                self._register(process)
                error_number = await _failed_start(report, process.name)
                self._require_open(process.name)
            except BaseException:
                process.kill()
                await process.wait()
                raise
        if error_number:
            await process.wait()
            raise _not_available(process.name, argv[0], error_number, cwd, environ)

    def _register(self, process: RunningProcess) -> None:
        if process.has_exited:
            return
        self._live[process.pid] = process
        process.identity = process_identity(process.pid)
        if self._on_start is not None and process.identity is not None:
            self._on_start(process.pid, process.identity.start_time)

    def _ended(self, process: RunningProcess) -> None:
        self._live.pop(process.pid, None)
        if process.wire.was_killed and process.identity is not None:
            kill_remains(process.identity)
        self._reaper.schedule()
        process.tell_end()

    def _require_open(self, name: str) -> None:
        if not self._open:
            raise ProcessError(
                f"{name} was not started: the launcher is closed",
                hint="the engine is shutting down, or has not been started",
            )


@asynccontextmanager
async def _read_end(stdin: StdinPipe) -> AsyncIterator[int]:
    """Connect `stdin` to a new pipe and lend the end that the child reads."""
    read_fd, write_fd = os.pipe()
    try:
        writer = os.fdopen(write_fd, "wb", buffering=0)
        await asyncio.get_running_loop().connect_write_pipe(lambda: stdin, writer)
        yield read_fd
    except BaseException:
        stdin.abort()
        raise
    finally:
        os.close(read_fd)


async def _execute(
    process: RunningProcess,
    command: Sequence[str],
    stdin: int,
    files: Sequence[int],
    cwd: str | None,
    environ: Mapping[str, str],
) -> None:
    try:
        _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: process.wire,
            *command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environ,
            start_new_session=True,
            pass_fds=tuple(files),
            umask=UMASK,
        )
    except (OSError, ValueError) as error:
        raise ProcessError(
            f"{process.name} could not be started: {error}",
            hint="an argument or variable is longer than the system allows or holds a zero byte",
        ) from error


async def _failed_start(report: socket.socket, name: str) -> int:
    report.setblocking(False)
    try:
        async with asyncio.timeout(START_SECONDS):
            return int(await asyncio.get_running_loop().sock_recv(report, 16) or b"0")
    except TimeoutError as error:
        raise ProviderNotAvailableError(
            f"{name} did not start within {START_SECONDS:.0f} seconds",
            hint="the machine is overloaded, or the program lies on a disk that does not answer",
        ) from error


def _shim_argv(mark: str, argv: Sequence[str], grace: float, status: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", _shim_file(), mark, str(grace), status, *argv)


@cache
def _shim_file() -> str:
    """Return the compiled shim if current, else its source, which Python compiles at each start."""
    compiled = Path(cache_from_source(SHIM))
    source = SHIM.stat()
    stamp = struct.pack("<III", 0, int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    try:
        with compiled.open("rb") as file:
            is_fresh = file.read(16) == MAGIC_NUMBER + stamp
    except OSError:
        is_fresh = False  # its folder cannot be written, say
    return str(compiled if is_fresh else SHIM)


def _not_available(
    name: str, program: str, number: int, cwd: str | None, environ: Mapping[str, str]
) -> ProviderNotAvailableError:
    reason = os.strerror(number)
    if number != ENOENT:
        hint = "Check that the file is a program for this machine and may be executed."
    elif (found := _find(program, cwd, environ)) is not None:
        reason = f"{reason}: the interpreter that {found} names in its first line"
        hint = "Install the interpreter, or install the program again."
    else:
        hint = f"Install {program}, or put the folder it is in on PATH."
    return ProviderNotAvailableError(f"{name}: cannot start {program}: {reason}", hint=hint)


def _find(program: str, cwd: str | None, environ: Mapping[str, str]) -> str | None:
    if os.sep in program:
        path = Path(cwd or ".") / program
        return str(path) if path.exists() else None
    return shutil.which(program, path=environ.get("PATH", os.defpath))


class DetachedProcess(subprocess.Popen[bytes]):
    """A program that outlives its starter."""

    def __del__(self) -> None:
        """Suppress the warning about a running child."""


def start_detached(
    argv: Sequence[str], *, keep: int, stderr: IO[bytes] | None = None
) -> DetachedProcess:
    """Start a program in a session of its own, in this folder, with this environment.

    No signal of this terminal reaches it. It reads nothing and its stdout is dropped. `stderr` is
    by default this program's. It has the descriptor `keep` under the same number.
    """
    return DetachedProcess(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr if stderr is None else stderr,
        start_new_session=True,
        pass_fds=(keep,),
    )
