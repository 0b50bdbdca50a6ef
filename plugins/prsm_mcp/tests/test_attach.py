"""prsm attach: a second terminal for a session that another process runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import asynccontextmanager
from functools import partial

import pytest
from prsm_console.console import Attached

from plugins.prsm_mcp.tests.leader import CLIENT
from plugins.prsm_mcp.tests.leader import leading as led
from prsm_core.cli.control import open_running
from prsm_core.cli.ledger import open_session
from prsm_core.config import resolve_paths
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.terminal import SessionOwner
from tests.place import Place, own_terminal
from tests.site_folder import Site

leading = partial(led, through=CLIENT)

ASKS = {
    "maker": [{"shell": {"id": "made", "cmd": "make it"}}, {"say": "${made.status}"}],
    "chooser": [
        {"ask_user": {"id": "said", "question": "Which?", "options": ["red", "blue"]}},
        {"say": "chose ${said.choices.0}"},
    ],
}


class Person:
    """Somebody at a terminal of their own, in which a command runs."""

    def __init__(self, process, descriptor):
        self.process = process
        self._descriptor = descriptor
        self._text = ""
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self):
        try:
            chunk = os.read(self._descriptor, 4096)
        except OSError:  # the other side is closed
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self._text += chunk.decode(errors="replace")
        self._changed.set()

    async def reads(self, text):
        """Wait until the terminal shows `text`; return all that came before it, once."""
        while text not in self._text:
            self._changed.clear()
            await self._changed.wait()
        before, _, self._text = self._text.partition(text)
        return before

    def type(self, keys):
        os.write(self._descriptor, keys.encode())


@pytest.fixture
async def place(tmp_path):
    place = Place(tmp_path)
    place.script(**ASKS)
    place.env["NO_COLOR"] = "1"
    return place


@asynccontextmanager
async def attached(place, *args):
    """Attach from a terminal; the command is ended on leaving."""
    person, program = os.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), program)
    terminal = {**streams, **own_terminal(program)}
    try:
        async with place.running("attach", *args, **terminal) as process:
            yield Person(process, person)
    finally:
        asyncio.get_running_loop().remove_reader(person)
        os.close(program)
        os.close(person)


@pytest.mark.requirement("D7")
async def test_a_permission_is_answered_from_a_second_terminal(place):
    async with leading(place) as leader, attached(place) as person:
        await person.reads("attached to session")
        await leader.spawn("maker")
        await person.reads("maker asks permission for Bash")
        assert "command: make it" in await person.reads("[o]nce")
        person.type("d\n")
        await person.reads("Bash of maker: deny (by user, prsm attach, pid ")
        assert (await leader.call("wait_for_message"))["summary"] == "denied"


async def test_what_was_asked_before_is_put_to_whoever_attaches(place):
    async with leading(place) as leader:
        await leader.spawn("chooser")
        while not (await place.events("question_asked")):
            pass
        async with attached(place) as person:
            await person.reads("chooser asks you: Which?")
            await person.reads("number or text: ")
            person.type("2\n")
            assert (await leader.call("wait_for_message"))["summary"] == "chose blue"


async def test_a_request_that_is_answered_elsewhere_is_withdrawn(place):
    async with leading(place) as leader, attached(place) as person:
        await leader.spawn("maker")
        await person.reads("[o]nce")
        assert (await place.run_in_terminal("answer", "all", "deny"))[0] == 0
        await person.reads("Bash of maker: deny (by user, prsm answer, pid ")


@pytest.mark.long
async def test_a_terminal_that_has_stopped_counts_as_nobody(place):
    async with leading(place, "--unattended", "3") as leader, attached(place) as person:
        await person.reads("attached to session")
        await leader.spawn("maker")
        await person.reads("[o]nce")
        person.process.send_signal(signal.SIGSTOP)  # it is there no more
        assert (await leader.call("wait_for_message"))["summary"] == "denied"
        person.process.send_signal(signal.SIGCONT)
        await person.reads("Bash of maker: deny (by unattended)")


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
async def test_leaving_does_not_end_the_run_nor_answer_for_the_person(place, key):
    async with leading(place) as leader:
        async with attached(place) as person:
            await leader.spawn("maker")
            await person.reads("[d]eny: ")
            person.type(key)
            await person.reads("left; the run goes on")
            assert await person.process.wait() == 0
        assert await place.events("permission_resolved") == []
        async with attached(place) as person:
            await person.reads("[d]eny: ")
            person.type("d\n")
            assert (await leader.call("wait_for_message"))["summary"] == "denied"


async def test_it_ends_with_the_session_and_tells_how_that_ended(place):
    async with leading(place) as leader, attached(place) as person:
        await person.reads("attached to session")
        leader.process.stdin.close()
        await person.reads("the run has ended: completed")
        await person.reads("the session has ended")
        assert await person.process.wait() == 0


async def test_a_session_that_ends_while_one_attaches_is_told_with_its_end(
    place, monkeypatch, capsys
):
    monkeypatch.setenv("PRSM_HOME", str(place.home))
    workspace = str(place.workspace)
    async with (
        leading(place) as leader,
        await open_running(workspace, None) as client,
        open_session(workspace, client.session) as (store, info),
    ):
        leader.process.stdin.close()
        await leader.process.wait()
        await Attached(SessionOwner(client, store, info)).run()
    told = capsys.readouterr().err
    assert told.count("the run has ended: completed") == 1
    assert told.endswith("prsm: the session has ended\n")


async def test_it_ends_when_the_owner_of_the_session_is_killed(place):
    async with leading(place) as leader, attached(place) as person:
        await leader.spawn("maker")
        await person.reads("[d]eny: ")
        leader.process.kill()
        await person.reads("the session has ended")
        assert await person.process.wait() == 0


async def test_without_a_terminal_requests_are_shown_and_nobody_is_asked(place):
    async with leading(place, "--unattended", "0.5") as leader:
        process = await place.start("attach", stdin=subprocess.DEVNULL)
        assert b"attached to session" in await process.stderr.readline()
        assert b"`prsm answer` answers it" in await process.stderr.readline()
        await leader.spawn("maker")
        assert (await leader.call("wait_for_message"))["summary"] == "denied"
    out, err = await process.communicate()
    assert (process.returncode, out) == (4, b"")  # all was refused, and no file was changed
    assert b"Bash of maker: deny (by unattended)" in err
    assert err.endswith(b"prsm: the session has ended\n")


async def test_where_nothing_runs_there_is_nothing_to_attach_to(place):
    async with leading(place):
        pass
    code, out, err = await place.run("attach")
    assert (code, out) == (1, "")
    assert err.startswith("prsm: no session of this repository runs\nhint: ")


@pytest.mark.parametrize("command", [("attach",), ("kill", "master", "--session"), ("tree",)])
async def test_a_session_without_a_run_yet_is_told_to_be_owned(place, command):
    """Before any run there is no ledger, and then one without this session."""
    state = resolve_paths(place.workspace, place.env).state
    for has_ledger in (False, True):
        if has_ledger:
            async with leading(place):
                pass
        with SessionLock.take(state, "01KHFW3QZE0000000000000000", since=0.0):
            for word in ("01KHFW3QZE0000000000000000", "01khfw3qze"):
                code, out, err = await place.run(*command, word)
                assert (code, out) == (2, "")
                assert f"is owned by process {os.getpid()} since" in err
                assert "no run of it has begun yet\nhint: " in err


WATCHER = """
class Watcher(Frontend):
    async def run(self, app):
        view = await app.view()
        waiting = [request.request for request in view.requests]
        events = app.events(after=view.seq)
        while not waiting:
            event = await anext(events)
            waiting = [event.data["request"]] if event.type == "question_asked" else []
        is_first = await app.requests.answer(waiting[0], Answer(choices=("blue",)))
        print("answered", is_first, flush=True)
        await events.aclose()
        return 7

@hookimpl
def prsm_frontends():
    yield FrontendSpec(name="watcher", summary="", interactive=True, priority=0,
                       factory=lambda options: Watcher())
"""


@pytest.mark.requirement("C2")
async def test_a_frontend_of_a_plugin_follows_and_answers_a_session_of_another_process(
    place, tmp_path
):
    (folder := tmp_path / "site").mkdir()
    Site(folder).add("watcher", WATCHER)
    paths = [str(folder), place.env.get("PYTHONPATH", "")]
    place.env.update(PRSM_PLUGINS="watcher", PYTHONPATH=os.pathsep.join(filter(None, paths)))
    async with leading(place) as leader:
        watching = asyncio.ensure_future(place.run_in_terminal("attach", "--ui", "watcher"))
        await leader.spawn("chooser")
        code, out, err = await watching
        assert (code, "answered True" in out) == (7, True), err
        assert (await leader.call("wait_for_message"))["summary"] == "chose blue"


async def test_a_frontend_that_there_is_not_is_told_by_name(place):
    code, _, err = await place.run("attach", "--ui", "nobody")
    assert (code, "nobody" in err) == (2, True)
