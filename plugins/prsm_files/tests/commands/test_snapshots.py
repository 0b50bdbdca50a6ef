"""prsm snapshot and prsm undo, as a person and a script use them, by the real helper of git."""

import json
import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(*args):
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    return subprocess.run(["git", *who, *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(workspace):
    git("init", "-q", "-b", "main")
    (workspace / "a").write_text("one\n")
    git("add", "a")
    git("commit", "-q", "-m", "first")
    return workspace


def taken(prsm, *more):
    done = prsm("snapshot", "create", "--json", *more)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_snapshot_is_taken_listed_shown_restored_undone_and_deleted(prsm, repository):
    made = taken(prsm, "-m", "before the work")
    assert made["id"]
    assert (made["description"], made["branch"], made["kind"]) == (
        "before the work",
        "main",
        "manual",
    )
    (repository / "a").write_text("two\n")
    (repository / "b").write_text("new\n")
    [listed] = json.loads(prsm("snapshot", "list", "--json").out)
    assert listed == made
    shown = json.loads(prsm("snapshot", "show", made["id"], "--json").out)
    assert shown["changes"] == [
        {"path": "a", "change": "modified"},
        {"path": "b", "change": "deleted"},
    ]
    assert (repository / "b").exists(), "nothing is changed by a look"
    done = json.loads(prsm("snapshot", "restore", made["id"][:6], "--yes", "--json").out)
    assert (done["restored"], done["changes"]) == (made["id"], shown["changes"])
    assert (repository / "a").read_text() == "one\n"
    assert not (repository / "b").exists()
    undone = json.loads(prsm("undo", "--yes", "--json").out)
    assert undone["restored"] == done["safety"]
    assert (repository / "b").read_text() == "new\n"
    assert json.loads(prsm("snapshot", "pack", "--json").out) == {"packed": True}
    deleted = prsm("snapshot", "delete", made["id"], "--yes", "--json")
    assert json.loads(deleted.out) == {"deleted": made["id"]}
    kinds = [one["kind"] for one in json.loads(prsm("snapshot", "list", "--json").out)]
    assert kinds == ["safety", "safety"]
    assert git("status", "--short") == " M a\n?? b\n"
    assert git("for-each-ref") == git("for-each-ref", "refs/heads/main")


def test_a_snapshot_outlives_a_rewritten_history_once_another_one_is_taken(prsm, repository):
    made = taken(prsm)
    (repository / "a").write_text("two\n")
    git("commit", "-q", "-a", "--amend", "-m", "amended")
    taken(prsm)
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")
    done = prsm("snapshot", "restore", made["id"], "--yes", "--json")
    assert done.code == 0, done.err
    assert (repository / "a").read_text() == "one\n"


def test_a_person_reads_what_will_change_and_how_it_is_taken_back(prsm, repository):
    made = prsm("snapshot", "create")
    snapshot = made.out.split()[1]
    assert f"prsm snapshot restore {snapshot}" in made.err
    (repository / "a").write_text("two\n")
    assert "~ a" in prsm("snapshot", "show", snapshot).out
    done = prsm("snapshot", "restore", snapshot, "--yes")
    assert done.code == 0
    assert "prsm undo" in done.out
    assert snapshot in prsm("snapshot", "list").out


@pytest.mark.parametrize("command", [("snapshot", "restore"), ("snapshot", "delete"), ("undo",)])
def test_what_asks_is_not_done_where_nobody_can_be_asked(prsm_process, prsm, repository, command):
    made = taken(prsm)
    assert prsm("snapshot", "restore", made["id"], "--yes").code == 0
    (repository / "a").write_text("two\n")
    done = prsm_process(*command, *([made["id"]] if len(command) > 1 else []))
    assert done.code == 2
    assert "give --yes" in done.err
    assert (repository / "a").read_text() == "two\n"


def test_what_is_staged_comes_back_or_it_is_said_why_not(prsm, repository):
    (repository / "a").write_text("staged\n")
    git("add", "a")
    made = taken(prsm)
    git("reset", "-q")
    assert prsm("snapshot", "restore", made["id"], "--yes", "--files-only").err == ""
    assert git("diff", "--cached", "--name-only") == ""
    assert prsm("snapshot", "restore", made["id"], "--yes").err == ""
    assert git("diff", "--cached", "--name-only") == "a\n"
    git("commit", "-q", "-m", "second")
    done = prsm("snapshot", "restore", made["id"], "--yes")
    assert done.code == 0
    assert "the staging area of the folder stays as it is: HEAD was at" in done.err


def test_what_is_left_out_is_told(prsm, repository):
    os.mkfifo(repository / "pipe")
    with (repository / "large").open("wb") as file:
        file.truncate(101 * 2**20)
    made = taken(prsm)
    assert [(one["path"], one["bytes"]) for one in made["skipped"]] == [("large", 101 * 2**20)]
    assert (
        "left out: large (101.0 MiB): it is larger than 100 MiB" in prsm("snapshot", "create").err
    )


def test_mistakes_are_answered_with_what_to_do(prsm, repository):
    assert "nothing to undo" in prsm("undo", "--yes").err
    unknown = prsm("snapshot", "restore", "../x", "--yes")
    assert (unknown.code, unknown.out) == (2, "")
    assert "prsm snapshot list" in unknown.err
    assert "take one: prsm snapshot create" in prsm("snapshot", "list").out
    assert json.loads(prsm("snapshot", "list", "--json").out) == []


def test_without_git_it_is_said_what_is_missing(prsm, workspace, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = prsm("snapshot", "create")
    assert done.code == 1
    assert "git cannot be started" in done.err
    assert "install git" in done.err


def test_a_bare_repository_has_no_files(prsm, workspace):
    git("init", "-q", "--bare")
    done = prsm("snapshot", "create")
    assert done.code == 2
    assert "bare repository" in done.err


def test_a_file_with_a_name_that_is_no_text_is_listed_harmlessly(prsm, repository):
    made = taken(prsm)
    with open(os.fsencode(repository) + b"/\xff\x1b[2J", "wb"):  # noqa: PTH123
        pass
    shown = prsm("snapshot", "show", made["id"])
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert prsm("snapshot", "restore", made["id"], "--yes").code == 0
    assert os.listdir(os.fsencode(repository)).count(b"\xff\x1b[2J") == 0  # noqa: PTH208


@pytest.fixture
def started(prsm, repository, tmp_path):
    """A session of the folder, which has ended."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("lanes: {master: {steps: [say: done]}}")
    given = ("--provider", "script", "--set", f"providers.script.scenario={scenario}")
    done = prsm("run", "look", "--json", *given)
    assert done.code == 0, done.err
    return json.loads(done.out.splitlines()[0])["session"]


def events(prsm, session):
    lines = prsm("events", session, "--json").out.splitlines()
    return [one for one in map(json.loads, lines) if one["type"] == "snapshot_taken"]


@pytest.mark.requirement("D19")
def test_the_newest_session_of_the_folder_tells_of_a_snapshot_that_a_person_takes(
    prsm, started, tmp_path
):
    made = taken(prsm, "-m", "by hand")
    [told] = [one for one in events(prsm, started) if one["kind"] == "manual"]
    assert (told["snapshot"], told["description"]) == (made["id"], "by hand")
    assert made["session"] == started
    assert made["position"] > 0
    assert prsm("sessions", "delete", started, "--yes").code == 0
    assert [one["id"] for one in json.loads(prsm("snapshot", "list", "--json").out)] == [made["id"]]
    assert taken(prsm)["session"] is None


def test_a_session_of_another_working_tree_tells_of_none(prsm, started, tmp_path):
    git("worktree", "add", "-q", str(tmp_path / "other"))
    assert taken(prsm, "--workspace", str(tmp_path / "other"))["session"] is None
    assert [one for one in events(prsm, started) if one["kind"] == "manual"] == []


def test_a_ledger_that_cannot_be_read_keeps_nobody_from_a_snapshot(prsm, started, tmp_path):
    [ledger] = (tmp_path / "home").rglob("ledger.db")
    ledger.write_bytes(b"nothing of a ledger, though as long as one" * 99)
    done = prsm("snapshot", "create", "--json")
    assert (done.code, json.loads(done.out)["session"]) == (0, None)
    assert "no session tells of this snapshot" in done.err
