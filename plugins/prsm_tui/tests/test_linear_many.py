"""Many sessions in the linear mode: listed, visited, begun and left, on a scripted hub."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from io import StringIO

import pytest
from prsm_testing import HubFrontendContract
from prsm_tui.hub_frontend import SessionsFrontend
from prsm_tui.linear.keyboard import Keyboard
from prsm_tui.linear.opening import compose_many
from prsm_tui.linear.page import Page
from prsm_tui.settings import TuiSettings

from plugins.prsm_tui.tests.ears import Ears
from plugins.prsm_tui.tests.test_sessions import begun, ended, scripted
from prsm_core import ConfigError

pytestmark = pytest.mark.requirement("D3")


class ManySessions(Ears):
    """Somebody who hears many sessions; what is waited for is looked for at once."""

    def __init__(self, many, page, paper, keyboard):
        self.many = many
        many.keyboard = Keyboard(keyboard, many, paper)
        super().__init__(paper, many.keyboard)
        many.leave = self.left.set

    def waits(self):
        self.many.rounds.soon()


@asynccontextmanager
async def hearing(hub):
    paper = StringIO()
    page = Page(paper, lambda: None)
    many, rounds = compose_many(hub, page, answers=True)
    assert many.acts is not None
    person, program = os.openpty()
    ears = ManySessions(many, page, paper, program)
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(work()) for work in (rounds.follow, many.acts.serve)]
        many.begin("the test")
        yield ears
        for helper in helpers:
            helper.cancel()
    os.close(person)
    os.close(program)


class TestLinearSessions(HubFrontendContract):
    """The contract of every frontend of many sessions, in the linear mode."""

    stays = True
    deadline_s = 60.0

    def build(self, settings, workspaces):
        return SessionsFrontend(settings, TuiSettings(linear=True))

    async def begin(self, hub, terminal, workspaces):
        begun = 0
        for place, workspace in enumerate(workspaces):
            terminal.type(f"/new {workspace}\n")
            await terminal.shows(f"begins a session in {workspace}")
            terminal.type(f"task {place}\n")
            if workspace in hub.faults:
                await terminal.shows("not begun")
                continue
            await hub.opened(workspace)
            await terminal.shows(f"session: task {place}, ")
            terminal.type("/sessions\n")
            begun += 1
            await terminal.shows(f"sessions: {begun}")

    async def leave(self, hub, terminal):
        terminal.type("\x03")
        await terminal.shows("Ctrl+C again leaves")
        terminal.type("\x03")


async def test_sessions_are_told_by_numbers_and_visited_by_these():
    hub = scripted()
    ended(await begun(hub, "the roof"))
    await begun(hub, "the cellar")
    await begun(hub, "the door", asks=True)
    async with hearing(hub) as ears:
        await ears.hears("selected: the list; a task that you type")
        told = [line.split(", begun")[0] for line in ears.lines if line.startswith("session")]
        assert told == [
            "sessions: 3",
            "session 1, the door: needs you: master: Which?",
            "session 2, the cellar: works",
            "session 3, the roof: done",
        ]
        ears.type("/visit 9\n")
        await ears.hears("which session? /sessions tells their numbers")
        ears.type("/visit 2\n")
        await ears.hears("session: the cellar, session-2", "selected: agent 1, master")
        ears.type("look again\n")
        cellar = next(app for app in hub.apps if app.session == "session-2")
        await ears.until(lambda: bool(cellar.prompts), "the prompt")
        assert cellar.prompts == [("m", "look again", "inject")]
        ears.type("/sessions\n")
        await ears.until(lambda: ears.text.count("sessions: 3") == 2, "the list again")
        assert sum(line.startswith("selected: the list") for line in ears.lines) == 2
    await hub.aclose()


async def test_what_waits_elsewhere_is_told_and_answered_by_a_visit():
    hub = scripted()
    door = await begun(hub, "the door")
    await begun(hub, "the roof")
    async with hearing(hub) as ears:
        await ears.hears("sessions: 2")
        ears.type("/visit 1\n")
        await ears.hears("selected: agent 1, master")
        door.say("question_asked", "m", request="q", question="Which?", options=["red", "blue"])
        await ears.hears("session 2, the door: needs you: master: Which?")
        ears.type("1\n")
        await ears.until(lambda: bool(hub.apps[1].prompts), "it was a prompt")
        ears.type("/visit 2\n")
        await ears.hears("session: the door, ", "needs you: 1 waits; type /needs")
        ears.type("/needs\n")
        await ears.hears("request 1: choice 2: blue")
        ears.type("2\n")
        await ears.until(lambda: bool(door.answers), "the answer")
        assert door.answers[0][1].choices == ("blue",)
        assert hub.apps[1].answers == []
    await hub.aclose()


async def test_a_task_begins_a_session_which_is_left_and_goes_on():
    hub = scripted()
    async with hearing(hub) as ears:
        await ears.hears("sessions: none yet", "begins a session in /work")
        ears.type("/new /shop\n")
        await ears.hears("begins a session in /shop")
        ears.type("mend the door\n")
        app = await hub.opened("/shop")
        app.spawn(prompt="mend the door")
        await ears.hears("prsm: it begins", "selected: agent 1, master")
        ears.type("\x03")
        await ears.hears("Ctrl+C again leaves: what runs goes on: mend the door")
        ears.type("\x03")
        await ears.left.wait()
    assert app.has_open_run
    await hub.aclose()


async def test_sessions_are_named_ended_gone_on_with_written_and_deleted(tmp_path):
    hub = scripted()
    app = await begun(hub, "the door")
    async with hearing(hub) as ears:
        await ears.hears("session 1, the door: works")
        ears.type("/rename 1 the blue door\n")
        await ears.hears("prsm: it is called the blue door")
        ears.type("/delete 1\n")
        await ears.hears("still runs: /end it first")
        ears.type("/end 1\n")
        await ears.hears("sure: end the run of ")
        ears.type("2\n")
        await ears.hears("prsm: not done")
        assert app.has_open_run
        ears.type("/end 1\n1\n")  # the 1 was typed before the question was told
        await ears.until(lambda: ears.text.count("sure: end") == 2, "the question")
        assert app.has_open_run
        ears.type("1\n")
        await ears.hears("session 1, the blue door: interrupted")
        ears.type("/resume 1\n")
        await ears.hears_last("session 1, the blue door: works")
        ears.type("/visit 1\n")
        await ears.hears("session: the blue door")
        ears.type("/rename\n")
        await ears.hears("its name is gone", "session: it is called the door")
        ended(app)
        ears.type(f"/export {tmp_path}/out.json\n")
        await ears.until(lambda: (tmp_path / "out.json").exists(), "the file")
        ears.type("/delete 1\n")
        await ears.hears("sure: delete the door for good")
        ears.type("1\n")
        await ears.hears("prsm: deleted: session-1")
        await ears.until(lambda: ears.many.person is None, "the list")
    await hub.aclose()


async def test_what_is_typed_while_a_session_is_being_left_is_no_task_of_it():
    hub = scripted()
    app = await begun(hub, "the door")
    async with hearing(hub) as ears:
        await ears.hears("sessions: 1")
        ears.type("/visit 1\n")
        await ears.hears("selected: agent 1")
        ears.type("/sessions\npaint it\n")
        await ears.hears("not used: 'paint it': another place is on its way")
        await ears.until(lambda: ears.many.person is None, "the list")
        assert app.prompts == []
        assert len(hub.apps) == 1
    await hub.aclose()


async def test_what_cannot_begin_is_kept_and_said_again_at_the_end():
    hub = scripted()
    hub.faults["/work"] = ConfigError("no provider can be used", hint="log in")
    async with hearing(hub) as ears:
        await ears.hears("sessions: none yet")
        ears.type("mend the door\n")
        await ears.hears("not begun: no provider can be used; log in")
        ears.type("/vist 1\n")
        await ears.hears("there is no command /vist: did you mean /visit?")
        ears.type("half")
        assert list(ears.many.drafts()) == ["mend the door", "half"]


async def test_comments_that_were_not_sent_are_there_when_one_comes_back():
    hub = scripted()
    app = await begun(hub, "the door")
    app.say("agent_state_changed", "m", to="running")
    app.find_change("c1", "a.py", "m", diff="@@ -0,0 +1 @@\n+hello")
    async with hearing(hub) as ears:
        await ears.hears("sessions: 1")
        ears.type("/visit 1\n")
        await ears.hears("selected: agent 1")
        ears.type("/changes\n")
        await ears.hears("change 1: a.py")
        ears.type("/lines 1\n")
        await ears.hears("change 1: end")
        ears.type("/keep 1 2 why?\n/sessions\n")
        await ears.hears_last("session 1, the door: works")
        ears.type("/visit 1\n")
        await ears.until(lambda: ears.many.person is not None, "the session")
        ears.type("/review\n")
        await ears.hears(
            "review: line 1: why?", "sure: send the comment that is kept: 1 to master?"
        )
        ears.type("1\n")
        await ears.until(lambda: bool(app.prompts), "the comment")
    await hub.aclose()
