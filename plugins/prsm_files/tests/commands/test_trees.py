"""Worktrees of agents, as a person meets them: told, and never lost with a session unasked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace
from prsm_files.shadow.acts import Operation
from prsm_files.shadow.records import Entry
from prsm_files.shadow.whereabouts import Where
from prsm_files.worktrees.making import worktrees_of
from prsm_files.worktrees.records import MERGED, MERGING, read_all, write

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]
APART = {"prompt": "work", "wait": True, "worktree": True}
LANES = {
    "master": [
        {"call": {"tool": "spawn_child", "arguments": {**APART, "name": name}}}
        for name in ("w1", "w2")
    ]
    + [{"say": "done"}],
    "w1": [{"edit": {"path": "half", "content": "of it\n"}}, {"fail": {"message": "no more"}}],
    "w2": [{"edit": {"path": "whole", "content": "all\n"}}, {"say": "done"}],
}


def git(*args):
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    return subprocess.run(["git", *who, *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def ran(prsm, workspace, tmp_path):
    """Run a team of which one fails; return its session."""
    git("init", "-q", "-b", "main")
    (workspace / "a").write_text("one\n")
    git("add", "a")
    git("commit", "-q", "-m", "first")
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"lanes": {n: {"steps": steps} for n, steps in LANES.items()}}))
    given = ("--provider", "script", "--mode", "accept_edits", "--json")
    done = prsm("run", "go", *given, "--set", f"providers.script.scenario={scenario}")
    assert done.code == 5, done.err
    told = list(map(json.loads, done.out.splitlines()))
    assert [one["text"] for one in told if one["type"] == "notice"] == []
    return json.loads(done.out.splitlines()[0])["session"]


@pytest.fixture
def where(tmp_path):
    return Where(tmp_path / "home" / "state", (tmp_path / "home" / "trees").resolve())


def branches():
    return git("branch", "--list", "prsm/*").split()


def test_a_list_of_changes_tells_what_is_not_merged_and_where_it_is(prsm, ran, workspace, where):
    [tree] = worktrees_of(where, ran)
    assert (workspace / "whole").read_text() == "all\n"
    assert not (workspace / "half").exists()
    done = prsm("changes", "list")
    assert f"not merged: w1, on the branch {tree.branch}, in {tree.folder}" in done.err
    assert tree.branch in branches()
    assert "not merged" not in prsm("changes", "list", "--session", fork(prsm, ran)).err


def test_a_script_reads_what_is_not_merged(prsm, ran, where):
    [tree] = worktrees_of(where, ran)
    [told] = json.loads(prsm("changes", "worktrees", "--json").out)
    assert (told["name"], told["branch"], told["folder"]) == ("w1", tree.branch, tree.folder)
    assert (told["result"], told["conflicts"]) == ("kept", [])
    assert told["branch"] in prsm("changes", "worktrees").out
    other = fork(prsm, ran)
    assert json.loads(prsm("changes", "worktrees", "--session", other, "--json").out) == []
    assert "every worktree" in prsm("changes", "worktrees", "--session", other).out


def fork(prsm, session):
    return json.loads(prsm("fork", session, "--json").out)["session"]


def test_a_merge_that_was_cut_off_is_ended_before_it_is_told(prsm, ran, workspace, where):
    """As a process leaves it that dies in the midst of it; its files are then as they are to be."""
    [tree] = worktrees_of(where, ran)
    blob = git("hash-object", f"{tree.folder}/half").strip()
    operations = (Operation("", "half", None, Entry("100644", blob)),)
    assert tree.outcome is not None
    outcome = replace(tree.outcome, result=MERGED)
    write(where, replace(tree, state=MERGING, operations=operations, outcome=outcome))
    assert "not merged" not in prsm("changes", "list").err
    assert (workspace / "half").read_text() == "of it\n"


def test_a_session_with_work_that_is_merged_nowhere_is_not_deleted_unasked(
    prsm, ran, workspace, where
):
    [tree] = worktrees_of(where, ran)
    refused = prsm("sessions", "delete", ran, "--yes")
    assert refused.code != 0
    for said in ("w1, on the branch", tree.folder, "merged nowhere", "--discard-worktrees"):
        assert said in refused.err
    assert (tree in worktrees_of(where, ran), len(branches()) > 0) == (True, True)
    done = prsm("sessions", "delete", ran, "--yes", "--discard-worktrees", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["worktrees"] == 1
    assert list(read_all(where, tree.key)) == []
    assert (branches(), os.path.lexists(tree.folder)) == ([], False)
    assert git("worktree", "list").count("\n") == 1
    assert (workspace / "whole").read_text() == "all\n"


def test_a_session_whose_worktrees_are_merged_is_deleted_as_any(prsm, ran, where):
    [tree] = worktrees_of(where, ran)
    shutil.rmtree(where.place(tree.key, tree.id))
    assert prsm("sessions", "delete", ran, "--yes").code == 0


def test_a_deletion_that_dies_before_git_has_removed_them_is_finished_by_the_next_command(
    prsm, ran, workspace, where
):
    [tree] = worktrees_of(where, ran)
    code = (
        "import os, signal\n"
        "from prsm_core.cli import main\n"
        "from prsm_files.care import ShadowCare\n"
        "async def die(care): os.kill(os.getpid(), signal.SIGKILL)\n"
        "ShadowCare.remove_left = die\n"
        f"main(['sessions', 'delete', {ran!r}, '--yes', '--discard-worktrees'])\n"
    )
    died = subprocess.run([sys.executable, "-c", code], cwd=workspace, check=False)
    assert died.returncode == -signal.SIGKILL
    assert os.path.lexists(tree.folder)
    listed = prsm("sessions", "list", "--json")
    assert (listed.code, listed.out, listed.err) == (0, "[]\n", "")
    assert list(read_all(where, tree.key)) == []
    assert (branches(), os.path.lexists(tree.folder)) == ([], False)
