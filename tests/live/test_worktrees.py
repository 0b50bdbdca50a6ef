"""Two real Codexes have worktrees of their own: one is merged, of the other's conflict all is told.

The same holds where the engine is killed between the two merges, and another goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from prsm_testing.model_server import ModelServer
from prsm_testing.playback import Call

from tests.live.following import Moment, call, detached, follow
from tests.live.minds import Known, Minds
from tests.live.persons_git import git

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

TASK = "Have it written"
LINES = [f"line {n}\n" for n in range(9)]
COMMANDS = {name: f"sh make.sh {name}" for name in ("one", "two")}


def line_patch(name):
    """Return a call that replaces the second line of `a`."""
    change = f" line 1\n-line 2\n+by {name}\n line 3\n"
    text = f"*** Begin Patch\n*** Update File: a\n@@\n{change}*** End Patch\n"
    return Call(id="patch", kind="patch", arguments={"patch": text})


def asking(known, *, person):
    """Let the second child end once the first is merged, and the person says so, if asked."""
    got = known.of("wait_for_message")
    results = [one for one in got if one["type"] == "task_result"]
    questions = [one for one in got if one["type"] == "question"]
    if not known.of("spawn_children_parallel"):
        both = [{"name": name, "prompt": f"[[lane:{name}]] Work."} for name in COMMANDS]
        return [call("spawn_children_parallel", children=both)]
    if results and questions and person and not known.of("ask_user"):
        return [call("ask_user", question="Shall it go on?", options=["yes", "no"])]
    if results and questions and not known.of("respond_to_child"):
        about = {"child_id": questions[0]["from"], "correlation_id": questions[0]["correlation_id"]}
        return [call("respond_to_child", response="yes", **about)]
    if len(results) < len(COMMANDS):
        return [call("wait_for_message")]
    ends = sorted(f"{one['name']}: {one['worktree']['result']}" for one in results)
    return [call("task_complete", summary=", ".join(ends))]


class Workers:
    """What the models of two children do next, by what is in their worktrees."""

    def __init__(self, trees):
        self._trees = trees

    def has(self, name, file, text):
        """Return whether a file of a worktree holds a text; it may be gone: all is done then."""
        found = [*self._trees.glob(f"*/*-{name}")]
        return not found or ((path := found[0] / file).exists() and text in path.read_text())

    def one(self, known):
        """Patch, run a command, end."""
        return self.work("one", known)

    def two(self, known):
        """Patch the same line, run a command, ask, end."""
        if self.has("two", "of-two", "made") and not known.of("ask_parent"):
            return [call("ask_parent", question="May I?")]
        return self.work("two", known)

    def work(self, name, _):
        """Patch, run a command, end."""
        if not self.has(name, "a", f"by {name}"):
            return [line_patch(name)]
        if not self.has(name, f"of-{name}", "made"):
            return [Call(id="shell", kind="shell", arguments={"cmd": COMMANDS[name]})]
        return [call("task_complete", summary=f"{name} worked")]


def prepare(folder):
    """Let a person have a commit, and be in the middle of something."""
    (folder / "a").write_text("".join(LINES))
    (folder / "make.sh").write_text("echo made > of-$1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "a").write_text("of the stash\n")
    git(folder, "stash", "-q")
    (folder / "a").write_text("".join([*LINES, "the person's\n"]))
    (folder / "untracked").write_text("a secret\n")
    (folder / "staged").write_text("s\n")
    git(folder, "add", "staged")


def untouched(folder):
    """Return what nothing may change: HEAD, the branch, the index, the stash."""
    asked = (["symbolic-ref", "HEAD"], ["rev-parse", "HEAD", "main"], ["ls-files", "-s"])
    return [git(folder, *words) for words in (*asked, ["stash", "list"])]


def configure(prsm, server):
    """Write a configuration with Codex alone, whose children have worktrees."""
    key = {"api_key_env": "LIVE_TEST_KEY"}
    prsm.write(
        {
            "defaults": {"provider": "codex", "model": "scripted-1"},
            "permissions": {"allow": list(COMMANDS.values())},
            "providers": {
                "codex": {"command": [prsm.codex], "base_url": server.base_url, **key},
            },
            "workspace": {"worktrees": "writers"},
        }
    )


def is_asked(seen):
    """Whether the person was asked."""
    return bool(seen.asked)


async def until_the_end(prsm, session, pid):
    """Kill the engine as the person is asked, go on with the run, and have it answered."""
    await follow(prsm, session, Moment(0, is_asked), [])
    os.kill(pid, signal.SIGKILL)
    await prsm.until_gone()
    again, _ = await detached(prsm, "resume")
    assert again == session
    await follow(prsm, session, Moment(1, is_asked), [])
    await prsm.until_gone()


@pytest.mark.live
@pytest.mark.parametrize("is_killed", [False, True], ids=["whole", "killed"])
async def test_one_is_merged_and_the_conflict_of_the_other_is_told_to_the_parent(prsm, is_killed):
    folder = prsm.workspace
    prepare(folder)
    persons = untouched(folder)
    workers = Workers(prsm.home / "prsm" / "trees")
    minds = {name: (f"[[lane:{name}]]", getattr(workers, name)) for name in COMMANDS}
    master = (TASK, lambda known: asking(known, person=is_killed))
    async with ModelServer(Minds({"master": master, **minds})) as server:
        configure(prsm, server)
        session, pid = await detached(prsm, "run", "--mode", "accept_edits", TASK)
        if is_killed:
            await until_the_end(prsm, session, pid)
        await prsm.until_gone()
        assert server.failures == []
    told = [json.loads(one) for one in prsm.run("events", session, "--json").stdout.splitlines()]
    assert (told[-1]["type"], told[-1]["summary"]) == (
        "run_finished",
        "one: merged, two: conflict",
    ), told[-1]
    warnings = [one["text"] for one in told if one.get("level") == "warning"]
    assert [text for text in warnings if "git" in text or "worktree" in text] == []
    assert untouched(folder) == persons
    check_files(folder)
    check_told(told, server.requests, folder)
    changes = json.loads(prsm.run("changes", "list", "--all", "--json").stdout)
    assert {(one["path"], one["how"], one["authors"][0]["name"]) for one in changes} == {
        ("a", "sole", "one"),
        ("of-one", "sole", "one"),
    }
    assert len(changes) == 2


def check_files(folder):
    """What one did is there, beside the person's; of two there is nothing."""
    expected = [*LINES[:2], "by one\n", *LINES[3:], "the person's\n"]
    assert (folder / "a").read_text() == "".join(expected)
    assert (folder / "of-one").read_text() == "made\n"
    assert {one.name for one in folder.iterdir()} == {
        *(".git", "a", "make.sh", "of-one", "staged", "untracked")
    }


def check_told(told, requests, folder):
    """Each was told once; the parent's model has read of the conflict, and where the rest is."""
    merges = [one for one in told if one["type"] == "worktree_merged"]
    assert sorted(one["result"] for one in merges) == ["conflict", "merged"]
    [left] = [one for one in merges if one["result"] == "conflict"]
    assert (folder / left["worktree"] / "of-two").read_text() == "made\n"
    branches = git(folder, "branch", "--list", "prsm/*", "--format=%(refname:short)").split()
    assert branches == [left["branch"]]
    assert "-line 2\n+by two\n" in git(folder, "show", branches[0])
    assert "secret" not in git(folder, "log", "-p", branches[0])
    heard = [
        message["worktree"]
        for request in requests
        if request.lane == "master"
        for message in Known(request.conversation).of("wait_for_message")
        if "worktree" in message
    ]
    ours = [one for one in heard if one["result"] == "conflict"]
    assert ours
    for one in ours:
        assert [where["path"] for where in one["conflicts"]] == ["a"]
        assert (one["branch"], one["worktree"]) == (left["branch"], left["worktree"])
