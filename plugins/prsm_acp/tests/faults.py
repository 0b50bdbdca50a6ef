"""What the small agent can do wrong, by name.

A fault replaces what the agent does at one point: `version`, `start` (before it reads anything),
the answer to a method, `turn`, which plays a whole prompt, or `end` (after its client has gone). It
writes the file `begun` into FAKE_HOME when it begins, and into `family` the pids of the processes
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

Turn = Any  # of fake_acp.py
Agent = Any

FAULTS: dict[str, dict[str, Any]] = {}
KEY = "sk-live-0123456789abcdef0123"
NOISE = "(node:1) a warning\n"
LATE_SECONDS = 0.3
DRIP_SECONDS = 0.02
FLOOD = 100 * 2**20  # bytes of stderr
LONG_LINE = 20 * 2**20
MANY_EVENTS = 20_000
NAP = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
DONE = {"stopReason": "end_turn"}


def fault(point: str) -> Callable[[Callable], Callable]:
    """Add a function to the table under its own name."""

    def add(fn: Callable) -> Callable:
        FAULTS[fn.__name__] = {"turn": fine, point: fn}
        return fn

    return add


def begun() -> None:
    home().joinpath("begun").touch()


def home() -> Path:
    return Path(os.environ["FAKE_HOME"])


def die(signum: int) -> None:
    os.kill(os.getpid(), signum)
    threading.Event().wait()


def stay_away() -> None:
    """Never come back, in whatever thread."""
    threading.Event().wait()


def fine(turn: Turn, text: str = "all is well") -> dict:
    """End a turn as a good agent does."""
    turn.say_text(text)
    return {**DONE, "usage": {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}}


def stay(turn: Turn) -> dict:
    """Say nothing any more; a cancel is obeyed."""
    begun()
    turn.interrupted.wait()
    return {"stopReason": "cancelled"}


def deaf(_: Agent, __: dict) -> None:
    begun()


for name, method in (("never_greets", "initialize"), ("never_opens_a_session", "session/new")):
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
def dies_at_start(_: Agent) -> None:
    sys.stderr.write(NOISE * 500)
    sys.stderr.write(f"\x1b[31mfatal: the key {KEY} is not valid\x1b[0m\n")
    sys.exit(1)


@fault("start")
def leaves_at_start(_: Agent) -> None:
    sys.exit(0)


@fault("session/new")
def opens_nonsense(_: Agent, __: dict) -> dict:
    return {"sessionId": ["no", "id"]}


@fault("session/new")
def wants_a_login(_: Agent, __: dict) -> dict:
    raise_refused(-32000, "Authentication required")
    return {}


@fault("initialize")
def speaks_another_version(_: Agent, __: dict) -> dict:
    return {"protocolVersion": 7}


@fault("session/new")
def ignores_servers(agent: Agent, params: dict) -> Any:
    begun()
    return agent.session_new({**params, "mcpServers": []})


@fault("session/set_mode")
def keeps_its_mode(_: Agent, __: dict) -> dict:
    raise_refused(-32602, "no such mode")
    return {}


def raise_refused(code: int, message: str, data: Any = None) -> None:
    raise sys.modules["__main__"].RefusedError(code, message, data)


# --- what it says ----------------------------------------------------------------------------


@fault("turn")
def garbage(turn: Turn) -> dict:
    for line in (
        b"lorem ipsum",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1, 2]",
        b"null",
        b'{"method": 5, "params": []}',
        b'{"method": "session/update", "params": 5}',
        b'{"id": {}, "result": 1}',
        b'{"id": true, "result": 1}',
        b'{"id": 4711, "result": {}}',
        b'{"id": [], "method": "session/request_permission", "params": {}}',
        b'{"id": 9, "error": 5}',
        b"",
        b"\0\0",
    ):
        turn.wire.raw(line + b"\r\n")
    updates: tuple[Any, ...] = (5, [], {"sessionUpdate": []}, {"sessionUpdate": "tool_call"}, None)
    for update in updates:
        params = {"sessionId": turn.session.id, "update": update}
        turn.wire.say({"method": "session/update", "params": params})
    turn.tell("agent_message_chunk", content=5)
    turn.tell("tool_call", toolCallId=[], kind={}, status=5, content="x", rawInput=[])
    turn.tell("usage_update", used="many", size=-1, cost=5)
    turn.wire.say({"id": 70, "method": "terminal/create", "params": {"command": "sh"}})
    turn.wire.say({"id": 71, "method": "session/request_permission", "params": "none"})
    return fine(turn)


@fault("turn")
def broken_bytes(turn: Turn) -> dict:
    session = turn.session.id.encode()
    line = (
        b'\xef\xbb\xbf{"method":"session/update","params":{"sessionId":"%s","update":{'
        b'"sessionUpdate":"agent_message_chunk","content":{"type":"text",'
        b'"text":"bytes \xff\xfe \0 \\ud83d \xe2\x82\xac"}}}}\r\n' % session
    )
    turn.wire.raw(line[:-12])  # also cut within a write
    turn.wire.raw(line[-12:])
    return DONE


@fault("turn")
def long_line(turn: Turn) -> dict:
    begun()
    turn.say_text("before")
    turn.say_text("x" * LONG_LINE)
    return fine(turn)


@fault("turn")
def endless_line(turn: Turn) -> dict:
    begun()
    turn.say_text("before")
    turn.wire.raw(b"x" * LONG_LINE)
    os._exit(0)


@fault("turn")
def half_a_line(turn: Turn) -> dict:
    begun()
    turn.say_text("said before")
    turn.wire.raw(b'{"method": "session/upd')
    os._exit(3)


@fault("turn")
def stderr_flood(turn: Turn) -> dict:
    block = b"noise " * 10_000 + b"\n"
    for _ in range(FLOOD // len(block)):
        os.write(2, block)
    return fine(turn)


@fault("turn")
def event_flood(turn: Turn) -> dict:
    for _ in range(MANY_EVENTS):
        turn.think("x ")
    return fine(turn)


@fault("turn")
def says_all_twice(turn: Turn) -> dict:
    about = {"toolCallId": "c1", "kind": "execute", "title": "ls", "rawInput": {"command": "ls"}}
    for _ in range(2):
        turn.tell("tool_call", status="in_progress", **about)
    for status in ("completed", "completed", "failed"):
        turn.tell("tool_call_update", toolCallId="c1", status=status)
    return fine(turn)


@fault("turn")
def says_it_in_disorder(turn: Turn) -> dict:
    about = {"kind": "execute", "title": "ls"}
    turn.tell("tool_call_update", toolCallId="c1", status="completed", **about)
    turn.tell("tool_call", toolCallId="c1", status="in_progress", **about)
    turn.tell("tool_call", toolCallId="c2", status="in_progress", **about)
    return fine(turn)


@fault("turn")
def says_nothing(_: Turn) -> dict:
    os.write(2, b"a warning\n")
    return DONE


@fault("turn")
def ends_with_nonsense(turn: Turn) -> dict:
    turn.say_text("said before")
    return {"stopReason": {"odd": 1}}


@fault("turn")
def mad_usage(turn: Turn) -> dict:
    counts: tuple[Any, ...] = (-5, 10**30, 1e30, "many", None, [])
    for used in counts:
        turn.tell("usage_update", used=used, size=used, cost={"amount": used, "currency": "USD"})
    return {**fine(turn), "usage": {"totalTokens": -5, "inputTokens": 1e30, "outputTokens": 3}}


@fault("turn")
def terminal_tricks(_: Turn) -> dict:
    begun()
    tricks = "\x1b]52;c;cm0=\x07\x1b]0;title\x07\x1b[2J[bold]lost\u202e \x1b[31mcause\n"
    os.write(2, tricks.encode())
    os._exit(5)


@fault("turn")
def echoes_secrets(turn: Turn) -> dict:
    begun()
    about = {"toolCallId": "c1", "kind": "execute", "title": f"echo {KEY}"}
    turn.tell("tool_call", status="in_progress", **about)
    turn.tell("tool_call_update", toolCallId="c1", status="failed", rawOutput=KEY)
    turn.say_text(f"it is {KEY}; {sorted(os.environ)}")
    raise_refused(-32603, "Internal error", {"details": f"unauthorized: no access with {KEY}"})
    return {}


# --- what it does not say --------------------------------------------------------------------


FAULTS["silence"] = {"turn": stay}


@fault("turn")
def silence_after_output(turn: Turn) -> dict:
    turn.say_text("said before")
    return stay(turn)


@fault("turn")
def a_command_never_ends(turn: Turn) -> dict:
    about = {"toolCallId": "c1", "kind": "execute", "title": "sleep inf"}
    turn.tell("tool_call", status="in_progress", **about)
    return stay(turn)


FAULTS["is_deaf_to_a_cancel"] = {"turn": stay, "session/cancel": None}


@fault("turn")
def drips(turn: Turn) -> dict:
    begun()
    while not turn.interrupted.wait(DRIP_SECONDS):
        turn.wire.raw(b"x")
    turn.wire.raw(b"\n")
    return {"stopReason": "cancelled"}


@fault("turn")
def beats_for_ever(turn: Turn) -> dict:
    begun()
    while not turn.interrupted.wait(DRIP_SECONDS):
        turn.say_text(". ")
    return {"stopReason": "cancelled"}


@fault("turn")
def stops_itself(_: Turn) -> dict:
    begun()
    os.kill(os.getpid(), signal.SIGSTOP)
    stay_away()  # this thread may be stopped a moment later
    return DONE


@fault("turn")
def hears_no_more(turn: Turn) -> dict:
    """Ask for files whose answers are never read, until the pipe to us is full."""
    turn.wire.settle = lambda _: stay_away()
    begun()
    for number in range(50):
        params = {"sessionId": turn.session.id, "path": f"/no_such_{number}_" + "x" * 10_000}
        turn.wire.say({"id": number, "method": "fs/read_text_file", "params": params})
    stay_away()
    return DONE


@fault("turn")
def flushes_late(turn: Turn) -> dict:
    """Say one thing more after a cancel."""
    turn.say_text("begun")
    begun()
    turn.interrupted.wait()
    threading.Event().wait(LATE_SECONDS)
    turn.say_text(", and the last words")
    return {"stopReason": "cancelled"}


# --- how it ends -----------------------------------------------------------------------------


@fault("turn")
def closes_stdout(_: Turn) -> dict:
    begun()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    stay_away()
    return DONE


@fault("turn")
def leaves_in_the_turn(turn: Turn) -> dict:
    begun()
    turn.say_text("said before")
    os._exit(0)


@fault("turn")
def exits_3(turn: Turn) -> dict:
    begun()
    turn.say_text("said before")
    os.write(2, f"{NOISE}the disk is full\n".encode())
    os._exit(3)


@fault("turn")
def is_killed(turn: Turn) -> dict:
    begun()
    turn.wire.raw(b'{"method": "session/')
    die(signal.SIGKILL)
    return DONE


@fault("turn")
def crashes(_: Turn) -> dict:
    begun()
    __import__("ctypes").string_at(0)
    return DONE


@fault("turn")
def kills_its_group(_: Turn) -> dict:
    begun()
    os.killpg(0, signal.SIGKILL)
    return DONE


@fault("start")
def ignores_term(_: Agent) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


FAULTS["ignores_term"]["end"] = lambda _: signal.pause()


@fault("turn")
def leaves_a_family(_: Turn) -> dict:
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
def a_child_holds_the_pipe(turn: Turn) -> dict:
    begun()
    child = subprocess.Popen(NAP, start_new_session=True, stdout=1, stderr=2)
    (home() / "family").write_text(json.dumps([child.pid]))
    turn.say_text("said before")
    os._exit(0)


def fails(_: Turn, code: int, message: str) -> dict:
    begun()
    raise_refused(code, message)
    return {}


for name, number, told in (
    ("busy_for_ever", 429, "Rate limit exceeded. Try again later."),
    ("no_access", 401, "bad key"),
    ("no_room", -32603, "prompt is too long"),
    ("refuses_at_once", -32603, "Internal error"),
):
    FAULTS[name] = {"turn": partial(fails, code=number, message=told)}
FAULTS["refuses_to_go_on"] = {"turn": lambda _: {"stopReason": "refusal"}}
