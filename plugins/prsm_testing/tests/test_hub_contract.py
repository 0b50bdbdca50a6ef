"""The contract of frontends of many sessions takes those that keep it, and no other."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

import pytest
from msgspec.structs import replace
from prsm_testing import HubFrontendContract, ScriptedHub, sample_events

from plugins.prsm_testing.tests.staying import keys_of, write
from prsm_core import ControlError, HubFrontend, PrsmError, RunOptions, SessionOwnedError
from prsm_core.kit import escape_prose

pytestmark = pytest.mark.requirement("F12")

KNOWN = {event.type for event in sample_events()}


class Batch(HubFrontend):
    """Begins a task in each of its folders, and ends with the last of the runs."""

    breaks = ""

    def __init__(self, folders):
        self.folders = folders
        self.kept = []

    async def run(self, hub):
        if self.breaks == "one after the other":
            codes = [await self.run_in(hub, folder) for folder in self.folders]
        else:
            async with asyncio.TaskGroup() as group:
                runs = [group.create_task(self.run_in(hub, folder)) for folder in self.folders]
            codes = [run.result() for run in runs]
        return 0 if self.breaks == "says that all is well" else max(codes)

    async def run_in(self, hub, folder):
        passes = () if self.breaks == "one breaks all" else (PrsmError,)
        try:
            async with hub.open(replace(hub.options, workspace=folder, session=None)) as app:
                return await self.follow(app)
        except passes as error:
            self.show(error.message)
            return 1

    async def follow(self, app):
        run = await app.runs.start("a task")
        if self.breaks == "leaves a task behind":
            self.kept.append(asyncio.ensure_future(asyncio.Event().wait()))
        reading = asyncio.ensure_future(self.read(app))
        ending = asyncio.ensure_future(run.result())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            result = await ending
        finally:
            for each in (reading, ending):
                each.cancel()
            await asyncio.wait({reading, ending})
        self.show(result.summary)
        return result.exit_code

    async def read(self, app):
        async with aclosing(app.events()) as events:
            async for event in events:
                if self.breaks == "answers by itself" and event.type == "permission_requested":
                    await app.requests.resolve(event.data["request"], "once")
                if self.breaks == "knows all types" and event.type not in KNOWN:
                    raise ValueError(event.type)

    def show(self, text):
        write(f"{text if self.breaks == 'shows it raw' else escape_prose(text)}\r\n")


class Served(Batch):
    """Begins a task in each folder that a line of its person names, until one says `end`."""

    async def run(self, hub):
        with keys_of(sys.stdin.fileno()) as keys:
            async with asyncio.TaskGroup() as group:
                runs = []
                while (typed := await keys.get()) is not None and b"end" not in typed:
                    folders = typed.decode().split()
                    runs += [group.create_task(self.run_in(hub, folder)) for folder in folders]
                    if self.breaks == "ends with its runs":
                        await asyncio.wait(runs)
                        break
                for run in runs:
                    run.cancel()
        return 0


class TestBatch(HubFrontendContract):
    def build(self, settings, workspaces):
        return Batch(workspaces)


class TestServed(HubFrontendContract):
    stays = True

    def build(self, settings, workspaces):
        return Served(workspaces)

    async def begin(self, hub, terminal, workspaces):
        terminal.type(" ".join(workspaces) + "\n")

    async def leave(self, hub, terminal):
        terminal.type("end\n")


def contract(kind, breaks):
    broken = type("Broken", (kind,), {"breaks": breaks})
    methods = {"deadline_s": 2.0, "build": lambda _, settings, workspaces: broken(workspaces)}
    return type("Contract", (TestServed if kind is Served else TestBatch,), methods)()


@pytest.mark.parametrize(
    ("kind", "breaks", "test"),
    [
        (Batch, "one after the other", "two_sessions_run_at_once"),
        (Batch, "says that all is well", "a_run_that_fails_is_no_success"),
        (Batch, "one breaks all", "a_session_that_cannot_be_opened_touches_no_other"),
        (Batch, "one breaks all", "a_session_that_breaks_touches_no_other"),
        (Batch, "knows all types", "every_event_is_taken"),
        (Batch, "shows it raw", "what_an_agent_writes_cannot_steer_the_terminal"),
        (Batch, "answers by itself", "without_a_person_it_answers_nothing"),
        (Batch, "leaves a task behind", "cancelling_it_leaves_nothing_behind"),
        (Served, "ends with its runs", "two_sessions_run_at_once"),
        (Served, "one breaks all", "a_session_that_breaks_touches_no_other"),
    ],
)
async def test_a_frontend_that_breaks_the_rule_fails_its_test(kind, breaks, test):
    tasks = asyncio.all_tasks()
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - groups, assertions, pytest.fail
        await getattr(contract(kind, breaks), f"test_{test}")()
    assert not isinstance(caught.value, asyncio.CancelledError | KeyboardInterrupt)
    for task in asyncio.all_tasks() - tasks:
        task.cancel()


async def test_sessions_of_a_scripted_hub_are_owned_until_they_are_left():
    hub = ScriptedHub(RunOptions(workspace="/work"))
    async with hub.open(RunOptions(workspace="/a")) as one:
        async with hub.open(RunOptions(workspace="/b", session="mine")) as two:
            run = await two.runs.start("x")
            assert (one.options.session, run.session) == ("session-1", "mine")
            assert hub.owned == ["session-1", "mine"]
            async with hub.attach("mine") as again:
                assert again is two
            [row] = await hub.sessions("/b")
            assert (row.session, row.status, row.waits) == ("mine", "running", ())
            events = two.events()
            assert (await anext(events)).session == "mine"
        assert (await run.result()).status == "interrupted"
        assert [event.type async for event in events] == ["run_finished"]
        with pytest.raises(ControlError) as gone:
            async with hub.attach("mine"):
                pass
        assert gone.value.code == "no_owner"
        assert [row.session for row in await hub.sessions()] == ["mine", "session-1"]
    hub.faults["/a"] = SessionOwnedError("process 1 owns it")
    with pytest.raises(SessionOwnedError):
        async with hub.open(RunOptions(workspace="/a")):
            pass
