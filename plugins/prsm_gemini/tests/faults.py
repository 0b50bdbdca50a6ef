"""What the fake `gemini` can do wrong beside the faults of every program, by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_testing.faults import KEY, begun, fine, linger, shared_faults, stay, times

if TYPE_CHECKING:
    from collections.abc import Callable

NOISE = "Ripgrep is not available. Falling back to GrepTool.\n"
NAP = ["sh", "-c", "trap '' TERM; exec sleep infinity"]
LIMIT = {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}


class Turn:
    """A turn that its hook has let begin; a signal is all that interrupts it."""

    def __init__(self, out: Any) -> None:
        self.interrupted = threading.Event()
        self.out = out
        self.raw = out.raw
        self.say = self.delta = out.text
        begin(out)

    def finish(self) -> int:
        used = {"input_tokens": 100, "output_tokens": 10, "cached": 0, "total_tokens": 110}
        self.out.result(stats=used)
        return 0

    def abort(self) -> int:
        return 0


FAULTS: dict[str, dict[str, Callable[..., Any]]] = {
    name: dict(fault) for name, fault in shared_faults(Turn, subprocess.Popen, NOISE).items()
}


def fault(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Add a function that plays a whole run to the table, under its own name."""
    FAULTS[fn.__name__] = {"turn": fn}
    return fn


def settings() -> Any:
    home = Path(os.environ["GEMINI_CLI_HOME"])
    return json.loads((home / ".gemini" / "settings.json").read_text())


def ask(event: str, **fields: Any) -> Any:
    """Run a hook of the settings and return its answer."""
    hook = settings()["hooks"][event][0]["hooks"][0]
    told = json.dumps({"hook_event_name": event, **fields}).encode()
    argv, env = ["bash", "-c", hook["command"]], {**os.environ, **hook["env"]}
    done = subprocess.run(argv, env=env, input=told, capture_output=True, check=False)
    return json.loads(done.stdout)


def begin(out: Any) -> None:
    """Do what a run does before its model speaks."""
    out.say("init", session_id="s", model="m")
    Path(os.environ["GEMINI_CLI_HOME"], "asking").touch()
    ask("BeforeAgent", prompt="p")
    Path(os.environ["GEMINI_CLI_HOME"], "begun").touch()


@fault
def not_logged_in(out: Any) -> int:
    sys.stderr.write("Invalid auth method selected.\n")
    return 41


@fault
def error_but_exit_0(out: Any) -> int:
    begin(out)
    out.text("said before")
    out.say("error", severity="error", message="Model stream ended without a finish reason.")
    out.result("error")
    return 0


@fault
def error_then_success(out: Any) -> int:
    """A result of success counts for nothing beside an error."""
    turn = Turn(out)
    out.say("error", severity="error", message="it went wrong")
    fine(turn)
    return 0


@fault
def warning_then_success(out: Any) -> None:
    turn = Turn(out)
    out.say("error", severity="warning", message="Loop detected, stopping execution")
    fine(turn)


@fault
def exit_0_without_result(out: Any) -> int:
    begin(out)
    out.text("said before")
    return 0


@fault
def success_but_exit_3(out: Any) -> int:
    fine(Turn(out))
    return 3


@fault
def never_begins(out: Any) -> None:
    Path(os.environ["GEMINI_CLI_HOME"], "begun").touch()
    signal.pause()


@fault
def lingers_after_its_result(out: Any) -> None:
    fine(Turn(out))
    signal.pause()


@fault
def reads_no_prompt(out: Any) -> None:
    os.close(0)
    fine(Turn(out))


@fault
def heeds_no_term(out: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Turn(out).say("still here ")
    while True:
        signal.pause()


@fault
def runs_no_hooks(out: Any) -> None:
    out.say("init", session_id="s", model="m")
    out.text("I do as I like ")
    signal.pause()


@fault
def runs_a_tool_unasked(out: Any) -> None:
    begin(out)
    out.say("tool_use", tool_name="run_shell_command", tool_id="c", parameters={"command": "rm"})
    out.say("tool_result", tool_id="c", status="success", output="gone")
    signal.pause()


@fault
def dies_with_its_family(out: Any) -> int:
    turn = Turn(out)
    pids = [subprocess.Popen(NAP, start_new_session=True).pid for _n in range(3)]
    Path(os.environ["GEMINI_CLI_HOME"], "family").write_text(json.dumps(pids))
    fine(turn)
    return 0


@fault
def garbage(out: Any) -> int:
    turn = Turn(out)
    for line in (
        b"lorem ipsum",
        b"\xff\xfe no event",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1]",
        b"null",
        b"{}",
        b'{"type":["odd"]}',
        b'{"type":"message","role":"assistant","content":7}',
        b'{"type":"tool_result"}',
        b'{"type":"tool_use","parameters":3,"tool_id":"odd","tool_name":[]}',
        b'{"type":"error","severity":"warning","message":{}}',
        b"",
        b"\0\0",
    ):
        turn.raw(line + b"\r\n")
    return int(fine(turn))


@fault
def broken_bytes(out: Any) -> int:
    turn = Turn(out)
    text = b"bytes \xff\xfe \0 \\ud83d \xe2\x82\xac"
    line = b'\xef\xbb\xbf{"type":"message","role":"assistant","content":"%s"}\r\n' % text
    turn.raw(line[:-12])  # also cut within a write
    turn.raw(line[-12:])
    return turn.finish()


@fault
def says_all_twice(out: Any) -> int:
    """Tell a call twice, and the end; then a contradiction."""
    turn = Turn(out)
    for _n in range(2):
        out.say("tool_use", tool_name="update_topic", tool_id="t", parameters={})
    for _n in range(2):
        error = {"type": "tool_not_registered", "message": "no such tool"}
        out.say("tool_result", tool_id="t", status="error", error=error)
    fine(turn)
    turn.finish()
    out.text("too late")
    out.result("error")
    return 0


@fault
def says_it_in_disorder(out: Any) -> int:
    turn = Turn(out)
    error = {"type": "tool_not_registered", "message": "no such tool"}
    out.say("tool_result", tool_id="t", status="error", error=error)
    out.say("tool_use", tool_name="update_topic", tool_id="t", parameters={})
    return int(fine(turn))


@fault
def mad_usage(out: Any) -> None:
    Turn(out).say("all is well")
    out.result(stats={"input_tokens": -1, "output_tokens": 1e30, "total_tokens": True})


@fault
def transient_error(out: Any) -> int:
    turn = Turn(out)
    out.say("error", severity="warning", message="Retrying with backoff")
    return int(fine(turn))


@fault
def a_command_never_ends(out: Any) -> int:
    turn = Turn(out)
    ask("BeforeTool", tool_name="run_shell_command", tool_input={"command": "sleep inf"})
    arguments = {"command": "sleep inf"}
    out.say("tool_use", tool_name="run_shell_command", tool_id="c", parameters=arguments)
    return int(stay(turn))


@fault
def echoes_secrets(out: Any) -> int:
    turn = Turn(out)
    begun()
    out.say("error", severity="warning", message=f"a warning with {KEY}")
    out.say("tool_use", tool_name="update_topic", tool_id="t", parameters={"title": KEY})
    error = {"type": "tool_not_registered", "message": KEY}
    out.say("tool_result", tool_id="t", status="error", output=KEY, error=error)
    turn.say(f"it is {KEY}; {sorted(os.environ)}")
    return fails(turn, {"code": 401, "message": f"no access with {KEY}"})


def fails(turn: Turn, error: dict) -> int:
    told = f"[API Error: {json.dumps({'error': error})}]"
    turn.out.result("error", error={"type": "unknown", "message": told})
    return int(error["code"]) & 0xFF


@fault
def busy_twice(out: Any) -> int:
    turn = Turn(out)
    begun()
    if times("turns") < 3:
        return fails(turn, {"code": 503, "message": "The model is overloaded."})
    return int(fine(turn))


@fault
def busy_for_ever(out: Any) -> int:
    turn = Turn(out)
    begun()
    return fails(turn, LIMIT)


@fault
def no_access(out: Any) -> int:
    return fails(Turn(out), {"code": 401, "message": "bad key"})


@fault
def no_room(out: Any) -> int:
    told = "The input token count exceeds the maximum number of tokens allowed"
    return fails(Turn(out), {"code": 400, "message": told})


def deaf(*_: object) -> None:
    """Never read the prompt."""
    linger()


FAULTS["hears_no_more"] = {"start": deaf}
