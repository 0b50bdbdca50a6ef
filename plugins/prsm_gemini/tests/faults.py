"""What the fake `gemini` can do wrong, by name: each plays a whole run, without a model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Out = Any  # of fake_gemini.py

FAULTS: dict[str, Callable[[Any, Any], int | None]] = {}
FLOOD = 30 * 2**20  # bytes of stderr
LONG_LINE = 20 * 2**20
MANY_EVENTS = 20_000
NAP = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]


def fault(fn: Callable[..., int | None]) -> Callable[..., int | None]:
    """Add a function to the table under its own name."""
    FAULTS[fn.__name__] = fn
    return fn


def settings() -> Any:
    home = Path(os.environ["GEMINI_CLI_HOME"])
    return json.loads((home / ".gemini" / "settings.json").read_text())


def ask(event: str, **fields: Any) -> Any:
    """Run a hook of the settings and return its answer."""
    command = settings()["hooks"][event][0]["hooks"][0]["command"]
    told = json.dumps({"hook_event_name": event, **fields}).encode()
    done = subprocess.run(["bash", "-c", command], input=told, capture_output=True, check=False)
    return json.loads(done.stdout)


def begin(out: Out) -> None:
    """Do what a run does before its model speaks."""
    out.say("init", session_id="s", model="m")
    Path(os.environ["GEMINI_CLI_HOME"], "asking").touch()
    ask("BeforeAgent", prompt="p")
    Path(os.environ["GEMINI_CLI_HOME"], "begun").touch()


def fine(out: Out, text: str = "all is well") -> None:
    out.text(text)
    out.result(stats={"input_tokens": 100, "output_tokens": 10, "cached": 0, "total_tokens": 110})


@fault
def no_events(out: Out, _: Any) -> int:
    return 0


@fault
def cause_on_stderr(out: Out, _: Any) -> int:
    for _n in range(500):
        sys.stderr.write("Ripgrep is not available. Falling back to GrepTool.\n")
    sys.stderr.write("\x1b[31mfatal:\x1b[0m the disk is full\n")
    return 1


@fault
def not_logged_in(out: Out, _: Any) -> int:
    sys.stderr.write("Invalid auth method selected.\n")
    return 41


@fault
def error_but_exit_0(out: Out, _: Any) -> int:
    begin(out)
    out.text("said before")
    out.say("error", severity="error", message="Model stream ended without a finish reason.")
    out.result("error")
    return 0


@fault
def error_then_success(out: Out, _: Any) -> int:
    """A result of success counts for nothing beside an error."""
    begin(out)
    out.say("error", severity="error", message="it went wrong")
    fine(out)
    return 0


@fault
def warning_then_success(out: Out, _: Any) -> None:
    begin(out)
    out.say("error", severity="warning", message="Loop detected, stopping execution")
    fine(out)


@fault
def exit_0_without_result(out: Out, _: Any) -> int:
    begin(out)
    out.text("said before")
    return 0


@fault
def success_but_exit_3(out: Out, _: Any) -> int:
    begin(out)
    fine(out)
    return 3


@fault
def is_killed(out: Out, _: Any) -> None:
    begin(out)
    out.raw(b'{"type":"message","role":"assist')
    os.kill(os.getpid(), signal.SIGKILL)


@fault
def flood_of_stderr(out: Out, _: Any) -> None:
    begin(out)
    sys.stderr.write("x" * FLOOD)
    fine(out)


@fault
def many_events(out: Out, _: Any) -> None:
    begin(out)
    line = json.dumps({"type": "message", "role": "assistant", "content": "a "}).encode() + b"\n"
    out.raw(line * MANY_EVENTS)
    fine(out)


@fault
def long_line(out: Out, _: Any) -> None:
    begin(out)
    out.text("before")
    out.raw(b'{"type":"message","content":"' + b"x" * LONG_LINE + b'"}\n')
    fine(out)


@fault
def garbage(out: Out, _: Any) -> None:
    begin(out)
    out.raw(b"\xff\xfe no event\n[1]\nnull\n{}\n" + b"[" * 100_000 + b"\n")
    out.raw(b'{"type":["odd"]}\n{"type":"message","role":"assistant","content":7}\n')
    out.raw(b'\xef\xbb\xbf{"type":"message","role":"assistant","content":"all "}\r\n')
    out.raw(b'{"type":"tool_result"}\n{"type":"tool_use","parameters":3,"tool_id":"odd"}\n')
    fine(out, "is \udcff well".encode(errors="surrogateescape").decode(errors="replace"))


@fault
def says_all_twice(out: Out, _: Any) -> None:
    begin(out)
    for _n in range(2):
        out.say("tool_use", tool_name="update_topic", tool_id="t", parameters={})
        error = {"type": "tool_not_registered", "message": "no such tool"}
        out.say("tool_result", tool_id="t", status="error", error=error)
    fine(out)
    fine(out, "again")


@fault
def mad_usage(out: Out, _: Any) -> None:
    begin(out)
    out.text("all is well")
    out.result(stats={"input_tokens": -1, "output_tokens": 1e30, "total_tokens": True})


@fault
def silence(out: Out, _: Any) -> None:
    Path(os.environ["GEMINI_CLI_HOME"], "begun").touch()
    signal.pause()


@fault
def ignores_term(out: Out, _: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begin(out)
    out.text("still here ")
    while True:
        signal.pause()


@fault
def a_child_holds_the_pipe(out: Out, _: Any) -> None:
    begin(out)
    subprocess.Popen(NAP, start_new_session=True)
    fine(out)


@fault
def closes_stdout(out: Out, _: Any) -> None:
    begin(out)
    out.text("said before")
    os.close(1)
    signal.pause()


@fault
def lingers_after_its_result(out: Out, _: Any) -> None:
    begin(out)
    fine(out)
    signal.pause()


@fault
def reads_no_prompt(out: Out, _: Any) -> None:
    os.close(0)
    begin(out)
    fine(out)


@fault
def runs_no_hooks(out: Out, _: Any) -> None:
    out.say("init", session_id="s", model="m")
    out.text("I do as I like ")
    signal.pause()


@fault
def runs_a_tool_unasked(out: Out, _: Any) -> None:
    begin(out)
    out.say("tool_use", tool_name="run_shell_command", tool_id="c", parameters={"command": "rm"})
    out.say("tool_result", tool_id="c", status="success", output="gone")
    signal.pause()


@fault
def terminal_tricks(out: Out, _: Any) -> int:
    sys.stderr.write("\x1b]52;c;aGk=\x07\x1b[2J\u202e[bold]lost cause\n")
    return 5


@fault
def dies_with_its_family(out: Out, _: Any) -> int:
    begin(out)
    nap = [*NAP[:-1], "import signal; signal.signal(15, signal.SIG_IGN)\nsignal.pause()"]
    pids = [subprocess.Popen(nap, start_new_session=True).pid for _n in range(3)]
    Path(os.environ["GEMINI_CLI_HOME"], "family").write_text(json.dumps(pids))
    fine(out)
    return 0


@fault
def version_hangs(out: Out, _: Any) -> None:
    signal.pause()
