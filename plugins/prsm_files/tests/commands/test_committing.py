"""prsm changes commit, after runs of the real engine, in a real repository."""

import json
import shutil
import subprocess

import pytest
from prsm_files.changes.merging import Wanted
from prsm_files.commits import Asked, Committer
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.shadow_scene import DirectGit
from prsm_core.domain.changes import text_path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

LANES = """\
lanes:
  master:
    steps:
      - call:
          tool: spawn_child
          arguments: {name: w1, prompt: work, wait: true, tools: [Edit, Write]}
      - call:
          tool: spawn_child
          arguments: {name: w2, prompt: Write the notes, wait: true, tools: [Edit, Write]}
      - say: done
  w1:
    steps:
      - say: I fix the bug that a line is missing.
        edit: {path: a, content: "one\\ntwo\\n"}
      - say: done
  w2:
    steps:
      - edit: {path: notes, content: "n\\n"}
      - say: done
"""


def git(*args):
    return subprocess.run(["git", *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def ran(prsm, workspace, tmp_path, monkeypatch):
    """Run a team in a repository of a person whom git knows."""
    (tmp_path / "person").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "person" / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@x\n")
    git("init", "-q")
    (workspace / "a").write_text("one\n")
    git("add", "a")
    git("commit", "-qm", "first")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(LANES)
    done = prsm(
        *("run", "--provider", "script", "--mode", "bypass", "--on-ask", "allow"),
        *("--set", f"providers.script.scenario={scenario}", "The whole task"),
    )
    assert done.code == 0, done.err
    [session] = json.loads(prsm("sessions", "list", "--json").out)
    return session["session"]


def listed(prsm):
    found = json.loads(prsm("changes", "list", "--all", "--json").out)
    return {one["path"]: one for one in found}


@pytest.mark.requirement("E42", "U6")
def test_accepted_changes_become_a_commit_of_each_agent_with_its_reason(prsm, ran):
    nothing = prsm("changes", "commit", "--yes")
    assert (nothing.code, "nothing is committed" in nothing.out) == (0, True)
    assert prsm("changes", "accept", "--all").code == 0
    plan = json.loads(prsm("changes", "commit", "--dry-run", "--json").out)
    assert [(one["commit"], one["files"]) for one in plan["commits"]] == [
        (None, ["a"]),
        (None, ["notes"]),
    ]
    unasked = prsm("changes", "commit")
    assert (unasked.code != 0, "give --yes" in unasked.err) == (True, True)
    assert git("rev-list", "--count", "HEAD") == "1\n"
    done = prsm("changes", "commit", "--yes", "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)["commits"]
    assert [one["subject"] for one in made] == [
        "I fix the bug that a line is missing",
        "Write the notes",
    ]
    assert git("log", "-1", "--format=%an <%ae>%n%B", "HEAD~1") == (
        "Ada <ada@x>\n"
        "I fix the bug that a line is missing\n\n"
        "- a: I fix the bug that a line is missing.\n\n"
        f"PRSM-Agent: w1\nPRSM-Provider: script\nPRSM-Model: default\nPRSM-Session: {ran}\n\n"
    )
    trailers = git("log", "-1", "--format=%(trailers:only,key=PRSM-Agent,valueonly)")
    assert trailers.strip() == "w2"
    assert git("status", "--porcelain") == ""
    assert {path: (one["state"], one["why"]) for path, one in listed(prsm).items()} == {
        "a": ("committed", made[0]["commit"]),
        "notes": ("committed", made[1]["commit"]),
    }
    assert json.loads(prsm("changes", "commit", "--yes", "--json").out)["commits"] == []
    assert git("rev-list", "--count", "HEAD") == "3\n"
    shown = prsm("changes", "show", listed(prsm)["a"]["change"]).out
    assert f"committed: {made[0]['commit']}" in shown


def test_a_commit_of_a_task_and_a_message_of_ones_own(prsm, ran):
    found = listed(prsm)
    pending = prsm("changes", "commit", found["a"]["change"], "--yes")
    assert (pending.code != 0, "prsm changes accept" in pending.err) == (True, True)
    prsm("changes", "accept", "--all")
    plan = json.loads(prsm("changes", "commit", "--by", "task", "--dry-run", "--json").out)
    [one] = plan["commits"]
    assert one["files"] == ["a", "notes"]
    assert {agent["name"] for agent in one["agents"]} == {"w1", "w2"}
    done = prsm("changes", "commit", "--by", "task", "-m", "Mine\n\nAnd more.", "--yes")
    assert done.code == 0
    assert "no hook of the repository was run" in done.err
    body = git("log", "-1", "--format=%B")
    assert body.startswith("Mine\n\nAnd more.\n\nPRSM-Agent: w1\n")
    assert "PRSM-Agent: w2" in body


def test_what_is_left_out_is_told_and_the_exit_code_says_so(prsm, ran, workspace):
    prsm("changes", "accept", "--all")
    whole = (workspace / "a").read_bytes()
    (workspace / "a").write_text("another\n")
    git("commit", "-qam", "another")
    (workspace / "a").write_bytes(whole)
    done = prsm("changes", "commit", "--yes")
    assert done.code == 1
    assert "of a is left out: HEAD has other lines where it changed some" in done.err
    assert git("show", "HEAD:notes") == "n\n"
    assert (workspace / "a").read_bytes() == whole
    assert listed(prsm)["a"]["state"] == "accepted"


def test_commits_that_were_cut_off_are_finished_by_the_next_list(prsm, ran, workspace, tmp_path):
    prsm("changes", "accept", "--all")
    asked = [
        Asked(
            message="m\n",
            changes=(
                Wanted(
                    id=one["change"],
                    path=text_path(one["path"]),
                    root="",
                    before=one["before"] and Entry(one["old_mode"], one["before"]),
                    after=Entry(one["new_mode"], one["after"]),
                ),
            ),
        )
        for one in listed(prsm).values()
    ]
    home = tmp_path / "home"
    shadow = Shadows(state=home / "state", data=home / "data").open(DirectGit(), workspace)
    Committer(shadow).commit(ran, asked)  # and its process dies
    assert git("rev-list", "--count", "HEAD") == "3\n"
    done = prsm("changes", "list")
    assert "commits that were cut off are finished" in done.err
    assert {one["state"] for one in listed(prsm).values()} == {"committed"}
