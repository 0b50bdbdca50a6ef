"""`prsm undo` of acts, and what --all means: over runs of the script provider, with real git."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest
from prsm_files.commands.changes.deciding import staying
from prsm_files.commands.changes.knowing import Which, known_changes
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.whereabouts import stray_notes

from plugins.prsm_files.tests.commands.test_undo import Told, git
from plugins.prsm_files.tests.shadow_scene import DirectGit, every_byte
from prsm_core.cli.places import workspace_ledger
from prsm_core.domain.changes import FileChange
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import FileChanged
from prsm_core.store import SqliteStore

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.requirement("U27"),
]


class Acted(Told):
    """A session with changes; what a person wrote beside is found as `outside`."""

    def __init__(self, prsm, workspace, tmp_path):
        super().__init__(prsm, workspace, tmp_path)
        self._home = tmp_path / "home"

    def json(self, *words):
        done = self.prsm(*words, "--json")
        return done.code, json.loads(done.out)

    def states(self, session=None):
        more = () if session is None else ("--session", session)
        found = json.loads(self.prsm("changes", "list", "--all", "--json", *more).out)
        return {one["path"]: one["state"] for one in found}

    def shadow(self):
        places = {"state": self._home / "state", "data": self._home / "data"}
        return Shadows(**places).open(DirectGit(), self.workspace)

    def write_outside(self, path, text):
        """A person writes a file, and the run's next look finds it; return the id of that."""
        (self.workspace / path).write_text(text)
        with self.shadow().at_work():
            git_dir = self.shadow().root("").shadow
            blob = git_dir.word("hash-object", "-w", "--stdin", stdin=text.encode())
        session = self.sessions()[0]
        change = FileChange(
            id=f"0{len(path):x}-1",
            scan=f"0{len(path):x}",
            path=path,
            folder=str(self.workspace),
            kind="added",
            new_mode="100644",
            after=blob,
            added=1,
            removed=0,
            how="outside",
        )

        async def store():
            async with await SqliteStore.open(workspace_ledger(str(self.workspace))) as ledger:
                [info] = [one for one in await ledger.sessions() if one.session_id == session]
                await ledger.commit(
                    Step(
                        step_id=f"outside-{path}",
                        session_id=session,
                        run_id=info.run_id or "",
                        agent_id=None,
                        at=1.0,
                        writes=(FileChanged(change=change),),
                    )
                )

        asyncio.run(store())
        return change.id


@pytest.fixture
def told(prsm, workspace, tmp_path):
    return Acted(prsm, workspace, tmp_path)


def test_all_means_the_agents_changes_at_every_command(told, prsm_process):
    session = told.say("one")
    mine = told.write_outside("mine", "the person's\n")
    asked = told.prsm("reject", "--all")
    assert asked.code == 2, "nobody can be asked"
    assert told.json("reject", "--all", "--yes")[1]["changes"][0]["path"] == "a"
    assert (told.workspace / "mine").read_text() == "the person's\n"
    assert told.states() == {"a": "rejected", "mine": "pending"}
    assert told.json("accept", "--all")[1]["changes"] == []
    assert told.json("accept", mine)[1]["changes"][0]["state"] == "accepted", "by its id"
    git("config", "user.name", "n")
    git("config", "user.email", "e@x")
    assert told.json("changes", "commit", "--yes")[1]["commits"] == []
    assert len(told.json("changes", "commit", mine, "--yes")[1]["commits"]) == 1
    assert told.states(session)["mine"] == "committed"


def test_what_is_from_outside_is_taken_back_by_its_id_and_comes_back(told):
    told.say("one")
    mine = told.write_outside("mine", "the person's\n")
    done = told.json("reject", mine, "--yes")[1]
    assert not (told.workspace / "mine").exists()
    assert told.json("undo", done["act"], "--yes")[0] == 0
    assert (told.workspace / "mine").read_text() == "the person's\n"
    assert told.states()["mine"] == "pending"


def test_a_rejection_prints_its_id_is_undone_by_it_and_is_pending_wherever_it_is_known(told):
    session = told.say("one")
    before = every_byte(told.workspace)
    fork = told.json("fork", session)[1]["session"]
    rejected = told.prsm("reject", "--all", "--session", session, "--yes")
    after = every_byte(told.workspace)
    act = rejected.out.split()[-1]
    [listed] = told.json("undo", "--list")[1]
    assert (listed["act"], listed["kind"], listed["files"]) == (act, "reject", ["a"])
    assert told.states(session) == told.states(fork) == {"a": "rejected"}
    code, undone = told.json("undo", "--yes")
    assert (code, undone["undone"], undone["stays"]) == (0, act, [])
    assert every_byte(told.workspace) == before
    assert told.states(session) == told.states(fork) == {"a": "pending"}
    assert told.json("undo", undone["act"], "--yes")[0] == 0, "an undo is an act"
    assert every_byte(told.workspace) == after
    assert told.states(session) == told.states(fork) == {"a": "rejected"}
    assert told.json("undo", "--yes")[0] == 0
    assert every_byte(told.workspace) == before


def test_what_a_session_rejected_that_is_gone_is_pending_again_in_its_origin(told):
    session = told.say("one")
    fork = told.json("fork", session)[1]["session"]
    act = told.json("reject", "--all", "--session", fork, "--yes")[1]["act"]
    assert told.prsm("sessions", "delete", fork, "--yes").code == 0
    assert told.states(session) == {"a": "rejected"}
    assert told.json("undo", act, "--yes")[0] == 0
    assert (told.workspace / "a").read_text() == "one\n"
    assert told.states(session) == {"a": "pending"}


def test_the_undo_of_a_turn_and_of_a_change_are_acts(told):
    told.say("one")
    told.say("two", "--continue")
    before = every_byte(told.workspace)
    turn = told.json("undo", "--turn", "--yes")[1]
    assert {one["path"] for one in turn["changes"]} == {"a", "b"}
    assert told.json("undo", turn["act"], "--yes")[0] == 0
    assert every_byte(told.workspace) == before
    [change] = [one["change"] for one in told.changes(told.sessions()[0]) if one["path"] == "b"]
    one = told.json("undo", change, "--yes")[1]
    assert not (told.workspace / "b").exists()
    assert told.json("undo", one["act"], "--yes")[0] == 0
    assert every_byte(told.workspace) == before


def test_what_was_edited_since_stays_is_named_and_the_exit_code_is_1(told):
    told.say("one")
    act = told.json("reject", "--all", "--yes")[1]["act"]
    (told.workspace / "a").write_text("the person's\n")
    code, undone = told.json("undo", act, "--yes")
    assert (code, [one["path"] for one in undone["stays"]], undone["act"]) == (1, ["a"], None)
    assert (told.workspace / "a").read_text() == "the person's\n"
    assert told.states() == {"a": "rejected"}


def test_a_restore_by_hand_makes_pending_again_what_it_brings_back(told):
    session = told.say("one")
    snapshot = told.json("snapshot", "create")[1]["id"]
    told.json("reject", "--all", "--yes")
    restored = told.json("snapshot", "restore", snapshot, "--yes")[1]
    assert (told.workspace / "a").read_text() == "one\n"
    assert told.states(session) == {"a": "pending"}
    assert told.json("undo", restored["act"], "--yes")[0] == 0
    assert (told.workspace / "a").read_text() == "zero\n"
    assert told.states(session) == {"a": "rejected"}


def test_mistakes_are_told_and_change_nothing(told):
    told.say("one")
    assert told.prsm("undo", "--yes").code == 2, "nothing was done yet"
    act = told.json("reject", "--all", "--yes")[1]["act"]
    before = every_byte(told.workspace)
    for words in (["undo"], ["undo", "zz"], ["undo", act, "--turn"], ["undo", act, "--mine"]):
        assert told.prsm(*words).code == 2, words
    assert every_byte(told.workspace) == before


def test_of_a_prompt_what_is_the_persons_stays_and_goes_only_if_they_say_so(told):
    told.say("one")
    (told.workspace / "mine").write_text("written since\n")
    (told.workspace / "notes.md").write_text("the person's\n")
    before = every_byte(told.workspace)
    made = told.undo()
    assert set(made["spared"]) == {"mine", "notes.md"}
    assert (told.workspace / "a").read_text() == "zero\n"
    assert (told.workspace / "mine").read_text() == "written since\n"
    assert (told.workspace / "notes.md").read_text() == "the person's\n"
    assert told.prsm("undo", made["act"], "--yes").code == 0
    assert every_byte(told.workspace) == before
    whole = told.undo("--mine")
    assert whole["spared"] == []
    assert not (told.workspace / "mine").exists()
    assert told.prsm("undo", whole["act"], "--yes").code == 0
    assert every_byte(told.workspace) == before


def test_of_a_file_that_both_have_changed_only_the_agents_part_goes(told, tmp_path):
    lines = "".join(f"{n}\n" for n in range(20))
    (told.workspace / "a").write_text(lines)
    git("commit", "-qam", "longer")
    theirs = lines.replace("3\n", "three\n", 1)
    scenario = json.loads((tmp_path / "scenario.json").read_text())
    scenario["lanes"]["w1"]["steps"][0] = {"edit": {"path": "a", "content": theirs}}
    (tmp_path / "scenario.json").write_text(json.dumps(scenario))
    told.say("one")
    (told.workspace / "a").write_text(theirs.replace("15\n", "the person's\n"))
    made = told.undo()
    assert made["stays"] == []
    assert (told.workspace / "a").read_text() == lines.replace("15\n", "the person's\n")
    assert told.prsm("undo", "--yes").code == 0
    (told.workspace / "a").write_text(theirs.replace("three\n", "mine\n"))
    done = told.prsm("undo", "--prompt", "--session", told.sessions()[0], "--yes", "--json")
    made = json.loads(done.out)
    assert (done.code, [one["path"] for one in made["stays"]]) == (1, ["a"])
    assert "mine\n" in (told.workspace / "a").read_text()


def test_any_next_command_removes_what_a_killed_act_left_beside_files(told):
    told.say("one")
    stray, theirs = told.workspace / ".prsm-x-0.new", told.workspace / "theirs.new"
    for file in (stray, theirs):
        file.write_text("half")
    folder, name = stray_notes(told.shadow().place, "main")
    folder.mkdir()
    (folder / name).write_bytes(bytes(stray))
    assert told.prsm("tree").code == 0
    assert not stray.exists()
    assert not (folder / name).exists()
    (folder / name).write_bytes(bytes(theirs))
    assert told.prsm("tree").code == 0
    assert theirs.exists(), "whatever the note says"


def test_what_is_not_taken_along_is_marked_before_a_person_is_asked(told):
    told.say("one")
    told.write_outside("mine", "the person's\n")
    workspace = str(told.workspace)
    known = asyncio.run(known_changes(workspace, None, Which()))
    assert [row.change.path for row in known.rows] == ["a"]
    marked, counted = staying(known)
    assert marked.lstrip().startswith("= ")
    assert "mine" in marked
    assert counted.endswith(": 1")
    one = asyncio.run(known_changes(workspace, None, Which(ids=(known.rows[0].change.id,))))
    assert staying(one) == []
