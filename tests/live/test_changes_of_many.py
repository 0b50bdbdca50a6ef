"""Real programs edit one folder by patch, shell and write: each change has its agent and its call.

The same after their engine was killed in the middle of a command.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal

import pytest
from prsm_testing.doubles import until
from prsm_testing.model_server import ModelServer
from prsm_testing.playback import Call

from tests.live.following import call, detached
from tests.live.minds import Minds

pytestmark = [
    pytest.mark.long,  # three programs at once: of a machine's own
    pytest.mark.requirement("D21"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]
pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

DEADLINE_S = 180
LINES = [f"line {n}\n" for n in range(20)]
MODELS = {
    "one": "codex/scripted-1",
    "two": "codex/scripted-1",
    "three": "claude/claude-scripted-1",
}
COMMANDS = {name: f"sh {name}.sh" for name in MODELS}
SCRIPTS = {
    "one": "echo by one > one.txt\n",
    "two": "echo by two > two.txt; touch started; until [ -e go ]; do sleep 0.1; done\n",
    "three": "echo by three > three.txt\n",
}
AUTHORS = {  # of each file, by agent and by what its command or its tool says
    "one.txt": ("one", COMMANDS["one"]),
    "two.txt": ("two", COMMANDS["two"]),
    "started": ("two", COMMANDS["two"]),
    "three.txt": ("three", COMMANDS["three"]),
    "written.md": ("three", "written.md"),
}
SPAWNS = [
    {
        "call": {
            "tool": "spawn_child",
            "arguments": {"name": name, "model": model, "prompt": f"[[lane:{name}]] Work."},
        }
    }
    for name, model in MODELS.items()
]
MASTER = [
    *SPAWNS,
    {"call": {"tool": "wait_for_message", "arguments": {"all": True}}},
    {"call": {"tool": "task_complete", "arguments": {"summary": "all worked"}}},
]


def edited(**lines):
    """Return the file `a` with lines replaced, by number."""
    text = list(LINES)
    for name, line in lines.items():
        text[int(name[1:])] = line
    return "".join(text)


def patching(number, line):
    """Return a patch of one line of `a`."""
    old = f" line {number - 1}\n-line {number}\n+{line}\n line {number + 1}\n"
    return f"*** Begin Patch\n*** Update File: a\n@@\n{old}*** End Patch\n"


ADDED = "*** Begin Patch\n*** Add File: written.md\n+by three\n*** End Patch\n"


class Workers:
    """What the models of three agents do next, by what is in the folder."""

    def __init__(self, folder):
        self.folder = folder
        self.looked = 0

    def has(self, name, text=""):
        """Return whether a file is there and holds a text."""
        file = self.folder / name
        return file.exists() and text in file.read_text()

    def one(self, _):
        """Patch, then run a command."""
        if not self.has("a", "by one"):
            return [Call(id="patch", kind="patch", arguments={"patch": patching(2, "by one")})]
        return self.command("one", "one.txt")

    def two(self, _):
        """Patch the same file, then run a command that takes long."""
        if not self.has("a", "by one"):
            self.looked += 1  # the same call again and again would be stopped as stuck
            return [call("report_progress", status=f"one is first, {self.looked}")]
        if not self.has("a", "by two"):
            return [Call(id="patch", kind="patch", arguments={"patch": patching(17, "by two")})]
        return self.command("two", "started")

    def three(self, _):
        """Write a file, then run a command."""
        if not self.has("written.md"):
            return [Call(id="write", kind="patch", arguments={"patch": ADDED})]
        return self.command("three", "three.txt")

    def command(self, name, made):
        """Run a command, unless it has run, and then be done."""
        if not self.has(made):
            return [Call(id="shell", kind="shell", arguments={"cmd": COMMANDS[name]})]
        return [call("task_complete", summary=f"{name} worked")]

    @property
    def minds(self):
        """All of them, with their markers."""
        return {name: (f"[[lane:{name}]]", getattr(self, name)) for name in MODELS}


def configure(prsm, server):
    """Write a configuration of a scripted master whose children are of real programs."""
    key = {"api_key_env": "LIVE_TEST_KEY"}
    prsm.write(
        {
            "defaults": {"provider": "script"},
            "permissions": {"allow": list(COMMANDS.values())},
            "providers": {
                "script": {"scenario": {"lanes": {"master": {"steps": MASTER}}}},
                "claude": {"base_url": server.root_url, **key},
                "codex": {"command": [prsm.codex], "base_url": server.base_url, **key},
            },
        }
    )


def prepare(folder):
    """Let the folder be a repository with a text and the programs of the agents."""
    (folder / "a").write_text(edited())
    for name, script in SCRIPTS.items():
        (folder / f"{name}.sh").write_text(script)


async def until_told(prsm, session):
    """Return once the ledger has each command: what a death takes along is no call's."""
    told = ""
    async with asyncio.timeout(DEADLINE_S):
        while not all(f'"{command}"' in told for command in COMMANDS.values()):
            code, told, err = await prsm.run_async("events", session, "--json")
            assert code == 0, err


def listed(prsm):
    """Return all changes of the session."""
    done = prsm.run("changes", "list", "--all", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("is_killed", [False, True], ids=["whole", "killed"])
async def test_each_change_has_its_agent_and_its_call_and_one_is_taken_back(prsm, is_killed):
    folder = prsm.workspace
    prepare(folder)
    git = await asyncio.create_subprocess_exec("git", "init", "-q", cwd=folder)
    assert await git.wait() == 0
    workers = Workers(folder)
    async with ModelServer(Minds(workers.minds)) as server:
        configure(prsm, server)
        session, pid = await detached(prsm, "run", "--mode", "accept_edits", "Have them work")
        made = ("one.txt", "three.txt", "started")
        await until(
            lambda: all(workers.has(name) for name in made) or not prsm.processes(),
            timeout_s=DEADLINE_S,
        )
        if is_killed:
            await until_told(prsm, session)
            os.kill(pid, signal.SIGKILL)
            await prsm.until_gone()
            again, pid = await detached(prsm, "resume")
            assert again == session
        else:
            (folder / "go").touch()
        await prsm.until_gone()
        assert server.failures == []
    events = [json.loads(one) for one in prsm.run("events", session, "--json").stdout.splitlines()]
    assert events[-1]["status"] == "completed", events[-1]
    check_authors(listed(prsm), events)
    await check_taking_back(prsm, folder)


def in_order(changes):
    """Return two changes of a file, the earlier one first: it made what the other one found."""
    one, other = changes
    return (one, other) if one["after"] == other["before"] else (other, one)


def check_authors(changes, events):
    """Who made a change is among those it is of, by the call that made it."""
    calls = {e["call"]: e for e in events if e["type"] == "tool_call_started"}
    by_path: dict[str, list] = {}
    for one in changes:
        by_path.setdefault(one["path"], []).append(one)
    assert {path: len(by_path.get(path, ())) for path in AUTHORS} == dict.fromkeys(AUTHORS, 1)
    for path, (name, said) in AUTHORS.items():
        [change] = by_path[path]
        mine = [one for one in change["authors"] if one["name"] == name]
        assert mine, change
        assert any(said in json.dumps(calls[one["call"]]["arguments"]) for one in mine), change
        if change["how"] in {"named", "sole"}:
            assert {one["name"] for one in change["authors"]} == {name}
    first, second = in_order(by_path["a"])
    assert [(one["added"], one["removed"]) for one in (first, second)] == [(1, 1)] * 2
    for change, name in ((first, "one"), (second, "two")):
        assert name in {one["name"] for one in change["authors"]}


async def check_taking_back(prsm, folder):
    """One goes, the other of the same file and all others stay."""
    assert (folder / "a").read_text() == edited(n2="by one\n", n17="by two\n")
    first, _ = in_order([one for one in listed(prsm) if one["path"] == "a"])
    code, _, err = await prsm.run_async("changes", "reject", first["change"], "--yes")
    assert code == 0, err
    assert (folder / "a").read_text() == edited(n17="by two\n")
    for name in AUTHORS:
        assert (folder / name).exists()
    states = [one["state"] for one in listed(prsm)]
    assert states.count("rejected") == 1
    assert set(states) == {"rejected", "pending"}
