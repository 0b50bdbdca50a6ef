"""Runs one program as the head of a family of processes, none of which outlives this one.

    python -I -S reaper_shim.py ENGINE GRACE STATUS_FD PROGRAM [ARGUMENT ...]

A script of the standard library only, started by path in a session of its own. It is a subreaper,
so whatever the program leaves behind, daemons included, comes to it and is killed. TERM and INT go
to the program's process group; TERM is followed by KILL after GRACE seconds. USR1 kills at once;
the kernel sends it when the engine dies. USR2 says that the engine has closed the program's input:
until then the input stays open, also when the engine dies. A program that learned of that before it
is killed would act on it, as a vendor's does that refuses the call it waits for, writes that down,
and asks its model what to do. The exit code is the program's, 128+n for signal n, 127
or 126 with the reason on stderr for a program that cannot be started. STATUS_FD (or -) is closed
once the program runs; before that the error number of a failed start is written to it.

A program may kill this process. So that the engine, to which the orphans then come, knows them from
what others started, the program and all that descends from it carry a brand: a hard limit that the
kernel hands on and nobody but root can raise again. It limits nothing: no kernel since 2.4.25 looks
at it.

ENGINE begins with the engine's pid. The program's environment has it whole, so that what the
program asks others to start can be told from a person's.
"""

from __future__ import annotations

import errno
import posix
import resource
import sys
import time
from _ctypes import FUNCFLAG_CDECL, CFuncPtr, dlopen, dlsym

# Every process waits for what is imported here. So it is what `os`, `signal` and `ctypes` are made
# of, and not these themselves: they took half of the time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
ENDED_BY_TERM = 128 + signal.SIGTERM
MARK = "PRSM_ENGINE"  # variable that says below which engine a process is; see processes/table.py
DEFAULT_PATH = b"/bin:/usr/bin"
MISSING = (errno.ENOENT, errno.ENOTDIR)
SWEEP_SECONDS = 3.0
ASK_SECONDS = 1.0  # of the sweep: how long what is left may take to end by itself
SWEEP_PAUSE = 0.005
READ_SIZE = 2**16  # bytes of pids for one round of the sweep
RLIMIT_LOCKS = 10
NO_BRAND = 2**62  # a later brand is a lower one, or no program could be started below another
PID_BITS = 22  # the kernel gives no higher pids

_INHERITED = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
)


class _Prctl(CFuncPtr):
    """A function of the C library that takes integers and addresses."""

    _flags_ = FUNCFLAG_CDECL


def prctl(option: int, value: object) -> None:
    """Call the kernel's prctl with a number, or with what `byref` makes of a place for one."""
    own = dlopen(None, posix.RTLD_NOW)  # type: ignore[arg-type]  # None: this program
    _Prctl(dlsym(own, "prctl"))(option, value)


class Family:
    """The program and every process that descends from it.

    Signals are taken one by one, where this process waits for them. One that interrupted it, by a
    handler, would be lost for as long as the program lives if it came just before the wait.
    """

    def __init__(self, head: int, grace: float, kept_input: int | None) -> None:
        self._head = head
        self._grace = grace
        self._kept_input = kept_input
        self._head_lives = True
        self._is_killed = False
        self._is_asked = False  # by TERM, and its group with it

    def wait(self) -> int:
        """Do as told until the program itself ends; return its exit code."""
        while True:
            signum = signal.sigwait((signal.SIGCHLD, *HEARD))
            if signum != signal.SIGCHLD:
                self._heed(signum)
            elif (code := self._reap()) is not None:
                return code

    def _heed(self, signum: int) -> None:
        if signum in (signal.SIGTERM, signal.SIGINT):
            self._forward(signum)
        elif signum == signal.SIGUSR2:
            self._end_input()
        else:
            self._kill()

    def _forward(self, signum: int) -> None:
        """Pass a signal on to the program's group; after TERM the grace begins."""
        if not self._head_lives:
            return
        try:
            posix.killpg(self._head, signum)
        except ProcessLookupError:  # the program has moved to another group
            _send(self._head, signum)
        if signum == signal.SIGTERM:
            self._is_asked = True
            signal.setitimer(signal.ITIMER_REAL, self._grace)

    def _kill(self) -> None:
        self._is_killed = True
        if self._head_lives:
            _send(self._head, signal.SIGKILL)
            _send(-self._head, signal.SIGKILL)

    def _end_input(self) -> None:
        kept, self._kept_input = self._kept_input, None
        if kept is not None:
            posix.close(kept)

    def _reap(self) -> int | None:
        while True:
            pid, status = posix.waitpid(-1, posix.WNOHANG)
            if pid == 0:
                return None
            if pid == self._head:
                self._head_lives = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                code = posix.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code

    def sweep(self) -> None:
        """End what is left; orphans of the ended come to this process and are next.

        Each is asked by TERM before it is killed, unless the program itself was killed: what an
        agent left behind may hold a lock of the person, as a shell does that is still reading
        their start-up files, and a lock that nobody gives back stops every shell after it. What
        was asked with its group is not asked again: that would end it while it gives it back.
        """
        begin = time.monotonic()
        asked: set[int] = set()
        while (passed := time.monotonic() - begin) < SWEEP_SECONDS:
            is_asking = passed < ASK_SECONDS and not self._is_killed
            for pid in _children():
                if not is_asking:
                    _send(pid, signal.SIGKILL)
                elif pid not in asked:
                    asked.add(pid)
                    if not (self._is_asked and _group_of(pid) == self._head):
                        _send(pid, signal.SIGTERM)
            if not _reap_ended():
                return
            heard = signal.sigtimedwait(HEARD, SWEEP_PAUSE)
            if heard is not None:
                self._heed(heard.si_signo)


def _send(pid: int, signum: int) -> None:
    try:
        posix.kill(pid, signum)
    except ProcessLookupError:  # it has ended
        return


def _group_of(pid: int) -> int | None:
    try:
        return posix.getpgid(pid)
    except ProcessLookupError:  # it has ended
        return None


def _children() -> list[int]:
    # Not pathlib: importing it would cost every start 10 ms.
    fd = posix.open(f"/proc/self/task/{posix.getpid()}/children", posix.O_RDONLY)
    try:
        # A space follows every pid: what comes after the last one may be half a pid.
        return [int(pid) for pid in posix.read(fd, READ_SIZE).rpartition(b" ")[0].split()]
    finally:
        posix.close(fd)


def _reap_ended() -> bool:
    try:
        while posix.waitpid(-1, posix.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _die_with_parent(parent: int, signum: int) -> None:
    """Ask the kernel for `signum` at the parent's death; exit if it has died already."""
    prctl(PR_SET_PDEATHSIG, signum)
    if posix.getppid() != parent:
        posix._exit(ENDED_BY_TERM)


def brand_of(pid: int, start_time: int) -> int:
    """Return the brand of the family of a shim; `start_time` is in clock ticks since boot."""
    return NO_BRAND - (start_time << PID_BITS | pid)


def _own_brand() -> int:
    fd = posix.open("/proc/self/stat", posix.O_RDONLY)
    try:
        fields = posix.read(fd, 4096).rpartition(b")")[2].split()
    finally:
        posix.close(fd)
    return brand_of(posix.getpid(), int(fields[19]))


def _carry(brand: int) -> None:
    # A user whose limit is low already carries none: sessions then tell the family.
    try:
        resource.setrlimit(RLIMIT_LOCKS, (brand, brand))
    except (ValueError, OSError):
        return


def _execute(argv: list[str]) -> NoReturn:
    """Become a program found on PATH; raise OSError, preferring "not executable" to "missing"."""
    path = posix.environ.get(b"PATH", DEFAULT_PATH).decode(errors="surrogateescape")
    places = [argv[0]] if "/" in argv[0] else [f"{folder}/{argv[0]}" for folder in path.split(":")]
    told: OSError | None = None
    for place in places:
        try:
            posix.execve(place, argv, posix.environ)
        except OSError as error:
            if told is None or told.errno in MISSING:
                told = error
    raise told or FileNotFoundError(errno.ENOENT, "no such program")


def _run_program(argv: list[str], status_fd: int | None) -> NoReturn:
    """Become the program, in the forked child."""
    # Exec would hand on what is ignored: by Python itself, by nohup, by a shell's background.
    for signum in _INHERITED:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        _execute(argv)
    except OSError as error:
        if status_fd is not None:
            posix.write(status_fd, str(error.errno).encode())
        sys.stderr.write(f"prsm: {argv[0]}: {error.strerror}\n")
        sys.stderr.flush()
        posix._exit(127 if error.errno == errno.ENOENT else 126)


def _release_pipes(status_fd: int | None) -> None:
    if status_fd is not None:
        posix.close(status_fd)
    null = posix.open("/dev/null", posix.O_RDWR)
    for fd in (0, 1):
        posix.dup2(null, fd)
    posix.close(null)


def _keep_input() -> int:
    """Open the other end of the program's input, which the program itself does not get."""
    return posix.open("/proc/self/fd/0", posix.O_WRONLY | posix.O_NONBLOCK)


def main(argv: list[str]) -> NoReturn:
    """Run the program named on the command line and exit as it does, its family gone."""
    engine, grace = int(argv[1].partition("-")[0]), float(argv[2])
    status_fd = None if argv[3] == "-" else int(argv[3])
    if status_fd is not None:
        posix.set_inheritable(status_fd, False)  # exec closes it: the sign that the program runs
    # Held back until they are waited for; ignored, no child's end would be told.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, *HEARD))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    _die_with_parent(engine, signal.SIGUSR1)
    kept_input = None if status_fd is None else _keep_input()  # a vendor's SDK says no USR2
    shim, brand = posix.getpid(), _own_brand()
    posix.environ[MARK.encode()] = argv[1].encode()
    head = posix.fork()
    if head == 0:
        posix.setpgid(0, 0)  # a program that kills its own group must not hit the shim
        _die_with_parent(shim, signal.SIGKILL)
        _carry(brand)
        _run_program(argv[4:], status_fd)
    family = Family(head, grace, kept_input)
    _release_pipes(status_fd)
    code = family.wait()
    family.sweep()
    posix._exit(code)


if __name__ == "__main__":
    main(sys.argv)
