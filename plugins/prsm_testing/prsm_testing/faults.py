"""What any fake program can do wrong, whatever it speaks; runs inside of the fake.

A fault is a function by name and by the point at which it strikes::

    FAULTS = shared_faults(adapt, subprocess.Popen)     # {"silence": {"turn": …}, …}

`turn` plays a whole turn, `start` comes before the program reads anything, `version` answers
`--version`, and `end` comes after its client has gone. `adapt` makes a FakeTurn of what the fake
calls a turn; a program of one turn is one itself. Faults that need the fake's own language (doubled
events, mad counts …) are its own: `prsm_testing.misbehaviour_contract` names all.

The program is told by two arguments: `--fault=NAME`, and `--marks=FOLDER` where it writes `begun`
when the fault begins, and into `family` the pids of processes it leaves about.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

KEY = "sk-live-0123456789abcdef0123"  # a secret: it may be seen nowhere
NOISE = "a warning about nothing\n"
FLOOD = 100 * 2**20  # bytes of stderr
LONG_LINE = 20 * 2**20
MANY_EVENTS = 10_000
HOG = 512 * 2**20
TRICKS = "\x1b]52;c;cm0=\x07\x1b]0;title\x07\x1b[2J[bold]lost\u202e \x1b[31mcause\n"
_LATE_SECONDS = 0.3
_DRIP_SECONDS = 0.02
_NAP = ["sh", "-c", "trap '' TERM; exec sleep infinity"]
_DAEMON = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, str(os.getpid()).encode())
        os.close(1)
        signal.pause()
"""

Fault = Mapping[str, Callable[..., Any]]  # by point
Start = Callable[..., Any]  # subprocess.Popen: PRSM's own packages start no process


class FakeTurn(Protocol):
    """A turn of the fake, as far as the shared faults have to do with it.

    What `finish` and `abort` return is the fault's own result.
    """

    interrupted: threading.Event

    def raw(self, data: bytes) -> object:
        """Write bytes to stdout."""

    def delta(self, text: str) -> object:
        """Say a piece of a message."""

    def say(self, text: str) -> object:
        """Say a whole message."""

    def finish(self) -> Any:
        """End the turn well; what it used is 100 and 10 tokens."""

    def abort(self) -> Any:
        """End the turn after an interrupt."""


class Marks:
    """What a fake has written down for the test, and for itself when it is started again."""

    folder = Path()

    @classmethod
    def take(cls, arguments: list[str]) -> str | None:
        """Take the orders out of the arguments; return the fault's name, if there is one."""
        orders = {}
        while arguments and arguments[0].startswith(("--fault=", "--marks=")):
            name, _, value = arguments.pop(0).partition("=")
            orders[name] = value
        cls.folder = Path(orders.get("--marks", ""))
        return orders.get("--fault")


def begun() -> None:
    """Tell the test that the fault begins."""
    (Marks.folder / "begun").touch()


def times(name: str) -> int:
    """Return how often any process of the test has come here, this time included."""
    with (Marks.folder / name).open("a+") as mark:
        mark.write("x")
        return mark.tell()


def shared_faults(
    adapt: Callable[[Any], FakeTurn], start: Start, noise: str = ""
) -> dict[str, Fault]:
    """Return the faults that need no language of their own, by name.

    Args:
        adapt: Makes a FakeTurn of what the fake calls a turn.
        start: subprocess.Popen, or what does the same.
        noise: A line on stderr that the vendor's program writes also where nothing is wrong.
    """

    def played(fault: Callable[..., Any], *given: object) -> Callable[[Any], Any]:
        return lambda turn: fault(adapt(turn), *given)

    turns = {fault.__name__: played(fault) for fault in _TURNS}
    turns |= {fault.__name__: played(fault, start) for fault in _FAMILIES}
    turns["exits_3"] = played(exits_3, noise)
    faults: dict[str, Fault] = {name: {"turn": turn} for name, turn in turns.items()}
    well = played(fine)
    for point, fault in (
        ("version", version_hangs),
        ("version", version_is_noise),
        ("start", leaves_at_start),
    ):
        faults[fault.__name__] = {"turn": well, point: fault}
    faults["dies_at_start"] = {"turn": well, "start": lambda *_: dies_at_start(noise)}
    faults["ignores_term"] = {"turn": well, "start": ignore_term, "end": linger}
    return faults


def fine(turn: FakeTurn) -> Any:
    """End a turn as a good program does."""
    turn.say("all is well")
    return turn.finish()


def stay(turn: FakeTurn) -> Any:
    """Say nothing any more; an interrupt is obeyed."""
    begun()
    turn.interrupted.wait()
    return turn.abort()


def stay_away() -> None:
    """Never come back, in whatever thread."""
    threading.Event().wait()


def die(signum: int) -> None:
    """End by a signal."""
    os.kill(os.getpid(), signum)
    stay_away()


def version_hangs(*_: object) -> None:
    """Never tell the version."""
    begun()
    stay_away()


def version_is_noise(*_: object) -> None:
    """Tell nonsense instead of the version."""
    sys.stdout.write("lorem ipsum\n")
    sys.stdout.flush()
    os._exit(7)


def dies_at_start(noise: str) -> None:
    """Tell the cause between much noise, with a secret in it."""
    sys.stderr.write((noise or NOISE) * 500)
    sys.stderr.write(f"\x1b[31mfatal: the key {KEY} is not valid\x1b[0m\n{noise}")
    sys.stderr.flush()
    os._exit(1)


def leaves_at_start(*_: object) -> None:
    """End without a word."""
    os._exit(0)


def ignore_term(*_: object) -> None:
    """Ignore a polite end from now on."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def linger(*_: object) -> None:
    """Go on after the client has gone, or the turn is over."""
    begun()
    stay_away()


def long_line(turn: FakeTurn) -> Any:
    """Say a message that is one line of 20 MB."""
    begun()
    turn.delta("before")
    turn.say("x" * LONG_LINE)
    return turn.finish()


def endless_line(turn: FakeTurn) -> None:
    """Write 20 MB that never become a line."""
    begun()
    turn.delta("before")
    turn.raw(b"x" * LONG_LINE)
    os._exit(0)


def half_a_line(turn: FakeTurn) -> None:
    """Die within a line."""
    begun()
    turn.delta("said before")
    turn.raw(b'{"type": "mess')
    os._exit(3)


def stderr_flood(turn: FakeTurn) -> Any:
    """Write 100 MB to stderr."""
    block = b"noise " * 10_000 + b"\n"
    for _ in range(FLOOD // len(block)):
        os.write(2, block)
    return fine(turn)


def event_flood(turn: FakeTurn) -> Any:
    """Say very many pieces, as fast as they are taken."""
    for number in range(MANY_EVENTS):
        turn.delta(f"{number} ")
    return fine(turn)


def hogs_memory(turn: FakeTurn) -> Any:
    """Use much memory of its own."""
    page = os.sysconf("SC_PAGESIZE")
    hog = bytearray(HOG)
    hog[::page] = b"x" * len(range(0, HOG, page))
    return fine(turn)


def says_nothing(turn: FakeTurn) -> Any:
    """End well without a message."""
    os.write(2, b"a warning\n")
    return turn.finish()


def says_nothing_twice(turn: FakeTurn) -> Any:
    """End two turns well without a message, and the third with one."""
    return turn.finish() if times("turns") < 3 else fine(turn)


def terminal_tricks(_: FakeTurn) -> None:
    """Die with a cause full of control sequences and markup."""
    begun()
    os.write(2, TRICKS.encode())
    os._exit(5)


def silence(turn: FakeTurn) -> Any:
    """Say nothing at all."""
    return stay(turn)


def silence_after_output(turn: FakeTurn) -> Any:
    """Say something, then nothing more."""
    turn.delta("said before")
    return stay(turn)


def spins(_: FakeTurn) -> None:
    """Compute for ever."""
    begun()
    while True:
        pass


def drips(turn: FakeTurn) -> Any:
    """Write bytes that never become a line, until an interrupt."""
    begun()
    while not turn.interrupted.wait(_DRIP_SECONDS):
        turn.raw(b"x")
    turn.raw(b"\n")
    return turn.abort()


def beats_for_ever(turn: FakeTurn) -> Any:
    """Say something without an end."""
    begun()
    for number in itertools.count():
        if turn.interrupted.wait(_DRIP_SECONDS):
            break
        turn.delta(f"{number} ")  # who says the same again and again is stuck
    return turn.abort()


def stops_itself(_: FakeTurn) -> None:
    """Be stopped by a signal that no process can ignore."""
    begun()
    os.kill(os.getpid(), signal.SIGSTOP)
    stay_away()  # this thread may be stopped a moment later


def flushes_late(turn: FakeTurn) -> Any:
    """Say one thing more a while after an interrupt."""
    turn.delta("begun")
    begun()
    turn.interrupted.wait()
    threading.Event().wait(_LATE_SECONDS)
    turn.delta(", and the last words")
    return turn.abort()


def asks_at_the_terminal(turn: FakeTurn) -> Any:
    """Ask as programs do that want a person at the terminal; die without one."""
    begun()
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        os.write(2, f"cannot ask whoever sits there: {error.strerror}\n".encode())
        os._exit(4)
    os.write(terminal, b"Go on? [y/n] ")
    return stay(turn)


def removes_its_folder(turn: FakeTurn) -> Any:
    """Remove the folder it was to work in, which lies beside the marks."""
    begun()
    (Marks.folder.parent / "work").rmdir()
    return fine(turn)


def closes_stdout(_: FakeTurn) -> None:
    """Close stdout and go on running."""
    begun()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    stay_away()


def leaves_in_the_turn(turn: FakeTurn) -> None:
    """Leave in the middle as if all were well."""
    begun()
    turn.say("said before")
    os._exit(0)


def exits_3(turn: FakeTurn, noise: str) -> None:
    """Leave in the middle with an exit code, and the cause on stderr."""
    begun()
    turn.delta("said before")
    os.write(2, f"{NOISE}the disk is full\n{noise}".encode())
    os._exit(3)


def is_killed(turn: FakeTurn) -> None:
    """Be killed within a line."""
    begun()
    turn.raw(b'{"type": "mess')
    die(signal.SIGKILL)


def crashes(_: FakeTurn) -> None:
    """Crash by a bad access to memory."""
    import ctypes  # costs every other fault time

    begun()
    ctypes.string_at(0)


def kills_its_group(_: FakeTurn) -> None:
    """Kill all processes of its group."""
    begun()
    os.killpg(0, signal.SIGKILL)


def dies_once(turn: FakeTurn) -> Any:
    """Be killed the first time only."""
    if times("died") == 1:
        begun()
        die(signal.SIGKILL)
    return fine(turn)


def leaves_a_family(_: FakeTurn, start: Start) -> None:
    """Leave children in its group, in sessions of their own, and a daemon; none heeds SIGTERM."""
    begun()
    pids = [start(_NAP).pid for _ in range(5)]
    pids += [start(_NAP, start_new_session=True).pid for _ in range(5)]
    readable, writable = os.pipe()
    start([sys.executable, "-I", "-S", "-c", _DAEMON], stdout=writable)
    pids.append(int(os.read(readable, 32)))
    (Marks.folder / "family").write_text(json.dumps(pids))
    os._exit(0)


def a_child_holds_the_pipe(turn: FakeTurn, start: Start) -> None:
    """Leave while a child keeps its output open."""
    begun()
    child = start(_NAP, start_new_session=True, stdout=1, stderr=2)
    (Marks.folder / "family").write_text(json.dumps([child.pid]))
    turn.say("said before")
    os._exit(0)


_FAMILIES = (leaves_a_family, a_child_holds_the_pipe)
_TURNS = (
    *(long_line, endless_line, half_a_line, stderr_flood, event_flood, hogs_memory),
    *(says_nothing, says_nothing_twice, terminal_tricks, silence, silence_after_output, spins),
    *(drips, beats_for_ever, stops_itself, flushes_late, asks_at_the_terminal),
    *(removes_its_folder, closes_stdout, leaves_in_the_turn, is_killed, crashes),
    *(kills_its_group, dies_once),
)
