"""What the small agent can do wrong beside the faults of every program, by name.

A fault replaces what the agent does at one point: `version`, `start` (before it reads anything),
the answer to a method, `turn`, which plays a whole prompt, or `end` (after its client has gone).
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_testing.faults import KEY, begun, fine, shared_faults, stay, stay_away, times

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

Agent = Any  # of fake_acp.py

DONE = {"stopReason": "end_turn"}


class Turn:
    """A turn of fake_acp.py, as the faults know turns: its end is the answer to the prompt."""

    def __init__(self, turn: Any) -> None:
        self._of = turn
        self.interrupted: threading.Event = turn.interrupted
        self.raw = turn.wire.raw
        self.say = self.delta = turn.say_text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def finish(self) -> dict:
        return {**DONE, "usage": {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}}

    def abort(self) -> dict:
        return {"stopReason": "cancelled"}


FAULTS: dict[str, dict[str, Any]] = {
    name: dict(fault) for name, fault in shared_faults(Turn, subprocess.Popen).items()
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


def deaf(_: Agent, __: dict) -> None:
    begun()


for name, method in (("never_greets", "initialize"), ("never_opens_a_session", "session/new")):
    FAULTS[name] = {method: deaf}


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


@fault("turn")
def garbage(turn: Turn) -> Any:
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
        turn.raw(line + b"\r\n")
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
def broken_bytes(turn: Turn) -> Any:
    session = turn.session.id.encode()
    line = (
        b'\xef\xbb\xbf{"method":"session/update","params":{"sessionId":"%s","update":{'
        b'"sessionUpdate":"agent_message_chunk","content":{"type":"text",'
        b'"text":"bytes \xff\xfe \0 \\ud83d \xe2\x82\xac"}}}}\r\n' % session
    )
    turn.raw(line[:-12])  # also cut within a write
    turn.raw(line[-12:])
    return DONE


@fault("turn")
def says_all_twice(turn: Turn) -> Any:
    about = {"toolCallId": "c1", "kind": "execute", "title": "ls", "rawInput": {"command": "ls"}}
    for _ in range(2):
        turn.tell("tool_call", status="in_progress", **about)
    for status in ("completed", "completed", "failed"):
        turn.tell("tool_call_update", toolCallId="c1", status=status)
    return fine(turn)


@fault("turn")
def says_it_in_disorder(turn: Turn) -> Any:
    about = {"kind": "execute", "title": "ls"}
    turn.tell("tool_call_update", toolCallId="c1", status="completed", **about)
    turn.tell("tool_call", toolCallId="c1", status="in_progress", **about)
    turn.tell("tool_call", toolCallId="c2", status="in_progress", **about)
    return fine(turn)


@fault("turn")
def ends_with_nonsense(turn: Turn) -> Any:
    turn.say("said before")
    return {"stopReason": {"odd": 1}}


@fault("turn")
def mad_usage(turn: Turn) -> Any:
    counts: tuple[Any, ...] = (-5, 10**30, 1e30, "many", None, [])
    for used in counts:
        turn.tell("usage_update", used=used, size=used, cost={"amount": used, "currency": "USD"})
    return {**fine(turn), "usage": {"totalTokens": -5, "inputTokens": 1e30, "outputTokens": 3}}


@fault("turn")
def echoes_secrets(turn: Turn) -> Any:
    begun()
    about = {"toolCallId": "c1", "kind": "execute", "title": f"echo {KEY}"}
    turn.tell("tool_call", status="in_progress", **about)
    turn.tell("tool_call_update", toolCallId="c1", status="failed", rawOutput=KEY)
    turn.say(f"it is {KEY}; {sorted(os.environ)}")
    raise_refused(-32603, "Internal error", {"details": f"unauthorized: no access with {KEY}"})
    return {}


@fault("turn")
def a_command_never_ends(turn: Turn) -> Any:
    about = {"toolCallId": "c1", "kind": "execute", "title": "sleep inf"}
    turn.tell("tool_call", status="in_progress", **about)
    return stay(turn)


FAULTS["is_deaf_to_a_cancel"] = {**FAULTS["silence"], "session/cancel": None}
FAULTS["hears_no_cancel"] = {"session/cancel": None}  # and works on


@fault("turn")
def hears_no_more(turn: Turn) -> Any:
    """Ask for files whose answers are never read, until the pipe to us is full."""
    turn.wire.settle = lambda _: stay_away()
    for number in range(20):
        params = {"sessionId": turn.session.id, "path": f"/no_such_{number}_" + "x" * 10_000}
        turn.wire.say({"id": number, "method": "fs/read_text_file", "params": params})
    begun()
    stay_away()
    return DONE


@fault("turn")
def busy_twice(turn: Turn) -> Any:
    begun()
    if times("turns") < 3:
        raise_refused(503, "Service unavailable")
    return fine(turn)


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
