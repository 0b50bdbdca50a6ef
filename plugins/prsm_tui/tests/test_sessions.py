"""The list of sessions, and what is done from there: by keys, on a scripted hub."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_testing import ScriptedHub
from prsm_tui.model.sessions import Sessions
from textual import events

from plugins.prsm_tui.tests.hub_scenes import watching_hub
from prsm_core import ConfigError, RunOptions, StoreError
from prsm_core.door import HubSession, OpenQuestion

pytestmark = pytest.mark.requirement("D3")


def scripted():
    return ScriptedHub(RunOptions(workspace="/work"))


async def begun(hub, task, *, asks=False):
    """Begin a run that another process owns; return its session."""
    told = await hub.start(RunOptions(workspace="/work", task=task))
    app = next(app for app in hub.apps if app.session == told.session)
    app.spawn(prompt=task)
    app.say("message_completed", "m", turn="t", role="assistant", text=f"I look at {task}.")
    if asks:
        app.say("question_asked", "m", request="q", question="Which?", options=["red", "blue"])
    return app


def ended(app):
    """Have the run of a session end as completed."""
    app.say("agent_state_changed", "m", **{"from": "running", "to": "completed"})
    app.finish()


async def test_sessions_stand_in_three_groups_with_a_peek_at_the_chosen_one():
    hub = scripted()
    done = await begun(hub, "the roof")
    done.finish()
    await begun(hub, "the cellar")
    await begun(hub, "the door", asks=True)
    async with watching_hub(hub, size=(120, 30)) as eyes:
        await eyes.sees("NEEDS YOU (1)", "WORKS (1)", "DONE (1)", "? the door", "x the roof")
        groups = [eyes.text.index(head) for head in ("NEEDS YOU", "WORKS", "DONE")]
        assert groups == sorted(groups)
        await eyes.sees("waits for you: master: Which?", "I look at the door.")
        await eyes.press("down")
        await eyes.sees("I look at the cellar.")
        assert "Which?" not in eyes.text


async def test_what_waits_is_answered_from_the_list():
    hub = scripted()
    app = await begun(hub, "the door", asks=True)
    async with watching_hub(hub) as eyes:
        await eyes.sees("NEEDS YOU (1)")
        await eyes.press("a")
        await eyes.sees("2. blue", "the answer, then Enter")
        await eyes.type("2\n")
        await eyes.until(lambda: app.answers, "the answer")
        assert app.answers[0][1].choices == ("blue",)
        await eyes.press("escape")
        await eyes.sees("WORKS (1)", "Enter open")
        assert app.has_open_run


async def test_a_request_answers_to_no_key_of_the_list():
    hub = scripted()
    app = await begun(hub, "the door", asks=True)
    async with watching_hub(hub) as eyes:
        await eyes.sees("NEEDS YOU (1)")
        await eyes.press("1", "y", "o", "enter")
        await eyes.sees("F1 keys")
        assert app.answers == []


async def test_a_new_session_begins_elsewhere_and_goes_on_when_it_is_left():
    hub = scripted()
    async with watching_hub(hub) as eyes:
        await eyes.sees("none yet; n begins one")
        await eyes.type("nmend the door\n")
        app = await hub.opened("/work")
        app.spawn(prompt="mend the door")
        await eyes.sees("to master", "F1 keys")
        await eyes.press("escape", "escape", "escape")
        await eyes.sees("WORKS (1)", "> mend the door")
        assert app.has_open_run
        assert app.readers == 0, "nobody reads a session that is not looked at"
        await eyes.press("enter")
        await eyes.sees("to master")
    assert app.has_open_run
    await hub.aclose()


async def test_what_was_typed_in_a_session_is_there_when_one_comes_back():
    hub = scripted()
    app = await begun(hub, "the door")
    app.spawn("w", "w1", "m")
    async with watching_hub(hub) as eyes:
        await eyes.sees("WORKS (1)")
        await eyes.press("enter")
        await eyes.sees("to master")
        await eyes.type("/open w1\n")
        await eyes.sees("to w1")
        await eyes.type("half a thought")
        await eyes.press("f5")
        await eyes.sees("Enter open")
        app.say("message_completed", "w", turn="t", role="assistant", text="I went on meanwhile.")
        await eyes.press("enter")
        await eyes.sees("to w1", "half a thought", "I went on meanwhile.")
        assert list(eyes.tui.drafts()) == ["half a thought"]
    await hub.aclose()


async def test_filters_of_a_session_are_there_when_one_comes_back():
    """Of the tree and of each transcript; another session has none of them."""
    hub = scripted()
    door, roof = await begun(hub, "the door"), await begun(hub, "the roof")
    for app in (door, roof):
        app.spawn("w", "w1", "m")
        app.spawn("x", "other", "m")
        for agent in ("m", "w"):
            for number, text in enumerate(("brown wood", "black iron"), 1):
                told = {"turn": "t", "role": "assistant", "text": text, "message": number}
                app.say("message_completed", agent, **told)
    async with watching_hub(hub, size=(120, 30)) as eyes:
        await eyes.sees("WORKS (2)", "the door")
        await eyes.press("enter")
        await eyes.sees("to master", "black iron")
        first = eyes.tui.session.id
        await eyes.press("shift+tab", "/")
        await eyes.type("wood\n")
        await eyes.sees("filter: wood")
        await eyes.press("shift+tab", "/")
        await eyes.type("w1\n")
        await eyes.until(lambda: "other" not in eyes.text, "the tree without it")
        assert "black iron" not in eyes.text
        await eyes.press("f5")
        await eyes.sees("WORKS (2)")
        await eyes.press("down", "enter")
        await eyes.until(lambda: eyes.tui.session.id not in {"", first}, "the other session")
        await eyes.sees("black iron", "other")
        await eyes.press("f5")
        await eyes.sees("WORKS (2)")
        await eyes.press("up", "enter")
        await eyes.until(lambda: eyes.tui.session.id == first, "the first session")
        await eyes.sees("filter: w1", "filter: wood", "brown wood")
        assert "black iron" not in eyes.text
        assert "other" not in eyes.text
    await hub.aclose()


async def test_a_further_task_goes_to_the_last_master_in_a_process_of_its_own():
    hub = scripted()
    app = await begun(hub, "the door")
    ended(app)
    async with watching_hub(hub) as eyes:
        await eyes.sees("DONE (1)")
        await eyes.press("enter")
        await eyes.sees("as a further task")
        assert hub.owned == [app.session]
        await eyes.type("and the window\n")
        await eyes.until(lambda: app.continued == ["and the window"], "the further task")
        await eyes.sees("run running")
        [row] = await hub.sessions()
        assert row.pid == hub.owner_pid
    await hub.aclose()


async def test_a_run_that_ends_while_one_looks_stays_to_be_read():
    hub = scripted()
    app = await begun(hub, "the door")
    async with watching_hub(hub) as eyes:
        await eyes.sees("WORKS (1)")
        await eyes.press("enter")
        await eyes.sees("I look at the door.")
        ended(app)
        await eyes.sees("the run is completed", "as a further task")
        assert "nothing more comes" not in eyes.text
        await eyes.until(lambda: hub.owned == [app.session], "it is open here")
        await eyes.press("f5")
        await eyes.until(lambda: hub.owned == [], "it is left")


async def test_an_owner_that_dies_is_told_and_the_run_goes_on_by_resume():
    hub = scripted()
    app = await begun(hub, "the door")
    async with watching_hub(hub) as eyes:
        await eyes.sees("WORKS (1)")
        await eyes.press("enter")
        await eyes.sees("I look at the door.")
        hub._end(app)  # its owner was killed: no `run_finished`
        await eyes.sees("error: the run was cut off", "goes on with it")
        await eyes.sees("run interrupted", "/resume goes on with the run")
        await eyes.type("/resume\n")
        await eyes.sees("run running")
        [row] = await hub.sessions()
        assert (row.status, row.pid) == ("running", hub.owner_pid)
    await hub.aclose()


async def test_sessions_are_renamed_forked_written_and_deleted(tmp_path):
    hub = scripted()
    app = await begun(hub, "the door")
    ended(app)
    async with watching_hub(hub) as eyes:
        await eyes.sees("DONE (1)")
        await eyes.press("R")
        await eyes.sees("What is the door to be called?")
        await eyes.type(" of blue wood\n")
        await eyes.sees("x the door of blue wood")
        await eyes.press("f")
        await eyes.sees("DONE (2)", "/ fork of the door")
        await eyes.press("x")
        await eyes.sees("Write it to which file?")
        eyes.tui.screen.query_one("#line").value = str(tmp_path / "out.jsonl")
        await eyes.press("enter")
        await eyes.sees("written:")
        assert (tmp_path / "out.jsonl").exists()
        await eyes.press("g", "D")
        await eyes.sees("for good?")
        await eyes.press("n")
        await eyes.sees("DONE (2)")
        await eyes.press("D")
        await eyes.sees("for good?")
        await eyes.press("y")
        await eyes.sees("DONE (1)", "deleted:")


async def test_a_run_is_ended_from_the_list_after_a_question():
    hub = scripted()
    app = await begun(hub, "the door")
    async with watching_hub(hub) as eyes:
        await eyes.sees("WORKS (1)")
        await eyes.press("D")
        await eyes.sees("still runs: end its run first (K)")
        await eyes.press("K")
        await eyes.sees("End the run of the door")
        await eyes.press("y")
        await eyes.sees("DONE (1)", "interrupted")
        assert not app.has_open_run
        await eyes.press("r")
        await eyes.sees("WORKS (1)")
    await hub.aclose()


async def test_the_filter_shows_those_that_have_the_words():
    hub = scripted()
    for task in ("the roof", "the door", "another door"):
        await begun(hub, task)
    async with watching_hub(hub) as eyes:
        await eyes.sees("WORKS (3)")
        await eyes.type("/door an")
        await eyes.sees("WORKS (1)", "sessions with: door an_", "another door")
        await eyes.press("escape")
        await eyes.sees("WORKS (3)")
    await hub.aclose()


async def test_what_cannot_begin_comes_back_to_be_typed_again():
    hub = scripted()
    hub.faults["/work"] = ConfigError("no provider can be used", hint="log in")
    async with watching_hub(hub) as eyes:
        await eyes.sees("none yet")
        await eyes.type("nmend the door\n")
        await eyes.sees("not begun: no provider can be used; log in", "mend the door")
        await eyes.press("escape")
        await eyes.sees("Enter open")
        del hub.faults["/work"]
        await eyes.press("n")
        await eyes.sees("mend the door")
        await eyes.press("enter")
        assert (await (await hub.opened("/work")).started()).session
    await hub.aclose()


async def test_a_session_that_breaks_leads_back_to_the_list_and_touches_no_other(monkeypatch):
    hub = scripted()
    broken, whole = await begun(hub, "the roof"), await begun(hub, "the door")

    attach = hub.attach

    @asynccontextmanager
    async def torn(session):
        if session == broken.session:
            raise StoreError("the ledger broke")
        async with attach(session) as app:
            yield app

    monkeypatch.setattr(hub, "attach", torn)
    async with watching_hub(hub) as eyes:
        await eyes.sees("WORKS (2)")
        await eyes.press("end", "enter")
        await eyes.sees(f"session {broken.session}: the ledger broke", "Enter open")
        await eyes.press("home", "enter")
        await eyes.sees("I look at the door.")
        assert whole.has_open_run
    await hub.aclose()


async def test_what_is_sent_while_a_session_is_being_left_is_there_when_one_comes_back():
    hub = scripted()
    app = await begun(hub, "the door")
    async with watching_hub(hub) as eyes:
        await eyes.sees("WORKS (1)")
        await eyes.press("enter")
        await eyes.sees("to master")
        may_leave = asyncio.Event()

        async def slowly() -> None:
            await may_leave.wait()

        eyes.tui.many._do(slowly)  # what was asked for before
        await eyes.press("f5")
        await eyes.type("not lost\n")
        may_leave.set()
        await eyes.sees("Enter open")
        assert app.prompts == []
        await eyes.press("enter")
        await eyes.sees("to master", "not lost")
    await hub.aclose()


async def test_what_other_sessions_do_is_counted_while_one_is_looked_at():
    hub = scripted()
    await begun(hub, "the cellar")
    other = await begun(hub, "the door")
    await begun(hub, "the roof")
    async with watching_hub(hub, size=(120, 30)) as eyes:
        await eyes.sees("WORKS (3)")
        await eyes.press("home", "enter")
        await eyes.sees("I look at the roof.", "elsewhere: 2 work (F5)")
        written: list[str] = []
        eyes.tui._driver.write, eyes.tui.app_focus = written.append, False
        other.say("question_asked", "m", request="q", question="Which?", options=["red"])
        eyes.tui.rounds.soon()
        await eyes.sees("elsewhere: 1 needs you, 1 works (F5)")
        assert "NEEDS YOU" not in eyes.text
        assert "\x07" in "".join(written), "it rings"
        assert eyes.tui._title_now() == ("(1) prsm needs you", 1)
        ended(other)
        eyes.tui.rounds.soon()
        await eyes.sees("elsewhere: 1 works (F5)")
        await eyes.press("f5")
        await eyes.sees("WORKS (2)", "DONE (1)")
    await hub.aclose()


def row(session, **others):
    told = {"session": session, "status": "running", "task": "a task", "pid": 1, "waits": ()}
    nothing = {"name": None, "run": None, "workspace": "", "origin": None}
    return HubSession(**{**told, **nothing, "started_at": 0.0, "last_seq": 0, **others})


def test_the_session_that_is_chosen_stays_chosen_when_groups_change():
    sessions = Sessions()
    sessions.take([row("a"), row("b"), row("c")])
    sessions.chosen = "b"
    asks = OpenQuestion(agent="m", name="m", opened_at=1.0, request="q", question="Which?")
    sessions.take([row("n"), row("a"), row("b", waits=(asks,)), row("c", status="completed")])
    assert [getattr(line, "id", line) for line in sessions.lines()] == [
        *("NEEDS YOU (1)", "b", "WORKS (2)", "n", "a", "DONE (1)", "c")
    ]
    assert sessions.chosen == "b"
    sessions.take([row("a")])
    assert sessions.chosen == "a"


def test_a_session_is_called_by_the_first_words_of_its_task_at_once():
    sessions = Sessions()
    sessions.take([row("a", task="Mend the\x1b[2J door\nand more", name=None), row("b", name="x")])
    assert [one.name for one in sessions.listed] == ["Mend the\\x1b[2J door…", "x"]


async def test_a_task_begins_in_the_folder_that_was_typed_before_it_however_slowly_that_is_read():
    hub = scripted()
    async with watching_hub(hub) as eyes:
        await eyes.sees("none yet; n begins one")
        await eyes.press("n")
        await eyes.sees("a new session")
        form, may_read, given = eyes.tui.screen, asyncio.Event(), asyncio.Event()
        form.say = lambda _: given.set()
        form.query_one("#folder").call_later(may_read.wait)
        for key in ("shift+tab", "slash", "t", "tab", "g", "o", "enter"):
            letter = "/" if key == "slash" else key if len(key) == 1 else None
            eyes.tui.post_message(events.Key(key, letter))
        async with asyncio.timeout(30):
            await given.wait()
        may_read.set()
        app = await hub.opened("/t")
        assert app.options.task == "go"
    await hub.aclose()
