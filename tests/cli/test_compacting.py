"""`prsm sessions compact`, and what a deletion gives back by itself."""

import asyncio
import json
import time

import pytest
from prsm_testing.steps import Steps

from prsm_core.cli.places import workspace_paths
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.store import SqliteStore
from tests.cli.sessions_scene import play

EVENTS = 100  # of 64 KiB


@pytest.fixture
def large(ledger, session):
    """The session of a real store, with a conversation of some megabytes."""

    async def talk():
        steps = Steps(session.session)
        async with await SqliteStore.open(ledger) as store:
            text = "x" * 65_536
            await store.append([steps.event(text=text) for _ in range(EVENTS)])

    asyncio.run(talk())
    return session.session


def test_a_deletion_gives_much_space_back_by_itself(prsm, ledger, large):
    full = ledger.stat().st_size
    done = prsm("sessions", "delete", large, "--yes", "--json")
    assert done.code == 0, done.err
    assert ledger.stat().st_size < full / 10
    assert json.loads(done.out)["bytes"] == full - ledger.stat().st_size


def test_a_deletion_that_frees_little_leaves_the_file(prsm, ledger, session):
    done = prsm("sessions", "delete", session.session, "--yes", "--json")
    assert (done.code, json.loads(done.out)["bytes"]) == (0, 0)


@pytest.mark.requirement("U37")
def test_it_is_refused_while_an_engine_uses_the_ledger(
    prsm, prsm_process, workspace, tmp_path, ledger, large
):
    running, _ = play(prsm_process, tmp_path)
    state = workspace_paths(str(workspace)).state
    with SessionLock.take(state, running, since=time.time()):
        # The deletion compacts nothing either: an engine would wait for it.
        assert json.loads(prsm("sessions", "delete", large, "--yes", "--json").out)["bytes"] == 0
        full = ledger.stat().st_size
        refused = prsm("sessions", "compact")
        assert (refused.code, ledger.stat().st_size) == (2, full)
        assert running in refused.err
    done = prsm("sessions", "compact", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"before": full, "after": ledger.stat().st_size}
    assert ledger.stat().st_size < full / 10
    assert running in prsm("sessions", "list").out


def test_without_a_ledger_there_is_nothing_to_compact(prsm, ledger):
    assert prsm("sessions", "compact").code == 1
    assert not ledger.exists()


@pytest.mark.parametrize("last", [1, 3, 10_000])
def test_the_last_events_are_printed(prsm, session, last):
    def lines(*given):
        done = prsm("events", session.session, "--json", *given)
        assert done.code == 0, done.err
        return done.out.splitlines()

    assert lines("--last", str(last)) == lines()[-last:]
    assert lines("--last", str(last), "--after", "2") == lines("--after", "2")[-last:]
