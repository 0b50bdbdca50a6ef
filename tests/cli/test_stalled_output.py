"""A terminal or a pipe that takes nothing holds up whoever watches, never the run."""

import json
import os
import re
import select
import signal
import subprocess
import time

import pytest
import yaml

from tests.place import own_terminal

STEPS, MANY_STEPS = 40, 75
ENDS_SECONDS = 15.0  # a bound, far above the moment that a stalled terminal is given
SEEN_SECONDS = 60.0
XOFF, XON = b"\x13", b"\x11"
SILENT = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
STALLS = [
    pytest.param(b"", id="nobody reads"),
    pytest.param(XOFF, id="ctrl-s", marks=pytest.mark.long),
]


class Watched:
    """A terminal with a program on it. The person reads it only when asked to."""

    def __init__(self, keys):
        self.person, self.program = os.openpty()
        if keys:
            os.write(self.person, keys)

    @property
    def options(self):
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), self.program)
        return {**streams, **own_terminal(self.program)}

    def read_until(self, text):
        """Let the terminal go on; return all that it shows up to `text`."""
        os.write(self.person, XON)
        shown, end = "", time.monotonic() + SEEN_SECONDS
        while text not in shown:
            assert time.monotonic() < end, f"{text!r} was not shown: {shown[-2000:]!r}"
            if select.select([self.person], [], [], 0.1)[0]:
                shown += os.read(self.person, 65536).decode(errors="replace")
        return shown

    def close(self):
        os.close(self.person)
        os.close(self.program)


@pytest.fixture
def stalled():
    opened = []

    def stall(keys=b""):
        opened.append(Watched(keys))
        return opened[-1]

    yield stall
    for terminal in opened:
        terminal.close()


@pytest.fixture
def task(tmp_path):
    """Return the words that run a master which says far more than a terminal holds."""

    def words(*last, delay=0.0, steps=STEPS):
        noise = {"delay": delay} if delay else {}
        said = [
            {"say": f"step {n}: " + "noise " * 1000, "shell": f"echo {n}", **noise}
            for n in range(steps)
        ]
        path = tmp_path / "scenario.yaml"
        lanes = {"lanes": {"master": {"marker": "", "steps": [*said, *last]}}}
        path.write_text(yaml.safe_dump(lanes))
        how = ["--provider", "script", "--set", f"providers.script.scenario={path}"]
        return ["run", "make noise", *how, "--on-ask", "allow"]

    return words


def recorded(prsm_process):
    """Return the events of the ledger."""
    done = prsm_process("events", "--json")
    return [json.loads(line) for line in done.out.splitlines()] if done.code == 0 else []


def until(is_so):
    end = time.monotonic() + SEEN_SECONDS
    while not is_so():
        assert time.monotonic() < end, "the engine does not go on"


def until_all_is_said(prsm_process, steps=STEPS):
    until(lambda: len(said_in(recorded(prsm_process))) == steps)


def is_finished(events):
    return bool(events) and events[-1]["type"] == "run_finished"


def said_in(events):
    told = [event for event in events if event["type"] == "message_completed"]
    return [event for event in told if event["text"].startswith("step")]


def assert_complete(events, status):
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len(said_in(events)) == STEPS
    assert (events[-1]["type"], events[-1]["status"]) == ("run_finished", status)


@pytest.mark.parametrize(
    "keys",
    [pytest.param(b"", id="nobody reads", marks=pytest.mark.long), pytest.param(XOFF, id="ctrl-s")],
)
def test_a_run_on_a_stalled_terminal_ends_and_its_ledger_is_complete(
    task, stalled, start_prsm, prsm_process, keys
):
    process = start_prsm(*task({"say": "done"}), **stalled(keys).options)
    assert process.wait(SEEN_SECONDS) == 0
    assert_complete(recorded(prsm_process), "completed")


@pytest.mark.parametrize("keys", STALLS)
def test_a_run_on_a_stalled_terminal_answers_and_is_interrupted(
    task, stalled, start_prsm, prsm_process, keys
):
    process = start_prsm(*task({"hang": True}), **stalled(keys).options)
    until_all_is_said(prsm_process)
    [master] = json.loads(prsm_process("tree", "--json").out)["agents"]
    assert master["state"] == "running"
    assert json.loads(prsm_process("answer", "--json").out) == []
    process.send_signal(signal.SIGINT)
    assert process.wait(ENDS_SECONDS) == 130
    assert_complete(recorded(prsm_process), "interrupted")


def test_a_terminal_that_goes_on_shows_the_rest_and_how_much_is_missing(
    task, stalled, start_prsm, prsm_process
):
    """What is committed is all shown. Deltas are joined first, then some are dropped."""
    terminal = stalled(XOFF)
    words = task({"hang": True}, steps=MANY_STEPS)
    process = start_prsm(*words, **terminal.options)
    until_all_is_said(prsm_process, MANY_STEPS)
    shown = terminal.read_until(f"step {MANY_STEPS - 1}:")
    assert [n for n in range(MANY_STEPS) if f"step {n}:" not in shown] == []
    assert re.search(r"\d+ live updates were not shown", shown)
    process.send_signal(signal.SIGINT)
    terminal.read_until("interrupted")
    assert process.wait(ENDS_SECONDS) == 130


def test_a_full_pipe_loses_no_event_and_holds_up_its_reader_alone(task, start_prsm, prsm_process):
    process = start_prsm(*task({"say": "done"}), "--json")
    until(lambda: is_finished(recorded(prsm_process)))
    assert process.poll() is None
    out, _ = process.communicate(timeout=SEEN_SECONDS)
    assert process.returncode == 0
    events = [json.loads(line) for line in out.splitlines()]
    assert events == recorded(prsm_process)
    assert_complete(events, "completed")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_full_pipe_keeps_no_process_that_is_interrupted(task, start_prsm, prsm_process, number):
    process = start_prsm(*task({"hang": True}), "--json", stdin=subprocess.DEVNULL)
    until_all_is_said(prsm_process)
    process.send_signal(number)
    assert process.wait(ENDS_SECONDS) == 130
    assert_complete(recorded(prsm_process), "interrupted")


def test_a_reader_that_leaves_ends_the_run(task, start_prsm, prsm_process):
    process = start_prsm(*task({"hang": True}), "--json", stdin=subprocess.DEVNULL)
    assert json.loads(process.stdout.readline())["seq"]
    process.stdout.close()
    assert process.wait(ENDS_SECONDS) == 1
    process.stdout = None
    assert is_finished(recorded(prsm_process))


@pytest.mark.parametrize("keys", STALLS)
@pytest.mark.parametrize(
    "follower",
    [
        pytest.param(("attach",), id="attach"),
        pytest.param(("attach", "--ui", "json"), id="attach --ui json", marks=pytest.mark.long),
        pytest.param(("events", "--follow"), id="events --follow"),
    ],
)
def test_whoever_follows_on_a_stalled_terminal_can_leave(
    task, stalled, start_prsm, prsm_process, follower, keys
):
    process = start_prsm(*task({"hang": True}, delay=0.05), **SILENT)
    until(lambda: recorded(prsm_process))
    following = start_prsm(*follower, **stalled(keys).options)
    until_all_is_said(prsm_process)
    following.send_signal(signal.SIGINT)
    assert following.wait(ENDS_SECONDS) == (130 if "events" in follower else 0)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(ENDS_SECONDS) == 130
