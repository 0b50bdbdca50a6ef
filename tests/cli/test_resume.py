"""`prsm resume` where something keeps a run from going on, or it is typed elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing

import pytest
from prsm_console.console import KILLED

from prsm_core.engine.turns.going_on import WITHHELD
from tests.place import Place

ASKS = [
    {"ask_user": {"id": "x", "question": "Which?", "options": ["red"]}},
    {"shell": {"id": "where", "cmd": "pwd"}},
    {"call": {"tool": "task_complete", "arguments": {"summary": "${where.stdout}"}}},
]


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "elsewhere"  # not where the tests themselves are
    folder.mkdir()
    place = Place(folder)
    place.script(master=ASKS)
    return place


@pytest.fixture
def repository(place):
    """The workspace, as a repository with a commit."""
    git = ("git", "-C", place.workspace, "-c", "user.name=x", "-c", "user.email=x@example.com")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    return place.workspace


@pytest.fixture
def worktree(repository, tmp_path):
    tree = tmp_path / "tree"
    subprocess.run(["git", "-C", repository, "worktree", "add", "-q", tree], check=True)
    return tree


async def begun(place, asks="question_asked"):
    """Begin a run that asks a person; return its session."""
    given = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    code, out, err = await place.run("run", "say it", "--detach", "--json", *given)
    assert code == 0, err
    while not await place.events(asks):
        pass
    return json.loads(out)["session"]


async def killed(place):
    """Kill a run that asks a person; return its session."""
    session = await begun(place)
    place.kill()
    await place.until_gone()
    return session


async def test_a_run_that_still_goes_on_is_followed_rather_than_resumed(place):
    session = await begun(place)
    code, out, err = await place.run("resume")
    assert (code, out) == (2, "")
    assert err.startswith(f"prsm: session {session} goes on in process ")
    assert f"hint: follow it: prsm attach {session}" in err
    assert len(err.splitlines()) == 2
    await place.run("kill", "master")
    await place.until_gone()


async def test_a_session_that_is_not_there_is_told_with_those_that_are(place):
    session = await killed(place)
    code, out, err = await place.run("resume", "zzz")
    assert (code, out) == (1, "")
    assert err == f"prsm: there is no session 'zzz'\nhint: the newest are: {session}\n"
    assert (await place.run("sessions", "delete", session, "--yes"))[0] == 0
    code, out, err = await place.run("resume")
    assert (code, out) == (1, "")
    assert err == 'prsm: there is no session yet\nhint: start a run with `prsm run "…"`\n'


async def test_it_goes_on_in_its_own_worktree_from_any_other(place, repository, worktree):
    """What another worktree configures is not its own."""
    place.workspace = worktree
    await killed(place)
    place.workspace = repository
    for folder, key in ((repository, "defaults"), (worktree, "engine")):
        (folder / ".prism").mkdir()
        (folder / ".prism" / "config.yaml").write_text(f"{key}: {{}}\n")
    code, out, err = await place.run("resume", "--on-ask", "allow")
    assert (code, out) == (0, f"{worktree}\n"), err
    assert f"{worktree}/.prism" in err
    assert f"{repository}/.prism" not in err


async def test_a_question_that_is_asked_again_and_answered_did_not_wait_in_vain(place):
    await killed(place)
    code, _, err = await place.run("resume", "--on-ask", "allow")
    assert code == 0
    assert "is answered with red" in err
    assert "waited for YOU" not in err


async def test_a_command_that_nobody_had_allowed_is_not_said_to_have_run(place):
    done = {"call": {"tool": "task_complete", "arguments": {"summary": "it"}}}
    spawned = {"prompt": "make it", "name": "w1", "wait": True}
    spawns = {"call": {"tool": "spawn_child", "arguments": spawned}}
    place.script(master=[spawns, done], w1=[{"shell": {"id": "x", "cmd": "make it"}}, done])
    await begun(place, "permission_requested")
    place.kill()
    await place.until_gone()
    _, _, err = await place.run("resume", "--on-ask", "allow")
    assert "not begun: Bash of w1 still waited for leave" in err
    assert "may have run" not in err
    [asked] = await place.events("permission_requested")
    [end] = await place.events("tool_call_finished", call=asked["call"])
    assert end["error"] == WITHHELD


async def test_a_run_whose_folder_is_gone_says_where_it_was(place, repository, worktree):
    place.workspace = worktree
    await killed(place)
    shutil.rmtree(worktree)
    place.workspace = repository
    code, _, err = await place.run("resume")
    assert code == 2
    assert f"the folder that this run works in is gone: {worktree}\n" in err
    assert "hint: move it back there" in err


async def test_a_folder_that_was_moved_is_told_where_its_sessions_are(place, tmp_path):
    await killed(place)
    was, place.workspace = place.workspace, tmp_path / "moved"
    was.rename(place.workspace)
    code, _, err = await place.run("resume")
    assert code == 1
    assert f"nothing was run yet in {place.workspace}" in err
    assert f"move one back to go on with them: {was}\n" in err
    place.workspace.rename(was)
    place.workspace = was
    assert (await place.run("resume", "--on-ask", "allow"))[0] == 0


async def test_a_session_that_was_imported_elsewhere_says_where_it_can_go_on(place, tmp_path):
    session, was = await killed(place), place.workspace
    file = tmp_path / "kept.json"
    assert (await place.run("export", "-o", str(file)))[0] == 0
    place.workspace = tmp_path / "another"
    place.workspace.mkdir()
    assert (await place.run("sessions", "import", str(file)))[0] == 0
    code, _, err = await place.run("resume")
    assert code == 2
    assert f"this run works in {was}, whose sessions are in another ledger" in err
    assert f"prsm export {session} -o FILE, then prsm sessions import FILE --workspace {was}" in err


@pytest.mark.parametrize("provider", ["script", "gone"])
async def test_a_run_whose_provider_is_gone_is_left_as_it_is_until_it_is_there_again(
    place, tmp_path, provider
):
    """To fail its agents would finish the run, and nobody could go on with it."""
    await killed(place)
    before = await place.events()
    aside = tmp_path / "aside.json"
    place.scenario.rename(aside)
    told = f"{place.scenario}: there is no such file"
    if provider == "gone":
        play_by(place, provider)
        told = "provider 'gone' is not installed"
    code, out, err = await place.run("resume", "--on-ask", "allow")
    assert (code, out) == (3, "")
    assert f'"master" cannot go on with {provider}/default: ' in err
    assert told in err
    assert "then go on: prsm resume" in err
    assert await place.events() == before
    aside.rename(place.scenario)
    play_by(place, "script")
    assert (await place.run("resume", "--on-ask", "allow"))[0] == 0


async def test_an_agent_whose_mcp_server_is_gone_goes_on_without_it_and_that_is_told(place):
    configured = place.home / "config.yaml"
    place.home.mkdir(exist_ok=True)
    configured.write_text("mcp_servers: {files: {command: files-server}}\n")
    await killed(place)
    configured.unlink()
    code, _, err = await place.run("resume", "--on-ask", "allow")
    assert code == 0
    assert '"master" goes on without the MCP server "files"' in err
    assert "configure it under `mcp_servers`" in err


@pytest.mark.parametrize("torn", [True, False])
async def test_a_vendors_thread_that_is_lost_is_rebuilt_and_that_is_told(place, torn):
    await killed(place)
    [thread] = place.home.glob("state/providers/script/threads/*/*.json")
    if torn:
        thread.write_text(thread.read_text()[:50])
    else:
        thread.unlink()
    code, _, err = await place.run("resume", "--on-ask", "allow")
    assert code == 0
    assert "the conversation is rebuilt from the ledger: script: there is no thread" in err


def play_by(place, provider):
    """Let the ledger say that all agents are of a provider."""
    [ledger] = place.home.glob("data/ledgers/*/ledger.db")
    with closing(sqlite3.connect(ledger)) as conn, conn:
        conn.execute("UPDATE agents SET provider = ?", (provider,))


async def interrupted(place):
    """Interrupt a run that asks a person; return its session."""
    session = await begun(place)
    os.kill(place.owner(session), signal.SIGINT)
    await place.until_gone()
    return session


async def test_a_run_that_was_interrupted_is_printed_to_its_end_by_who_goes_on_with_it(place):
    await interrupted(place)
    code, out, _ = await place.run("resume", "--json", "--on-ask", "allow")
    told = [json.loads(line) for line in out.splitlines()]
    assert (code, told[-1]["type"], told[-1]["status"]) == (0, "run_finished", "completed")
    assert told == await place.events()


async def resumed(place):
    """Interrupt a run that asks a person, and go on with it; return its session."""
    session = await interrupted(place)
    code, _, err = await place.run("resume", "--detach")
    assert code == 0, err
    return session


async def answered(place):
    """Answer what the person was asked last: a vendor's own question is asked again."""
    asked = (await place.events("question_asked"))[-1]
    code, _, err = await place.run("answer", asked["request"], "red")
    assert code == 0, err


async def test_who_follows_a_run_that_was_interrupted_before_sees_it_to_its_end(place):
    session = await resumed(place)
    program = await place.start("attach", "--ui", "json", session)
    shown = [await program.stdout.readline()]
    while not (b"question_asked" in shown[-1] and any(b"run_resumed" in line for line in shown)):
        assert shown[-1], "it ended with the process that was interrupted"
        shown.append(await program.stdout.readline())
    await answered(place)
    rest, _ = await program.communicate()
    await place.until_gone()
    told = await place.events()
    kinds = [event["type"] for event in told]
    assert [kinds.count(kind) for kind in ("run_finished", "run_resumed")] == [2, 1]
    assert [json.loads(line) for line in [*shown, *rest.splitlines()]] == told
    code, out, err = await place.run("replay", session, "--ui", "json")
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == told


async def test_a_run_that_goes_on_is_not_told_as_ended_to_who_attaches(place):
    session = await resumed(place)
    person = await place.start("attach", session, stderr=subprocess.PIPE)
    shown = await person.stderr.readuntil(b"master asks you")
    assert b"the run has ended" not in shown
    place.kill(but=person.pid)
    _, rest = await person.communicate()
    await place.until_gone()
    assert rest.decode().splitlines()[-1] == f"prsm: the session has ended{KILLED}"


async def test_a_model_that_a_person_chose_holds_after_a_kill_and_in_the_next_task(place):
    """It is chosen in the master's last turn: its owner is killed, and another one goes on."""

    async def master():
        code, out, err = await place.run("tree", "--json")
        assert code == 0, err
        [found] = json.loads(out)["agents"]
        return found["model"], found["next_model"]

    await begun(place)
    code, out, err = await place.run("model", "master", "second")
    assert (code, out) == (0, "master: script/second from its next turn on\n"), err
    place.kill()
    await place.until_gone()
    assert (await master())[1] == "script/second"
    code, _, err = await place.run("resume", "--on-ask", "allow")
    assert code == 0, err
    assert (await master())[1] == "script/second"
    given = ("--on-ask", "allow", "--set", f"providers.script.scenario={place.scenario}")
    code, _, err = await place.run("run", "once more", "--continue", *given)
    assert code == 0, err
    assert await master() == ("second", None)
