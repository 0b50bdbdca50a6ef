"""What the fake CLI can do wrong beside the faults of every program, by name.

A fault replaces what the CLI does at one point: `version`, `start` (before it reads anything), the
answer to a request of the SDK, `turn`, which plays a whole turn, or `end` (after the SDK has gone).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_testing.faults import KEY, begun, fine, shared_faults, stay, times

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

Cli = Any  # of fake_claude.py

NOISE = "[claude-code:unrecognized_model] {}\n"
LIMIT_SECONDS = 25


class Turn:
    """A turn of fake_claude.py, as the faults know turns."""

    def __init__(self, turn: Any) -> None:
        self._of = turn
        self.interrupted: threading.Event = turn.interrupted
        self.raw = turn.cli.wire.raw
        self.say = turn.say_text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def finish(self) -> None:
        self.use(input_tokens=100, output_tokens=10)
        self.end()

    def abort(self) -> None:
        self.end("aborted_streaming", is_error=True, subtype="error_during_execution")


FAULTS: dict[str, dict[str, Any]] = {
    name: dict(fault) for name, fault in shared_faults(Turn, subprocess.Popen, NOISE).items()
}


def fault(point: str) -> Callable[[Callable], Callable]:
    """Add a function to the table under its own name."""

    def add(fn: Callable) -> Callable:
        if point == "turn":
            FAULTS[fn.__name__] = {point: lambda turn: fn(Turn(turn))}
        else:
            FAULTS[fn.__name__] = {"turn": lambda turn: fine(Turn(turn)), point: fn}
        return fn

    return add


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
        turn.raw(line + b"\r\n")
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
    turn.raw(line[:-12])  # also cut within a write
    turn.raw(line[-12:])
    turn.end()


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
    turn.say("too late")


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
def mad_usage(turn: Turn) -> None:
    totals: tuple[Any, ...] = (-5, 10**30, 1e30, "many", None, [], True)
    for total in totals:
        turn.stream(type="message_start", message={"usage": {"input_tokens": total}})
        turn.stream(type="message_delta", usage={"output_tokens": total})
        turn.stream(type="message_stop")
    turn.say("all is well")
    mad = {"input_tokens": -5, "output_tokens": 10**30}
    turn.end(usage=mad, modelUsage=[5], total_cost_usd=1e300)


@fault("turn")
def echoes_secrets(turn: Turn) -> None:
    begun()
    secrets = {name: value for name, value in os.environ.items() if "KEY" in name}
    turn.tell("system", subtype="informational", content=f"{secrets} {KEY}")
    turn.tool_started("c1", "Bash", {"command": f"echo {KEY}"})
    turn.tool_result("c1", KEY, is_error=True)
    turn.say(f"it is {KEY}; {sorted(os.environ)}")
    turn.fail("api_error", f"no access with {KEY}", 401)


@fault("turn")
def transient_error(turn: Turn) -> None:
    turn.tell("system", subtype="api_retry", error_status=529, error="overloaded")
    fine(turn)


@fault("turn")
def a_command_never_ends(turn: Turn) -> None:
    turn.tool_started("c1", "Bash", {"command": "sleep inf"})
    stay(turn)


@fault("turn")
def hears_no_more(turn: Turn) -> None:
    """Ask for tools whose answers are never read, until the pipe to us is full."""
    turn.cli.wire.settle = lambda _: signal.pause()
    for number in range(20):
        message = {"id": number, "jsonrpc": "2.0", "method": "x" * 10_000}
        request = {"subtype": "mcp_message", "server_name": "none", "message": message}
        asked = {"type": "control_request", "request_id": f"r{number}", "request": request}
        turn.cli.wire.say(asked)
    begun()


@fault("interrupt")
def ignores_interrupts(cli: Cli, message: dict) -> None:
    cli.wire.answer(message, {})


FAULTS["ignores_interrupts"] |= FAULTS["silence"]


@fault("turn")
def busy_twice(turn: Turn) -> None:
    begun()
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
