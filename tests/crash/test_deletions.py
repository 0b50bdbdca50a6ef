"""A deletion whose process dies leaves the session whole, or the next command removes the rest."""

from __future__ import annotations

import hashlib
import itertools
import shutil

import pytest

from tests.crash.trees import WORDS, AnyMoment, Home, check_sound

KILL_AT = 20  # of the run that is deleted: with open turns, calls, mail, a question
OWN, SHARED = (b"\x89PNG\r\n\x1a\n" + bytes([n] * 99) for n in (1, 2))
TASK = "nobody-shall-know"
NOT_OURS = {"prsm.log", "done.json"}  # of all sessions; of the tests
ALARMS = 20


@pytest.fixture
def home(tmp_path):
    """A home with a session that was cut off, and another that shows one of its images."""
    home = Home(tmp_path / "home")
    images = [tmp_path / name for name in ("own.png", "shared.png")]
    for path, data in zip(images, (OWN, SHARED), strict=True):
        path.write_bytes(data)
    own, shared = (("--image", str(path)) for path in images)
    script = ("--provider", "script")
    assert home.prsm("run", "seen", *script, *shared, fault=f"kill:{KILL_AT}").was_killed
    assert home.prsm("run", TASK, *script, *own, *shared, fault=f"kill:{KILL_AT}").was_killed
    return home


def kept(home: Home) -> dict[str, str]:
    """All files of the home but the ledger, by what they hold."""
    return {
        str(path.relative_to(home.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (home.folder / "home").rglob("*")
        if path.is_file()
        and "ledger" not in path.name
        and path.name not in NOT_OURS
        and path.parent.name != "runs"
    }


def sessions(home: Home) -> list[str]:
    return [str(session) for (session,) in home.query("SELECT session_id FROM meta ORDER BY rowid")]


def other_place(home: Home, number: int) -> Home:
    """Return a copy of the home."""
    folder = home.folder.with_name(f"copy{number}")
    shutil.copytree(home.folder, folder, ignore=shutil.ignore_patterns("*.sock"))
    copy = Home(folder, workspace=home.workspace)
    shutil.rmtree(folder / "workspace")
    return copy


def deleted_but_killed(home: Home, fault: str, number: int) -> tuple[bool, bool]:
    """Delete the newer session, in which this happens; whether that was so, and whether it went."""
    home = other_place(home, number)
    before, session = kept(home), sessions(home)[-1]
    ended = home.prsm("sessions", "delete", session, "--yes", fault=fault)
    assert ended.was_killed or ended.code == 0, ended.err
    listed = home.prsm("sessions", "list")
    assert (listed.code, listed.err) == (0, "")
    check_sound(home)
    after = kept(home)
    went = session not in sessions(home)
    if went:
        check_gone(home, before, after, session)
    else:
        assert ended.was_killed
        assert after == before
        check_goes_on(home, session)
    return ended.was_killed, went


def check_goes_on(home: Home, session: str) -> None:
    ended = home.prsm("resume", session)
    assert (ended.code, sorted(ended.out.split())) == (0, WORDS), ended.err


def check_gone(home: Home, before: dict[str, str], after: dict[str, str], session: str) -> None:
    """Nothing of it is left anywhere, and of the other one nothing has gone."""
    images = {path for path in after if "/images/" in path}
    assert [after[path] for path in images] == [hashlib.sha256(SHARED).hexdigest()]
    assert after.items() <= before.items()
    assert len(before) - len(after) > 2  # its image, its log, its threads
    for path in (home.folder / "home").rglob("*"):
        assert session not in path.name
        if path.is_file() and path.name not in NOT_OURS:
            assert TASK.encode() not in path.read_bytes(), path
    assert "prsm: warning" not in home.prsm("resume").err


def test_a_deletion_that_is_killed_between_its_steps_is_none_or_is_finished(home):
    """A few of the steps: those around the ledger's own transaction are among them."""
    whole = deleted_but_killed(home, "step:100000", 0)
    assert whole == (False, True)
    found = [deleted_but_killed(home, f"step:{n}", n) for n in range(3, 15, 3)]
    assert {was_killed for was_killed, _ in found} == {True}
    assert {went for _, went in found} == {False, True}


@pytest.mark.long
def test_a_deletion_is_killed_at_each_step_and_at_any_moment(home):
    for number in itertools.count(1):
        was_killed, _ = deleted_but_killed(home, f"step:{number}", number)
        if not was_killed:
            break
    assert number > 10
    found, moments = [], AnyMoment()
    for number in range(ALARMS):
        _, went = deleted_but_killed(home, moments.next(), 1000 + number)
        moments.was(early=not went)
        found.append(went)
    assert {*found} == {False, True}


def test_a_renaming_that_is_killed_is_done_or_not(home):
    session = sessions(home)[-1]
    for number, fault in enumerate(("torn:0", "torn:2000", "kill:1", "none")):
        ended = home.prsm("sessions", "rename", session, f"name {number}", fault=fault)
        assert ended.was_killed or ended.code == 0, ended.err
        check_sound(home)
        names = home.query("SELECT session_id, name FROM meta")
        assert dict(names)[session] == (None if fault.startswith("torn") else f"name {number}")
    check_goes_on(home, session)
