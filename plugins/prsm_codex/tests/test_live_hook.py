"""The tool hook in the real Codex: what is refused does not run, and what fails refuses."""

from __future__ import annotations

import asyncio
import os
import subprocess
from functools import partial

import pytest
from prsm_testing.doubles import RecordingHost, only, run_turn

from plugins.prsm_codex.tests.real_codex import KILLS_ITS_SHELL, TRICKY, call, gated
from plugins.prsm_policy.tests.judging import judge
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import Notice, StopReason, ToolCallFinished, ToolCallStarted
from prsm_core.kit.environment import GIT_SETTINGS
from tests.person import ROOM

pytestmark = pytest.mark.live

MAKE = {"call": call("exec_command", "make", cmd="echo hi > made.txt")}
DONE = {"say": "done"}


async def done(text):
    return ToolOutcome(text=text)


@pytest.fixture
def outside():
    """A file beyond the working folder and the temp directories."""
    path = ROOM / "outside.txt"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.requirement("E24")
async def test_a_refused_command_does_not_run_in_any_mode_and_the_model_is_told_why(
    codex, tmp_path
):
    host = RecordingHost(verdict=lambda _: Deny("not in this house"))
    async with (
        codex(MAKE, DONE) as live,
        live.session(host, mode=PermissionMode.BYPASS) as session,
    ):
        assert live.provider.capabilities.enforcement == "pre_tool"
        events = await run_turn(session, "hi")
        (told,) = live.outputs("make")
    assert not (tmp_path / "made.txt").exists()
    assert "not in this house" in told
    assert [f.status for f in only(ToolCallFinished, events)] == ["denied"]
    assert events[-1].stop_reason is StopReason.END_TURN


async def test_an_allowed_command_stays_in_the_sandbox(codex, tmp_path, outside):
    place = f"A={outside}; B=.git/config"  # so that the text alone does not say what is written
    command = f"{place}; rm -rf old && echo hi > made.txt; echo hi > $A; echo hi > $B"
    (tmp_path / "old").mkdir()
    (tmp_path / ".git").mkdir()
    shell = {"call": call("exec_command", "make", cmd=command)}
    async with codex(shell, DONE) as live, live.session() as session:
        await run_turn(session, "hi")
        (told,) = live.outputs("make")
    assert (tmp_path / "made.txt").exists()
    assert not (tmp_path / "old").exists()
    assert not outside.exists()
    assert not (tmp_path / ".git" / "config").exists()
    assert told.count("Read-only file system") == 2


async def run_in_thread(live, host, *, is_resumed):
    """Run a turn in a new thread, or in one that another program of Codex has begun."""
    fields = {}
    if is_resumed:
        async with live.session() as session:
            await run_turn(session, "hi")
        fields = {"resume_token": session.resume_token}
        await live.provider.aclose()
    async with live.session(host, **fields) as session:
        return await run_turn(session, "go")


ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "please"}


@pytest.fixture
def repository(tmp_path):
    """The working folder as a repository with a file that nobody has added."""
    subprocess.run(("git", "init", "-q", str(tmp_path)), check=True)
    (tmp_path / "a.txt").write_text("x")
    return tmp_path


@pytest.mark.parametrize("is_resumed", [False, True])
async def test_the_sandbox_cannot_be_left_by_asking_and_nobody_is_asked(codex, outside, is_resumed):
    """In a thread that is resumed Codex itself tells of no such wish: it stands in the thread."""
    host = RecordingHost()
    shell = {"call": call("exec_command", "make", cmd=f"D={outside}; echo hi > $D", **ESCALATED)}
    first = ({"say": "one"},) if is_resumed else ()
    async with codex(*first, shell, DONE) as live:
        events = await run_in_thread(live, host, is_resumed=is_resumed)
        (told,) = live.outputs("make")
    assert not outside.exists()
    assert "leave its sandbox" in told
    assert "enforcement: approval" in told
    assert host.requests == []
    assert [f.status for f in only(ToolCallFinished, events)] == ["denied"]


@pytest.mark.parametrize("has_shell", [True, False])
@pytest.mark.parametrize("command", ["git add a.txt", "git commit -m x", "echo x > .git/config"])
async def test_what_writes_the_repository_is_refused_at_once_with_the_way_that_works(
    codex, repository, command, has_shell
):
    host = RecordingHost(run_bash=done) if has_shell else RecordingHost(note=done)
    shell = {"call": call("exec_command", "git", cmd=command)}
    async with codex(shell, shell, DONE) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
        told = live.outputs("git")
    way = "run_bash" if has_shell else "enforcement: approval"
    assert [way in text for text in told] == [True, True]
    assert host.requests == []
    assert [f.status for f in only(ToolCallFinished, events)] == ["denied", "denied"]
    noted = [n for n in only(Notice, events) if "enforcement: approval" in n.text]
    assert len(noted) == (0 if has_shell else 1)


@pytest.mark.requirement("N9")
@pytest.mark.parametrize("is_resumed", [False, True])
async def test_a_command_that_the_sandbox_stops_is_told_with_its_output(
    codex, repository, outside, is_resumed
):
    """Codex tells no item of it: what its model was told is all there is."""
    commands = [
        "G=git; $G add a.txt",
        f"D={outside}; touch $D",
        'python3 -c \'open(".git/x", "w")\'',
        "cat a.txt",
        "cat never-there.txt",
    ]
    host = RecordingHost()
    shells = [{"call": call("exec_command", f"c{n}", cmd=one)} for n, one in enumerate(commands)]
    first = ({"say": "one"},) if is_resumed else ()
    async with codex(*first, *shells, DONE) as live:
        events = await run_in_thread(live, host, is_resumed=is_resumed)
    started, finished = only(ToolCallStarted, events), only(ToolCallFinished, events)
    assert [asked.command for asked in host.requests] == commands
    assert sorted(one.arguments["command"] for one in started) == sorted(commands)
    by_command = {one.arguments["command"]: one.call_id for one in started}
    ends = {one.call_id: one for one in finished}
    assert len(ends) == len(finished) == len(commands)
    codes = [ends[by_command[one]].exit_code for one in commands]
    assert codes == [128, 1, 1, 0, 1]
    for one in commands[:3]:
        assert "Read-only file system" in str(ends[by_command[one]].result)


@pytest.mark.parametrize("workdir", ["sub", "./sub/../sub/", "/usr"])
async def test_a_command_is_asked_for_in_the_folder_where_it_runs(codex, tmp_path, workdir):
    (tmp_path / "sub").mkdir()
    host = RecordingHost()
    shell = {"call": call("exec_command", cmd="pwd", workdir=workdir)}
    async with codex(shell, DONE) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
    (asked,) = host.requests
    assert is_same(asked.cwd, tmp_path / workdir)
    assert events[-1].stop_reason is StopReason.END_TURN


@pytest.mark.parametrize("command", TRICKY)
async def test_a_command_is_known_by_its_text_whatever_that_is(codex, command):
    host = RecordingHost()
    async with (
        codex({"call": call("exec_command", cmd=command)}, DONE) as live,
        live.session(host) as session,
    ):
        events = await run_turn(session, "hi")
    assert events[-1].stop_reason is StopReason.END_TURN
    assert [request.command for request in host.requests] == [command]


@pytest.mark.parametrize("tty", [True, False])
async def test_nothing_can_be_typed_into_a_command_that_runs(codex, tmp_path, tty):
    shell = call("exec_command", cmd="cat > typed.txt; sleep 20", tty=tty, yield_time_ms=300)
    sleep = call("exec_command", cmd="sleep 20; cat > typed.txt", yield_time_ms=300)
    typed = call("write_stdin", "type", session_id="${/session ID (\\d+)/}", chars="rm -rf x\n")
    async with (
        codex({"call": shell}, {"call": sleep}, {"call": typed}, DONE) as live,
        live.session() as session,
    ):
        await run_turn(session, "hi")
        (told,) = live.outputs("type")
        first = live.last.conversation.outputs[0][2]
    assert "stdin is closed" in told
    assert ("TTY execution is disabled" in first) is tty
    typed_file = tmp_path / "typed.txt"
    assert not typed_file.exists() or typed_file.read_text() == ""


async def test_a_command_is_told_what_git_may_start(codex):
    async with codex({"shell": "env"}, DONE) as live, live.session() as session:
        events = await run_turn(session, "hi")
    (finished,) = only(ToolCallFinished, events)
    told = str(finished.result)
    assert [name for name, value in GIT_SETTINGS.items() if f"{name}={value}" not in told] == []


@pytest.mark.requirement("E23", "E24")
@pytest.mark.parametrize("person", [Allow, Deny])
async def test_a_look_at_a_hostile_repository_asks_and_starts_no_monitor_if_it_is_let_run(
    codex, repository, person
):
    """git takes the folder whose name begins with a blank."""
    canary = repository / "canary"
    canary.write_text(f"#!/bin/sh\necho ran > {repository}/ran\n")
    canary.chmod(0o755)
    (repository / ".git").rename(repository / " x")
    (repository / ".git").write_text("gitdir:  x\n")
    with (repository / " x" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {canary}\n")
    verdicts = []

    def decide(request):
        verdict = judge(request.command, repository, cwd=request.cwd).verdict
        verdicts.append(type(verdict))
        return person("a person") if isinstance(verdict, Ask) else verdict

    shell = {"call": call("exec_command", "look", cmd="git status --short")}
    host = RecordingHost(verdict=decide)
    async with codex(shell, DONE) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
        (told,) = live.outputs("look")
    assert verdicts == [Ask]
    assert ("a.txt" in told) is (person is Allow)
    assert [f.status for f in only(ToolCallFinished, events)] == [
        "completed" if person is Allow else "denied"
    ]
    assert not (repository / "ran").exists()
    status = partial(subprocess.run, ("git", "status"), cwd=repository, check=True)
    await asyncio.to_thread(status, capture_output=True)
    assert (repository / "ran").exists(), "the repository is not hostile"


async def test_nothing_of_the_hook_is_in_the_environment_of_a_command(codex):
    async with codex({"shell": "env"}, DONE) as live, live.session() as session:
        events = await run_turn(session, "hi")
    (finished,) = only(ToolCallFinished, events)
    assert "PATH=" in str(finished.result)
    assert "PRSM" not in str(finished.result)


async def test_the_hook_is_trusted_in_the_private_home_and_nothing_else_is(codex, state_dir):
    async with codex(DONE) as live, live.session() as session:
        await run_turn(session, "hi")
    (line, *more) = (state_dir / "codex-home" / "config.toml").read_text().split("\n", 1)
    assert line.startswith("[hooks.state.")
    assert "[" not in "".join(more)
    assert not (state_dir / "codex-home" / "hooks.json").exists()


async def test_the_engines_own_tools_start_no_hook_and_all_others_do(codex, tmp_path):
    started, client = tmp_path / "started.txt", tmp_path / "client.py"
    client.write_text(
        "import json, sys\n"
        f"open({str(started)!r}, 'a').write(json.load(sys.stdin)['tool_name'] + ' ')\n"
    )
    host = RecordingHost(task_complete=done, task_completed=done)
    own, other = (call(name, text="x") for name in ("task_complete", "task_completed"))
    shell = call("exec_command", cmd="ls")
    steps = [{"call": one} for one in (own, own, other, shell)]
    async with (
        codex(*steps, DONE, make=gated(client=client)) as live,
        live.session(host) as session,
    ):
        await run_turn(session, "hi")
    assert [called.name for called in host.calls] == [own["tool"], own["tool"], other["tool"]]
    assert started.read_text() == "task_completed Bash "


@pytest.mark.parametrize(
    "script",
    [
        "raise SystemExit(1)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; sys.stdout.write('{nonsense'); sys.exit(3)",
        "this is no python",
    ],
)
async def test_a_hook_that_crashes_refuses(codex, tmp_path, script):
    client = tmp_path / "client.py"
    client.write_text(script)
    host = RecordingHost()
    async with codex(MAKE, DONE, make=gated(client=client)) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
        (told,) = live.outputs("make")
    assert not (tmp_path / "made.txt").exists()
    assert "could not be checked" in told
    assert host.requests == []
    assert events[-1].stop_reason is StopReason.END_TURN


async def test_a_hook_that_gets_no_answer_in_time_refuses(codex, tmp_path):
    class Slow(RecordingHost):
        async def authorize(self, request):
            await asyncio.Event().wait()
            return Allow()

    async with codex(MAKE, DONE, make=gated(seconds=0.5)) as live, live.session(Slow()) as session:
        await run_turn(session, "hi")
        (told,) = live.outputs("make")
    assert not (tmp_path / "made.txt").exists()
    assert "timed out" in told


async def test_a_hook_whose_socket_is_gone_refuses(codex, state_dir, tmp_path):
    async with codex(MAKE, DONE) as live, live.session() as session:
        (path,) = state_dir.glob("hook-*.sock")
        path.unlink()
        await run_turn(session, "hi")
        (told,) = live.outputs("make")
    assert not (tmp_path / "made.txt").exists()
    assert "could not be asked" in told


async def test_a_codex_whose_hook_fails_open_is_ended(codex, tmp_path):
    """The one way is left in which it can: the shell around the client is killed."""
    client = tmp_path / "client.py"
    client.write_text(KILLS_ITS_SHELL)
    shell = {"call": call("exec_command", cmd="sleep 30")}
    async with codex(shell, DONE, make=gated(client=client)) as live, live.session() as session:
        events = await run_turn(session, "hi")
        assert live.services.processes[-1].has_exited
    assert events[-1].stop_reason is StopReason.ERROR
    assert "was ended for that" in events[-1].error.message
    assert not events[-1].error.retryable


def is_same(folder, other):
    return os.path.normpath(folder) == os.path.normpath(other)


async def test_calls_of_one_response_are_asked_for_at_once(codex):
    both = asyncio.Barrier(2)

    class Meeting(RecordingHost):
        async def authorize(self, request):
            await both.wait()
            return await super().authorize(request)

    host = Meeting()
    calls = [call("exec_command", cmd=f"echo {n}") for n in (1, 2)]
    async with codex({"call": calls}, DONE) as live, live.session(host) as session:
        await run_turn(session, "hi")
    assert {request.command for request in host.requests} == {"echo 1", "echo 2"}
