"""Sessions of another machine: their folders have names that no folder here can have."""

from __future__ import annotations

import json

import pytest

from tests.cli.sessions_scene import play

LATER = {"lanes": {"rest": {"marker": "", "steps": [{"say": "done"}]}}}


@pytest.fixture(params=["long name", "long path", "null", "loop"])
def elsewhere(request, tmp_path):
    """A name of a folder that the system cannot look at."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    names = {"long name": "/" + "x" * 300, "long path": "/x" * 4000, "null": "/a\0b"}
    return names.get(request.param, str(loop))


@pytest.fixture
def moved(prsm, prsm_process, workspace, tmp_path, elsewhere):
    """Two sessions of such a folder: one that is over, and a fork of it that was cut off."""
    session, _ = play(prsm_process, tmp_path, LATER)
    fork = json.loads(prsm("fork", session, "--at", "3", "--json").out)["session"]
    here, there = json.dumps(str(workspace)), json.dumps(elsewhere)
    texts = [prsm("export", each).out.replace(here, there) for each in (session, fork)]
    for each in (fork, session):
        assert prsm("sessions", "delete", each, "--yes").code == 0
    taken = []
    for text in texts:
        file = tmp_path / "copy.json"
        file.write_text(text)
        done = prsm("sessions", "import", str(file), "--json")
        assert done.code == 0, done.err
        taken.append(json.loads(done.out)["session"])
    return taken


def test_a_run_of_a_folder_that_cannot_be_here_is_told_as_gone(prsm, moved):
    done = prsm("resume", moved[1])
    assert done.code == 2
    assert "the folder that this run works in is gone: /" in done.err
    assert "hint: move it back there" in done.err


@pytest.mark.usefixtures("moved")
def test_other_folders_are_not_disturbed_by_it(prsm, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    done = prsm("sessions", "list")
    assert done.code == 1
    assert "nothing was run yet in" in done.err
    assert "sessions are kept of folders that are gone" in done.err


def test_it_is_replayed_to_its_end(prsm, moved):
    done = prsm("replay", moved[0])
    assert done.code == 0, done.err
    assert "look further: prsm tree -C " in done.err


def test_a_copy_without_a_task_is_told_to_have_none(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path, LATER, task="say it")
    fork = json.loads(prsm("fork", session, "--at", "3", "--json").out)["session"]
    file = tmp_path / "copy.json"
    file.write_text(prsm("export", fork).out.replace('"say it"', '""'))
    copy = json.loads(prsm("sessions", "import", str(file), "--json").out)["session"]
    done = prsm_process("resume", copy)
    assert f"prsm: goes on with session {copy}, run " in done.err
    assert ": no task\n" in done.err
    assert done.code == 2
    assert 'prsm: there is no task to run\nhint: give one: prsm run "…"\n' in done.err
