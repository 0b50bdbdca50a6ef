"""Every `--json` command prints the bytes that the files tests/data/json_*.txt hold.

A run of the real engine is followed through its changes, snapshots and undo, a second one while it
waits for a person and after its death. Ids, times and paths are masked. Order, indent and how a
number is spelled are not. A test records a file that is missing, and fails.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import click
import pytest

from prsm_core.cli.group import cli
from prsm_core.engine.control.client import open_control
from prsm_core.engine.control.session_lock import find_owner

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

FILES = Path(__file__).parents[1] / "data"
DEADLINE = 60.0
DOOR = {
    "view": "view",
    "requests": "requests.open",
    "budget": "runs.budget",
    "policy": "policy",
    "sessions": "sessions.list",
    "providers": "providers",
    "changes": "changes.list",
    "snapshots": "snapshots.list",
}


def _spawn(**arguments):
    return {"call": {"tool": "spawn_child", "arguments": arguments}}


USAGE = {"input_tokens": 12, "cached_input_tokens": 4, "output_tokens": 3, "reasoning_tokens": 1}
WORKER = {"name": "w1", "prompt": "fix it"}
FAILING = {"name": "w2", "prompt": "try it", "wait": True, "worktree": True}
FIX = {"path": "a", "content": "1\n2\n"}
END = {"summary": "all is done", "artifacts": ["a"]}
FIRST = {
    "master": [
        {"say": "I need help.", "think": "two are enough", "usage": USAGE}
        | _spawn(**WORKER, wait=True),
        _spawn(**FAILING),
        {"call": {"tool": "task_complete", "arguments": END}},
    ],
    "w1": [
        {"say": "I fix the bug that a line is missing.", "edit": FIX},
        {"shell": "echo made > b; mkdir -p c"},
        {"shell": "false"},
        {"call": {"tool": "report_progress", "arguments": {"status": "nearly", "percent": 90}}},
        {"say": "it is fixed"},
    ],
    "w2": [{"edit": {"path": "half", "content": "of it\n"}}, {"fail": {"message": "no more"}}],
}
ASK = {"id": "said", "question": "Which?", "options": ["red", "blue"]}
SECOND = {
    "master": [_spawn(**WORKER, wait=False), {"ask_user": ASK}, {"say": "over"}],
    "w1": [{"shell": {"id": "made", "cmd": "make it"}}, {"say": "over"}],
}
MODELS = """
providers: {script: {scenario: %s}}
models: {quick: {provider: script, model_id: small, reasoning_effort: low, description: fast}}
model_registry:
  small: {provider: script, tier: fast, cost_factor: 2, speed_factor: 0.5, max_context: 1000}
"""
MASKS = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", "<date>"),
    (r"\b1[789]\d{8}\.\d+", "<float>"),
    (r'("\w+_s": )\d+\.\d+', r"\1<float>"),
    (r'("(?:seq(?:_[ab])?|last_seq|position|pid|bytes|before|after|at)": )\d+\b(?!\.)', r"\1<int>"),
    (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "<id>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (r"\b[0-9a-f]{40}\b", "<object>"),
    (r"\b[0-9a-f]{32}\b", "<agent>"),
    (r"\b[0-9a-f]{10}-\d+\b", "<change>"),
    (r"\b[0-9a-f]{8}\b", "<short>"),
    (r"-[0-9a-f]{12}\b", "-<folder>"),
    (r"\b[0-9a-z]{6}([-/])w2\b", r"<tree>\1w2"),
]


class Recorder:
    """Runs commands in this process and keeps what they print, masked."""

    def __init__(self, run, folder):
        self.run = run
        self._folder = str(folder)
        self.text = ""

    def __call__(self, *args, edit=str, unordered=False, code=0, run=None):
        """Run a command with `--json`; return what it printed.

        Lines of events are `unordered`: several tasks of the engine commit them. Whether a parent
        has to wait for its child depends on who is quicker.
        """
        done = (run or self.run)(*args, "--json")
        assert code in {None, done.code}, (args, done)
        self.keep(" ".join(args), edit(done.out), unordered=unordered)
        return done.out

    def keep(self, name, text, *, unordered=False):
        lines = self._masked(text).splitlines(keepends=True)
        if unordered:
            lines = sorted(line for line in lines if "waiting_for_child" not in line)
        self.text += f"$ {self._masked(name)}\n" + "".join(lines)

    def compare(self, name):
        """Compare all that was printed with a file."""
        path = FILES / f"json_{name}.txt"
        if not path.exists():
            path.write_text(self.text)
            raise AssertionError(f"{path} was missing: it is recorded now")
        assert self.text.splitlines() == path.read_text().splitlines()

    def _masked(self, text):
        text = text.replace(self._folder, "<tmp>")
        for pattern, mask in MASKS:
            text = re.sub(pattern, mask, text)
        return text


def _shape(text):
    """Name the type of each value of what depends on the machine; an array has each shape once."""

    def typed(value):
        if isinstance(value, dict):
            return {key: typed(each) for key, each in value.items()}
        if isinstance(value, list):
            texts = sorted({json.dumps(typed(each)) for each in value})
            return [json.loads(each) for each in texts]
        return type(value).__name__

    value = json.loads(text)
    assert text == json.dumps(value, indent=2) + "\n"
    return json.dumps(typed(value), indent=2) + "\n"


def _builtin_shape(text):
    """Do what `_shape` does for the plugins that the core itself is: others come and go."""
    rows = [row for row in json.loads(text) if row["distribution"] == "prsm-core"]
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    return _shape(json.dumps(rows, indent=2) + "\n")


def _git(*args):
    subprocess.run(["git", *args], check=True, capture_output=True)


@pytest.fixture
def record(prsm, workspace, tmp_path, monkeypatch):
    """Run commands in a repository, with a scripted provider that is configured."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "n")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "n@example.org")
    _git("init", "-q", "-b", "main")
    (workspace / "a").write_text("1\n")
    _git("add", "a")
    _git("commit", "-q", "-m", "first")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(MODELS % (tmp_path / "scenario.json"))
    return Recorder(prsm, tmp_path)


def _script(tmp_path, lanes):
    text = json.dumps({"lanes": {name: {"steps": steps} for name, steps in lanes.items()}})
    (tmp_path / "scenario.json").write_text(text)


def _record_files(record):
    rows = {row["path"]: row["change"] for row in json.loads(record("changes", "list"))}
    record("changes", "show", rows["a"])
    record("changes", "diff", rows["a"])
    record("changes", "why", "a:2")
    record("changes", "worktrees")
    record("accept", rows["a"])
    record("reject", rows["b"], "--yes")
    record("undo", "--yes")
    record("changes", "reject", rows["b"], "--yes")
    record("undo", "--list")
    record("undo", "--yes")
    record("changes", "accept", rows["b"])
    record("changes", "commit", rows["a"], "--dry-run")
    record("changes", "commit", rows["a"], "--yes")


def _record_snapshots(record, tmp_path, workspace):
    snapshot = json.loads(record("snapshot", "create", "--description", "mine"))["id"]
    record("snapshot", "list")
    (workspace / "b").write_text("mine\n")
    record("snapshot", "show", snapshot)
    record("snapshot", "restore", snapshot, "--yes")
    record("undo", "--yes")
    record("snapshot", "export", snapshot, str(tmp_path / "copy"))
    copy = json.loads(record("snapshot", "import", str(tmp_path / "copy")))
    record("snapshot", "delete", copy["id"], "--yes")
    record("snapshot", "pack")


def _record_sessions(record, tmp_path, session):
    record("sessions", "rename", session, "mended")
    record("sessions", "show", session)
    fork = json.loads(record("sessions", "fork", session, "--at", "20"))["session"]
    record("diff", session, fork)
    record("fork", session)
    record("sessions", "list")
    record("sessions", "delete", fork, "--yes")
    copy = tmp_path / "copy.json"
    record.run("sessions", "export", session, "--output", str(copy))
    copy.write_text(copy.read_text().replace(session, "01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    record("sessions", "import", str(copy))
    record("sessions", "compact")


def _record_tables(record):
    record("models", "list")
    record("models", "discover")
    record("models", "rank", "coding")
    record("models", "recommend", "write a parser")
    record("providers")
    record("plugins", edit=_builtin_shape)
    record("doctor", edit=_shape, code=None)
    record("uninstall", edit=_shape)
    record("policy", "check", "rm -r c", code=4)
    record("policy", "list")
    record("policy", "replay", "--all")
    record("policy", "suggest", "--min", "2")
    record("config", "path")
    record("config", "show", edit=_shape)
    record("sim", "--seed", "1", "--agents", "3")


async def _ask_door(state, session):
    """Return what a frontend of another process is told of a session."""
    async with open_control(state, session) as client:
        return {name: await client.ask(operation) for name, operation in DOOR.items()}


def _wait_for_requests(record):
    deadline = time.monotonic() + DEADLINE
    while len(json.loads(record.run("answer", "--json").out)) < 2:
        assert time.monotonic() < deadline
    # The files as the run found them are kept beside what it does.
    while "snapshot_taken" not in record.run("events", "--json").out:
        assert time.monotonic() < deadline


def test_commands_print_of_an_ended_run_what_they_always_did(record, workspace, tmp_path):
    _script(tmp_path, FIRST)
    scripted = ("--provider", "script", "--mode", "accept_edits", "--on-ask", "allow")
    limits = ("--budget-tokens", "5000")
    ran = record("run", "do it", *scripted, *limits, unordered=True, code=5)
    session = json.loads(ran.splitlines()[0])["session"]
    for args in (("tree",), ("history", "master"), ("history", "w1", "--detail", "summary")):
        record(*args)
    record("events", unordered=True)
    _record_files(record)
    _record_snapshots(record, tmp_path, workspace)
    _record_sessions(record, tmp_path, session)
    _record_tables(record)
    record.compare("ended")


def test_a_session_that_waits_or_was_cut_off_is_told_as_ever(record, prsm_process, tmp_path):
    _script(tmp_path, SECOND)
    words = ("run", "ask", "--provider", "script", "--detach")
    started = json.loads(record(*words, run=prsm_process))
    [runs] = (tmp_path / "home").rglob("runs")
    owner = find_owner(runs.parent, started["session"])
    assert owner is not None
    try:
        _wait_for_requests(record)
        record("answer")
        record("tree")
        record("sessions", "list")
        record("sessions", "show")
        for name, value in asyncio.run(_ask_door(runs.parent, started["session"])).items():
            record.keep(f"door {name}", json.dumps(value, indent=2) + "\n")
    finally:
        os.kill(owner.process.pid, signal.SIGKILL)
    while find_owner(runs.parent, started["session"]) is not None:
        pass
    record("tree")
    record("sessions", "show")
    record("resume", "--on-ask", "deny", unordered=True, code=4)
    record.compare("waiting")


def _commands(command, path=()):
    """Yield the words of each command that prints JSON."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        named = (
            (name, command.get_command(context, name)) for name in command.list_commands(context)
        )
        for name, one in named:
            # The list of commands also has those of packages that are not installed.
            yield from _commands(one, (*path, name)) if one is not None else ()
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(path)


def test_every_json_command_is_recorded():
    """`prsm demo` prints events as `prsm run` does."""
    lines = [line for path in FILES.glob("json_*.txt") for line in path.read_text().splitlines()]
    recorded = [line.removeprefix("$ ") + " " for line in lines if line.startswith("$ ")]
    missing = {
        command
        for command in _commands(cli)
        if not any(line.startswith(command + " ") for line in recorded)
    }
    assert missing == {"demo"}
