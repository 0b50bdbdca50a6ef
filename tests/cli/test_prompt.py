"""The prompt of `prsm run` at a real terminal: commands of real agents, answers of a person."""

from __future__ import annotations

import json
import os
import pty
import select
import time

import pytest

pytestmark = pytest.mark.usefixtures("puppets")

DEADLINE = 60.0


class Person:
    """Somebody at a terminal in which a run goes on."""

    def __init__(self, process, descriptor):
        self.process = process
        self._descriptor = descriptor
        self.text = ""

    def reads(self, wanted):
        """Wait until the terminal shows `wanted` after what was read before."""
        self.reads_all(wanted)
        before, _, self.text = self.text.partition(wanted)
        return before

    def reads_all(self, *wanted):
        """Wait until the terminal shows all of this, in any order, after what was read before."""
        deadline = time.monotonic() + DEADLINE
        while not all(each in self.text for each in wanted):
            assert select.select([self._descriptor], [], [], deadline - time.monotonic())[0]
            self.text += os.read(self._descriptor, 4096).decode(errors="replace")

    def types(self, keys):
        os.write(self._descriptor, keys.encode())

    def ends(self):
        """Wait for the end of the run; return what it wrote to stdout."""
        out, _ = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0
        return out.decode()


@pytest.fixture
def person(start_prsm, monkeypatch):
    """Start a run at a terminal of its own: `person("a task")`."""
    monkeypatch.setenv("NO_COLOR", "1")
    controller, program = pty.openpty()

    def start(task):
        return Person(start_prsm("run", task, stdin=program, stderr=program), controller)

    yield start
    os.close(controller)
    os.close(program)


@pytest.mark.requirement("D9")
def test_a_terminal_shows_all_of_a_hostile_command_and_why_it_is_asked_about(person):
    at_desk = person("send run rm -rf ./x \x1b[2K\x1b[1A\u202e # " + "y" * 3000)
    shown = at_desk.reads("[o]nce")
    first = shown.split("asks permission")[1]
    asked = first.replace("\r\n    ", "")  # lines are folded where the terminal ends
    assert "command: rm -rf ./x \\x1b[2K\\x1b[1A\\u202e # " + "y" * 3000 + "\r\n" in asked
    assert "reason: it holds control or invisible characters" in asked
    assert "\x1b" not in first.split("reason:")[0]
    assert at_desk.reads("[d]eny: ") == " [a]lways ", "no rule covers it"
    at_desk.types("d\n")
    assert at_desk.ends() == "denied\n"


@pytest.mark.requirement("D11", "U9")
def test_a_rule_is_made_at_the_terminal_and_nobody_is_asked_again(person, workspace, prsm):
    at_desk = person("send run npm run build -- --fast & run npm run build -- --slow")
    before = at_desk.reads("[p]roject [g]lobal [dp] deny project [dg] deny global [d]eny: ")
    assert "rule to allow: npm run build\r\n" in before
    assert "rule to deny: npm run build -- --fast\r\n" in before
    at_desk.types("p\n")
    # The file is written meanwhile.
    at_desk.reads_all(
        "Bash of w1: allow_project (by user)", "policy.yaml: added allow npm run build"
    )
    assert at_desk.ends() == "allowed\n"
    assert (workspace / ".prism" / "policy.yaml").read_text() == "allow:\n  - npm run build\n"
    assert prsm("policy", "check", "npm run build").code == 0
    events = [json.loads(line) for line in prsm("events", "--json").out.splitlines()]
    asked = [event for event in events if event["type"] == "permission_requested"]
    assert [event["command"] for event in asked] == ["npm run build -- --fast"]


@pytest.mark.requirement("D9")
def test_requests_of_several_agents_are_answered_at_once_at_the_terminal(person, prsm):
    at_desk = person("spawn run npm run a; spawn run npm run b")
    at_desk.reads("all 2: [oo] allow once [dd] deny: ")
    at_desk.types("oo\n")
    at_desk.reads("failed in")  # the master says nothing in the end
    at_desk.process.communicate(timeout=DEADLINE)
    events = [json.loads(line) for line in prsm("events", "--json").out.splitlines()]
    ends = [event for event in events if event["type"] == "permission_resolved"]
    assert [(event["verdict"], event["by"]) for event in ends] == [("once", "user")] * 2
