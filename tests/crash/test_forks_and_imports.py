"""A fork and an import whose process dies are there whole, or not at all, and can be made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prsm_core.store import SqliteStore
from tests.crash.trees import AGENTS, AnyMoment, Home, check_sound, check_whole
from tests.store.rewriting import rewritten

KILL_AT = 20  # of the run that is forked, or exported: with open turns, calls, mail, a question
STEP = 1500  # bytes, less than half a page of the log
ALARMS = 60
FEW = ["torn:0", "torn:9000", "kill:1"]
LOOK = "SELECT session_id FROM meta ORDER BY rowid"


@pytest.fixture
def home(tmp_path):
    """A home with a run that was cut off."""
    home = Home(tmp_path / "home")
    assert home.run(f"kill:{KILL_AT}").was_killed
    return home


async def read(home: Home, session: str, at: int | None = None):
    async with await SqliteStore.open(home.ledger, read_only=True) as store:
        return await store.state(session, at)


async def forked_but_killed(home: Home, fault: str) -> bool:
    """Fork the first session, in which this happens; whether that was ever so."""
    before = home.query(LOOK)
    [origin] = before[0]
    was = await read(home, str(origin))
    ended = home.prsm("fork", str(origin), fault=fault)
    assert ended.was_killed or ended.code == 0, ended.err
    check_sound(home)
    new = home.query(LOOK)[len(before) :]
    assert len(new) in ({0, 1} if ended.was_killed else {1})
    if fault.startswith("kill"):
        assert new, "it was durable"
    for (session,) in new:
        fork = await read(home, str(session))
        assert fork == rewritten(was, fork, fork.created_at)
        assert len(fork.agents) == len(was.agents) > 3
    assert await read(home, str(origin)) == was
    return ended.was_killed


def imported_but_killed(home: Home, file: str, fault: str) -> bool:
    """Import a session, in which this happens; whether that was ever so."""
    ended = home.prsm("sessions", "import", file, fault=fault)
    assert ended.was_killed or ended.code == 0, ended.err
    if not home.has_ledger:
        return ended.was_killed
    check_sound(home)
    found = home.query(LOOK)
    assert len(found) in ({0, 1} if ended.was_killed else {1})
    if fault.startswith("kill"):
        assert found, "it was durable"
    for (session,) in found:
        copy = home.prsm("export", str(session))
        assert json.loads(copy.out) == json.loads(Path(file).read_text())
        assert home.prsm("sessions", "delete", str(session), "--yes").code == 0
    return ended.was_killed


def exported(home: Home, tmp_path) -> tuple[Home, str]:
    """Export the session of a home; return another home, and the file."""
    file = tmp_path / "kept.json"
    assert home.prsm("export", "-o", str(file)).code == 0
    return Home(tmp_path / "other", workspace=home.workspace), str(file)


async def goes_on(home: Home) -> None:
    """The origin is gone on with, and so is its newest fork, as if nothing had been."""
    sessions = [str(session) for (session,) in home.query(LOOK)]
    for session in (sessions[0], sessions[-1]):
        ended = home.prsm("resume", session)
        assert ended.code == 0, ended.err
        state = await read(home, session)
        assert {str(now.agent.state) for now in state.agents} == {"completed"}
        assert all(now.open_turn is None for now in state.agents)
        assert {now.agent.name for now in state.agents} == AGENTS
        assert len(state.agents) == len(AGENTS)


async def test_a_fork_that_is_killed_is_there_whole_or_not_at_all(home):
    for fault in FEW:
        assert await forked_but_killed(home, fault)
    assert not await forked_but_killed(home, "none")
    await goes_on(home)


def test_an_import_that_is_killed_is_there_whole_or_not_at_all(home, tmp_path):
    other, file = exported(home, tmp_path)
    for fault in FEW:
        assert imported_but_killed(other, file, fault)
    assert other.prsm("sessions", "import", file).code == 0
    check_whole(other, other.resume())


@pytest.mark.long
async def test_a_fork_is_killed_at_each_half_page_and_at_any_moment(home):
    number = 0
    while await forked_but_killed(home, f"torn:{number}"):
        number += STEP
    assert number > 4 * STEP
    killed, moments = [], AnyMoment()
    for _ in range(ALARMS):
        killed.append(await forked_but_killed(home, moments.next()))
        moments.was(early=killed[-1])
    assert {*killed} == {True, False}
    await goes_on(home)


@pytest.mark.long
def test_an_import_is_killed_at_each_half_page_and_at_any_moment(home, tmp_path):
    other, file = exported(home, tmp_path)
    number = 0
    while imported_but_killed(other, file, f"torn:{number}"):
        number += STEP
    assert number > 4 * STEP
    killed, moments = [], AnyMoment()
    for _ in range(ALARMS):
        killed.append(imported_but_killed(other, file, moments.next()))
        moments.was(early=killed[-1])
    assert {*killed} == {True, False}
