"""`prsm run --detach`: a process of its own owns the run, whatever becomes of the terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess

import pytest

from prsm_core.cli.detached import KEPT
from tests.place import DEADLINE, Place, own_terminal
from tests.site_folder import Site

ASK = {"ask_user": {"id": "said", "question": "Which?", "options": ["red", "blue"]}}
SAY = {"say": "chose ${said.choices.0}"}
MADE = [{"shell": {"id": "made", "cmd": "make it"}}, {"say": "${made.status}"}]
SPAWN = {"prompt": "make it", "name": "maker", "wait": True}
CHILD = {"call": {"id": "child", "tool": "spawn_child", "arguments": SPAWN}}


@pytest.fixture
async def place(tmp_path):
    """Agents that wait for a person; whatever is left of them ends with the test."""
    folder = tmp_path / "elsewhere"  # than where this process works
    folder.mkdir()
    place = Place(folder)
    place.script(master=[ASK, SAY], maker=MADE)
    yield place
    place.kill()


def asking(place, *args):
    """Return the words of a command that starts the scripted run, detached."""
    scripted = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    return ("run", "choose", "--detach", *scripted, *args)


async def detached(place, *args):
    """Start a run; return what it prints."""
    code, out, err = await place.run(*asking(place, "--json", *args))
    assert code == 0, err
    return json.loads(out)


async def owner_of(place, session):
    async with place.control(session) as owner:
        return (await owner.ping())["pid"]


async def answered(place, choice):
    """Wait for the question, and answer it as a person in a terminal of their own."""
    async with asyncio.timeout(DEADLINE):
        request = await asked(place)
    code, _, err = await place.run_in_terminal("answer", request, choice)
    assert code == 0, err


async def asked(place):
    async with asyncio.timeout(DEADLINE):
        while not (found := await place.events("question_asked")):
            pass
    return found[0]["request"]


async def ended(place):
    """Wait until nothing works in the workspace; return how the run ended."""
    async with asyncio.timeout(DEADLINE):
        await place.until_gone()
    assert place.sessions() == []
    [finished] = await place.events("run_finished")
    return finished["status"], finished["summary"]


async def test_it_returns_once_the_run_has_begun_and_the_run_goes_on(place):
    told = await detached(place)
    [started] = await place.events("run_started", session=told["session"], run=told["run"])
    assert started["task"] == "choose"
    assert (await place.states()) == {"master": "running"}
    await answered(place, "blue")
    assert await ended(place) == ("completed", "chose blue")


async def test_without_json_stdout_has_the_session_alone(place):
    code, out, err = await place.run(*asking(place))
    [session] = place.sessions()
    assert (code, out) == (0, f"{session}\n")
    assert f"prsm attach {session}" in err
    log = place.home / "state" / "logs" / f"{session}.log"
    assert f"its log: {log}" in err
    assert log.stat().st_mode & 0o777 == 0o600
    assert (await place.run("kill", "master"))[1] == "killed master\n"
    assert await ended(place) == ("killed", "")
    assert "prsm: it is killed" in log.read_text()


async def test_it_outlives_its_terminal(place):
    person, program = os.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), program)
    process = await place.start(*asking(place), **streams, **own_terminal(program))
    os.close(program)
    assert await process.wait() == 0
    os.close(person)  # the terminal has gone, and all that were in it are told
    [session] = place.sessions()
    pid = await owner_of(place, session)
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGHUP)
    await answered(place, "red")
    assert await ended(place) == ("completed", "chose red")


async def test_logs_of_sessions_are_bounded_and_the_log_of_all_is_none_of_them(place):
    logs = place.home / "state" / "logs"
    logs.mkdir(parents=True, mode=0o700)
    for number in range(KEPT + 20):
        (logs / f"01{number:024d}.log").touch()
    (logs / "mine.log").touch()
    told = await detached(place)
    names = {path.name for path in logs.iterdir()}
    assert {"prsm.log", "mine.log", f"{told['session']}.log"} <= names
    assert len([name for name in names if name.startswith("01")]) == KEPT + 1


async def test_nothing_of_the_caller_is_held_open_by_the_run(place):
    process = await place.start(*asking(place), stderr=subprocess.STDOUT)
    out, _ = await process.communicate()  # which ends with the last that holds its end
    assert out.decode().splitlines()[1] in place.sessions()


async def test_what_keeps_a_run_from_beginning_is_told_as_without_it(place):
    words = ("run", "choose", "--provider", "absent")
    plain = await place.run(*words)
    code, out, err = await place.run(*words, "--detach")
    assert (code, out, err) == plain
    assert (code, out) == (3, "")
    assert "absent" in err
    place.scenario.unlink()
    code, out, err = await place.run(*asking(place))
    assert (code, out) == (3, "")
    assert "Traceback" not in err
    assert place.processes() == []


async def test_a_session_that_is_owned_is_refused_by_its_owners_name(place):
    told = await detached(place)
    code, out, err = await place.run(*asking(place, "--session", told["session"]))
    assert (code, out) == (2, "")
    assert str(await owner_of(place, told["session"])) in err


@pytest.mark.requirement("U8")
async def test_a_request_waits_for_somebody_and_not_for_ever(place):
    place.script(master=[CHILD, {"say": "done"}], maker=MADE)
    await detached(place, "--unattended", "0.3")
    assert await ended(place) == ("completed", "done")
    [resolved] = await place.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "unattended")


async def test_nobody_is_waited_for_where_on_ask_answers(place):
    place.script(master=[CHILD, {"say": "done"}], maker=MADE)
    await detached(place, "--on-ask", "deny")
    assert await ended(place) == ("completed", "done")
    [resolved] = await place.events("permission_resolved")
    assert resolved["by"] == "headless"


async def test_being_told_to_end_interrupts_the_run_in_order(place):
    told = await detached(place)
    await asked(place)
    os.kill(await owner_of(place, told["session"]), signal.SIGTERM)
    assert (await ended(place))[0] == "interrupted"


SLOW = """
import asyncio, pathlib

class Slow(Provider):
    capabilities = ProviderCapabilities()

    def open_session(self, request, host):
        raise AssertionError("it is never chosen")

    async def probe(self):
        pathlib.Path("probed").write_text("")
        await asyncio.Event().wait()

@hookimpl
def prsm_providers():
    yield ProviderSpec(name="slow", summary="", factory=lambda settings, services: Slow())
"""


async def test_whoever_stops_waiting_for_the_start_has_no_run(place, tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    Site(folder).add("slow", SLOW)
    paths = [str(folder), place.env.get("PYTHONPATH", "")]
    place.env.update(PRSM_PLUGINS="slow", PYTHONPATH=os.pathsep.join(filter(None, paths)))
    async with place.running("run", "choose", "--detach", "--provider", "slow") as process:
        while not (place.workspace / "probed").exists():
            await place.run("--version")
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        assert (process.returncode, out) == (130, b"")
        assert b"interrupted" in err
        await place.until_gone()


@pytest.mark.requirement("D3")
async def test_a_frontend_that_is_killed_takes_nothing_from_the_run_nor_from_another(place):
    told = await detached(place)
    first = await place.start("attach", "--ui", "json", stdin=subprocess.DEVNULL)
    async with place.running("attach", told["session"], "--ui", "json") as other:
        head = [json.loads(await first.stdout.readline()) for _ in range(3)]
        first.kill()
        await first.wait()
        await answered(place, "red")
        out, err = await other.communicate()
    assert (other.returncode, err) == (0, b"")
    events = [json.loads(line) for line in out.splitlines()]
    assert events[:3] == head
    assert await ended(place) == ("completed", "chose red")
    assert events == await place.events()
    assert events[-1]["type"] == "run_finished"


async def test_both_show_the_same_last_event_when_the_killed_one_comes_again(place):
    await detached(place)
    words = ("attach", "--ui", "json")
    (await place.start(*words)).kill()
    async with place.running(*words) as one, place.running(*words) as two:
        for process in (one, two):
            await process.stdout.readline()
        await answered(place, "blue")
        ends = [(await process.communicate())[0].splitlines()[-1] for process in (one, two)]
    assert ends[0] == ends[1]
    assert json.loads(ends[0])["summary"] == "chose blue"


async def test_leaving_an_attached_frontend_ends_no_run(place):
    told = await detached(place)
    async with place.running("attach", "--ui", "json") as process:
        await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"prsm: left; the run goes on\n")
    assert await owner_of(place, told["session"])
    assert await place.events("run_finished") == []


async def test_an_owner_that_is_killed_is_told_to_who_follows(place):
    told = await detached(place)
    async with place.running("attach", "--ui", "json") as process:
        await process.stdout.readline()
        os.kill(await owner_of(place, told["session"]), signal.SIGKILL)
        _, err = await process.communicate()
    assert process.returncode == 1
    assert told["session"] in err.decode()
    assert "without a word" in err.decode()
    assert "plugin" not in err.decode()


async def test_the_console_attaches_in_its_own_way(place):
    await detached(place)
    async with place.running("attach", "--ui", "console", stderr=subprocess.STDOUT) as process:
        assert b"attached to session" in await process.stdout.readline()
        await answered(place, "blue")
        out, _ = await process.communicate()
    assert b"the run has ended: completed" in out
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--ui", "console"), "prsm attach --ui console"),
        (("--new", "--session", "01"), "--new and --session"),
    ],
)
def test_what_does_not_go_together_is_refused(prsm, args, told):
    done = prsm("run", "x", "--detach", *args)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_unattended_is_for_a_run_without_a_terminal(prsm):
    done = prsm("run", "x", "--unattended", "3")
    assert done.code == 2
    assert "--detach" in done.err
