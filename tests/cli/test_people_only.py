"""What an agent's command can do at the control socket of a real run: look, and nothing else."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from prsm_core.engine.processes.table import process_identity

DEADLINE = 60
INTRUDER = Path(__file__).with_name("intruder.py")
ROOT = INTRUDER.parents[2]
MAKE = [{"shell": {"id": "made", "cmd": "make it"}}, {"say": "${made.status}"}]
ACTS = ("resolve", "answer", "kill", "prompt", "set_model", "restart", "attend")


class Asking:
    """A run whose agents ask the person at its terminal, who does not answer there."""

    def __init__(self, process, prsm):
        self.process = process
        self.prsm = prsm

    def requests(self):
        return {one["command"]: one for one in json.loads(self.prsm("answer", "--json").out)}

    def until_asked(self, count):
        """Return the requests by their commands, once there are so many."""
        next(line for line in self.process.stderr if b"asks permission for" in line)
        while len(found := self.requests()) < count:  # its terminal shows one after the other
            assert self.process.poll() is None
        return found

    def answer(self, command, verdict):
        request = self.requests()[command]["request"]
        assert self.prsm("answer", request, verdict).code == 0

    def until_ended(self, command):
        """Return once the call of a command has ended."""
        while True:
            started = [e for e in self.events("tool_call_started") if e["arguments"]]
            calls = {e["call"] for e in started if e["arguments"].get("command") == command}
            if calls & {e["call"] for e in self.events("tool_call_finished")}:
                return
            assert self.process.poll() is None

    def events(self, kind):
        events = map(json.loads, self.prsm("events", "--json").out.splitlines())
        return [event for event in events if event["type"] == kind]


@pytest.fixture
def start_asking(start_prsm, prsm, tmp_path):
    """Start a run of scripted agents; the master spawns the others and collects them."""

    def start(**lanes):
        spawned = [
            {"call": {"tool": "spawn_child", "arguments": {"name": name, "prompt": "work"}}}
            for name in lanes
        ]
        wait = {"id": "first", "tool": "wait_for_message", "arguments": {"all": True}}
        others = (f"${{first.others.{number}.summary}}" for number in range(len(lanes) - 1))
        summary = {"say": " ".join(("${first.summary}", *others))}
        lanes = {"master": [*spawned, {"call": wait}, summary], **lanes}
        path = tmp_path / "scenario.json"
        path.write_text(json.dumps({"lanes": {name: {"steps": s} for name, s in lanes.items()}}))
        script = ("--provider", "script", "--set", f"providers.script.scenario={path}")
        process = start_prsm("run", "x", "--ui", "console", *script, stdin=subprocess.PIPE)
        return Asking(process, prsm)

    return start


def left_behind(mark):
    """Return the intruders that still run, by a mark in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(INTRUDER) in line and mark in line:
                found.append(int(entry.name))
    return found


def pipe(path):
    """Return a named pipe that somebody reads from now on."""
    os.mkfifo(path)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def read_to_end(descriptor):
    """Return all that is written to a pipe, until nobody has it open any more."""
    told, ready = b"", select.poll()
    ready.register(descriptor, select.POLLIN)
    try:
        while ready.poll(DEADLINE * 1000):
            if not (chunk := os.read(descriptor, 4096)):
                return told
            told += chunk
        raise AssertionError("it has not ended")
    finally:
        os.close(descriptor)


@pytest.mark.requirement("D9", "D10")
@pytest.mark.parametrize("how", ["plainly", "daemon", "own terminal"])
def test_what_an_agent_starts_may_look_and_not_answer(start_asking, tmp_path, how):
    go, out = tmp_path / "go", tmp_path / "out"
    report = pipe(out)
    os.mkfifo(go)
    words = (INTRUDER, how, tmp_path / "home", out, go)
    intrude = f"env -i PYTHONPATH={ROOT} {sys.executable} " + " ".join(f"'{w}'" for w in words)
    asking = start_asking(maker=MAKE, intruder=[{"shell": intrude}, {"say": "tried"}])
    before = asking.until_asked(2)
    asking.answer(intrude, "once")
    go.write_text("go")
    told = json.loads(read_to_end(report))
    assert told == {
        "looked": True,
        **dict.fromkeys(ACTS, "not_a_person"),
        "prsm answer": 1,
    }
    assert asking.requests()["make it"] == before["make it"]
    asking.answer("make it", "deny")
    out, _ = asking.process.communicate(timeout=DEADLINE)
    assert (asking.process.returncode, b"denied" in out) == (0, True)


def test_what_kills_its_shim_to_be_nobodys_child_ends_with_it(start_asking, tmp_path):
    words = (INTRUDER, "shim killed", tmp_path / "home", tmp_path / "out", tmp_path / "go")
    intrude = f"env -i PYTHONPATH={ROOT} {sys.executable} " + " ".join(f"'{w}'" for w in words)
    asking = start_asking(maker=MAKE, intruder=[{"shell": intrude}, {"say": "tried"}])
    before = asking.until_asked(2)
    asking.answer(intrude, "once")
    asking.until_ended(intrude)
    assert left_behind(os.fsencode(tmp_path)) == []
    assert asking.requests() == {"make it": before["make it"]}
    asking.answer("make it", "deny")
    asking.process.communicate(timeout=DEADLINE)
    assert asking.process.returncode == 0


@pytest.mark.requirement("D9", "D10")
def test_who_decided_is_recorded_with_pid_and_program(start_asking, start_prsm):
    asking = start_asking(maker=MAKE)
    [request] = asking.until_asked(1).values()
    person = start_prsm("answer", request["request"], "deny")
    person.communicate(timeout=DEADLINE)
    asking.process.communicate(timeout=DEADLINE)
    [resolved] = asking.events("permission_resolved")
    program = Path(sys.executable).resolve()
    assert (resolved["by"], resolved["via"]) == (
        "user",
        f"prsm answer, pid {person.pid}, {program}",
    )


def test_agents_of_another_run_answer_for_nobody_either(start_asking, tmp_path, prsm):
    """The key of a session is readable to all that run as this user."""
    first = start_asking(maker=MAKE)
    [request] = first.until_asked(1).values()
    out = tmp_path / "out"
    report = pipe(out)
    main = "import sys; from prsm_core.cli import main; sys.exit(main())"
    environ = f"PRSM_HOME={tmp_path / 'home'} PRSM_PLUGINS= PYTHONPATH={ROOT}"
    cross = f"env {environ} {sys.executable} -c '{main}' answer {request['request']} once 2> {out}"
    second = start_asking(other=[{"shell": cross}, {"say": "tried"}])
    second.until_asked(2)
    second.answer(cross, "once")
    assert b"the agents of another engine started it" in read_to_end(report)
    assert list(first.requests()) == ["make it"]
    for asking in (second, first):
        if asking is first:
            first.answer("make it", "deny")
        asking.process.communicate(timeout=DEADLINE)
        assert asking.process.returncode == 0


def test_what_an_agent_left_behind_elsewhere_is_known_by_its_environment(start_asking, start_prsm):
    """A terminal that an agent had opened by another program, and that this one's shell keeps."""
    asking = start_asking(maker=MAKE)
    [request] = asking.until_asked(1).values()
    engine = process_identity(asking.process.pid)
    assert engine is not None
    mark = f"{engine.pid}-{engine.start_time}"
    marked = start_prsm(
        "answer", request["request"], "once", env={**os.environ, "PRSM_ENGINE": mark}
    )
    _, err = marked.communicate(timeout=DEADLINE)
    assert (marked.returncode, b"the environment of this engine's agents" in err) == (1, True)
    asking.answer("make it", "deny")
    asking.process.communicate(timeout=DEADLINE)


def test_who_does_not_show_the_key_is_no_person(start_asking, prsm, tmp_path):
    asking = start_asking(maker=MAKE)
    [request] = asking.until_asked(1).values()
    [key] = (tmp_path / "home" / "state" / "runs").glob("*.key")
    assert key.stat().st_mode & 0o777 == 0o600
    secret = key.read_text()
    for wrong in ("", "0" * len(secret), "é"):
        key.write_text(wrong)
        refused = prsm("answer", request["request"], "once")
        assert (refused.code, "does not show the key" in refused.err) == (1, True)
    key.write_text(secret)
    asking.answer("make it", "deny")
    asking.process.communicate(timeout=DEADLINE)
    assert list(key.parent.iterdir()) == []
