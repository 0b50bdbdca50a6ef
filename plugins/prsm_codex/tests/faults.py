"""What the fake app-server can do wrong beside the faults of every program, by name.

A fault replaces what the server does at one point: `version`, `start` (before it reads anything),
the answer to a method, `turn`, which plays a whole turn, or `end` (after its client has gone).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_testing.faults import KEY, begun, die, fine, shared_faults, stay, times

if TYPE_CHECKING:
    from collections.abc import Callable

Server = Any  # of fake_codex.py

NOISE = "ERROR state db missing rollout path for thread 0a1b2c\n"
MATE_WAITS = threading.Event()


class Turn:
    """A turn of fake_codex.py, as the faults know turns."""

    def __init__(self, turn: Any) -> None:
        self._of = turn
        self.interrupted: threading.Event = turn.interrupted
        self.raw = turn.server.wire.raw
        self.say = turn.say_text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def delta(self, text: str) -> None:
        self.tell("item/agentMessage/delta", itemId="msg", delta=text)

    def finish(self) -> None:
        self.use(input=100, output=10)
        self.end("completed")

    def abort(self) -> None:
        self.end("interrupted")


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


def deaf(server: Server, _: dict) -> None:
    begun()
    signal.pause()


for name, method in (
    ("never_greets", "initialize"),
    ("never_opens_a_thread", "thread/start"),
    ("never_starts_a_turn", "turn/start"),
):
    FAULTS[name] = {method: deaf}


@fault("thread/start")
def opens_nonsense(server: Server, _: dict) -> dict:
    return {"thread": ["no", "id"]}


@fault("turn/start")
def starts_nonsense(server: Server, _: dict) -> dict:
    return {"turn": None}


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
        turn.raw(line + b"\r\n")
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
    turn.raw(marked[:-12])  # also cut within a write
    turn.raw(marked[-12:])
    item = {"type": "agentMessage", "id": "b", "text": "TEXT"}
    done = json.dumps({"threadId": turn.thread.id, "turnId": turn.id, "item": item})
    told = f'{{"method": "item/completed", "params": {done}}}\r\n'
    text = b"bytes \xff\xfe \0 \\ud83d \xe2\x82\xac"
    turn.raw(told.encode().replace(b"TEXT", text))
    turn.end("completed")


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
    turn.say("too late")


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
    turn.finish()


@fault("turn")
def mad_usage(turn: Turn) -> None:
    totals: tuple[Any, ...] = (-5, 10**30, 1e30, "many", None, [], True)
    for total in totals:
        usage = {"total": {"totalTokens": total, "inputTokens": total, "outputTokens": 3}}
        turn.tell("thread/tokenUsage/updated", tokenUsage=usage)
    turn.say("all is well")
    turn.end("completed")


@fault("turn")
def echoes_secrets(turn: Turn) -> None:
    begun()
    secrets = {name: value for name, value in os.environ.items() if "KEY" in name}
    turn.tell("warning", message=f"{secrets} {KEY}")
    item = {"type": "commandExecution", "id": "c1", "command": f"/bin/bash -lc 'echo {KEY}'"}
    turn.tell("item/started", item={**item, "status": "inProgress"})
    done = {**item, "status": "failed", "exitCode": 1, "aggregatedOutput": KEY}
    turn.tell("item/completed", item=done)
    turn.say(f"it is {KEY}; {sorted(os.environ)}")
    turn.end("failed", {"message": f"no access with {KEY}", "codexErrorInfo": "unauthorized"})


@fault("turn")
def transient_error(turn: Turn) -> None:
    turn.tell("error", willRetry=True, error={"message": "Reconnecting... 1/5"})
    fine(turn)


@fault("turn")
def a_command_never_ends(turn: Turn) -> None:
    item = {"type": "commandExecution", "id": "c1", "command": "/bin/bash -lc 'sleep inf'"}
    turn.tell("item/started", item={**item, "status": "inProgress"})
    stay(turn)


@fault("turn")
def hears_no_more(turn: Turn) -> None:
    """Ask for tools whose answers are never read, until the pipe to us is full."""
    turn.server.wire.settle = lambda _: signal.pause()
    for number in range(20):
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
    begun()


@fault("turn")
def dies_under_two(turn: Turn) -> None:
    """Die under all agents that run, the first time only."""
    if "[[dies]]" in str(turn.text) and times("died") == 1:
        MATE_WAITS.wait()
        begun()
        die(signal.SIGKILL)
    if turn.text is None or "[[dies]]" in turn.text:
        fine(turn)
    else:
        MATE_WAITS.set()
        turn.interrupted.wait()  # until the other one takes the server with it


def fails(turn: Turn, message: str, info: Any) -> None:
    turn.end("failed", {"message": message, "codexErrorInfo": info})


@fault("turn")
def busy_twice(turn: Turn) -> None:
    begun()
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
