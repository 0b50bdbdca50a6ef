"""What the fake app-server can do wrong, by name.

A fault replaces what the server does at one point: `version`, `start` (before it reads anything),
the answer to a method, `turn`, which plays a whole turn, or `end` (after its client has gone). It
writes the file `begun` into CODEX_HOME when it begins, and into `family` the pids of the processes
it leaves about.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Turn = Any  # of fake_codex.py
Server = Any

FAULTS: dict[str, dict[str, Any]] = {}
KEY = "sk-live-0123456789abcdef0123"
NOISE = "ERROR state db missing rollout path for thread 0a1b2c\n"
LATE_SECONDS = 0.3
DRIP_SECONDS = 0.02
FLOOD = 100 * 2**20  # bytes of stderr
LONG_LINE = 20 * 2**20
MANY_EVENTS = 20_000
HOG = 512 * 2**20
NAP = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
MATE_WAITS = threading.Event()


def fault(point: str) -> Callable[[Callable], Callable]:
    """Add a function to the table under its own name."""

    def add(fn: Callable) -> Callable:
        FAULTS[fn.__name__] = {"turn": fine, point: fn}
        return fn

    return add


def begun() -> None:
    home().joinpath("begun").touch()


def home() -> Path:
    return Path(os.environ["CODEX_HOME"])


def first_time(name: str) -> bool:
    """Whether no process of this home has come here before."""
    mark = home() / name
    known = mark.exists()
    mark.touch()
    return not known


def die(signum: int) -> None:
    os.kill(os.getpid(), signum)
    signal.pause()


def fine(turn: Turn, text: str = "all is well") -> None:
    """End a turn as a good server does."""
    turn.say_text(text)
    turn.use(input=100, output=10)
    turn.end("completed")


def stay(turn: Turn) -> None:
    """Say nothing any more; an interrupt is obeyed."""
    begun()
    turn.interrupted.wait()
    turn.end("interrupted")


def deaf(server: Server, _: dict) -> None:
    begun()
    signal.pause()


for name, method in (
    ("never_greets", "initialize"),
    ("never_opens_a_thread", "thread/start"),
    ("never_starts_a_turn", "turn/start"),
):
    FAULTS[name] = {method: deaf}


# --- before the first turn -------------------------------------------------------------------


@fault("version")
def version_hangs() -> None:
    signal.pause()


@fault("version")
def version_is_noise() -> None:
    sys.stdout.write("lorem ipsum\n")
    sys.exit(7)


@fault("start")
def dies_at_start(server: Server) -> None:
    sys.stderr.write(NOISE * 500)
    sys.stderr.write(f"\x1b[31mfatal: the key {KEY} is not valid\x1b[0m\n{NOISE}")
    sys.exit(1)


@fault("start")
def leaves_at_start(server: Server) -> None:
    sys.exit(0)


@fault("thread/start")
def opens_nonsense(server: Server, _: dict) -> dict:
    return {"thread": ["no", "id"]}


@fault("turn/start")
def starts_nonsense(server: Server, _: dict) -> dict:
    return {"turn": None}


# --- what it says ----------------------------------------------------------------------------


@fault("turn")
def garbage(turn: Turn) -> None:
    for line in (
        b"lorem ipsum",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1, 2]",
        b"null",
        b'{"method": 5, "params": []}',
        b'{"method": "item/completed", "params": {"threadId": [], "item": 5}}',
        b'{"id": {}, "result": 1}',
        b'{"id": "x", "method": "item/tool/call", "params": "none"}',
        b"",
        b"\0\0",
    ):
        turn.server.wire.raw(line + b"\r\n")
    turn.tell("item/started", item=5)
    turn.tell("item/completed", item={"type": "reasoning", "id": "r", "summary": 5})
    turn.tell("item/agentMessage/delta", itemId=[], delta={})
    turn.tell("thread/tokenUsage/updated", tokenUsage=[])
    turn.tell("turn/completed", turn="yes")
    turn.tell("turn/started", turn=None)
    fine(turn)


@fault("turn")
def broken_bytes(turn: Turn) -> None:
    place = json.dumps({"threadId": turn.thread.id, "turnId": turn.id, "itemId": "b"})[1:-1]
    line = b'{"method": "item/agentMessage/delta", "params": {%s, "delta": "%s"}}\n'
    marked = b"\xef\xbb\xbf" + line % (place.encode(), b"one \xff\xfe two \0 three \\ud83d four ")
    turn.server.wire.raw(marked[:-12])  # also cut within a write
    turn.server.wire.raw(marked[-12:])
    item = {"type": "agentMessage", "id": "b", "text": "TEXT"}
    done = json.dumps({"threadId": turn.thread.id, "turnId": turn.id, "item": item})
    told = f'{{"method": "item/completed", "params": {done}}}\r\n'
    text = b"bytes \xff\xfe \0 \\ud83d \xe2\x82\xac"
    turn.server.wire.raw(told.encode().replace(b"TEXT", text))
    turn.end("completed")


@fault("turn")
def long_line(turn: Turn) -> None:
    begun()
    turn.say_text("before")
    turn.say_text("x" * LONG_LINE, "long")
    fine(turn)


@fault("turn")
def endless_line(turn: Turn) -> None:
    begun()
    turn.tell("item/agentMessage/delta", itemId="m", delta="before")
    turn.server.wire.raw(b"x" * LONG_LINE)
    os._exit(0)


@fault("turn")
def half_a_line(turn: Turn) -> None:
    begun()
    turn.tell("item/agentMessage/delta", itemId="m", delta="said before")
    turn.server.wire.raw(b'{"method": "item/agentMessage/del')
    os._exit(3)


@fault("turn")
def stderr_flood(turn: Turn) -> None:
    block = b"noise " * 10_000 + b"\n"
    for _ in range(FLOOD // len(block)):
        os.write(2, block)
    fine(turn)


@fault("turn")
def event_flood(turn: Turn) -> None:
    for number in range(MANY_EVENTS):
        turn.tell("item/agentMessage/delta", itemId="m", delta=f"{number} ")
    fine(turn)


@fault("turn")
def says_all_twice(turn: Turn) -> None:
    wire, say = turn.server.wire, turn.server.wire.say

    def twice(message: dict) -> None:
        say(message)
        say(message)

    wire.say = twice
    turn.tell_turn("turn/started", "inProgress")
    item = {"type": "commandExecution", "id": "c1", "command": "/bin/bash -lc ls", "cwd": "/"}
    turn.tell("item/started", item={**item, "status": "inProgress"})
    done = {**item, "status": "completed", "exitCode": 0, "aggregatedOutput": "a"}
    turn.tell("item/completed", item=done)
    fine(turn)
    wire.say = say
    turn.end("failed", {"message": "a contradiction"})
    turn.say_text("too late")


@fault("turn")
def says_it_in_disorder(turn: Turn) -> None:
    item = {"type": "commandExecution", "id": "c1", "command": "/bin/bash -lc ls", "cwd": "/"}
    done = {**item, "status": "completed", "exitCode": 0, "aggregatedOutput": "a"}
    turn.tell("item/completed", item=done)
    turn.tell("item/started", item={**item, "status": "inProgress"})
    turn.tell("item/completed", item={"type": "agentMessage", "id": "m", "text": "all is well"})
    turn.tell("item/agentMessage/delta", itemId="m", delta="all is well")
    turn.tell("rawResponse/completed", responseId="r")
    older = {"threadId": turn.thread.id, "turn": {"id": "turn-99", "status": "failed"}}
    turn.server.wire.say({"method": "turn/completed", "params": older})
    turn.use(input=100, output=10)
    turn.end("completed")


@fault("turn")
def says_nothing(turn: Turn) -> None:
    os.write(2, b"a warning\n")
    turn.end("completed")


@fault("turn")
def mad_usage(turn: Turn) -> None:
    totals: tuple[Any, ...] = (-5, 10**30, 1e30, "many", None, [], True)
    for total in totals:
        usage = {"total": {"totalTokens": total, "inputTokens": total, "outputTokens": 3}}
        turn.tell("thread/tokenUsage/updated", tokenUsage=usage)
    turn.say_text("all is well")
    turn.end("completed")


@fault("turn")
def terminal_tricks(turn: Turn) -> None:
    begun()
    os.write(
        2, "\x1b]52;c;cm0=\x07\x1b]0;title\x07\x1b[2J[bold]lost\u202e \x1b[31mcause\n".encode()
    )
    os._exit(5)


@fault("turn")
def echoes_secrets(turn: Turn) -> None:
    begun()
    secrets = {name: value for name, value in os.environ.items() if "KEY" in name}
    turn.tell("warning", message=f"{secrets} {KEY}")
    item = {"type": "commandExecution", "id": "c1", "command": f"/bin/bash -lc 'echo {KEY}'"}
    turn.tell("item/started", item={**item, "status": "inProgress"})
    done = {**item, "status": "failed", "exitCode": 1, "aggregatedOutput": KEY}
    turn.tell("item/completed", item=done)
    turn.say_text(f"it is {KEY}; {sorted(os.environ)}")
    turn.end("failed", {"message": f"no access with {KEY}", "codexErrorInfo": "unauthorized"})


@fault("turn")
def transient_error(turn: Turn) -> None:
    turn.tell("error", willRetry=True, error={"message": "Reconnecting... 1/5"})
    fine(turn)


# --- what it does not say --------------------------------------------------------------------


FAULTS["silence"] = {"turn": stay}


@fault("turn")
def silence_after_output(turn: Turn) -> None:
    turn.tell("item/agentMessage/delta", itemId="m", delta="said before")
    stay(turn)


@fault("turn")
def a_command_never_ends(turn: Turn) -> None:
    item = {"type": "commandExecution", "id": "c1", "command": "/bin/bash -lc 'sleep inf'"}
    turn.tell("item/started", item={**item, "status": "inProgress"})
    stay(turn)


@fault("turn")
def spins(turn: Turn) -> None:
    turn.server.turn_interrupt = lambda _: None
    begun()
    while True:
        pass


@fault("turn")
def drips(turn: Turn) -> None:
    begun()
    while not turn.interrupted.wait(DRIP_SECONDS):
        turn.server.wire.raw(b"x")
    turn.server.wire.raw(b"\n")
    turn.end("interrupted")


@fault("turn")
def beats_for_ever(turn: Turn) -> None:
    begun()
    while not turn.interrupted.wait(DRIP_SECONDS):
        turn.tell("item/agentMessage/delta", itemId="m", delta=". ")
    turn.end("interrupted")


@fault("turn")
def stops_itself(turn: Turn) -> None:
    begun()
    os.kill(os.getpid(), signal.SIGSTOP)


@fault("turn")
def hears_no_more(turn: Turn) -> None:
    """Ask for tools whose answers are never read, until the pipe to us is full."""
    turn.server.wire.settle = lambda _: signal.pause()
    begun()
    for number in range(50):
        turn.server.wire.say(
            {
                "id": number,
                "method": "item/tool/call",
                "params": {
                    "threadId": turn.thread.id,
                    "turnId": turn.id,
                    "callId": f"c{number}",
                    "tool": f"no_such_tool_{number}_" + "x" * 10_000,
                    "arguments": {},
                },
            }
        )


@fault("turn")
def flushes_late(turn: Turn) -> None:
    """Say one thing more after an interrupt."""
    turn.tell("item/agentMessage/delta", itemId="m", delta="begun")
    begun()
    turn.interrupted.wait()
    threading.Event().wait(LATE_SECONDS)
    turn.say_text("begun, and the last words")
    turn.end("interrupted")


# --- how it ends -----------------------------------------------------------------------------


@fault("turn")
def closes_stdout(turn: Turn) -> None:
    begun()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@fault("turn")
def leaves_in_the_turn(turn: Turn) -> None:
    begun()
    turn.say_text("said before")
    os._exit(0)


@fault("turn")
def exits_3(turn: Turn) -> None:
    begun()
    turn.tell("item/agentMessage/delta", itemId="m", delta="said before")
    os.write(2, f"{NOISE}the disk is full\n".encode())
    os._exit(3)


@fault("turn")
def is_killed(turn: Turn) -> None:
    begun()
    turn.server.wire.raw(b'{"method": "item/ag')
    die(signal.SIGKILL)


@fault("turn")
def crashes(turn: Turn) -> None:
    begun()
    __import__("ctypes").string_at(0)


@fault("turn")
def kills_its_group(turn: Turn) -> None:
    begun()
    os.killpg(0, signal.SIGKILL)


@fault("turn")
def dies_once(turn: Turn) -> None:
    """Die under all agents that run, the first time only."""
    if "[[dies]]" in str(turn.text) and first_time("died"):
        MATE_WAITS.wait()
        begun()
        die(signal.SIGKILL)
    if turn.text is None or "[[dies]]" in turn.text:
        fine(turn)
    else:
        MATE_WAITS.set()
        turn.interrupted.wait()  # until the other one takes the server with it


@fault("start")
def ignores_term(server: Server) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


FAULTS["ignores_term"]["end"] = lambda _: signal.pause()


@fault("turn")
def leaves_a_family(turn: Turn) -> None:
    """Start children in our group, in sessions of their own, and a daemon; then go."""
    begun()
    pids = [subprocess.Popen(NAP).pid for _ in range(5)]
    pids += [subprocess.Popen(NAP, start_new_session=True).pid for _ in range(5)]
    daemon = "import os, signal; print(os.getpid(), flush=True); os.setsid(); signal.pause()"
    script = (
        f"import os\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: exec({daemon!r})\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script], stdout=subprocess.PIPE, text=True
    ) as middle:
        pids.append(int(middle.stdout.readline()))  # type: ignore[union-attr]
        (home() / "family").write_text(json.dumps(pids))
        os._exit(0)


@fault("turn")
def a_child_holds_the_pipe(turn: Turn) -> None:
    begun()
    child = subprocess.Popen(NAP, start_new_session=True, stdout=1, stderr=2)
    (home() / "family").write_text(json.dumps([child.pid]))
    turn.say_text("said before")
    os._exit(0)


@fault("turn")
def hogs_memory(turn: Turn) -> None:
    hog = bytearray(HOG)
    hog[:: os.sysconf("SC_PAGESIZE")] = b"x" * len(range(0, HOG, os.sysconf("SC_PAGESIZE")))
    fine(turn)


def fails(turn: Turn, message: str, info: Any) -> None:
    turn.end("failed", {"message": message, "codexErrorInfo": info})


@fault("turn")
def busy_twice(turn: Turn) -> None:
    if len(turn.thread.state["turns"]) < 3:
        fails(turn, "unexpected status 503", {"httpConnectionFailed": {"httpStatusCode": 503}})
    else:
        fine(turn)


@fault("turn")
def busy_for_ever(turn: Turn) -> None:
    begun()
    limited = {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}
    fails(turn, "exceeded retry limit, last status: 429", limited)


for name, told, info in (
    ("no_access", "unexpected status 401\nbad key", "unauthorized"),
    ("no_room", "Codex ran out of room in the model's context window.", "contextWindowExceeded"),
):
    FAULTS[name] = {"turn": partial(fails, message=told, info=info)}
