"""Each saboteur in a process of the real command: it ends, with its exit code, and names who."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

pytestmark = pytest.mark.requirement("C5", "F9")

DEADLINE = 120.0  # seconds; a process that needs them has failed
AT_ONCE = 6
SHORT = 16  # every so many plays of a group: all of them take minutes
MAIN = "import sys; from prsm_core.cli import main; sys.exit(main())"
_PAUSE = Event()
SAYS = ("run", "say hello", "--provider", "echo")
ASKS = ("run", "ask", "--provider", "echo")
FACE = (*SAYS, "--ui", "face")
BAD = ("run", "say hello", "--provider", "badprovider")


@dataclass(frozen=True)
class Play:
    """A sabotage by `saboteur.py`, a command, and what it must come to."""

    deed: str
    argv: tuple[str, ...]
    code: int
    told: tuple[str, ...]
    out: str = ""
    interrupt_at: str | None = None  # a line of stderr after which Ctrl-C is pressed
    seconds: float = 30.0  # that a plugin has to load
    silent: str | None = None  # what stdout must not have


SOON = ("--set", "engine.open_timeout_seconds=2")
JUDGE = ("policy", "check", "ls")
MISSING, MAY_BE = "permission checks are missing", "checks may be missing"
ECHO = "echo: say hello\n"
LOST = "sink badsink lost"
PLAYS = {
    "blocking": (
        Play("write:block", SAYS, 0, ("of prsm-bad 1.0", "has blocked all", LOST), ECHO),
        Play("write:spin", SAYS, 0, ("spin of prsm-bad 1.0", "has blocked all agents", LOST), ECHO),
        Play("sink:block", SAYS, 0, ("event sink badsink (prsm-bad 1.0)", "blocked all"), ECHO),
        Play("check:block", ASKS, 1, ("has blocked all agents", "badcheck")),
        Play("turn:block", BAD, 1, ("provider badprovider (prsm-bad 1.0)", "blocked all agents")),
        Play("turn:spin", BAD, 1, ("provider badprovider (prsm-bad 1.0)", "blocked all agents")),
        Play("probe:block", BAD, 3, ("provider badprovider", "blocked all agents")),
        Play("frontend:block", FACE, 1, ("frontend face (prsm-bad 1.0)",), "face: echo:"),
    ),
    "leaving": (
        Play("write:exit", SAYS, 0, ("event sink badsink (prsm-bad 1.0) failed in write",), ECHO),
        Play("write:task-exits", SAYS, 0, ("leave of prsm-bad 1.0", "called sys.exit(7)"), ECHO),
        Play("write:callback-exits", SAYS, 0, ("of prsm-bad 1.0", "called sys.exit(9)"), ECHO),
        Play("write:stop-loop", SAYS, 0, ("of prsm-bad 1.0", "stop the event loop"), ECHO),
        Play("turn:exit", BAD, 1, ("provider badprovider (prsm-bad 1.0) failed in run_turn",)),
        Play("provider:exit", BAD, 3, ("provider badprovider (prsm-bad 1.0) failed in",)),
        Play("frontend:exit", FACE, 1, ("frontend face (prsm-bad 1.0) failed in run",), "face: "),
        Play("face:exit", FACE, 1, ("frontend face (prsm-bad 1.0) failed in its factory",)),
        Play("frontend:none", FACE, 1, (), "face: echo:"),
        Play("frontend:text", FACE, 1, ("frontend face (prsm-bad 1.0)", "no exit code"), "face: "),
        Play("frontend:big", FACE, 1, ("frontend face", "999", "no exit code"), "face: "),
    ),
    "staying": (
        Play("write:thread", SAYS, 0, ("of prsm-bad 1.0", "left behind"), ECHO),
        Play("write:at-exit", SAYS, 0, ("runs at exit", "of prsm-bad 1.0"), ECHO),
        Play("write:task-swallows", SAYS, 0, ("swallow of prsm-bad 1.0", "left behind"), ECHO),
        Play("write:swallow", SAYS, 0, ("event sink badsink (prsm-bad 1.0)", LOST), ECHO),
        Play("write:hang", SAYS, 0, ("event sink badsink (prsm-bad 1.0)", LOST), ECHO),
        Play("write:to-thread", SAYS, 0, ("event sink badsink (prsm-bad 1.0)", LOST), ECHO),
        Play("aclose:swallow", SAYS, 0, ("event sink badsink (prsm-bad 1.0)",), ECHO),
        Play("frontend:thread", FACE, 42, ("of prsm-bad 1.0", "left behind"), "face: echo: say"),
        Play("frontend:at-exit", FACE, 42, ("runs at exit", "of prsm-bad 1.0"), "face: echo: say"),
        Play("check:swallow", ASKS, 1, ("badcheck",)),
        Play(
            "turn:swallow",
            BAD,
            130,
            ("provider badprovider does not let go of master",),
            interrupt_at="swallowing",
        ),
        Play("frontend:swallow", FACE, 130, ("frontend face (prsm-bad 1.0)",), "", "swallowing"),
    ),
    "crossing": (
        Play("write:ctrl-c", SAYS, 0, ("event sink badsink", "failed in write: Keyboard"), ECHO),
        Play("write:task-ctrl-c", SAYS, 0, ("press of prsm-bad 1.0", "raised Keyboard"), ECHO),
        Play("write:callback-ctrl-c", SAYS, 0, ("of prsm-bad 1.0", "raised Keyboard"), ECHO),
        Play("sink:ctrl-c", SAYS, 0, ("event sink badsink (prsm-bad 1.0)", "Keyboard"), ECHO),
        Play("check:ctrl-c", ASKS, 1, ("badcheck",)),
        Play("turn:ctrl-c", BAD, 1, ("provider badprovider (prsm-bad 1.0) failed in run_turn",)),
        Play("open:ctrl-c", BAD, 1, ("badprovider (prsm-bad 1.0) failed in open_session",)),
        Play("provider:ctrl-c", BAD, 3, ("provider badprovider (prsm-bad 1.0) failed in",)),
        Play("frontend:ctrl-c", FACE, 1, ("frontend face (prsm-bad 1.0) failed in run",), "face: "),
        Play("face:ctrl-c", FACE, 1, ("frontend face (prsm-bad 1.0) failed in its factory",)),
        Play("probe:ctrl-c", ("providers",), 0, (), "badprovider"),
        Play("open:hang", (*BAD, *SOON), 1, ("badprovider (prsm-bad 1.0) open_session: it did",)),
        Play("open:swallow", (*BAD, *SOON), 1, ("does not end the opening",)),
    ),
    "printing": (
        Play("write:shout", SAYS, 0, ("of prsm-bad 1.0", "printed: LOUD"), ECHO, silent="LOUD"),
        Play("check:shout", ASKS, 4, ("of prsm-bad 1.0", "printed: LOUD"), silent="LOUD"),
        Play("turn:shout", BAD, 0, ("of prsm-bad 1.0", "printed: LOUD"), silent="LOUD"),
        Play("write:shout", (*SAYS, "--json"), 0, ("printed: LOUD",), "{", silent="LOUD"),
        Play("probe:shout", ("providers",), 0, ("printed: LOUD",), silent="LOUD"),
        Play("check:shout", JUDGE, 0, ("printed: LOUD",), "allow: ", silent="LOUD"),
        Play("frontend:shout", FACE, 42, (), "LOUD"),
    ),
    "judging": (
        Play("check:exit", JUDGE, 1, (), "badcheck"),
        Play("check:ctrl-c", JUDGE, 1, (), "badcheck"),
        Play("check:hang", JUDGE, 1, (), "badcheck"),
        Play("check:swallow", JUDGE, 1, ("left behind",), "badcheck"),
        Play("check:block", JUDGE, 1, ("has blocked all agents",), "badcheck"),
        Play("check:spin", JUDGE, 1, ("has blocked all agents",), "badcheck"),
        Play("check:task-exits", JUDGE, 0, ("leave of prsm-bad 1.0",), "allow: "),
        Play("check:task-swallows", JUDGE, 0, ("swallow of prsm-bad 1.0", "left behind")),
        Play("check:thread", JUDGE, 0, ("of prsm-bad 1.0", "left behind"), "allow: "),
        Play("check:stop-loop", JUDGE, 0, ("of prsm-bad 1.0", "stop the event loop"), "allow: "),
    ),
    "loading": (
        Play("import:ctrl-c", SAYS, 0, ("plugin bad", "KeyboardInterrupt", MAY_BE), ECHO),
        Play("import:exit", SAYS, 0, ("plugin bad", "SystemExit: 3", MAY_BE), ECHO),
        Play("import:block", SAYS, 0, ("plugin bad", "did not answer", MAY_BE), ECHO, None, 3.0),
        Play("import:spin", SAYS, 0, ("plugin bad", "did not answer", MAY_BE), ECHO, None, 3.0),
        Play("import:read", SAYS, 0, (), ECHO),
        Play("import:thread", SAYS, 0, (), ECHO),  # it is a daemon, as the one that loads
        Play("import:at-exit", SAYS, 0, ("runs at exit", "of prsm-bad 1.0"), ECHO),
        Play("import:shout", SAYS, 0, ("plugin bad printed", "LOUD"), ECHO),
        Play("import:own-stdout", SAYS, 0, ("plugin bad changed sys.stdout",), ECHO),
        Play("import:own-loops", SAYS, 0, ("plugin bad changed the policy",), ECHO),
        Play("import:chdir", SAYS, 0, ("plugin bad changed the current folder",), ECHO),
        # Nothing catches it; who it was can be seen.
        Play("import:die", ("--debug", *SAYS), 77, ("plugin bad of prsm-bad 1.0 is loaded",)),
        Play("hook:ctrl-c", SAYS, 2, ("bad", "KeyboardInterrupt", MISSING)),
        Play("hook:exit", SAYS, 2, ("bad", "SystemExit: 3", MISSING)),
        Play("hook:block", SAYS, 2, ("bad", "did not answer", MISSING), "", None, 3.0),
        Play("hook:exit", ("doctor",), 1, (), "SystemExit: 3"),
        Play("hook:exit", ("plugins",), 1, (), "SystemExit: 3"),
        Play("hook:exit", JUDGE, 0, ("plugin bad (prsm-bad 1.0)", MISSING), "allow: "),
    ),
    "looking": (
        Play("probe:exit", ("doctor",), 0, (), "provider badprovider (prsm-bad 1.0) failed in its"),
        Play("probe:none", ("doctor",), 0, (), "which is no ProviderStatus"),
        Play("probe:swallow", ("doctor",), 0, (), "the probe did not end within 6 s"),
        Play("probe:exit", ("providers",), 0, (), "badprovider"),
        Play("probe:none", ("providers",), 0, (), "badprovider"),
        Play("probe:hang", ("providers",), 0, (), "badprovider"),
        Play("provider:exit", ("providers",), 0, (), "badprovider"),
        Play("provider:block", ("providers",), 0, ("has blocked all agents",), "badprovider"),
        Play("probe:task-exits", ("providers",), 0, ("called sys.exit(7)",), "badprovider"),
        Play("doctor:", ("doctor",), 1, (), "frontend lost of bad (prsm-bad 1.0)"),
    ),
}


@pytest.fixture
def environ(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    for name, module in (("bad", Path(__file__).with_name("saboteur.py")), ("echo", ECHO_PLUGIN)):
        shutil.copy(module, site / f"{name}_plugin.py")
        info = site / f"prsm_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: prsm-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[prsm]\n{name} = {name}_plugin\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRSM")}
    return {**kept, "PYTHONPATH": str(site), "PRSM_PLUGINS": "echo,bad", "COLUMNS": "500"}


ECHO_PLUGIN = Path(__file__).parents[1] / "cli" / "echo_plugin.py"


def play(one: Play, environ, folder: Path) -> str | None:
    """Play one sabotage; return what is wrong with what came of it."""
    (folder / "work").mkdir(parents=True)
    stderr = (folder / "stderr").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *one.argv],
        cwd=folder / "work",
        env={
            **environ,
            "SABOTAGE": one.deed,
            "PRSM_HOME": str(folder / "home"),
            "PRSM_PLUGIN_TIMEOUT": str(one.seconds),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    try:
        if one.interrupt_at is not None:
            _until_said(folder / "stderr", one.interrupt_at)
            process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=DEADLINE)[0].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"{one.deed} {one.argv}: it hangs\n{(folder / 'stderr').read_text()}"
    finally:
        stderr.close()
    err = (folder / "stderr").read_text()
    wrong = [word for word in one.told if word not in err]
    is_clean = one.silent is None or one.silent not in out
    if process.returncode == one.code and not wrong and one.out in out and is_clean:
        return None
    return f"{one.deed} {one.argv}: {process.returncode}, without {wrong}:\n{out}\n{err}"


def _until_said(path: Path, words: str) -> None:
    with path.open() as stream:
        said = ""
        for _ in range(int(DEADLINE * 10)):
            said += stream.read()
            if words in said:
                return
            _PAUSE.wait(0.1)
    raise AssertionError(f"{words!r} was not said: {said}")


def _all_play(plays, environ, folder: Path) -> str:
    """Play them side by side, since most of them wait; return all that is wrong."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        folders = (folder / str(number) for number in range(len(plays)))
        wrong = list(pool.map(lambda one, to: play(one, environ, to), plays, folders))
    return "\n".join(problem for problem in wrong if problem is not None)


def test_some_of_each_group_end_as_they_should_and_name_who_did_it(environ, tmp_path):
    some = [one for group in PLAYS.values() for one in group[::SHORT]]
    assert _all_play(some, environ, tmp_path) == ""


@pytest.mark.long
@pytest.mark.parametrize("group", PLAYS)
def test_the_process_ends_as_it_should_and_names_who_did_it(group, environ, tmp_path):
    assert _all_play(PLAYS[group], environ, tmp_path) == ""
