"""The same commands through every provider: each gets the verdict that one table says."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prsm_testing.model_server import ModelServer

from prsm_core.app import open_app
from prsm_core.cli.launch import Launch
from prsm_core.cli.setup import load_setup
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.terminal.follow import follow_run
from tests.person import room

pytestmark = [pytest.mark.live, pytest.mark.requirement("E23")]

DEADLINE_S = 60
PERSON = FrontendSpec(name="person", summary="answers", interactive=True, priority=0, factory="x:y")
RULES = {"allow": ["touch ruled.txt", "mktemp again.XXXXXX"], "deny": ["tee"]}


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a command that is called once or several times.

    `ends` says how each call ends, `answers` what a person is asked for and says. `made` is the
    pattern of the files that it makes when it runs, with how many of them there are in the end.
    """

    ends: tuple[str, ...]
    answers: tuple[str, ...] = ()
    made: tuple[str, int] = ("nothing", 0)


DENIED, COMPLETED = ("denied",), ("completed",)
TASK = "Have them tried."
# Every awk that is installed runs what may be taken for the text of a string.
HIDDEN = """awk '/[]/"]/ || 1 {system("touch hidden.txt")} #"' kept"""
REPEATED = "mktemp again.XXXXXX > /dev/null"
FATES = {
    "ls kept": Fate(COMPLETED),
    "touch ruled.txt": Fate(COMPLETED, made=("ruled.txt", 1)),
    "env A=1 timeout 5 tee env.txt < kept": Fate(DENIED, made=("env.txt", 0)),
    "ls kept; time ! A=1 tee time.txt < kept": Fate(DENIED, made=("time.txt", 0)),
    "bash -c 'ls kept | tee bash.txt'": Fate(DENIED, made=("bash.txt", 0)),
    "touch refused.txt": Fate(DENIED, answers=("deny",), made=("refused.txt", 0)),
    HIDDEN: Fate(DENIED, answers=("deny",), made=("hidden.txt", 0)),
    "touch granted.txt": Fate(COMPLETED, answers=("once",), made=("granted.txt", 1)),
    REPEATED: Fate(COMPLETED * 3 + DENIED, made=("again.*", 3)),
}
CALLS = [command for command, fate in FATES.items() for _ in fate.ends]

CALL_DONE = {"tool": "task_complete", "arguments": {"summary": "tried them all"}}
DONE = {"call": CALL_DONE}
BY_SHELL = [{"shell": command} for command in CALLS]
BY_TOOL = [{"call": {"tool": "run_bash", "arguments": {"command": command}}} for command in CALLS]
WORKER = {"name": "worker", "prompt": "Try them.", "model": "tried/scripted-1", "wait": True}


def master_of(worker):
    """Return the steps of a master that spawns one child."""
    return [{"call": {"tool": "spawn_child", "arguments": worker}}, DONE]


CODEX, GEMINI = "PRSM_LIVE_CODEX", "PRSM_LIVE_GEMINI"
# Gemini over ACP tells neither the output nor the exit code of a command, so that none repeats.
UNTOLD = ("gemini-acp", "acp")
SECTIONS = {  # by the variable that names the program, and its further arguments
    "codex": (CODEX, (), {"kind": "codex", "enforcement": "pre_tool"}),
    "codex-approval": (CODEX, (), {"kind": "codex", "enforcement": "approval"}),
    "codex-exec": (CODEX, (), {"kind": "codex", "backend": "exec"}),
    "gemini-acp": (GEMINI, (), {"kind": "gemini", "backend": "acp"}),
    "gemini-headless": (GEMINI, (), {"kind": "gemini", "backend": "headless"}),
    "acp": (GEMINI, ("--acp",), {"kind": "acp", "agent": "gemini"}),
}


@pytest.fixture
def workspace(monkeypatch):
    """A workspace outside the temp directory, where the sandbox of Codex works."""
    home = room()
    folder = home / "workspace"
    folder.mkdir(parents=True)
    (folder / "kept").write_text("text\n")
    monkeypatch.setenv("PRSM_HOME", str(home / "prsm"))
    monkeypatch.setenv("HOME", str(home))  # vendors read the profile of the user's shell
    monkeypatch.setenv("LIVE_TEST_KEY", "loopback")
    yield folder
    shutil.rmtree(home, ignore_errors=True)


def program(variable):
    """Return the vendor's program that a variable names; skip without it."""
    path = os.environ.get(variable, "")
    if not Path(path).is_file():
        pytest.skip(f"{variable} names no program: npm is missing or cannot reach its registry")
    return path


def configure(section, rules, lanes, further=None):
    """Write the configuration of a master that is played, and of the provider that is tried."""
    master = {"scenario": {"lanes": lanes}}
    # A vendor's own list does not name the model that is played.
    known = {} if section["kind"] == "script" else {"models": ["scripted-1"]}
    settings = {
        "defaults": {"provider": "script"},
        "providers": {"script": master, "tried": {**known, **section}},
        "permissions": rules,
        **(further or {}),
    }
    config = Path(os.environ["PRSM_HOME"]) / "config.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(yaml.safe_dump(settings))


async def play(
    workspace,
    section,
    rules=RULES,
    *,
    frontend=PERSON,
    answers=None,
    worker=WORKER,
    lanes=None,
    person=None,
    further=None,
    **chosen,
):
    """Have a worker of one provider make all calls; return the events.

    `rules` are the permissions of the configuration, `chosen` options of the run, and `answers`
    what a person says one after the other, instead of what FATES tells. `worker` is what the
    master spawns, `lanes` what it and others do, where that is more. A `person` is told of each
    event before anything is answered. What is `further` configured are whole sections.
    """
    left, lanes = answers and list(answers), lanes or {"master": {"steps": master_of(worker)}}
    configure(section, rules, lanes, further)
    setup = load_setup(Launch(), str(workspace))
    options = RunOptions(task=TASK, workspace=str(workspace), **chosen)
    events = []
    async with (
        asyncio.timeout(DEADLINE_S),
        asyncio.TaskGroup() as answering,
        open_app(
            options, setup.settings, setup.plugins, paths=setup.paths, frontend=frontend
        ) as app,
    ):

        def note(event):
            events.append(event)
            if person is not None:
                person(event)
            if event.type == "permission_requested":
                said = FATES[event.data["command"]].answers if left is None else (left.pop(0),)
                answering.create_task(app.requests.resolve(event.data["request"], *said))

        result = await follow_run(app, await app.runs.start(TASK), note)
    assert result.status == "completed", result
    return events


def fates(events, workspace):
    """Return what became of the commands, by what was told and by what is left."""
    ends: dict[str, list[str]] = {command: [] for command in FATES}
    answers: dict[str, list[str]] = {command: [] for command in FATES}
    commands = {}
    for event in events:
        data = event.data
        if event.type == "tool_call_started" and "command" in data["arguments"]:
            commands[data["call"]] = data["arguments"]["command"]
        elif event.type == "tool_call_finished" and data["call"] in commands:
            is_denied = "not permitted" in (data["error"] or "")
            ends[commands[data["call"]]].append("denied" if is_denied else data["status"])
        elif event.type == "permission_requested":
            commands[data["request"]] = data["command"]
        elif event.type == "permission_resolved":
            assert data["by"] == "user"
            answers[commands[data["request"]]].append(data["verdict"])
    return {
        command: Fate(
            tuple(ends[command]),
            tuple(answers[command]),
            (fate.made[0], len(list(workspace.glob(fate.made[0])))),
        )
        for command, fate in FATES.items()
    }


async def tried(workspace, section):
    """Have a vendor's real program play all calls; return what became of them."""
    is_codex = section["kind"] == "codex"
    # Codex knows by their namespace the tools that it has by MCP.
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    steps = [*BY_SHELL, {"call": {**CALL_DONE, **by_mcp}}, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        url = server.base_url if is_codex else server.root_url
        events = await play(workspace, {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"})
        assert server.failures == []
    return fates(events, workspace)


@pytest.mark.parametrize("name", SECTIONS)
async def test_a_program_of_a_vendor_runs_what_the_policy_lets_run(workspace, name):
    variable, arguments, section = SECTIONS[name]
    command = [program(variable), *arguments]
    untold = {REPEATED: Fate(COMPLETED * 4, made=("again.*", 4))} if name in UNTOLD else {}
    assert await tried(workspace, {**section, "command": command}) == {**FATES, **untold}


async def test_claude_runs_what_the_policy_lets_run(workspace):
    pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    assert await tried(workspace, {"kind": "claude"}) == FATES


@pytest.mark.parametrize("steps", [BY_SHELL, BY_TOOL], ids=["shell", "run_bash"])
async def test_the_core_runs_what_the_policy_lets_run(workspace, steps):
    scenario = {"lanes": {"worker": {"steps": [*steps, DONE]}}}
    events = await play(workspace, {"kind": "script", "scenario": scenario})
    assert fates(events, workspace) == FATES
