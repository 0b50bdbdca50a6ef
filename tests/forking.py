"""Commands of `prsm` that fork from an interpreter which has loaded it: in milliseconds.

A test whose point is what a command does, and not how its process starts, pays for no start. The
process is one of its own all the same: it has a pid, streams, an environment, a folder, signals and
an end. What an interpreter reads as it starts must be what the one that is forked has read.

`python -m tests.forking FD` is that interpreter. It has one thread, and does nothing but fork.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import socket
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Order = Mapping[str, Any]

ROOT = Path(__file__).resolve().parents[1]
_OFTEN = ("prsm_mcp", "prsm_tui")  # packages whose commands take long to load
_NUMBER = 4  # bytes of a number: how long an order is, a pid, a status
_READ_AT_START = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_")  # how their names begin
_OF_NO_COMMAND = ("prsm_testing", "prsm_core.__main__")
_RIGHTS = ("Umask", "Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp")  # … of the lines
_LIMITS = 16  # of Linux
_STREAMS = 3


class Forked:
    """A command that was forked: what the tests use of a subprocess.Popen with pipes."""

    def __init__(
        self,
        args: Sequence[str],
        wire: socket.socket,
        stdin: IO[bytes] | None,
        stdout: IO[bytes] | None,
        stderr: IO[bytes] | None,
    ) -> None:
        self.args = args
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._wire = wire
        self.pid = self._told(None)

    def wait(self, timeout: float | None = None) -> int:
        """Return the code of its end, as subprocess tells it."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(self._told(timeout))
        return self.returncode

    def _told(self, timeout: float | None) -> int:
        if not select.select([self._wire], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        if not (said := self._wire.recv(_NUMBER)):
            raise ChildProcessError(f"what waits for {self.args} has died before it")
        return int.from_bytes(said, "big")

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Give it its input, and return all that it writes until it has ended."""
        with ThreadPoolExecutor(_STREAMS) as pool:
            pool.submit(self._give, given)
            out, err = pool.submit(_rest, self.stdout), pool.submit(_rest, self.stderr)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            finally:
                told = out.result(), err.result()
        return told

    def _give(self, given: bytes) -> None:
        if self.stdin is not None and not self.stdin.closed:
            with suppress(BrokenPipeError), self.stdin as stream:  # it may read none of it
                stream.write(given)

    def poll(self) -> int | None:
        """Return the code of its end; None where it runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ends just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(15)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(9)

    def fileno(self) -> int:
        """Return the descriptor that can be read once it has ended."""
        return self._wire.fileno()

    def close(self) -> None:
        """Let go of its streams."""
        for one in (self.stdin, self.stdout, self.stderr, self._wire):
            if one is not None:
                one.close()


def _rest(stream: IO[bytes] | None) -> bytes:
    return b"" if stream is None or stream.closed else stream.read()


class ForkServer:
    """The interpreter that commands are forked from."""

    def __init__(self) -> None:
        self._began_with = _at_start(os.environ)
        self._wire, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": ""},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def fits(self, env: Mapping[str, str] | None = None) -> bool:
        """Return whether an interpreter that starts now would begin as this one did.

        One that starts where no folder is any more does not.
        """
        try:
            Path.cwd()
        except FileNotFoundError:
            return False
        return _at_start(os.environ if env is None else env) == self._began_with

    def start(
        self,
        args: Sequence[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        session: str = "",
    ) -> Forked:
        """Start a command, here and now unless told otherwise; its output goes into pipes.

        What is not a pipe is where all of its output goes. A `session` of its own is `plain`, or
        has the terminal that is its stdin for its own: `terminal`.
        """
        order = {
            "args": list(args),
            "environ": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
            "session": session,
        }
        data = json.dumps(order).encode()
        ours, control = socket.socketpair(type=socket.SOCK_SEQPACKET)  # a message a number
        if stdout == subprocess.PIPE:
            (out, their_out), (err, their_err) = os.pipe(), os.pipe()
        else:
            out, their_out, err, their_err = -1, os.dup(stdout), -1, os.dup(stdout)
        given = -1
        if stdin == subprocess.PIPE:
            their_in, given = os.pipe()
        elif stdin == subprocess.DEVNULL:
            their_in = os.open(os.devnull, os.O_RDONLY)
        else:
            their_in = os.dup(stdin)
        theirs = [their_in, their_out, their_err, control.fileno()]
        socket.send_fds(self._wire, [len(data).to_bytes(_NUMBER, "big")], theirs)
        self._wire.sendall(data)
        for fd in theirs[:_STREAMS]:
            os.close(fd)
        control.close()
        stream = None if given < 0 else os.fdopen(given, "wb")
        told = [None if fd < 0 else os.fdopen(fd, "rb") for fd in (out, err)]
        return Forked(args, ours, stream, *told)

    def close(self) -> None:
        """End the interpreter; what was forked goes on."""
        self._wire.close()
        self._process.wait(60)


@cache
def fork_server() -> ForkServer:
    """Return the one of this process; it ends with it."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def _at_start(environ: Mapping[str, str]) -> tuple[object, ...]:
    """Return what a process is given by who starts it, and what an interpreter reads then.

    But for what the order tells: where it is, the environment, and where it finds modules.
    """
    read = {k: v for k, v in environ.items() if k.startswith(_READ_AT_START) and k != "PYTHONPATH"}
    status = Path("/proc/thread-self/status").read_text(encoding="utf-8").splitlines()
    rights = [line for line in status if line.startswith(_RIGHTS)]
    limits = [resource.getrlimit(number) for number in range(_LIMITS)]
    return read, rights, limits


def _load() -> None:
    """Load what commands need: no module of ours does anything as it is loaded."""
    from prsm_core.distributions import DEFAULT_PACKAGES

    ours = ["prsm_core", *(name.replace("-", "_") for name in sorted(DEFAULT_PACKAGES))]
    if find_spec("prsm_mcp") is not None:
        importlib.import_module("mcp")
    ours += [name for name in _OFTEN if find_spec(name) is not None]
    for package in map(importlib.import_module, ours):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_OF_NO_COMMAND):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _serve(wire: socket.socket) -> Order | None:
    """Fork for each order; return the order in what was forked, and None at the end."""
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        head, fds, _, _ = socket.recv_fds(wire, _NUMBER, _STREAMS + 1)
        if not head:
            return None
        order = json.loads(_read(wire, int.from_bytes(head, "big")))
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            wire.close()
            return _fork(order, fds)
        for fd in fds:
            os.close(fd)


def _fork(order: Order, fds: Sequence[int]) -> Order:
    """Return the order in a process that has the streams; the one that waits tells its end."""
    *streams, control = fds
    if (pid := os.fork()) == 0:
        os.close(control)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
            os.close(fd)
        return order
    for fd in (*streams, *range(_STREAMS)):
        os.close(fd)
    os.write(control, pid.to_bytes(_NUMBER, "big"))
    with suppress(BrokenPipeError):  # a test that has ended asks no more
        os.write(control, os.waitpid(pid, 0)[1].to_bytes(_NUMBER, "big"))
    os._exit(0)


def _read(wire: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += wire.recv(size - len(data))
    return data


def _become(order: Order) -> None:
    """Have the arguments, the environment and the folder; find modules as the interpreter would."""
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["folder"])
    if order["session"]:
        os.setsid()
    if order["session"] == "terminal":
        fcntl.ioctl(0, termios.TIOCSCTTY)
    sys.argv = ["-c", *order["args"]]
    given = order["environ"].get("PYTHONPATH", "")
    sys.path[:1] = ["", *(given.split(os.pathsep) if given else ())]
    importlib.invalidate_caches()


def _run() -> int:
    wire = socket.socket(fileno=int(sys.argv[1]))
    _load()
    order = _serve(wire)
    if order is None:
        return 0
    _become(order)
    from prsm_core.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(_run())
