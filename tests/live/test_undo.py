"""A prompt of a person is taken back from real programs: files, staging area and conversation.

Below a master of Codex others edit by patch and by command, and one of Claude by write. The same
holds where the engine was killed in the middle of a command.
"""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from prsm_testing.doubles import until
from prsm_testing.model_server import ModelServer
from prsm_testing.playback import Call

from plugins.prsm_files.tests.shadow_scene import every_byte
from tests.live.following import call, detached
from tests.live.minds import Minds
from tests.live.persons_git import git

pytestmark = [
    pytest.mark.requirement("U2"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]
pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

BUSY_S = 180  # for three programs to start and to end on a busy machine
FIRST, SECOND, THIRD = "[[first]]", "[[second]]", "[[third]]"
MODELS = {
    "early": "codex/scripted-1",
    "late": "codex/scripted-1",
    "writer": "claude/claude-scripted-1",
}
COMMANDS = {"early": "sh early.sh", "late": "sh late.sh"}
SCRIPTS = {
    "early.sh": "echo early > made; chmod +x made\n",
    "late.sh": "echo late > made; rm gone; touch started\nuntil [ -e go ]; do sleep 0.1; done\n",
}
ADDED = "*** Begin Patch\n*** Add File: written.md\n+by the writer\n*** End Patch\n"


def prepare(folder):
    """Let the folder be a repository of a person who has a commit, a stash, and work in neither."""
    git(folder, "init", "-q", "-b", "main")
    for name, script in SCRIPTS.items():
        (folder / name).write_text(script)
    (folder / "a").write_text("one\ntwo\nthree\n")
    (folder / "gone").write_bytes(b"\x00\xff kept\r\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "a").write_text("of the stash\n")
    git(folder, "stash", "-q")


def everything(folder):
    """Return each byte of the files, and what the index holds."""
    return every_byte(folder), git(folder, "ls-files", "-s")


def untouched(folder):
    """Return what nothing may change: HEAD, branches, the stash."""
    head = git(folder, "symbolic-ref", "HEAD"), git(folder, "rev-parse", "HEAD")
    return *head, git(folder, "for-each-ref"), git(folder, "stash", "list")


def line_patch(old, new):
    """Return a call that replaces a line of `a`."""
    text = f"*** Begin Patch\n*** Update File: a\n@@\n-{old}\n+{new}\n*** End Patch\n"
    return Call(id="patch", kind="patch", arguments={"patch": text})


def shell(name):
    """Return a call of an agent's command."""
    return Call(id="shell", kind="shell", arguments={"cmd": COMMANDS[name]})


class Mind(Minds):
    """What the models do next: by the newest that a person has said, and what is in the folder."""

    def __init__(self, folder, early, late):
        super().__init__(
            {
                "first": (FIRST, lambda known: spawning(known, *early)),
                "second": (SECOND, lambda known: spawning(known, *late)),
                "third": (THIRD, lambda _: ()),
                **{name: (f"[[lane:{name}]]", getattr(self, name)) for name in MODELS},
            }
        )
        self._folder = folder

    def lane_of(self, conversation):
        """Return the lane of the last marker."""
        texts = "\n".join(conversation.user)
        found = {texts.rfind(marker): lane for lane, (marker, _) in self.minds.items()}
        last = max(found)
        return None if last < 0 else found[last]

    def has(self, name, text=""):
        """Return whether a file is there and holds a text."""
        file = self._folder / name
        return file.exists() and text in file.read_text()

    def early(self, _):
        """Patch, then run a command."""
        if not self.has("a", "TWO"):
            return [line_patch("two", "TWO")]
        return [shell("early")] if not self.has("made") else [call("task_complete", summary="1")]

    def late(self, _):
        """Patch, then run a command that takes long."""
        if not self.has("a", "THREE"):
            return [line_patch("three", "THREE")]
        return [shell("late")] if not self.has("started") else [call("task_complete", summary="2")]

    def writer(self, _):
        """Write a file."""
        if not self.has("written.md"):
            return [Call(id="write", kind="patch", arguments={"patch": ADDED})]
        return [call("task_complete", summary="written")]


def spawning(known, *names):
    """Have children work one after the other, and then say that it is done."""
    new = [name for name in names if name not in {one["name"] for one in known.of("spawn_child")}]
    return [
        Call(
            id=name,
            tool="spawn_child",
            arguments={
                "name": name,
                "model": MODELS[name],
                "prompt": f"[[lane:{name}]] Work.",
                "wait": True,
            },
        )
        for name in new[:1]
    ]


def configure(prsm, server):
    """Write a configuration of a master of Codex, whose children are of Codex and of Claude."""
    key = {"api_key_env": "LIVE_TEST_KEY"}
    prsm.write(
        {
            "defaults": {"provider": "codex", "model": "scripted-1"},
            "permissions": {"allow": list(COMMANDS.values())},
            "providers": {
                "claude": {"base_url": server.root_url, **key},
                "codex": {"command": [prsm.codex], "base_url": server.base_url, **key},
            },
        }
    )


async def said(prsm, *words):
    """Have `prsm run` do something to its end; return its session."""
    code, out, err = await prsm.run_async("run", "--json", *words)
    assert code == 0, err + out[-3000:]
    return json.loads(out.splitlines()[0])["session"]


async def cut_off(prsm, mind):
    """Say the second prompt, and kill its engine in the middle of the command."""
    _, pid = await detached(prsm, "run", "--continue", f"{SECOND} Go on")
    await until(lambda: mind.has("started") or not prsm.processes(), timeout_s=BUSY_S)
    os.kill(pid, signal.SIGKILL)
    await prsm.until_gone()


ALL = ("early",), ("writer", "late")  # who works for each prompt
FEW = (), ("late",)
CASES = [
    pytest.param(ALL, False, id="whole", marks=pytest.mark.live),
    pytest.param(FEW, True, id="killed-few", marks=pytest.mark.live),
    pytest.param(ALL, True, id="killed", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("who", "is_killed"), CASES)
async def test_a_prompt_is_taken_back_with_files_staging_area_and_conversation(
    prsm, who, is_killed
):
    folder = prsm.workspace
    prepare(folder)
    mind = Mind(folder, *who)
    async with ModelServer(mind) as server:
        configure(prsm, server)
        session = await said(prsm, "--mode", "accept_edits", f"{FIRST} Begin")
        (folder / "staged").write_text("s\n")
        git(folder, "add", "staged", "a")
        (folder / "a").write_text((folder / "a").read_text() + "the person's\n")
        if not is_killed:
            (folder / "go").touch()
        before, kept = everything(folder), untouched(folder)
        if is_killed:
            await cut_off(prsm, mind)
        else:
            assert await said(prsm, "--continue", f"{SECOND} Go on") == session
        assert mind.has("written.md", "by the writer") is ("writer" in who[1])
        assert mind.has("made", "late")
        assert mind.has("a", "THREE")
        git(folder, "reset", "-q")
        code, out, err = await prsm.run_async("undo", "--prompt", "--yes", "--json")
        assert code == 0, err
        made = json.loads(out)
        assert (made["origin"], made["prompt"], made["later"]) == (session, f"{SECOND} Go on", 0)
        assert (everything(folder), untouched(folder)) == (before, kept)
        asked = len(server.requests)
        assert await said(prsm, "--continue", f"{THIRD} What now?") == made["session"]
        assert server.failures == []
        requests = [one for one in server.requests[asked:] if one.lane == "third"]
    assert requests
    for request in requests:
        text = json.dumps(request.body)
        assert FIRST in text
        assert THIRD in text
        assert not [one for one in (SECOND, "writer", "THREE") if one in text]
    assert (everything(folder), untouched(folder)) == (before, kept)
    assert prsm.processes() == []
