"""`prsm` alone, and `--ui`: the frontend that stays, on the newest session or on a new one."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.place import Place, own_terminal
from tests.site_folder import Site

STAYING = '''
import asyncio
from msgspec.structs import replace
from pathlib import Path

class Front(Frontend):
    def __init__(self, name):
        self.name = name

    async def run(self, app):
        tree = await app.agents.tree()
        agents = [node.name for node in tree.agents]
        kind = type(app).__name__
        print(self.name, kind, tree.session, agents, app.options.task, flush=True)
        return 7

class Many(HubFrontend):
    async def run(self, hub):
        print("many", hub.options.session, len(await hub.sessions()), flush=True)
        raise RuntimeError("it is broken")

class Both(HubFrontend):
    """Runs the task in this folder, in the one beside it, and in this once more, all at once."""

    async def run(self, hub):
        async with asyncio.TaskGroup() as group:
            for folder in (".", "../beside", "."):
                group.create_task(self.show(hub, folder))
        return 0

    async def show(self, hub, folder):
        workspace = str(Path(hub.options.workspace, folder))
        async with hub.open(replace(hub.options, workspace=workspace, session=None)) as app:
            result = await (await app.runs.start("look")).result()
            print(folder, result.summary, flush=True)

def spec(name, priority, factory, **others):
    return FrontendSpec(
        name=name, summary="", interactive=True, priority=priority, factory=factory, **others
    )

@hookimpl
def prsm_frontends():
    yield spec("stayer", 3, lambda settings: Front("stayer"), stays=True)
    yield spec("lesser", 1, lambda settings: Front("lesser"), stays=True)
    yield spec("many", 99, lambda settings: Many(), scope="hub")
    yield spec("both", 0, lambda settings: Both(), scope="hub")
    yield spec("goer", 99, lambda settings: Front("goer"))
'''
SAY = [{"say": "done"}]


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    place = Place(folder)
    place.script(master=SAY)
    site = tmp_path / "plugins"
    site.mkdir()
    Site(site).add("staying", STAYING)
    paths = [str(site), place.env.get("PYTHONPATH", "")]
    place.env.update(PRSM_PLUGINS="staying", PYTHONPATH=os.pathsep.join(filter(None, paths)))
    return place


def scripted(place):
    return ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")


async def on_terminal(place, *args):
    """Run a command in a terminal of its own; return its exit code and what it shows."""
    person, program = os.openpty()
    streams = dict.fromkeys(("stdin", "stdout"), program)
    process = await place.start(*args, **streams, **own_terminal(program))
    os.close(program)
    _, err = await process.communicate()
    shown = b""
    try:
        while chunk := os.read(person, 65536):
            shown += chunk
    except OSError:  # its end
        pass
    os.close(person)
    return process.returncode, shown.decode(), err.decode()


@pytest.mark.requirement("C3")
async def test_alone_it_opens_the_staying_frontend_of_highest_priority(place):
    code, shown, _ = await on_terminal(place)
    name, app, session, agents, task = shown.split()
    assert (code, name, app, agents, task) == (7, "stayer", "LocalApp", "[]", "None")
    assert session not in place.sessions()


@pytest.mark.requirement("D18")
async def test_it_opens_the_newest_session_or_with_new_another(place):
    _, out, _ = await place.run("run", "x", "--json", *scripted(place))
    session = json.loads(out.splitlines()[0])["session"]
    assert session in (await on_terminal(place))[1]
    assert session not in (await on_terminal(place, "--new"))[1]


@pytest.mark.requirement("D18")
async def test_a_session_that_runs_elsewhere_is_reached_there(place):
    place.script(master=[{"ask_user": {"id": "x", "question": "Which?", "options": ["red"]}}])
    _, out, _ = await place.run("run", "x", "--detach", "--json", *scripted(place))
    code, shown, err = await on_terminal(place)
    assert code == 7, err
    assert f"stayer RemoteApp {json.loads(out)['session']} ['master'] None" in shown
    await place.run("kill", "master")
    await place.until_gone()


async def killed(place):
    """Run a task until its master asks, and kill what runs it; return the session."""
    place.script(master=[{"ask_user": {"id": "x", "question": "Which?", "options": ["red"]}}])
    _, out, _ = await place.run("run", "say it", "--detach", "--json", *scripted(place))
    session = json.loads(out)["session"]
    while not await events_of(place, session, "question_asked"):
        pass
    place.kill()
    await place.until_gone()
    return session


@pytest.mark.requirement("D18")
async def test_alone_it_goes_on_with_the_newest_run_if_that_was_cut_off(place):
    session = await killed(place)
    code, shown, err = await on_terminal(place)
    assert shown.split() == ["stayer", "LocalApp", session, "['master']", "say", "it"]
    assert code == 1, "it has ended without starting the task"
    assert "frontend stayer" in err
    assert f"goes on with session {session}" in err
    assert "as it was started: --set" in err


@pytest.mark.requirement("D18")
async def test_with_new_a_run_that_was_cut_off_stays_as_it_is(place):
    session = await killed(place)
    code, shown, _ = await on_terminal(place, "--new")
    assert (code, session in shown, shown.split()[-1]) == (7, False, "None")


async def test_without_a_terminal_or_such_a_frontend_it_prints_the_help(place):
    code, out, _ = await place.run()
    assert (code, out.startswith("Usage: prsm ")) == (0, True)
    assert "prsm install tui" not in out
    code, _, err = await place.run("--new")
    assert (code, "this is no terminal, so none is opened" in err) == (2, True)
    place.env["PRSM_PLUGINS"] = ""
    code, shown, _ = await on_terminal(place)
    assert (code, shown.startswith("Usage: prsm ")) == (0, True)
    assert shown.splitlines()[-1].endswith("`prsm install tui` adds it.")
    code, _, err = await on_terminal(place, "--new")
    assert (code, "no frontend that stays" in err) == (2, True)


async def test_a_frontend_is_opened_by_its_name(place):
    code, out, _ = await place.run("--ui", "lesser")
    assert (code, out.split()[0]) == (7, "lesser")
    code, out, err = await place.run("--ui", "goer")
    assert (code, out) == (2, "")
    assert "prsm run --ui goer" in err
    code, _, err = await place.run("--ui", "nobody")
    assert (code, "nobody" in err) == (2, True)


async def test_a_frontend_of_many_sessions_is_given_a_hub_and_told_by_name_when_it_breaks(place):
    code, out, err = await place.run("--ui", "many")
    assert (code, out) == (1, "many None 0\n")
    assert "frontend many" in err
    assert "it is broken" in err
    for words in (("run", "x"), ("attach",)):
        code, _, err = await place.run(*words, "--ui", "many")
        assert (code, "prsm --ui many" in err) == (2, True)


@pytest.mark.requirement("D3")
async def test_the_policy_of_a_workspace_is_that_of_its_own_sessions(place):
    """And what is to be said of a workspace is said once."""
    place.script(master=[{"shell": {"id": "seen", "cmd": "ls"}}, {"say": "${seen.status}"}])
    beside = place.workspace.with_name("beside")
    for folder in (place.workspace, beside):
        (folder / ".prism").mkdir(parents=True)
        (folder / ".prism" / "config.yaml").write_text("defaults: {model: strange}\n")
    (beside / ".prism" / "policy.yaml").write_text("deny: [ls]\n")
    provider = {"script": {"scenario": str(place.scenario)}}
    scripted = {"defaults": {"provider": "script"}, "providers": provider}
    place.home.mkdir()
    (place.home / "config.yaml").write_text(json.dumps(scripted))
    code, out, err = await place.run("--ui", "both")
    assert (code, sorted(out.splitlines())) == (
        0,
        [". completed", ". completed", "../beside denied"],
    ), err
    notes = [line for line in err.splitlines() if "note:" in line]
    assert len(notes) == len(set(notes))
    assert sum(str(place.workspace) in note for note in notes) == 1


async def events_of(place, session, kind, *where):
    _, out, _ = await place.run("events", session, "--json", *where)
    rows = [json.loads(line) for line in out.splitlines()]
    return [row for row in rows if row["type"] == kind]


async def test_whoever_interrupts_a_hub_has_all_its_sessions_closed_in_order(place):
    place.script(master=[{"ask_user": {"id": "x", "question": "Which?", "options": ["red"]}}])
    place.workspace.with_name("beside").mkdir()
    provider = {"script": {"scenario": str(place.scenario)}}
    place.home.mkdir()
    (place.home / "config.yaml").write_text(
        json.dumps({"defaults": {"provider": "script"}, "providers": provider})
    )
    async with place.running("--ui", "both") as process:
        while len(sessions := place.sessions()) < 3:
            await place.run("--version")
        places: list[tuple[str, ...]] = [(), ("-C", "../beside")]
        homes: dict[str, tuple[str, ...]] = {}
        while len(homes) < 3:
            for session in sessions:
                for where in places:
                    if await events_of(place, session, "question_asked", *where):
                        homes[session] = where
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err.decode().splitlines()[-1]) == (130, "prsm: interrupted")
    assert (place.sessions(), place.processes()) == ([], [])
    for session, home in homes.items():
        [finished] = await events_of(place, session, "run_finished", *home)
        assert finished["status"] == "interrupted"
    assert sorted(map(len, homes.values())) == [0, 0, 2]


@pytest.mark.parametrize("name", ["serve", "acp"])
def test_what_no_package_brings_yet_is_no_command_and_not_in_the_help(prsm, name):
    assert prsm(name).code == 2
    assert f"  {name} " not in prsm("--help").out
    assert prsm("--ui", name).code == 2


def test_options_of_prsm_alone_stand_before_no_command(prsm):
    done = prsm("--new", "tree")
    assert (done.code, "--new" in done.err) == (2, True)


def test_no_folder_no_frontend(prsm_process, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = prsm_process("--ui", "console")
    assert done.code == 2
    assert "Traceback" not in done.err
