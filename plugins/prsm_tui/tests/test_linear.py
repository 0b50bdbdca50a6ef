"""The linear mode: what is told, what is typed, and the whole demo as a text to follow alone."""

from __future__ import annotations

import asyncio
import os
import re
import select
import time
import tty
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from prsm_testing import FrontendContract, ScriptedApp
from prsm_tui.acts import Acts
from prsm_tui.hub_frontend import TuiFrontend
from prsm_tui.linear.keyboard import Keyboard
from prsm_tui.linear.page import Page
from prsm_tui.linear.person import Person
from prsm_tui.model.session import Session
from prsm_tui.pump import Pump
from prsm_tui.settings import TuiSettings, switched_on_by

from plugins.prsm_tui.tests.ears import DEADLINE, Ears
from plugins.prsm_tui.tests.scenes import engine
from plugins.prsm_tui.tests.test_demo import SHOP, TASK
from prsm_core.domain.permissions import Answer
from prsm_core.door import ModelRow
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions

DEMO = Path(__file__).with_name("data") / "linear-demo.txt"
OPTIONS = ["once", "always", "deny"]
MANY_DIGITS = "9" * 5000  # more than Python reads as a number


class OneSession(Ears):
    """Somebody who hears one session."""

    def __init__(
        self, app, session, keyboard, columns=None, clock=time.time, paper=None, **options
    ):
        self.session = session
        paper = StringIO() if paper is None else paper
        page = Page(paper, lambda: columns)
        self.person = Person(session, page, clock, **options)
        self.acts = self.person.acts = Acts(app, session, self.person)
        self.person.keyboard = Keyboard(keyboard, self.person, paper)
        super().__init__(paper, self.person.keyboard)
        self.person.leave = self.left.set


@asynccontextmanager
async def hearing(app, *, terminal=None, **options):
    session = Session.of_view(await app.view(), time.time())
    person, program = os.openpty()
    ears = OneSession(app, session, program if terminal is None else terminal, **options)
    pump = Pump(app, session, ears.person.changed)
    async with asyncio.TaskGroup() as group:
        works = [pump.follow, ears.acts.serve]
        helpers = [group.create_task(work()) for work in works]
        ears.person.begin("the test")
        ears.acts.begin()
        yield ears
        for helper in helpers:
            helper.cancel()
    os.close(person)
    os.close(program)


def family(app):
    app.spawn()
    app.spawn("w", "writer", "m")


def asks(app, request="r1", agent="m"):
    told = {"tool": "Bash", "command": "make", "paths": [], "reason": "unknown"}
    app.say("permission_requested", agent, request=request, options=OPTIONS, **told)


def says(app, text, agent="m", message=1):
    app.say("message_completed", agent, turn="t", role="assistant", text=text, message=message)


def as_told(lines):
    """Return lines without what differs from run to run: ids, times, folders, caches."""
    text = "\n".join(line for line in lines if "__pycache__" not in line)
    text = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "SESSION", text)
    text = re.sub(r"/[^ ]*/workspace\b", "FOLDER", text)
    text = re.sub(r", took \d+\w+", "", text)
    return re.sub(r"\b(\d+h )?(\d+m )?\d+(\.\d+)?(ms|s)\b", "TIME", text).splitlines()


def by_label(lines):
    """Return the lines of each label in their order: agents that work at once are told mixed.

    When a file is found to be another, and when another agent asks, have their own order; numbers
    are given as calls come; and who leads is at work or waits at that moment.
    """
    told: dict[str, list[str]] = {}
    for line in lines:
        found = re.match(
            r"\w+ has (added|modified)|\w+: (is asked|is answered|answers|asks) ", line
        )
        label = found[0] if found else re.split("[: ]", line)[0]
        line = re.sub(r"number \d+", "number", line)
        told.setdefault(label, []).append(re.sub(r", (works|waits);", ", lives;", line))
    return told


@pytest.mark.requirement("D5")
async def test_the_whole_demo_is_a_text_that_can_be_followed_alone(tmp_path):
    async with (
        asyncio.timeout(DEADLINE),
        engine(tmp_path, "builtin:demo", TASK, files=SHOP) as app,
        hearing(app) as ears,
    ):
        await ears.hears("needs you: 1 waits", "writer: done")
        ears.type("/needs\n")
        ears.type("1\n")
        await ears.hears("the run is completed", "prsm tui)")
        ears.type("/agents\n")
        ears.type("\x03\x03")
        await ears.left.wait()
    told = as_told(ears.lines)
    written = DEMO.read_text(encoding="utf-8").splitlines()
    assert by_label(told) == by_label(written), "\n".join(told)


async def test_each_thing_is_told_once_behind_its_label():
    app = ScriptedApp()
    async with hearing(app) as ears:
        family(app)
        app.say("text_delta", "w", live=True, turn="t", message=1, at=0, text="one\nneeds you: ")
        says(app, "one\nneeds you: request 9", "w")
        app.say("tool_call_started", "w", call="c", tool="Bash", arguments={"command": "make"})
        ended: dict[str, Any] = {
            "status": "failed",
            "result": "no rule\nat all",
            "exit_code": 2,
            "duration_s": 3,
        }
        app.say("tool_call_finished", "w", call="c", **ended)
        app.say("agent_state_changed", "w", to="failed", reason="boom")
        await ears.hears("failed: boom")
        told = [line for line in ears.lines if line.startswith("writer")]
        assert told == [
            "writer begins as agent 2, worker of master, echo/default: do it",
            "writer says: one",
            "writer: needs you: request 9",
            "writer calls Bash, number 1: make",
            "writer: Bash, number 1: failed, exit code 2, took 3s, 2 lines",
            "writer: error: failed: boom",
        ]
        ears.type("/show 1\n")
        await ears.hears("number 1: argument command: make", "number 1: result no rule")


async def test_what_comes_while_a_line_is_typed_waits_for_its_end():
    app = ScriptedApp(RunOptions(task=None))
    async with hearing(app) as ears:
        app.spawn()
        await ears.hears("selected: agent 1, master")
        ears.type("half a ")
        says(app, "hello")
        await ears.until(lambda: ears.session.agents["m"].transcript.blocks)
        assert ears.lines[-1] == "you: half a "
        ears.type("thought\n")
        assert ears.lines[-2:] == ["you: half a thought", "master says: hello"]
        await ears.until(lambda: bool(app.prompts))
        assert app.prompts == [("m", "half a thought", "inject")]


@pytest.mark.requirement("D5")
async def test_what_is_typed_while_requests_arrive_answers_none_and_no_letter_is_lost():
    app = ScriptedApp()
    async with hearing(app) as ears:
        app.spawn()
        await ears.hears("selected: agent 1, master")
        sentence = "y o 1 oo yes o"
        for number, letter in enumerate(sentence):
            if number < 10:
                asks(app, f"r{number}")
                await ears.until(lambda n=number: len(ears.session.requests) == n + 1)
            ears.type(letter)
        ears.type("\n")
        await ears.until(lambda: bool(app.prompts))
        assert app.prompts == [("m", sentence, "inject")]
        assert app.answers == []


async def test_an_answer_counts_for_the_request_that_was_told_when_its_first_key_came():
    app = ScriptedApp()
    async with hearing(app) as ears:
        app.spawn()
        asks(app)
        await ears.hears("needs you: 1 waits")
        ears.type("/needs\n1\n")  # typed before it was told: of no request
        await ears.hears("request 1: choice 3: deny")
        ears.type("1")
        app.say("permission_resolved", "m", request="r1", verdict="deny", by="timeout")
        asks(app, "r2")
        await ears.until(lambda: list(ears.session.requests) == ["r2"])
        ears.type("\n")
        await ears.hears("request 1: it has ended, not by you", "not used: '1'")
        assert app.answers == []
        assert app.prompts == []
        ears.type("/needs\n")
        ears.type("3\n")
        assert await app.answered("r2") == "deny"


class Prompt(StringIO):
    """A page whose reader types a digit as soon as a choice stands on it."""

    def __init__(self, person):
        super().__init__()
        self._person = person

    def write(self, text):
        if "choice 1" in text:
            os.write(self._person, b"1")
        return super().write(text)


@pytest.mark.parametrize("shows", [["/needs"], ["/1", "/kill"]])
async def test_who_answers_while_choices_are_still_written_is_heard(shows):
    app = ScriptedApp()
    person, program = os.openpty()
    tty.setcbreak(program)
    async with hearing(app, terminal=program, paper=Prompt(person)) as ears:
        app.spawn()
        asks(app)
        await ears.hears("needs you: 1 waits")
        for line in shows:
            ears.type(f"{line}\n")
        await ears.hears("choice 1")
        assert select.select([program], [], [], 0)[0], "what was typed was dropped"
        assert os.read(program, 8) == b"1"
    os.close(person)
    os.close(program)


async def test_choices_are_numbered_and_all_can_be_answered_at_once():
    app = ScriptedApp()
    async with hearing(app) as ears:
        app.spawn()
        for number in range(3):
            asks(app, f"r{number}")
        question: dict[str, Any] = {"question": "Which colour?", "options": ["red", "blue"]}
        app.say("question_asked", "m", request="q1", **question)
        await ears.hears("needs you: 4 wait")
        ears.type("/needs 4\n")
        await ears.hears("request 4: Which colour?", "request 4: choice 2: blue")
        ears.type("3\n")
        await ears.hears("that is none of the choices")
        ears.type("2\n")
        assert await app.answered("q1") == Answer(choices=("blue",))
        ears.type("/needs\n")
        await ears.hears("for all 3 that wait: oo allows them once")
        ears.type("dd\n")
        for number in range(3):
            assert await app.answered(f"r{number}") == "deny"


async def test_every_change_of_what_is_selected_is_said():
    app = ScriptedApp()
    async with hearing(app) as ears:
        await ears.hears("selected: the session")
        family(app)
        await ears.hears("selected: agent 1, master", "writer begins")
        ears.type("/open 2\n")
        assert ears.lines[-1].startswith("selected: agent 2, writer")
        ears.type("/deliver queue\n")
        assert "goes to it (queue)" in ears.lines[-1]
        ears.type("look again\n")
        await ears.until(lambda: app.prompts == [("w", "look again", "queue")])
        app.say("agent_state_changed", "w", to="completed", reason="done")
        await ears.hears("selected: agent 2, writer, done; it has ended: /restart TEXT")
        ears.type("/open session\n")
        assert ears.lines[-1].startswith("selected: the session")


async def test_a_kill_asks_and_only_a_yes_kills():
    app = ScriptedApp()
    async with hearing(app) as ears:
        family(app)
        await ears.hears("writer begins")
        for typed in ("2", "nonsense"):
            ears.type("/kill writer\n")
            assert ears.lines[-1] == "sure: choice 2: no"
            ears.type(f"{typed}\n")
        assert app.killed == []
        ears.type("/kill 2\n")
        ears.type("1\n")
        await ears.until(lambda: app.killed == ["w"])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/nees", "there is no command /nees: did you mean /needs?"),
        ("/open nobody", "there is no agent nobody"),
        ("/needs", "nothing waits"),
        ("/needs 7", "request 7 does not wait"),
        ("/show 1", "/show takes a number up to 0"),
        pytest.param(
            f"/show {MANY_DIGITS}", "/show takes a number up to 0", id="show a long number"
        ),
        pytest.param(f"/needs {MANY_DIGITS}", "999 does not wait", id="need a long number"),
        pytest.param(f"/open {MANY_DIGITS}", "there is no agent 999", id="open a long number"),
        ("/deliver pigeon", "the ways are: inject, queue, interrupt"),
        ("/restart", "select an agent that has ended"),
        ("/mode carefree", "the modes are: "),
        ("/help", "help: /needs [NUMBER]: go to what waits"),
        ("/agents", "agent 2: master / writer: waits for a slot"),
        ("/fork", "forked as session session-1-fork-1"),
        ("/budget", "used: tokens: unknown"),
    ],
)
async def test_a_command_does_what_it_says_or_says_why_not(typed, said):
    app = ScriptedApp()
    async with hearing(app) as ears:
        family(app)
        await ears.hears("writer begins")
        ears.type(f"{typed}\n")
        await ears.hears(said)


async def test_what_was_said_before_is_told_where_it_is_asked_for():
    app = ScriptedApp(RunOptions(task=None))
    await app.runs.start("count")
    app.spawn()
    for number in range(3):
        says(app, f"line {number}", message=number + 1)
    async with hearing(app) as ears:
        await ears.hears("run: running: count", "selected: agent 1, master")
        assert "line 0" not in ears.text
        ears.type("/history\n")
        await ears.hears("history: end of what master said before")
        said = [line for line in ears.lines if "says" in line]
        assert said == [f"master says: line {number}" for number in range(3)]
        says(app, "and on", message=4)
        await ears.hears("master says: and on")
        assert ears.text.count("line 2") == 1


async def test_rows_that_a_long_line_goes_on_in_begin_with_blanks():
    app = ScriptedApp(RunOptions(task=None))
    async with hearing(app, columns=40) as ears:
        app.spawn()
        says(app, "needs you: request 1 " * 8)
        await ears.hears("master says")
        ears.person.told("info", "and then")
        said = ears.lines[next(n for n, line in enumerate(ears.lines) if "says" in line) :]
        said = said[: next(n for n, line in enumerate(said) if line.startswith("prsm"))]
        assert len(said) > 3
        assert all(line.startswith("  ") for line in said[1:])
        assert all(len(line) < 40 for line in said)


async def test_a_paste_of_several_lines_is_one_text_and_sends_nothing():
    app = ScriptedApp()
    async with hearing(app) as ears:
        app.spawn()
        await ears.hears("selected: agent 1")
        ears.type("\x1b[200~one\ntwo\x1b[201~")
        assert ears.lines[-2:] == ["you: one", "  two"]
        ears.type("!\n")
        await ears.until(lambda: app.prompts == [("m", "one\ntwo!", "inject")])


class Typist:
    """Who is told what is typed."""

    def __init__(self):
        self.heard = []

    def begin_line(self):
        self.heard.append("begun")

    def added(self, draft, key):
        pass

    def erased(self, draft, erased):
        self.heard.append(erased)

    def entered(self, line):
        self.heard.append(f"line {line}")

    def leaving(self, *, at_once):
        self.heard.append("left")


def test_keys_that_are_no_signs_write_nothing_and_lines_are_shortened():
    typist = Typist()
    keys = Keyboard(-1, typist, StringIO())
    typed = ("\x1b[A", "\x1b[", "B", "ab cd\x7f", "\x17", "x\x15", "é\x1bOP\t", "\r", "\x04")
    for part in typed:
        keys.take(part)
    assert typist.heard == ["begun", "d", "c", "ab x", "begun", "line é", "left"]


@pytest.mark.parametrize(
    ("setting", "value", "by"),
    [
        (False, None, None),
        (True, None, "frontends.tui.linear: true"),
        (True, "0", None),
        (False, "1", "PRSM_LINEAR=1"),
        (True, "1", "PRSM_LINEAR=1"),
        (True, "", "frontends.tui.linear: true"),
    ],
)
def test_the_environment_stands_above_the_setting(setting, value, by):
    environ = {} if value is None else {"PRSM_LINEAR": value}
    assert switched_on_by(environ, setting=setting) == by


def test_another_value_of_the_variable_is_an_error_that_names_both():
    with pytest.raises(ConfigError, match="'maybe'") as caught:
        switched_on_by({"PRSM_LINEAR": "maybe"}, setting=False)
    assert "1 turns the linear mode on, 0 off" in str(caught.value.hint)


class TestLinear(FrontendContract):
    """The contract of every frontend, in the linear mode."""

    interactive = True
    stays = True
    deadline_s = 30.0

    def build(self, settings):
        return TuiFrontend(settings, TuiSettings(linear=True))

    async def choose(self, terminal, option):
        await terminal.shows("needs you: 1 waits")
        terminal.type("/needs\n")
        await terminal.shows("then Enter;")
        terminal.type({"once": "1", "deny": "3"}[option] + "\n")

    async def reply(self, terminal, choice):
        await terminal.shows("needs you: 1 waits")
        terminal.type("/needs\n")
        await terminal.shows(f"choice 2: {choice}")
        await terminal.shows("then Enter;")
        terminal.type("2\n")

    async def leave(self, terminal):
        terminal.type("\x03")
        await terminal.shows("Ctrl+C again leaves")
        terminal.type("\x03")


async def test_pages_are_told_as_lines_in_the_order_asked_for():
    app = ScriptedApp()
    app.model_rows = [ModelRow(provider="codex", model="gpt-x")]
    async with hearing(app) as ears:
        family(app)
        await ears.hears("writer begins")
        ears.type("/models\n/settings\n")
        await ears.hears("models: codex")
        await ears.hears("settings: ")
