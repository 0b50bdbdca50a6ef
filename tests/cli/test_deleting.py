"""A session is deleted with its images; what cannot go at once is kept in mind until it can."""

from __future__ import annotations

import errno
import os
import time

import pytest
from msgspec.structs import replace
from prsm_files.care import ShadowCare

from prsm_core.cli.places import DELETIONS, workspace_ledger, workspace_paths
from prsm_core.cli.sessions.deleting import Places, delete, finish_deletions
from prsm_core.cli.sessions.keepers import Keepers
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.errors import PrsmError
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.store.removal import holds_session
from tests.cli.sessions_scene import play

PNG = b"\x89PNG\r\n\x1a\n" + bytes(99)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "one.png"
    path.write_bytes(PNG)
    return str(path)


@pytest.fixture
def state(workspace):
    return workspace_paths(str(workspace)).state


def images(state):
    return sorted((state / "images").iterdir())


def spec(forget):
    return ProviderSpec(name="script", summary="", factory="json:loads", forget=forget)


def forgets(folder, names):
    """A provider that can do it."""


def cannot(folder, names):
    raise PrsmError("its database is locked")


def keepers(state, forget):
    paths = replace(workspace_paths(os.sep), state=state, trees=state.parent / "trees")
    return Keepers([spec(forget)], [ShadowCare(paths)])


def finished(state, forget):
    return finish_deletions(state, lambda: keepers(state, forget), lambda: None)


def lock_of(state, session):
    return SessionLock.take(state, session, since=time.time())


def test_an_image_stays_while_a_session_of_another_repository_shows_it(
    prsm, prsm_process, tmp_path, monkeypatch, state, image
):
    here, _ = play(prsm_process, tmp_path, image=image)
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    there, _ = play(prsm_process, tmp_path, image=image)
    assert prsm("sessions", "delete", there, "--yes").code == 0
    assert [path.read_bytes() for path in images(state)] == [PNG]
    monkeypatch.chdir(tmp_path / "work")
    assert prsm("sessions", "delete", here, "--yes").code == 0
    assert images(state) == []


def test_an_image_goes_with_the_last_of_a_session_and_its_forks(
    prsm, prsm_process, tmp_path, state, image
):
    origin, _ = play(prsm_process, tmp_path, image=image)
    assert prsm("sessions", "fork", origin, "--name", "again").code == 0
    assert prsm("sessions", "delete", "again", "--yes").code == 0
    assert [path.read_bytes() for path in images(state)] == [PNG]
    assert prsm("sessions", "delete", origin, "--yes").code == 0
    assert images(state) == []


async def test_what_a_provider_cannot_forget_yet_it_is_asked_to_forget_again(
    prsm_process, tmp_path, state, workspace
):
    session, _ = play(prsm_process, tmp_path)
    ledger = workspace_ledger(str(workspace))
    assert list((state / "providers" / "script").rglob("*.json"))
    places = Places(state, ledger, keepers(state, cannot))
    with pytest.raises(PrsmError, match="its database is locked"):
        await delete(places, session, lock_of(state, session))
    assert not holds_session(ledger, session)
    assert [path.stem for path in (state / DELETIONS).iterdir()] == [session]
    assert finished(state, cannot) == ["its database is locked"]
    assert finished(state, forgets) == []
    assert not list((state / DELETIONS).iterdir())
    assert not [path for path in state.rglob("*") if session in path.name]


@pytest.mark.parametrize("text", ['{"ledger": "/no', ""])
def test_a_note_that_is_half_written_deletes_nothing(prsm, prsm_process, tmp_path, state, text):
    session, _ = play(prsm_process, tmp_path)
    before = {path for path in state.rglob("*") if path.is_file() and "prsm.log" not in path.name}
    (state / DELETIONS).mkdir()
    (state / DELETIONS / f"{session}.json").write_text(text)
    assert (prsm("sessions", "list").code, list((state / DELETIONS).iterdir())) == (0, [])
    assert before <= {path for path in state.rglob("*") if path.is_file()}


def test_what_another_process_deletes_just_now_is_left_to_it(prsm, prsm_process, tmp_path, state):
    session, _ = play(prsm_process, tmp_path)
    (state / DELETIONS).mkdir()
    note = state / DELETIONS / f"{session}.json"
    note.write_text("")
    with lock_of(state, session):
        assert finished(state, forgets) == []
        assert note.exists()
    done = prsm("sessions", "list")
    assert (done.code, done.err, note.exists()) == (0, "", False)


def test_a_full_disk_is_told_as_what_kept_the_session(prsm, session, monkeypatch, state):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = prsm("sessions", "delete", session.session, "--yes")
    assert done.code == 1
    assert "nothing was deleted: " in done.err
    assert "cannot be written: No space left on device" in done.err
    assert "\nhint: look which file system is full" in done.err
    assert not list((state / DELETIONS).iterdir())
    assert prsm("sessions", "show", session.session).code == 0
