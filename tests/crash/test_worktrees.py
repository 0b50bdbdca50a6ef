"""An engine that dies anywhere around worktrees: each is merged once, or kept, and nothing is lost.

Two agents have worktrees, and one below the first. The first is merged; the second has changed the
same line, asks before it ends, and is in conflict: its branch stays. What an agent is told of as
cut off it does not try again: that may be done, or not, and what is merged says which.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from plugins.prsm_files.tests.shadow_scene import every_byte
from tests.crash.trees import Ended, Home, check_sound, killed_and_resumed

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

SCENARIO = r"""
lanes:
  master:
    steps:
      - call:
          id: both
          tool: spawn_children_parallel
          arguments:
            children:
              - {name: w1, prompt: w1, worktree: true}
              - {name: w2, prompt: w2, worktree: true}
      - call: {tool: wait_for_message}
      - call: {tool: wait_for_message}
      - call:
          tool: respond_to_child
          arguments:
            child_id: "${both.children.1.agent_id}"
            correlation_id: '${/"correlation_id": *"([^"]+)"/}'
            response: go
      - call: {id: last, tool: wait_for_message}
      - call: {tool: task_complete, arguments: {summary: "${last.worktree.result}"}}
  w1:
    steps:
      - edit: {path: a, old: "line 2\n", new: "of w1\n"}
      - call: {tool: spawn_child, arguments: {name: below, prompt: x, worktree: true, wait: true}}
      - shell: "rm gone"
      - shell: "chmod +x run"
      - shell: "ln -s a link"
      - call: {tool: task_complete, arguments: {summary: w1 done}}
  below:
    steps:
      - edit: {path: b, content: "of below\n"}
      - call: {tool: task_complete, arguments: {summary: below done}}
  w2:
    steps:
      - edit: {path: a, old: "line 2\n", new: "of w2\n"}
      - call: {tool: ask_parent, arguments: {question: "may I?"}}
      - call: {tool: task_complete, arguments: {summary: w2 done}}
"""
LINES = "".join(f"line {n}\n" for n in range(9))
# What the next engine tells of worktrees that it found half made, or half merged.
MENDED = ("was of no use, and is removed", "that was cut off is finished: merged")
RUN = ("run", "work", "--provider", "script", "--mode", "bypass", "--on-ask", "allow")
UNMERGED = 5  # the exit code of a run whose work is not all merged
MADE_BY = {"rm gone": "gone", "chmod +x run": "run", "ln -s a link": "link"}
FEW = (33,)
ALL = range(3, 60)  # before, there is no master


def git(home: Home, *args: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    done = subprocess.run(
        ["git", *who, *args], cwd=home.workspace, check=True, capture_output=True, text=True
    )
    return done.stdout


def persons(home: Home) -> list[str]:
    """What of the person's git nobody may touch."""
    asked = (
        *(["rev-parse", "HEAD"], ["symbolic-ref", "HEAD"], ["ls-files", "-s"], ["stash", "list"]),
        ["for-each-ref", "refs/heads/main", "refs/stash", "refs/tags"],
    )
    return [git(home, *words) for words in asked]


class Grove(Home):
    """A home whose workspace is a repository in which a person is in the middle of something."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCENARIO)
        for name in ("a", "gone", "run"):
            (self.workspace / name).write_text(LINES)
        git(self, "init", "-q", "-b", "main")
        git(self, "add", "-A")
        git(self, "commit", "-q", "-m", "first")
        (self.workspace / "a").write_text(f"{LINES}the person's\n")
        (self.workspace / "untracked").write_text("a secret\n")
        (self.workspace / "staged").write_text("s\n")
        git(self, "add", "staged")
        self.before, self.persons = every_byte(self.workspace), persons(self)

    def work(self, fault: str = "none") -> Ended:
        return self.prsm(*RUN, fault=fault)


class Told:
    """What the ledger says: what became of each worktree, and which files calls have changed."""

    def __init__(self, home: Grove) -> None:
        rows = home.query("SELECT agent_id, type, data FROM events ORDER BY seq")
        agents = home.query("SELECT agent_id, name FROM agents")
        names = {agent: str(name) for agent, name in agents}
        self.trees: dict[str, dict] = {}
        self.surely: dict[str, set[str]] = {"w1": set(), "below": set(), "w2": set()}
        self.failed: list[str] = []
        began: dict[str, tuple[str, str]] = {}
        for agent, kind, data in rows:
            told = json.loads(str(data))
            if kind == "worktree_merged":
                assert names[agent] not in self.trees, "it is told once"
                self.trees[names[agent]] = told
            elif kind == "tool_call_started" and not told["orchestration"]:
                given = told["arguments"]
                path = given.get("file_path") or MADE_BY[given["command"]]
                began[told["call"]] = names[agent], Path(path).name
            elif kind == "tool_call_finished" and told["status"] != "completed":
                self.failed.append(str(told["error"]))
            elif kind == "tool_call_finished":
                name, path = began.get(told["call"], ("", ""))
                if name:
                    self.surely[name].add(path)

    def files(self, name: str) -> set[str]:
        return set(self.trees[name]["files"])

    def result(self, name: str) -> str:
        return str(self.trees[name]["result"])


def check_merged(home: Grove, ended: Ended) -> None:
    """What the agents did is there once; of a conflict there is nothing but a branch."""
    told = Told(home)
    assert set(told.trees) == {"w1", "below", "w2"}, told.failed
    assert told.surely["below"] <= told.files("below") <= {"b"}
    assert told.surely["w1"] | told.files("below") <= told.files("w1")
    assert told.surely["w2"] <= told.files("w2") <= {"a"}
    is_theirs = told.files("w2") == {"a"}
    is_conflict = is_theirs and "a" in told.files("w1")
    assert ended.code == (UNMERGED if is_conflict else 0), ended.err
    merged = {name: "merged" if told.files(name) else "nothing" for name in told.trees}
    assert {name: told.result(name) for name in told.trees} == (
        merged | ({"w2": "conflict"} if is_conflict else {})
    )
    assert ended.out.strip() == told.result("w2")
    whose = dict.fromkeys(told.files("w1"), "w1")
    if is_theirs and not is_conflict:
        whose["a"] = "w2"
    assert every_byte(home.workspace) == expected(home, whose)
    assert persons(home) == home.persons
    check_left(home, told if is_conflict else None)
    check_ledger(home, whose)


def expected(home: Grove, whose: dict[str, str]) -> dict[bytes, tuple]:
    """Return each byte of the folder, where these files are as somebody has made them."""
    usual = home.before[b"a"][0]
    text = LINES.replace("line 2\n", f"of {whose.get('a')}\n") + "the person's\n"
    new = {
        "a": (usual, text.encode()),
        "b": (usual, b"of below\n"),
        "run": ("0o755", home.before[b"run"][1]),
        "link": ("link", b"a"),
    }
    files = home.before | {path.encode(): new[path] for path in whose if path != "gone"}
    return {path: one for path, one in files.items() if not (path == b"gone" and "gone" in whose)}


def check_left(home: Grove, told: Told | None) -> None:
    """A worktree in conflict is whole, and what was merged is gone."""
    branches = git(home, "branch", "--list", "prsm/*", "--format=%(refname:short)").split()
    left = sorted(str(one) for one in (home.folder / "home" / "trees").glob("*/*"))
    assert git(home, "worktree", "list", "--porcelain").count("worktree ") == 1 + len(left)
    if told is None:
        assert (branches, left) == ([], [])
        return
    tree = told.trees["w2"]
    assert (branches, left) == ([tree["branch"]], [tree["worktree"]])
    assert "secret" not in git(home, "log", "-p", branches[0])
    assert "-line 2\n+of w2\n" in git(home, "show", branches[0])
    assert "of w2\n" in (Path(tree["worktree"]) / "a").read_text()


def check_ledger(home: Grove, whose: dict[str, str]) -> None:
    """Each agent has lived once, and each file that was merged is one change, of who did it."""
    check_sound(home)
    agents = home.query("SELECT name, state FROM agents")
    assert sorted(agents) == [(name, "completed") for name in ("below", "master", "w1", "w2")]
    assert home.query("SELECT count(*) FROM turns WHERE closed_by IS NULL") == [(0,)]
    assert home.query("SELECT count(*) FROM tool_calls WHERE completed_at IS NULL") == [(0,)]
    warnings = "SELECT json_extract(data, '$.text') FROM events WHERE type = 'notice'"
    said = [str(one) for (one,) in home.query(f"{warnings} AND data LIKE '%\"warning\"%'")]
    assert [one for one in said if not one.endswith(MENDED)] == []
    listed = json.loads(home.prsm("changes", "list", "--all", "--json").out)
    assert sorted(
        (one["path"], one["how"], [author["name"] for author in one["authors"]]) for one in listed
    ) == [(path, "sole", [name]) for path, name in sorted(whose.items())]


def check_killed(home: Grove, *kills: int) -> None:
    check_merged(home, killed_and_resumed(home, *kills, run=home.work))


@pytest.mark.parametrize("kill", FEW)
def test_worktrees_are_merged_once_though_the_engine_is_killed_and_its_resume_too(tmp_path, kill):
    check_killed(Grove(tmp_path), kill, kill // 4)


@pytest.mark.long
@pytest.mark.parametrize("kill", ALL)
def test_worktrees_are_merged_once_though_the_engine_is_killed_at_any_commit(tmp_path, kill):
    check_killed(Grove(tmp_path), kill, 1 + kill % 8)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_worktrees_are_merged_once_though_engines_are_killed_again_and_again(tmp_path, seed):
    dice = random.Random(seed)
    check_killed(Grove(tmp_path), *(dice.randint(2, 12) for _ in range(8)))


def test_no_commit_of_such_a_run_is_beyond_those_that_are_tried(tmp_path):
    home = Grove(tmp_path)
    check_merged(home, home.work())
    assert 30 < home.commits < max(ALL)
