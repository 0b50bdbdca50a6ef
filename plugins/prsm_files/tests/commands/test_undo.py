"""prsm undo --prompt, --turn and of an id: over real runs of the script provider, with real git."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time

import pytest
from prsm_files.session.taking_back import way_back
from prsm_files.shadow.opening import Shadows

from plugins.prsm_files.tests.shadow_scene import DirectGit, every_byte
from prsm_core.cli.places import workspace_ledger
from prsm_core.domain.ids import Ids
from prsm_core.store import SqliteStore

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

WORK = "work"
EDITS = {
    "w1": [{"edit": {"path": "a", "content": "one\n"}}],
    "w2": [
        {"edit": {"path": "a", "content": "two\n"}},
        {"edit": {"path": "b", "content": "new\n"}},
    ],
    "w3": [{"edit": {"path": "c", "content": "three\n"}}],
}
LANES = {
    "master": [
        step
        for name in EDITS
        for step in (
            {
                "call": {
                    "tool": "spawn_child",
                    "arguments": {"name": name, "prompt": WORK, "wait": True},
                }
            },
            {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}},
        )
    ],
    **{name: [*steps, {"say": "done"}] for name, steps in EDITS.items()},
}


def git(*args):
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    return subprocess.run(["git", *who, *args], check=True, capture_output=True, text=True).stdout


class Told:
    """A session in a repository, and what is said in it."""

    def __init__(self, prsm, workspace, tmp_path):
        self.prsm, self.workspace = prsm, workspace
        git("init", "-q", "-b", "main")
        (workspace / "a").write_text("zero\n")
        (workspace / "notes.md").write_text("what @notes shows\n")
        git("add", "a", "notes.md")
        git("commit", "-q", "-m", "first")
        scenario = tmp_path / "scenario.json"
        setting = f"providers.script.scenario={scenario}"
        self.given = ("--mode", "accept_edits", "--provider", "script", "--set", setting)
        scenario.write_text(
            json.dumps({"lanes": {name: {"steps": steps} for name, steps in LANES.items()}})
        )

    def say(self, text, *more):
        given = self.given[4:] if "--continue" in more else self.given
        done = self.prsm("run", text, "--json", *given, *more)
        assert done.code == 0, done.out
        return json.loads(done.out.splitlines()[0])["session"]

    def undo(self, *more):
        done = self.prsm("undo", "--prompt", *more, "--yes", "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    def sessions(self):
        return [one["session"] for one in json.loads(self.prsm("sessions", "list", "--json").out)]

    def history(self, session):
        done = self.prsm("events", session, "--json")
        events = [json.loads(line) for line in done.out.splitlines()]
        said = [one["text"] for one in events if one.get("role") == "user"]
        return [text for text in said if text != WORK]

    def changes(self, session):
        done = self.prsm("changes", "list", "--all", "--session", session, "--json")
        return json.loads(done.out)

    def now(self):
        return every_byte(self.workspace), git("ls-files", "-s")


@pytest.fixture
def told(prsm, workspace, tmp_path):
    return Told(prsm, workspace, tmp_path)


@pytest.mark.requirement("U2")
def test_a_prompt_is_taken_back_with_files_and_conversation_and_nothing_is_lost(told):
    session = told.say("look at @notes.md")
    (told.workspace / "staged").write_text("s\n")
    git("add", "staged")
    before, heard = told.now(), told.history(session)
    assert "what @notes shows" in heard[0]
    told.say("more", "--continue")
    git("reset", "-q")
    after, whole = told.now(), told.history(session)
    assert after != before
    made = told.undo()
    assert (made["origin"], made["prompt"], made["later"]) == (session, "more", 0)
    assert told.now() == before
    assert told.sessions() == [made["session"], session]
    assert told.history(made["session"]) == heard
    assert told.history(session) == whole, "the session of the prompt stays as it is"
    assert told.prsm("undo", "--yes", "--files-only").code == 0
    assert told.now() == after
    assert told.sessions() == [made["session"], session]
    assert told.prsm("undo", "--yes").code == 0
    assert told.now() == before
    assert told.say("other", "--continue") == made["session"], "it is the one that is gone on with"
    assert len(told.history(made["session"])) == 2


@pytest.mark.requirement("U2")
def test_a_second_undo_brings_files_and_conversation_back_and_a_third_takes_both_again(told):
    session = told.say("one")
    before = told.now()
    told.say("two", "--continue")
    after, whole = told.now(), told.history(session)
    first = told.undo()
    fork = first["session"]
    [mine] = [one for one in told.changes(fork) if one["path"] == "a"]
    assert told.prsm("reject", mine["change"], "--session", fork, "--yes").code == 0
    assert {one["state"] for one in told.changes(session) if one["name"] == "w1"} == {"rejected"}
    said = told.prsm("undo", first["act"], "--yes")
    assert said.code == 0, said.err
    assert f"the conversation goes on in session {session}" in said.out
    assert (told.now(), told.sessions()) == (after, [session, fork])
    assert told.history(session) == whole
    states = [one["state"] for one in told.changes(session)]
    assert states == ["pending"] * 3, "the change is in the file again"
    made = json.loads(told.prsm("undo", "--yes", "--json").out)
    assert (made["session"], told.sessions()) == (fork, [fork, session])
    assert (told.workspace / "a").read_text() == "zero\n"
    assert [one["state"] for one in told.changes(fork)] == ["rejected"]
    assert told.prsm("undo", "--yes").code == 0
    assert told.say("three", "--continue") == session
    assert told.now() != before


@pytest.mark.requirement("U2")
def test_before_the_first_prompt_there_is_no_session_to_go_on_with_until_it_is_brought_back(told):
    before = told.now()
    session = told.say("one")
    after = told.now()
    made = told.undo()
    assert (made["session"], made["origin"], told.now()) == (None, session, before)
    for words in (["run", "more", "--continue"], ["resume"]):
        refused = told.prsm(*words)
        assert refused.code != 0
        assert f"all that was said in the newest session, {session}, was taken back" in refused.err
        assert 'prsm run "…"' in refused.err
    assert told.now() == before
    assert "goes on in session" in told.prsm("undo", "--yes").out
    assert told.now() == after
    assert "begins anew" in told.prsm("undo", "--yes").out
    assert told.now() == before
    assert told.say("two") != session, "a run begins a session of its own"
    assert told.say("three", "--continue", "--session", session) == session
    assert told.undo("--keep-files", "--session", session)["session"] not in {None, session}


def test_an_undo_of_an_undo_that_was_cut_off_is_finished_by_the_next_command(told, tmp_path):
    session = told.say("one")
    told.say("two", "--continue")
    after = told.now()
    fork = told.undo()["session"]
    state, data = tmp_path / "home" / "state", tmp_path / "home" / "data"
    shadow = Shadows(state=state, data=data).open(DirectGit(), told.workspace)
    last = shadow.acts.last()
    assert last is not None

    async def owed():
        async with await SqliteStore.open(workspace_ledger(str(told.workspace))) as store:
            return await way_back(store, last, Ids(time.time))

    shadow.undo(asyncio.run(owed()), of=last)  # and its process dies
    assert (told.now(), told.sessions()) == (after, [fork, session])
    done = told.prsm("snapshot", "list")
    assert (
        f"cut off is finished: the files are back, and session {session} is the newest" in done.err
    )
    assert (told.now(), told.sessions()) == (after, [session, fork])
    assert told.prsm("snapshot", "list").err == ""


def test_of_a_session_that_was_deleted_meanwhile_only_the_files_come_back(told):
    session = told.say("one")
    told.say("two", "--continue")
    after = told.now()
    fork = told.undo()["session"]
    assert told.prsm("sessions", "delete", fork, "--yes").code == 0
    assert "goes on in session" not in told.prsm("undo", "--yes").out
    assert (told.now(), told.sessions()) == (after, [session])


def test_changes_are_as_they_were_before_the_prompt_where_the_files_are_too(told):
    """What was taken back since is there again, and pending; what was committed stays so."""

    def states(session):
        return {(one["path"], one["name"]): one["state"] for one in told.changes(session)}

    session = told.say("one")
    told.say("two", "--continue")
    told.prsm("accept", "--agent", "w2", "--session", session)
    told.say("three", "--continue")
    assert told.prsm("reject", "--agent", "w1", "--yes").code == 1, "w2 has changed it since"
    (told.workspace / "b").write_text("mine\n")
    made = told.undo()
    assert states(made["session"]) == {
        ("a", "w1"): "pending",
        ("a", "w2"): "accepted",
        ("b", "w2"): "accepted",
    }
    assert states(session)[("a", "w1")] == "unmerged"
    git("config", "user.name", "n")
    git("config", "user.email", "e@x")
    assert told.prsm("changes", "commit", "--yes").code == 1, "that of a builds on a pending one"
    assert states(session)[("b", "w2")] == "committed", "HEAD is one"
    assert (told.workspace / "b").read_text() == "mine\n", "it is the person's"
    back = told.undo("2", "--session", session, "--mine")
    assert not (told.workspace / "b").exists()
    assert states(back["session"]) == {("a", "w1"): "pending"}
    kept = told.undo("1", "--session", session, "--keep-files")
    assert states(kept["session"])[("a", "w1")] == "unmerged"


@pytest.mark.requirement("U2")
def test_files_or_conversation_are_kept_if_the_person_says_so(told):
    session = told.say("one")
    told.say("two", "--continue")
    after = told.now()
    made = told.undo("--keep-files")
    assert (made["snapshot"], made["files"]) == (None, 0)
    assert told.now() == after
    assert len(told.history(made["session"])) == 1
    made = told.undo("--files-only", "--session", session)
    assert made["session"] is None
    assert made["changes"] == [
        {"path": "a", "change": "modified"},
        {"path": "b", "change": "deleted"},
    ]
    assert len(told.sessions()) == 2
    assert not (told.workspace / "b").exists()


@pytest.mark.long
def test_prompts_have_numbers_and_snapshots_and_the_first_has_nothing_before_it(told):
    before = told.now()
    session = told.say("one")
    told.say("two", "--continue")
    told.say("three", "--continue")
    kept = json.loads(told.prsm("snapshot", "list", "--json").out)
    assert [one["kind"] for one in kept] == ["run"] * 3
    made = told.undo("2")
    assert (made["prompt"], made["later"]) == ("two", 1)
    assert not (told.workspace / "c").exists()
    assert (told.workspace / "a").read_text() == "one\n"
    again = told.undo()
    assert (again["prompt"], again["session"]) == ("one", None)
    assert told.now() == before
    made = told.undo(kept[0]["id"][:7], "--session", session)
    assert (made["prompt"], made["later"]) == ("three", 0)
    shown = told.prsm("undo", "--prompt", "3", "--session", session, "--yes")
    assert 'nothing was said before it: prsm, or prsm run "…", begins anew' in shown.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--prompt", "9"], "there is no prompt 9: those that can be taken back are 1 to 1"),
        (["--prompt", "0"], "there is no prompt 0"),
        (["--prompt", "abcdef"], "is no snapshot before a prompt"),
        (["--prompt", "../../x"], "is no snapshot before a prompt"),
        (["--prompt", "--keep-files", "--files-only"], "leave nothing to take back"),
        (["--prompt", "--turn"], "give one of ID, --prompt, --turn, --list"),
        (["--keep-files"], "is of --prompt"),
        (["--turn", "--files-only"], "is of --prompt, and of a restore"),
        (["--session", "x"], "is of ID, --prompt and --turn"),
        (["nothing"], "there is no act, no change and no snapshot 'nothing'"),
        (["--prompt", "--session", "nosuch"], "there is no session"),
    ],
)
def test_what_cannot_be_undone_is_told_with_the_cure_and_changes_nothing(told, args, said):
    told.say("one")
    before = told.now()
    done = told.prsm("undo", *args, "--yes")
    assert done.code != 0
    assert said in done.err
    assert (told.now(), len(told.sessions())) == (before, 1)


def test_nobody_is_asked_without_a_terminal(told, prsm_process):
    told.say("one")
    before = told.now()
    for words in (["--prompt"], ["--turn"]):
        done = prsm_process("undo", *words)
        assert done.code != 0
        assert "give --yes" in done.err
    assert told.now() == before


def test_a_session_of_another_folder_is_named(told, tmp_path):
    told.say("one")
    git("worktree", "add", "-q", str(tmp_path / "other"))
    done = told.prsm("undo", "--prompt", "--yes", "--workspace", str(tmp_path / "other"))
    assert done.code != 0
    assert f"works in another folder: {told.workspace}" in done.err


@pytest.mark.requirement("U6")
def test_the_changes_of_the_last_turn_are_taken_back_together_then_those_before(told):
    told.say("one")
    told.say("two", "--continue")
    done = json.loads(told.prsm("undo", "--turn", "--yes", "--json").out)
    assert {(one["path"], one["state"]) for one in done["changes"]} == {
        ("a", "rejected"),
        ("b", "rejected"),
    }
    assert (told.workspace / "a").read_text() == "one\n"
    assert told.prsm("undo", "--turn", "--yes").code == 0
    assert (told.workspace / "a").read_text() == "zero\n"
    assert told.prsm("undo", "--turn", "--yes").out == "nothing is pending\n"


@pytest.mark.long
def test_an_id_is_of_a_change_or_of_a_snapshot(told):
    told.say("one")
    told.say("two", "--continue")
    changes = {
        one["path"]: one["change"] for one in json.loads(told.prsm("changes", "list", "--json").out)
    }
    assert told.prsm("undo", changes["b"], "--yes").code == 0
    assert not (told.workspace / "b").exists()
    kept = json.loads(told.prsm("snapshot", "list", "--json").out)[-1]
    assert told.prsm("undo", kept["id"], "--yes").code == 0
    assert (told.workspace / "a").read_text() == "zero\n"
    assert os.listdir(told.workspace).count("b") == 0  # noqa: PTH208


@pytest.mark.requirement("D19")
@pytest.mark.requirement("D16")
def test_a_snapshot_is_written_as_a_folder_with_what_its_session_says(told, tmp_path):
    session = told.say("one")
    [change] = json.loads(told.prsm("changes", "list", "--json").out)
    [kept] = json.loads(told.prsm("snapshot", "list", "--json").out)
    out = tmp_path / "out"
    done = told.prsm("snapshot", "export", kept["id"], str(out), "--json")
    assert json.loads(done.out) == {"id": kept["id"], "folder": str(out)}
    assert {one.name for one in out.iterdir()} == {
        *("meta.json", "working_tree.patch", "staged.patch", "untracked"),
        *("session.json", "file-changes"),
    }
    assert json.loads((out / "meta.json").read_text())["session"] == session
    [file] = (out / "file-changes").iterdir()
    assert file.name == f"{change['call']}.json"
    assert json.loads(file.read_text()) == {"changes": [change]}
    assert told.prsm("sessions", "import", str(out / "session.json")).code == 0
    made = json.loads(told.prsm("snapshot", "import", str(out), "--json").out)
    assert told.prsm("snapshot", "restore", made["id"], "--yes").code == 0
    assert (told.workspace / "a").read_text() == "zero\n"
    assert "is there already" in told.prsm("snapshot", "export", kept["id"], str(out)).err
    (out / "meta.json").write_text("{}")
    refused = told.prsm("snapshot", "import", str(out))
    assert refused.code != 0
    assert "this is no snapshot to take in" in refused.err
