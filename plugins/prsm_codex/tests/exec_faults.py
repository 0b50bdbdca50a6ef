"""What the fake `codex exec` can do wrong beside the faults of every program, by name."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_testing.faults import (
    KEY,
    MANY_EVENTS,
    begun,
    fine,
    linger,
    shared_faults,
    stay,
    stay_away,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NOISE = "ERROR codex_core::rollout: state db missing rollout path for thread 0a1b\n"
RUN = {"type": "command_execution", "command": "/bin/bash -lc ls"}


class Turn:
    """A turn on stdout; a signal is all that interrupts it."""

    def __init__(self, _: object) -> None:
        self._numbers = itertools.count()
        self.interrupted = threading.Event()
        self.tell("thread.started", thread_id="t1")
        self.tell("turn.started")

    def raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def tell(self, kind: str, **fields: Any) -> None:
        self.raw(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def item(self, kind: str, **item: Any) -> None:
        self.tell(f"item.{kind}", item={"id": "call", **item})

    def say(self, text: str) -> None:
        name = f"item_{next(self._numbers)}"
        self.item("completed", id=name, type="agent_message", text=text)

    delta = say  # nothing comes in pieces

    def finish(self) -> int:
        self.tell("turn.completed", usage={"input_tokens": 100, "output_tokens": 10})
        return 0

    def abort(self) -> int:
        return 1


FAULTS: dict[str, dict[str, Any]] = {
    name: dict(fault) for name, fault in shared_faults(Turn, subprocess.Popen, NOISE).items()
}


def fault(fn: Callable[[Turn], int]) -> Callable[[Turn], int]:
    """Add a function that plays a whole turn to the table, under its own name."""
    FAULTS[fn.__name__] = {"turn": lambda turn: fn(Turn(turn))}
    return fn


@fault
def garbage(turn: Turn) -> int:
    for line in (
        b"lorem ipsum",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1, 2]",
        b"null",
        b"{}",
        b'{"type": 5}',
        b'{"type": ["item.completed"]}',
        b'{"type": "item.completed", "item": 5}',
        b'{"type": "item.started", "item": {"type": [], "id": {}}}',
        b'{"type": "thread.started", "thread_id": {}}',
        b'{"type": "error", "message": 5}',
        b"",
        b"\0\0",
    ):
        turn.raw(line + b"\r\n")
    turn.item("completed", type="reasoning", text=5)
    turn.item("completed", type="mcp_tool_call", server=[], tool={}, status=5, result=[5])
    return int(fine(turn))


@fault
def broken_bytes(turn: Turn) -> int:
    told = {"type": "item.completed", "item": {"type": "agent_message", "text": "TEXT"}}
    text = b"bytes \xff\xfe \0 \\ud83d \xe2\x82\xac"
    line = b"\xef\xbb\xbf" + json.dumps(told).encode().replace(b"TEXT", text) + b"\r\n"
    turn.raw(line[:-12])  # also cut within a write
    turn.raw(line[-12:])
    return turn.finish()


@fault
def says_all_twice(turn: Turn) -> int:
    """Tell every line twice, and then a contradiction."""
    done = {**RUN, "status": "completed", "exit_code": 0, "aggregated_output": "a"}
    for _ in range(2):
        turn.tell("turn.started")
        turn.item("started", **RUN, status="in_progress")
    for _ in range(2):
        turn.item("completed", **done)
    for _ in range(2):
        turn.item("completed", id="m", type="agent_message", text="all is well")
    for _ in range(2):
        turn.finish()
    turn.tell("turn.failed", error={"message": "a contradiction"})
    return 0


@fault
def says_it_in_disorder(turn: Turn) -> int:
    done = {**RUN, "status": "completed", "exit_code": 0, "aggregated_output": "a"}
    turn.item("completed", **done)
    turn.item("started", **RUN, status="in_progress")
    return int(fine(turn))


@fault
def mad_usage(turn: Turn) -> int:
    turn.say("all is well")
    mad = {"input_tokens": -5, "output_tokens": 1e30, "cached_input_tokens": "many"}
    turn.tell("turn.completed", usage=mad)
    return 0


@fault
def event_flood(turn: Turn) -> int:
    for _ in range(MANY_EVENTS):
        turn.item("updated", type="reasoning", text="x")
    return int(fine(turn))


@fault
def transient_error(turn: Turn) -> int:
    turn.tell("error", message="Reconnecting... 1/5")
    return int(fine(turn))


@fault
def a_command_never_ends(turn: Turn) -> int:
    turn.item("started", **RUN, status="in_progress")
    return int(stay(turn))


@fault
def echoes_secrets(turn: Turn) -> int:
    begun()
    turn.item("completed", type="error", message=f"a warning with {KEY}")
    turn.item("started", **{**RUN, "command": f"echo {KEY}"}, status="in_progress")
    failed = {"status": "failed", "exit_code": 1, "aggregated_output": KEY}
    turn.item("completed", **{**RUN, "command": f"echo {KEY}"}, **failed)
    turn.say(f"it is {KEY}; {sorted(os.environ)}")
    return fails(turn, f"unexpected status 401: no access with {KEY}")


def fails(turn: Any, message: str) -> int:
    turn.tell("turn.failed", error={"message": message})
    return 1


@fault
def busy_twice(turn: Turn) -> int:
    begun()
    if times("turns") < 3:
        return fails(turn, "unexpected status 503 Unavailable")
    return int(fine(turn))


@fault
def busy_for_ever(turn: Turn) -> int:
    begun()
    return fails(turn, "exceeded retry limit, last status: 429 Too Many Requests")


@fault
def completes_but_exits_3(turn: Turn) -> int:
    fine(turn)
    return 3


for name, told in (
    ("no_access", "unexpected status 401 Unauthorized: bad key"),
    ("no_room", "Codex ran out of room in the model's context window."),
):
    fault_of = partial(fails, message=told)
    FAULTS[name] = {"turn": lambda turn, play=fault_of: play(Turn(turn))}


def deaf(*_: object) -> None:
    """Never read the prompt."""
    begun()
    stay_away()


FAULTS["hears_no_more"] = {"start": deaf}
FAULTS["closes_its_input"] = {
    "start": lambda *_: os.close(0),
    "turn": lambda turn: fine(Turn(turn)),
}
FAULTS["lingers_after_its_result"] = {"turn": lambda turn: fine(Turn(turn)), "end": linger}
