"""A real program on a pseudo-terminal, and what a person sees on it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections import deque
from pathlib import Path

import pyte

from tests.forking import Forked, fork_server

SEEN_SECONDS = 90.0
F2, ESC, CTRL_C, TAB, FOCUS_OUT = "\x1bOQ", "\x1b", "\x03", "\t", "\x1b[O"
PRSM = Path(sys.executable).with_name("prsm")


def world(folder, term="xterm-256color", **more):
    """Return an environment in which nothing of the user's is found."""
    names = {"PATH", "LANG", "LC_ALL", *(name for name in os.environ if name.startswith("PYTHON"))}
    kept = {name: os.environ[name] for name in names & os.environ.keys()}
    (folder / "tmp").mkdir(exist_ok=True)
    places = {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "PRSM_HOME": str(folder / "prsm")}
    return {**kept, **places, "TERM": term, "LANG": kept.get("LANG", "C.UTF-8"), **more}


class Emulated(pyte.Screen):
    """A screen that notes which cells were emptied, and then drawn as they were, by one write."""

    def __init__(self, columns, rows):
        super().__init__(columns, rows)
        self.flickers = []
        self._emptied = {}

    def begin_write(self):
        self._emptied = {}

    def draw(self, data):
        for letter in data:
            place = self.cursor.y, min(self.cursor.x, self.columns - 1)
            before = self.buffer[place[0]][place[1]].data
            if letter == " " and before != " ":
                self._emptied.setdefault(place, before)
            elif letter != " " and self._emptied.get(place) == letter:
                self.flickers.append((place, letter))
            super().draw(letter)

    def erase_in_display(self, how=0, *args, **kwargs):
        self._note_all()
        super().erase_in_display(how, *args, **kwargs)

    def erase_in_line(self, how=0, private=False):
        self._note_all()
        super().erase_in_line(how, private)

    def _note_all(self):
        for y, line in enumerate(self.display):
            self._emptied.update({(y, x): sign for x, sign in enumerate(line) if sign != " "})


class Terminal:
    """A pseudo-terminal with a program on it; `screen` is what a person sees.

    It answers no query. With a delay, keys and what is written arrive that many seconds late.
    """

    def __init__(self, argv, env, rows=24, columns=80, *, delay=0.0, cwd=None):
        self.screen = Emulated(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self.seen = []  # the rows where somebody types, as they changed
        person, program = pty.openpty()
        termios.tcsetwinsize(program, (rows, columns))
        self.before = termios.tcgetattr(program)
        self._person, self._program, self._delay = person, program, delay
        self._keys: deque[tuple[float, bytes]] = deque()  # each with when it arrives
        self._late: deque[tuple[float, bytes]] = deque()
        self.process = self._start(argv, env, cwd)

    def _start(self, argv, env, cwd):
        """Start a program, or fork it where it is our own."""
        program, forks = self._program, fork_server()
        if argv[0] == str(PRSM) and forks.fits(env):
            return forks.start(
                argv[1:], stdin=program, stdout=program, cwd=cwd, env=env, session="plain"
            )
        return subprocess.Popen(
            argv,
            stdin=program,
            stdout=program,
            stderr=program,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )

    def type(self, keys):
        self._keys.append((time.monotonic() + self._delay, keys.encode()))
        self._pass_on()

    def click(self, column, row):
        """Press and release the left button; both count from 1."""
        self.type(f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m")

    def wheel_up(self, column, row):
        self.type(f"\x1b[<64;{column};{row}M")

    def find(self, text):
        """Return column and row of a text, from 1."""
        for row, line in enumerate(self.screen.display):
            if text in line:
                return line.index(text) + 1, row + 1
        raise AssertionError(f"not on the screen: {text}\n{self.text}")

    def resize(self, rows, columns):
        termios.tcsetwinsize(self._program, (rows, columns))
        self.screen.resize(rows, columns)
        self.process.send_signal(signal.SIGWINCH)

    @property
    def text(self):
        return "\n".join(self.screen.display)

    def sees(self, *texts):
        self.until(lambda: all(text in self.text for text in texts), *texts)

    def writes(self, *texts):
        """Wait until all of these were written, on whatever screen."""
        told = [text if isinstance(text, bytes) else text.encode() for text in texts]
        self.until(lambda: all(text in self.written for text in told), *texts)

    def until(self, is_so, *what):
        end = time.monotonic() + SEEN_SECONDS
        while not is_so():
            assert time.monotonic() < end, f"not seen: {what}, but\n{self.text}"
            self._read(0.05)

    def ends(self):
        """Wait for the program's end; return its exit code."""
        self.until(lambda: self.process.poll() is not None, "its end")
        self._read(0.0)
        return self.process.returncode

    def settings(self):
        return termios.tcgetattr(self._program)

    def is_full(self):
        """Return whether a program that writes has to wait."""
        return not select.select([], [self._program], [], 0)[1]

    def state(self):
        """Return the letter of the state of the process: T where it is stopped."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        return stat.rpartition(")")[2].split()[0]

    def hang_up(self, *, tells=True):
        """Take the terminal away, as a window that is closed does; `tells`: by a signal, too."""
        if tells:
            self.process.send_signal(signal.SIGHUP)
        os.close(self._person)
        self._person = -1
        return self.process.wait(SEEN_SECONDS)

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SEEN_SECONDS)
        if isinstance(self.process, Forked):
            self.process.close()
        os.close(self._program)
        if self._person >= 0:
            os.close(self._person)

    def _read(self, seconds):
        self._pass_on()
        while select.select([self._person], [], [], seconds)[0]:
            self._late.append((time.monotonic() + self._delay, os.read(self._person, 65536)))
            self._pass_on()
            seconds = 0.0
        self._pass_on()

    def _pass_on(self):
        """Let arrive what is due."""
        now = time.monotonic()
        while self._keys and self._keys[0][0] <= now:
            os.write(self._person, self._keys.popleft()[1])
        while self._late and self._late[0][0] <= now:
            chunk = self._late.popleft()[1]
            self.written += chunk
            self.screen.begin_write()
            self._stream.feed(chunk)
            row = self.screen.display[-2].rstrip()
            if not self.seen or self.seen[-1] != row:
                self.seen.append(row)
