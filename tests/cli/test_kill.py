"""Sessions that another process owns: a second owner, kill, prompt, and what prsm tree says."""

import json
import os
import select
import signal

import pytest

pytestmark = pytest.mark.usefixtures("puppets")

DEADLINE = 60


class Running:
    """A `prsm run --json` whose events a test reads one by one."""

    def __init__(self, process):
        self.process = process
        self.events = []
        self._unread = b""

    def until(self, kind, **fields):
        """Read up to an event; returns it."""
        while True:
            event = json.loads(self._line())
            self.events.append(event)
            if event["type"] == kind and fields.items() <= event.items():
                return event

    def _line(self):
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE)
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert chunk, f"no more events after {self.events}: {self.process.poll()}"
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    @property
    def session(self):
        return self.events[0]["session"]

    def end(self):
        """Wait for the end; returns the last event."""
        out, err = self.process.communicate(timeout=DEADLINE)
        self.events += [json.loads(line) for line in (self._unread + out).splitlines()]
        assert b"Traceback" not in err
        return self.events[-1]


@pytest.fixture
def start_run(start_prsm):
    """Start a run and wait until its master, or the agent of this task, is in its turn."""

    def start(task, *flags, at=None):
        run = Running(start_prsm("run", task, "--json", *flags))
        run.until("message_completed", role="user", text=at or task)
        return run

    return start


def states(prsm, *args):
    """Return the states that `prsm tree` shows, by name."""
    [master] = json.loads(prsm("tree", "--json", *args).out)["agents"]
    return {node["name"]: node["state"] for node in (master, *master["children"])}


def told(prsm_process):
    """Return the events so far, but for the snapshot that the first one takes meanwhile."""
    lines = prsm_process("events", "--json").out.splitlines()
    return [line for line in lines if json.loads(line)["type"] != "snapshot_taken"]


def test_a_second_owner_is_refused_and_the_first_named(start_run, prsm_process):
    first = start_run("hang")
    before = told(prsm_process)
    done = prsm_process("run", "say no", "--session", first.session)
    assert (done.code, done.out) == (2, "")
    started, said, cure = done.err.splitlines()
    assert started == "prsm: starts: say no"
    assert f"session {first.session} is owned by process {first.process.pid} since 20" in said
    assert "prsm kill" in cure
    assert told(prsm_process) == before, "the refused one wrote nothing"
    assert prsm_process("run", "say yes").out == "yes\n", "another session is free"


def test_a_killed_agent_keeps_what_it_said_and_the_run_ends_with_its_master(start_run, prsm):
    run = start_run("say one; begin half a sen; hang")
    run.until("message_completed", text="one")
    assert states(prsm) == {"master": "running"}
    done = prsm("kill", "master")
    assert (done.code, done.out, done.err) == (0, "killed master\n", "")
    finished = run.end()
    assert run.process.returncode == 1
    assert finished["type"] == "run_finished"
    assert (finished["status"], finished["error"]) == ("killed", "killed by the user")
    assert finished["summary"] == "one\nhalf a sen"
    assert states(prsm) == {"master": "killed"}


def test_a_kill_takes_descendants_with_it_and_a_second_one_finds_nothing(start_run, prsm):
    run = start_run("spawn spawn hang & hang; hang", at="hang")
    [master] = json.loads(prsm("tree", "--json").out)["agents"]
    done = prsm("kill", master["children"][0]["id"][:10])
    assert (done.code, done.out) == (0, "killed w1\nkilled w2\n")
    events = prsm("events", "--json").out
    for name in ("w1", "w2"):
        again = prsm("kill", name)
        assert (again.code, again.out) == (1, "")
        assert again.err.startswith(f"prsm: {name} has ended already (killed)\n")
    assert prsm("events", "--json").out == events, "nothing was queued"
    assert prsm("kill", "master").code == 0
    run.end()


def test_an_agent_that_is_not_there_is_one_line_with_those_that_are(start_run, prsm):
    start_run("hang")
    done = prsm("kill", "w9")
    assert (done.code, done.out) == (1, "")
    assert done.err == "prsm: 'w9' is no agent\nhint: known: master\n"


def test_the_newest_session_that_runs_is_the_default(start_run, prsm, prsm_process):
    older = start_run("hang")
    newer = start_run("hang")
    assert prsm_process("run", "say done").code == 0
    assert prsm("kill", "master").code == 0
    assert newer.end()["status"] == "killed"
    assert prsm("kill", "master", "--session", newer.session).code == 1
    assert prsm("kill", "master", "--session", older.session.lower()).code == 0
    assert older.end()["status"] == "killed"


def test_where_nothing_runs_there_is_nothing_to_kill(prsm, prsm_process):
    done = prsm("kill", "master")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("prsm: nothing was run yet in ")
    assert prsm_process("run", "say done").code == 0
    done = prsm("kill", "master")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("prsm: no session of this repository runs\nhint: ")
    session = json.loads(prsm("tree", "--json").out)["session"]
    done = prsm("kill", "master", "--session", session)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"prsm: nothing runs in session {session}\nhint: ")


def test_a_killed_owner_frees_its_session_and_its_agents_show_interrupted(
    start_run, prsm, prsm_process
):
    run = start_run("say one; spawn hang; hang", at="hang")
    assert states(prsm) == {"master": "running", "w1": "running"}
    run.process.send_signal(signal.SIGKILL)
    run.process.wait(DEADLINE)
    before = prsm("events", "--json").out
    assert states(prsm) == {"master": "interrupted", "w1": "interrupted"}
    assert "(interrupted)" in prsm("tree").err
    assert prsm("kill", "master").code == 1
    assert prsm("events", "--json").out == before, "interrupted is derived, not written"
    done = prsm_process("run", "say two", "--session", run.session)
    assert (done.code, done.out) == (0, "two\n")


def test_nothing_of_an_owner_stays_when_it_ends(prsm_process, tmp_path):
    assert prsm_process("run", "say done").code == 0
    assert [path.name for path in (tmp_path / "home").rglob("runs/*")] == []


@pytest.mark.requirement("U1")
def test_a_prompt_takes_the_place_of_the_running_turn(start_run, prsm):
    run = start_run("hang")
    done = prsm("prompt", "master", "; say heard", "--delivery", "interrupt")
    assert (done.code, done.out, done.err) == (0, "interrupting\n", "")
    assert run.end()["summary"] == "heard"
    assert run.process.returncode == 0


def test_a_prompt_that_the_provider_cannot_inject_is_queued(start_run, prsm):
    run = start_run("hang")
    assert prsm("prompt", "master", "; say heard").out == "queued\n"
    assert prsm("prompt", "master", "; say twice", "--delivery", "interrupt").code == 0
    assert run.end()["summary"] == "twice"
    assert any(event.get("text", "").startswith("heard") for event in run.events)


def test_a_prompt_for_nobody_is_one_line(start_run, prsm):
    run = start_run("hang")
    done = prsm("prompt", "w9", "hello")
    assert (done.code, done.err) == (1, "prsm: 'w9' is no agent\nhint: known: master\n")
    assert prsm("kill", "master").code == 0
    run.end()
    done = prsm("prompt", "master", "hello")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("prsm: no session of this repository runs\n")


@pytest.mark.requirement("U1")
def test_an_agent_goes_on_with_the_model_that_a_person_names(start_run, prsm):
    """From its next turn on; what is no model of an installed provider is one line."""
    run = start_run("hang")
    done = prsm("model", "master", "second")
    assert (done.code, done.err) == (0, "")
    assert done.out == "master: puppet/second from its next turn on\n"
    done = prsm("model", "master", "pupet/second")
    assert (done.code, done.out) == (3, "")
    assert "pupet" in done.err
    assert "did you mean puppet?" in done.err
    assert prsm("prompt", "master", "; say heard", "--delivery", "interrupt").code == 0
    assert run.end()["summary"] == "heard"
    [told] = [event for event in run.events if event["type"] == "agent_model_changed"]
    assert (told["provider"], told["model"]) == ("puppet", "second")
    done = prsm("model", "master", "third")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("prsm: no session of this repository runs\n")
