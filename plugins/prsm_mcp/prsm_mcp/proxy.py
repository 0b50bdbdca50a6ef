"""Pumps bytes between a command line's pipes and the engine's socket; run as `python -I -S`.

It runs once per agent for as long as the command line, so it must be small and quick to start:
nothing of PRSM, no MCP, no JSON. PRSM_SOCKET, PRSM_AGENT and PRSM_TOKEN come by the environment,
since anybody may read a process's arguments.

A call may wait for hours, so a command line would wait for ever for an engine that hangs. One that
works sends a beat now and then, which goes no further. As it answers, it says how long it is silent
at most. After that the connection is given up, unless the engine's process is stopped: that one
loses nothing and goes on later.

A command line whose engine is gone is killed next. Until then it hears nothing: it would tell its
model that the call has failed, and ask it what to do.

Exit codes: 0 the command line has closed its side · 2 the environment is not set · 3 the engine
refused · 4 the engine cannot be reached, has gone, or is silent for too long.
"""

import os
import select
import socket
import sys
from time import monotonic

TCP_PREFIX = "tcp:"
LAST_SECONDS = 10.0  # for a command line to be killed; one that is not gets an end at last
HELLO_SECONDS = 30.0
ANSWER_LIMIT = 4096
BEAT = b"\0"  # comes between two lines; no JSON has it
SILENCE = b'"silence_s":'
ADDRESS_LIMIT = 100  # bytes; a socket's address holds 107, and 103 on some systems
CHUNK = 1 << 16
PIPE_CHUNK = select.PIPE_BUF  # a pipe that is ready takes that without blocking


class Pump:
    """One direction. What was read is written before more is read."""

    def __init__(self, source: int, target: int, chunk: int, *, has_beats: bool = False) -> None:
        self.source = source
        self.target = target
        self.chunk = chunk
        self.has_beats = has_beats
        self.held = b""
        self.moves = 0
        self.is_open = True  # more may come from the source
        self.is_heard = True  # somebody reads at the target

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to move."""
        return not (self.held or self.is_open)

    @property
    def watched(self) -> tuple[int, int]:
        """What to wait for: a descriptor and an event."""
        return (self.target, select.POLLOUT) if self.held else (self.source, select.POLLIN)

    def move(self) -> None:
        """Write or read once, whichever it waited for. Beats are left out."""
        self.moves += 1
        try:
            if self.held:
                self.held = self.held[os.write(self.target, self.held[: self.chunk]) :]
                return
            data = os.read(self.source, CHUNK)
            self.is_open = bool(data)
            self.held = data.replace(BEAT, b"") if self.has_beats else data
        except BlockingIOError:
            pass  # another user of the pipe was quicker
        except ConnectionError:
            self.is_heard = not self.held
            self.held = b""
            self.is_open = False


def connect(address: str) -> socket.socket:
    """Return a socket that is connected to the engine."""
    if address.startswith(TCP_PREFIX):
        host, _, port = address[len(TCP_PREFIX) :].rpartition(":")
        return socket.create_connection((host, int(port)), HELLO_SECONDS)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(HELLO_SECONDS)
    if len(os.fsencode(address)) <= ADDRESS_LIMIT:
        connection.connect(address)
        return connection
    folder = os.open(os.path.dirname(address), os.O_RDONLY)  # noqa: PTH120 - pathlib is slow to load
    try:
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(address)}")  # noqa: PTH119
    finally:
        os.close(folder)
    return connection


class Silence:
    """How long the engine has said nothing, while it was listened to."""

    def __init__(self, most: float | None) -> None:
        self._most = most  # seconds of an engine that works, if it said so
        self._moves = 0
        self._since = monotonic()

    def left(self) -> float | None:
        """Return the seconds until it is silent for too long."""
        return None if self._most is None else max(0.0, self._since + self._most - monotonic())

    def heard(self, inward: Pump) -> None:
        """Count anew if something came, or is not passed on yet."""
        if inward.held or inward.moves != self._moves:
            self.begin()
        self._moves = inward.moves

    def begin(self) -> None:
        """Count from now on."""
        self._since = monotonic()


def greet(connection: socket.socket, agent: str, token: str) -> tuple[str, float | None]:
    """Identify the agent; return why the engine refuses, if so, and how long it may be silent."""
    hello = '{"agent":"%s","token":"%s","pid":%d,"beats":true}\n'
    connection.sendall((hello % (agent, token, os.getpid())).encode())
    answer = b""
    while not answer.endswith(b"\n") and len(answer) < ANSWER_LIMIT:
        byte = connection.recv(1)  # what follows the line is for the command line
        if not byte:
            break
        answer += byte
    if answer.startswith(b'{"ok":true'):
        _, is_told, rest = answer.partition(SILENCE)
        return "", float(rest.split(b",")[0].rstrip(b"}\n")) if is_told else None
    return answer.decode(errors="replace").strip() or "it closed the connection", None


def pump(connection: socket.socket, most_silent: float | None) -> int:
    """Pump until the engine or the command line closes its side; return the exit code."""
    connection.setblocking(False)
    wire = connection.fileno()
    outward, inward = Pump(0, wire, CHUNK), Pump(wire, 1, PIPE_CHUNK, has_beats=True)
    silence = Silence(most_silent)
    has_hung_up = False
    while not inward.is_done:
        move_once([one for one in (outward, inward) if not one.is_done], silence.left())
        silence.heard(inward)
        if silence.left() == 0.0:
            if not is_stopped(connection):
                return fail(4, f"the engine has said nothing for {most_silent:g} s: it hangs")
            silence.begin()
        if outward.is_done and not has_hung_up:
            has_hung_up = True
            hang_up(connection)
    if (has_hung_up and outward.is_heard) or not inward.is_heard:
        return 0
    connection.close()
    wait_for_the_end()
    return fail(4, "the engine has closed the connection")


def wait_for_the_end() -> None:
    """Wait a while until the command line is killed or closes its side."""
    poll = select.poll()
    poll.register(0, 0)  # hang-ups are always reported
    poll.poll(LAST_SECONDS * 1000)


def move_once(pumps: list[Pump], seconds: float | None) -> None:
    """Wait up to `seconds` until a pump can move something, and let it."""
    wanted: dict[int, int] = {}
    for one in pumps:
        fd, event = one.watched
        wanted[fd] = wanted.get(fd, 0) | event
    poll = select.poll()
    for fd, events in wanted.items():
        poll.register(fd, events)
    ready = dict(poll.poll(None if seconds is None else seconds * 1000 + 1))  # not too early
    ended = select.POLLERR | select.POLLHUP | select.POLLNVAL
    for one in pumps:
        fd, event = one.watched
        if ready.get(fd, 0) & (event | ended):
            one.move()


def is_stopped(connection: socket.socket) -> bool:
    """Return whether the engine's process is stopped, as by Ctrl-Z or a debugger."""
    if connection.family != socket.AF_UNIX:
        return False
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    try:
        with open(f"/proc/{int.from_bytes(peer[:4], sys.byteorder)}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b") ")[2][:1] in {b"T", b"t"}
    except OSError:  # it has ended, or cannot be seen
        return False


def hang_up(connection: socket.socket) -> None:
    """Tell the engine that nothing more comes. What it still says is passed on."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # it has gone, as the other direction finds out next


def fail(code: int, why: str) -> int:
    """Say in one line why it ends; return the exit code."""
    sys.stderr.write(f"prsm: {why}\n")
    return code


def main() -> int:
    """Connect, say who this is, and pump."""
    names = "PRSM_SOCKET", "PRSM_AGENT", "PRSM_TOKEN"
    address, agent, token = (os.environ.get(name, "") for name in names)
    if not (address and agent.isalnum() and token.isalnum()):
        return fail(2, "PRSM_SOCKET, PRSM_AGENT and PRSM_TOKEN must be set: the engine sets them")
    try:
        with connect(address) as connection:
            refusal, most_silent = greet(connection, agent, token)
            if refusal:
                return fail(3, f"the engine refused this agent's token: {refusal}")
            return pump(connection, most_silent)
    except (OSError, ValueError) as error:
        return fail(4, f"the engine cannot be reached: {error}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
