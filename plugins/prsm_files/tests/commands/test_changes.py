"""prsm changes, over runs of the real engine by the script provider, and the real helper of git."""

import asyncio
import json
import shutil
import signal
import subprocess

import pytest
from prsm_files.changes.acting import Rejecter
from prsm_files.changes.merging import Wanted
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.records import Entry

from plugins.prsm_files.tests.shadow_scene import DirectGit
from prsm_core.store import SqliteStore
from tests.cli.conftest import Done

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

LANES = """\
lanes:
  master:
    steps:
      - call:
          tool: spawn_child
          arguments: {name: w1, prompt: work, wait: true, tools: [Bash, Edit, Write]}
      - say: done
  w1:
    steps:
      - say: I fix the bug that a line is missing.
        edit: {path: a, content: "one\\ntwo\\n"}
      - shell: "echo made > b; chmod +x run"
      - say: done
"""


@pytest.fixture
def ran(prsm, workspace, tmp_path):
    """Run a team in a repository; return the changes that it made, by path."""
    subprocess.run(["git", "init", "-q"], check=True)
    (workspace / "a").write_text("one\n")
    (workspace / "run").write_text("x\n")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(LANES)
    done = prsm(
        *("run", "--provider", "script", "--mode", "bypass", "--on-ask", "allow"),
        *("--set", f"providers.script.scenario={scenario}", "do it"),
    )
    assert done.code == 0, done.err
    return done


def listed(prsm, *more):
    done = prsm("changes", "list", "--json", *more)
    assert done.code == 0, done.err
    return {one["path"]: one for one in json.loads(done.out)}


def test_changes_are_listed_with_their_agents_and_shown_as_a_patch(prsm, ran):
    assert isinstance(ran, Done)
    found = listed(prsm)
    assert {path: (one["name"], one["kind"], one["how"]) for path, one in found.items()} == {
        "a": ("w1", "modified", "named"),
        "b": ("w1", "added", "possible"),
        "run": ("w1", "modified", "possible"),
    }
    assert set(listed(prsm, "--agent", "master")) == set(found), "an agent's are those below it too"
    table = prsm("changes", "list")
    assert "w1" in table.out
    assert "pending: changes: 3, files: 3, +2 -0" in table.err
    shown = json.loads(prsm("changes", "show", found["a"]["change"], "--json").out)
    assert shown["diff"] == "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n one\n+two\n"
    assert shown["rationale"]["text"] == "I fix the bug that a line is missing."
    assert "by w1 (named)" in prsm("changes", "show", found["a"]["change"]).out
    told = json.loads(prsm("changes", "diff", "--json").out)
    assert {one["path"]: one["diff"] for one in told}["a"] == shown["diff"]
    assert "".join(one["diff"] for one in told) == prsm("changes", "diff").out
    subprocess.run(["git", "apply", "-R"], input=prsm("changes", "diff").out, text=True, check=True)


@pytest.mark.requirement("E42")
def test_why_a_file_or_a_line_of_it_is_as_it_is(prsm, ran, workspace):
    found = listed(prsm)
    for place in ("a", "a:2", str(workspace / "a")):
        told = json.loads(prsm("changes", "why", place, "--json").out)
        assert (told["change"], told["name"], told["how"]) == (found["a"]["change"], "w1", "named")
        assert told["reason"]["text"] == "I fix the bug that a line is missing."
        assert told["reason"]["kind"] == "text"
        assert told["call"] == found["a"]["call"]
    text = prsm("changes", "why", "a:2").out
    assert "a:2: modified by w1 (named)" in text
    assert "I fix the bug that a line is missing." in text
    (workspace / "a").write_text("mine\none\ntwo\n")
    assert json.loads(prsm("changes", "why", "a:3", "--json").out)["name"] == "w1"
    for place, said in (
        ("a:1", "a person, or another program, has made it"),
        ("a:2", "is as it was before this session"),
        ("a:4", "has no line 4"),
        ("nosuch.py", "no change of 'nosuch.py' was found"),
        ("a:" + "9" * 5000, "no change of 'a:999"),
    ):
        done = prsm("changes", "why", place)
        assert done.code != 0
        assert said in done.err
        assert "prsm:" in done.err


def test_the_end_of_a_run_tells_what_is_pending_and_the_command_that_takes_it_back(
    prsm, ran, workspace
):
    sure, all_ = [line for line in ran.err.splitlines() if "prsm changes reject" in line]
    assert "changes that are pending: files: 3, +2 -0, maybe yours (?): 2" in ran.err
    assert prsm(*sure.partition("prsm ")[2].split(), "--yes").code == 0
    assert (workspace / "a").read_text() == "one\n"
    assert set(listed(prsm)) == {"b", "run"}, "no call explains what a command did"
    assert prsm(*all_.partition("prsm ")[2].split(), "--yes").code == 0
    assert not (workspace / "b").exists()
    assert listed(prsm) == {}
    assert {one["state"] for one in listed(prsm, "--all").values()} == {"rejected"}


@pytest.mark.requirement("U6")
def test_one_is_accepted_and_one_is_taken_back(prsm, ran, workspace):
    found = listed(prsm)
    accepted = json.loads(prsm("changes", "accept", found["b"]["change"], "--json").out)
    assert [one["state"] for one in accepted["changes"]] == ["accepted"]
    args = ("--agent", "w1", "--possible", "--yes", "--json")
    done = json.loads(prsm("changes", "reject", *args).out)
    assert {one["path"]: one["state"] for one in done["changes"]} == {
        "a": "rejected",
        "run": "rejected",
    }
    assert (workspace / "b").read_text() == "made\n"
    assert not (workspace / "run").stat().st_mode & 0o100
    assert prsm("changes", "list").out == "nothing is pending\n"
    again = prsm("changes", "reject", found["b"]["change"], "--yes")
    assert again.code != 0
    assert "is accepted already" in again.err


def test_what_later_edits_touch_stays_is_told_and_stays_pending(prsm, ran, workspace):
    (workspace / "a").write_text("one\ntwo and more\n")
    done = prsm("changes", "reject", "--all", "--possible", "--yes")
    assert done.code == 1
    assert "of a stays: later edits touched the same lines" in done.err
    assert (workspace / "a").read_text() == "one\ntwo and more\n"
    assert not (workspace / "b").exists()
    assert {path: one["state"] for path, one in listed(prsm).items()} == {"a": "unmerged"}


@pytest.mark.requirement("U27")
@pytest.mark.parametrize(
    "command", [("reject", "--all"), ("reject", "--agent", "w1"), ("undo", "--turn")]
)
def test_what_the_person_may_have_made_stays_unless_they_say_otherwise(
    prsm, ran, workspace, command
):
    done = prsm(*command, "--yes")
    assert done.code == 0, done.err
    assert "(?): 2; --possible takes them back, too" in done.err
    assert (workspace / "a").read_text() == "one\n"
    assert (workspace / "b").read_text() == "made\n"
    assert {one["how"] for one in listed(prsm).values()} == {"possible"}
    again = prsm(*command, "--yes", "--json")
    assert (again.code, json.loads(again.out)["changes"]) == (0, [])
    assert prsm(*command, "--possible", "--yes").code == 0
    assert not (workspace / "b").exists()
    assert listed(prsm) == {}


@pytest.mark.requirement("U27")
def test_what_the_person_may_have_made_is_taken_back_by_its_id(prsm, ran, workspace):
    assert prsm("reject", listed(prsm)["b"]["change"], "--yes").code == 0
    assert not (workspace / "b").exists()
    assert set(listed(prsm)) == {"a", "run"}


@pytest.mark.requirement("U27")
def test_what_the_person_may_have_made_has_a_mark_wherever_it_is_shown(prsm, ran):
    found = listed(prsm)
    rows = {line.split()[3]: line.split()[1] for line in prsm("changes").out.splitlines()[1:]}
    assert rows == {"a": "w1", "b": "w1?", "run": "w1?"}
    for path, name in (("a", "w1 (named)"), ("b", "w1? (possible)")):
        assert f" by {name}, " in prsm("changes", "show", found[path]["change"]).out
        assert f" by {name}, " in prsm("changes", "why", path).out
    assert json.loads(prsm("changes", "why", "b", "--json").out)["how"] == "possible"
    assert "w1? added b" in ran.err
    assert "w1 modified a" in ran.err


@pytest.mark.requirement("U27")
def test_what_the_person_may_have_made_is_in_a_commit_of_its_own(prsm, ran, workspace):
    for name, value in (("user.name", "Ada"), ("user.email", "ada@x")):
        subprocess.run(["git", "config", name, value], check=True)
    assert prsm("changes", "accept", "--all").code == 0
    (workspace / "a").write_text("one\n")
    (workspace / "run").chmod(0o644)
    for command in (["add", "a", "run"], ["commit", "-qm", "as they were before"]):
        subprocess.run(["git", *command], check=True)
    plan = prsm("changes", "commit", "--dry-run")
    assert [line.split()[-1] for line in plan.out.splitlines() if line[0] != " "] == [
        "(w1)",
        "(w1?)",
    ]
    told = json.loads(prsm("changes", "commit", "--yes", "--json").out)
    assert [(one["possible"], one["files"]) for one in told["commits"]] == [
        (False, ["a"]),
        (True, ["b", "run"]),
    ]
    says = [("a person may have made them" in one["message"]) for one in told["commits"]]
    assert says == [False, True]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["reject", "nothing", "--yes"], "there is no change 'nothing'"),
        (["reject", "--yes"], "which changes are meant is not said"),
        (["reject", "--all", "--agent", "w1", "--yes"], "said twice"),
        (["reject", "--all"], "give --yes"),
        (["accept", "--agent", "nobody"], "no agent is called 'nobody'"),
        (["show", "../../x"], "there is no change"),
        (["list", "--session", "nosuch"], "there is no session"),
    ],
)
def test_what_cannot_be_done_is_told_with_the_cure(prsm, ran, workspace, args, said):
    done = prsm("changes", *args)
    assert done.code != 0
    assert said in done.err
    assert (workspace / "b").exists()


def test_a_rejection_that_was_cut_off_is_finished_by_the_next_list(prsm, ran, workspace, tmp_path):
    found = listed(prsm)
    state = tmp_path / "home" / "state"
    shadow = Shadows(state=state, data=tmp_path / "home" / "data").open(DirectGit(), workspace)
    one = found["b"]
    asked = Wanted(
        id=one["change"],
        path="b",
        root="",
        before=None,
        after=Entry(one["new_mode"], one["after"]),
    )
    [session] = json.loads(prsm("sessions", "list", "--json").out)
    Rejecter(shadow).reject(session["session"], [asked])  # and its process dies
    shown = json.loads(prsm("changes", "show", one["change"], "--json").out)
    assert (shown["state"], (workspace / "b").exists()) == ("pending", False)
    assert set(listed(prsm)) == {"a", "run"}
    assert listed(prsm, "--all")["b"]["state"] == "rejected"


def test_the_tree_tells_what_each_agent_has_changed(prsm, ran):
    [master] = json.loads(prsm("tree", "--json").out)["agents"]
    [worker] = master["children"]
    nothing = {"files": 0, "added": 0, "removed": 0}
    assert (master["changes_self"], master["changes_subtree"]) == (
        nothing,
        {"files": 3, "added": 2, "removed": 0},
    )
    assert worker["changes_self"] == master["changes_subtree"]
    assert "+2 -0" in prsm("tree").out


@pytest.mark.requirement("U6")
def test_a_fork_knows_the_changes_of_its_origin_and_what_is_taken_back_there_is_taken_back(
    prsm, ran, workspace
):
    """The file is one: neither takes it back again, nor fights over what came since."""
    origin = json.loads(prsm("sessions", "list", "--json").out)[0]["session"]
    found = listed(prsm)
    prsm("changes", "accept", found["b"]["change"])
    fork = json.loads(prsm("fork", origin, "--json").out)["session"]
    mine = listed(prsm, "--session", fork)
    told = {path: (one["name"], one["how"], one["change"]) for path, one in mine.items()}
    assert told == {
        path: ("w1", found[path]["how"], found[path]["change"]) for path in ("a", "run")
    }
    assert mine["a"]["agent"] != found["a"]["agent"], "its agents are its own"
    assert listed(prsm, "--session", fork, "--all")["b"]["state"] == "accepted"
    assert "+2 -0" in prsm("tree", fork).out
    rejected = prsm("reject", "--agent", "w1", "--session", fork, "--possible", "--yes")
    assert rejected.code == 0, rejected.err
    assert (workspace / "a").read_text() == "one\n"
    (workspace / "a").write_text("one\ntwo\n")  # it is wanted after all
    again = prsm("changes", "reject", "--all", "--session", origin, "--yes", "--json")
    assert json.loads(again.out) == {"changes": [], "act": None}
    assert (workspace / "a").read_text() == "one\ntwo\n"
    assert listed(prsm, "--session", origin) == {}
    assert listed(prsm, "--session", origin, "--all")["a"]["state"] == "rejected"


RUN = ("run", "--provider", "script", "--mode", "bypass", "--on-ask", "allow")


def run_again(prsm, tmp_path, number):
    """Run a team on files of its own, in a new session; old snapshots are dropped."""
    scenario = tmp_path / f"scenario{number}.yaml"
    lanes = LANES.replace("echo made > b; chmod +x run", f"echo {number} > n{number}")
    scenario.write_text(lanes.replace("path: a", f"path: a{number}"))
    done = prsm(
        *(*RUN, "--set", "workspace.keep_snapshots=1"),
        *("--set", f"providers.script.scenario={scenario}", f"do {number}"),
    )
    assert done.code == 0, done.err
    return done


def sessions(prsm):
    """Return the sessions, newest first."""
    return [one["session"] for one in json.loads(prsm("sessions", "list", "--json").out)]


@pytest.mark.requirement("D16")
def test_a_pending_change_outlives_the_snapshot_that_was_dropped_and_each_error_has_a_cure(
    prsm, ran, workspace, tmp_path
):
    [first] = sessions(prsm)
    change = listed(prsm)["a"]["change"]
    run_again(prsm, tmp_path, 2)
    [forked, _] = sessions(prsm)
    assert prsm("fork", forked).code == 0
    run_again(prsm, tmp_path, 3)
    assert "1 snapshots of earlier prompts are dropped" in run_again(prsm, tmp_path, 4).err
    [snapshot] = [
        row["snapshot"]
        for row in map(json.loads, prsm("events", first, "--json").out.splitlines())
        if row["type"] == "snapshot_taken"
    ]
    kept = json.loads(prsm("snapshot", "list", "--json").out)
    assert [one["session"] for one in kept] == [*sessions(prsm)[:2], forked], "a fork names its own"
    gone = prsm("undo", "--prompt", "--session", first, "--yes")
    assert gone.code == 2
    assert f"snapshot {snapshot} was dropped, as workspace.keep_* says" in gone.err
    assert f"prsm undo --prompt {snapshot} --keep-files --session {first}" in gone.err
    for command in (("changes", "show", change), ("reject", change, "--yes"), ("accept", change)):
        elsewhere = prsm(*command)
        assert elsewhere.code == 2
        assert f"it is of session {first}: give --session {first}" in elsewhere.err
    assert prsm("reject", change, "--session", first, "--yes").code == 0
    assert (workspace / "a").read_text() == "one\n"


def test_the_last_changes_are_those_that_were_found_last(prsm, ran):
    (newest,) = listed(prsm, "--last", "1").values()
    assert newest["at"] == max(one["at"] for one in listed(prsm).values())
    assert set(listed(prsm, "--last", "2")) == {"b", "run"}  # the command came behind the edit
    assert len(prsm("changes", "--last", "1").out.splitlines()) == 2
    wrong = prsm("changes", "--last", "1", "show", newest["change"])
    assert (wrong.code, wrong.out) == (2, "")
    assert "belong behind `prsm changes show`" in wrong.err


def test_changes_are_followed_as_they_are_decided(prsm, start_prsm, ran):
    found = listed(prsm)
    process = start_prsm("changes", "--follow")
    table = [process.stdout.readline() for _ in range(len(found) + 1)]
    assert prsm("accept", found["a"]["change"]).code == 0
    line = process.stdout.readline().decode()
    assert line.split()[0] == found["a"]["change"]
    assert line.split()[-2:] == ["w1", "accepted"]
    assert table[0].startswith(b"CHANGE")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


async def test_changes_are_followed_as_they_are_found(start_prsm, session, ledger):
    async with await SqliteStore.open(ledger) as store:
        await store.commit(session.step(None, session.changed("f1", "w1")))
        process = start_prsm("changes", "list", "--follow", "--json")
        first = await asyncio.to_thread(process.stdout.readline)
        await store.commit(session.step(None, session.changed("f2", "w1")))
        second = await asyncio.to_thread(process.stdout.readline)
    assert [json.loads(line)["change"] for line in (first, second)] == ["f1", "f2"]
    process.send_signal(signal.SIGINT)
    await asyncio.to_thread(process.communicate, timeout=60)
