"""What the fake CLI can do wrong, by name.

A fault replaces what the CLI does at one point: `version`, `start` (before it reads anything), the
answer to a request of the SDK, `turn`, which plays a whole turn, or `end` (after the SDK has gone).
It writes the file `begun` into CLAUDE_CONFIG_DIR when it begins, and into `family` the pids of the
processes it leaves about.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Turn = Any  # of fake_claude.py
Cli = Any

FAULTS: dict[str, dict[str, Any]] = {}
KEY = "sk-live-0123456789abcdef0123"
NOISE = "[claude-code:unrecognized_model] {}\n"
LATE_SECONDS = 0.3
DRIP_SECONDS = 0.02
FLOOD = 100 * 2**20  # bytes of stderr
LONG_LINE = 20 * 2**20
MANY_EVENTS = 20_000
LIMIT_SECONDS = 25
HOG = 512 * 2**20
NAP = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]


def fault(point: str) -> Callable[[Callable], Callable]:
    """Add a function to the table under its own name."""

    def add(fn: Callable) -> Callable:
        FAULTS[fn.__name__] = {"turn": fine, point: fn}
        return fn

    return add


def begun() -> None:
    home().joinpath("begun").touch()


def home() -> Path:
    return Path(os.environ["CLAUDE_CONFIG_DIR"])


def times(name: str) -> int:
    """Return how often any process of this home has come here, this time included."""
    mark = home() / name
    count = len(mark.read_text()) + 1 if mark.exists() else 1
    mark.write_text("x" * count)
    return count


def die(signum: int) -> None:
    os.kill(os.getpid(), signum)
    signal.pause()


def fine(turn: Turn, text: str = "all is well") -> None:
    """End a turn as a good CLI does."""
    turn.say_text(text)
    turn.use(input_tokens=100, output_tokens=10)
    turn.end()


def aborted(turn: Turn) -> None:
    turn.end("aborted_streaming", is_error=True, subtype="error_during_execution")


def stay(turn: Turn) -> None:
    """Say nothing any more; an interrupt is obeyed."""
    begun()
    turn.interrupted.wait()
    aborted(turn)


# --- before the first turn -------------------------------------------------------------------


@fault("version")
def version_hangs() -> None:
    signal.pause()


@fault("version")
def version_is_noise() -> None:
    sys.stdout.write("lorem ipsum\n")
    sys.exit(7)


@fault("start")
def dies_at_start(cli: Cli) -> None:
    sys.stderr.write(NOISE * 500)
    sys.stderr.write(f"\x1b[31mfatal: the key {KEY} is not valid\x1b[0m\n{NOISE}")
    sys.exit(1)


@fault("start")
def leaves_at_start(cli: Cli) -> None:
    sys.exit(0)


@fault("initialize")
def never_greets(cli: Cli, _: dict) -> None:
    begun()
    signal.pause()


@fault("initialize")
def refuses_to_greet(cli: Cli, message: dict) -> None:
    body = {"subtype": "error", "request_id": message["request_id"], "error": "no, thanks"}
    cli.wire.say({"type": "control_response", "response": body})


@fault("initialize")
def is_too_old_to_guard(cli: Cli, message: dict) -> None:
    cli.wire.answer(message, {})


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
        b"{}",
        b'{"type": 5}',
        b'{"type": "assistant", "message": "none"}',
        b'{"type": "assistant", "message": {"content": [5], "model": "m"}}',
        b'{"type": "user", "message": {"content": [{"type": "tool_result"}]}}',
        b'{"type": "result"}',
        b'{"type": "stream_event", "uuid": 1, "session_id": [], "event": "text"}',
        b'{"type": "control_request"}',
        b'{"type": "control_request", "request_id": "x", "request": {"subtype": []}}',
        b'{"type": "control_request", "request_id": "x", "request": {"subtype": "hook_callback"}}',
        b'{"type": "control_response", "response": 5}',
        b'{"type": "control_cancel_request", "request_id": {}}',
        b'{"type": "system", "subtype": "task_started", "task_id": []}',
        b'{"type": "command_lifecycle", "command_uuid": [], "state": {}}',
        b"",
        b"\0\0",
    ):
        turn.cli.wire.raw(line + b"\r\n")
    turn.tell("assistant", message={"content": [{"type": "text", "text": 5}], "model": []})
    turn.tell("user", message={"content": [{"type": "tool_result", "tool_use_id": {}}]})
    turn.stream(type="content_block_delta", delta=[])
    turn.stream(type="message_delta", usage=[])
    turn.tell("system", subtype="init", mcp_servers=5)
    fine(turn)


@fault("turn")
def broken_bytes(turn: Turn) -> None:
    begun()
    message = {"content": [{"type": "text", "text": "TEXT"}], "model": "m"}
    told = json.dumps({"type": "assistant", "parent_tool_use_id": None, "message": message})
    text = b"bytes \xff\xfe \0 \\ud83d \xe2\x82\xac"
    line = b"\xef\xbb\xbf" + told.encode().replace(b"TEXT", text) + b"\r\n"
    turn.cli.wire.raw(line[:-12])  # also cut within a write
    turn.cli.wire.raw(line[-12:])
    turn.end()


@fault("turn")
def long_line(turn: Turn) -> None:
    begun()
    turn.say_text("before")
    turn.say_text("x" * LONG_LINE)
    fine(turn)


@fault("turn")
def endless_line(turn: Turn) -> None:
    begun()
    turn.delta("before")
    turn.cli.wire.raw(b"x" * LONG_LINE)
    os._exit(0)


@fault("turn")
def half_a_line(turn: Turn) -> None:
    begun()
    turn.delta("said before")
    turn.cli.wire.raw(b'{"type": "assistant", "mess')
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
        turn.delta(f"{number} ")
    fine(turn)


@fault("turn")
def says_all_twice(turn: Turn) -> None:
    """Tell every message but the result twice, and then a contradiction."""
    wire, say = turn.cli.wire, turn.cli.wire.say

    def twice(message: dict) -> None:
        say(message)
        if message["type"] in ("assistant", "user"):
            say(message)

    wire.say = twice
    turn.tool_started("c1", "Bash", {"command": "ls"})
    turn.tool_result("c1", "a")
    wire.say = say
    fine(turn)
    turn.end("api_error", "a contradiction", is_error=True)
    turn.say_text("too late")


@fault("turn")
def says_it_in_disorder(turn: Turn) -> None:
    turn.tool_result("c1", "a")
    turn.tool_started("c1", "Bash", {"command": "ls"})
    turn.stream(type="message_stop")
    turn.tell_message("assistant", [{"type": "text", "text": "all is well"}])
    turn.delta("all is well")
    turn.use(input_tokens=100, output_tokens=10)
    turn.end()


@fault("turn")
def says_nothing(turn: Turn) -> None:
    os.write(2, b"a warning\n")
    turn.end()


@fault("turn")
def mad_usage(turn: Turn) -> None:
    totals: tuple[Any, ...] = (-5, 10**30, 1e30, "many", None, [], True)
    for total in totals:
        turn.stream(type="message_start", message={"usage": {"input_tokens": total}})
        turn.stream(type="message_delta", usage={"output_tokens": total})
        turn.stream(type="message_stop")
    turn.say_text("all is well")
    mad = {"input_tokens": -5, "output_tokens": 10**30}
    turn.end(usage=mad, modelUsage=[5], total_cost_usd=1e300)


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
    turn.tell("system", subtype="informational", content=f"{secrets} {KEY}")
    turn.tool_started("c1", "Bash", {"command": f"echo {KEY}"})
    turn.tool_result("c1", KEY, is_error=True)
    turn.say_text(f"it is {KEY}; {sorted(os.environ)}")
    turn.fail("api_error", f"no access with {KEY}", 401)


@fault("turn")
def transient_error(turn: Turn) -> None:
    turn.tell("system", subtype="api_retry", error_status=529, error="overloaded")
    fine(turn)


# --- what it does not say --------------------------------------------------------------------


FAULTS["silence"] = {"turn": stay}


@fault("turn")
def silence_after_output(turn: Turn) -> None:
    turn.delta("said before")
    stay(turn)


@fault("turn")
def a_command_never_ends(turn: Turn) -> None:
    turn.tool_started("c1", "Bash", {"command": "sleep inf"})
    stay(turn)


@fault("turn")
def spins(turn: Turn) -> None:
    begun()
    while True:
        pass


@fault("turn")
def drips(turn: Turn) -> None:
    begun()
    while not turn.interrupted.wait(DRIP_SECONDS):
        turn.cli.wire.raw(b"x")
    turn.cli.wire.raw(b"\n")
    aborted(turn)


@fault("turn")
def beats_for_ever(turn: Turn) -> None:
    begun()
    while not turn.interrupted.wait(DRIP_SECONDS):
        turn.delta(". ")
    aborted(turn)


@fault("turn")
def stops_itself(turn: Turn) -> None:
    begun()
    os.kill(os.getpid(), signal.SIGSTOP)


@fault("turn")
def hears_no_more(turn: Turn) -> None:
    """Ask for tools whose answers are never read, until the pipe to us is full."""
    turn.cli.wire.settle = lambda _: signal.pause()
    begun()
    for number in range(50):
        message = {"id": number, "jsonrpc": "2.0", "method": "x" * 10_000}
        request = {"subtype": "mcp_message", "server_name": "none", "message": message}
        asked = {"type": "control_request", "request_id": f"r{number}", "request": request}
        turn.cli.wire.say(asked)


@fault("turn")
def flushes_late(turn: Turn) -> None:
    """Say one thing more after an interrupt."""
    turn.delta("begun")
    begun()
    turn.interrupted.wait()
    threading.Event().wait(LATE_SECONDS)
    turn.say_text("begun, and the last words")
    aborted(turn)


@fault("interrupt")
def ignores_interrupts(cli: Cli, message: dict) -> None:
    cli.wire.answer(message, {})


FAULTS["ignores_interrupts"]["turn"] = stay


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
    turn.delta("said before")
    os.write(2, f"the disk is full\n{NOISE}".encode())
    os._exit(3)


@fault("turn")
def is_killed(turn: Turn) -> None:
    begun()
    turn.cli.wire.raw(b'{"type": "assist')
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
    if times("died") == 1:
        begun()
        die(signal.SIGKILL)
    fine(turn)


@fault("start")
def ignores_term(cli: Cli) -> None:
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


@fault("turn")
def busy_twice(turn: Turn) -> None:
    if times("turns") < 3:
        turn.fail("api_error", "API Error: 503", 503)
    else:
        fine(turn)


@fault("turn")
def limit_was_hit(turn: Turn) -> None:
    """Be over a limit that ends after a while, the first time."""
    if times("turns") == 1:
        begun()
        info = {"status": "rejected", "resetsAt": int(time.time()) + LIMIT_SECONDS}
        turn.tell("rate_limit_event", rate_limit_info=info)
        turn.fail("api_error", "You have hit your limit", 429)
    else:
        fine(turn)


def fails(turn: Turn, reason: str, text: str, status: int) -> None:
    begun()
    turn.fail(reason, text, status)


for name, given in (
    ("busy_for_ever", ("api_error", "API Error: 429 slow down", 429)),
    ("no_access", ("api_error", "Failed to authenticate.\nAPI Error: 401 bad key", 401)),
    ("no_room", ("prompt_too_long", "Prompt is too long", 400)),
):
    reason, text, status = given
    FAULTS[name] = {"turn": partial(fails, reason=reason, text=text, status=status)}
