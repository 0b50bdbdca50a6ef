"""A ledger of an earlier PRSM is refused by what reads it; a run keeps it and begins a new one."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.cli.sessions_scene import play
from tests.store.test_migrations import EARLIER


@pytest.fixture
def earlier(prsm_process, tmp_path):
    """Make a ledger that an earlier PRSM has written, and return where it is."""
    play(prsm_process, tmp_path)
    [path] = tmp_path.glob("home/data/ledgers/*/ledger.db")
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(EARLIER)
    return path


@pytest.mark.parametrize("command", ["sessions list", "sessions compact"])
def test_a_command_that_reads_refuses_it_and_leaves_it(command, earlier, prsm):
    before = earlier.read_bytes()
    done = prsm(*command.split())
    assert (done.code, done.out) == (1, "")
    assert f"prsm: the ledger {earlier} was written by an earlier PRSM" in done.err
    assert "hint: The next `prsm run` keeps it under another name" in done.err
    assert earlier.read_bytes() == before


def test_the_doctor_warns_of_it(earlier, prsm):
    done = prsm("doctor", "--json")
    [finding] = [each for each in json.loads(done.out) if each["check"] == "ledger"]
    assert (finding["status"], str(earlier) in finding["message"]) == ("warning", True)


def test_a_run_keeps_it_and_says_where(earlier, prsm, prsm_process, tmp_path):
    done = prsm_process(
        *("run", "once more", "--provider", "script", "--on-ask", "allow"),
        *("--set", f"providers.script.scenario={tmp_path / 'scenario.json'}"),
    )
    kept = earlier.with_name("ledger.db.old-1")
    assert f"prsm: warning: the ledger of an earlier PRSM is kept as {kept}" in done.err
    [session] = json.loads(prsm("sessions", "list", "--json").out)
    assert session["task"] == "once more"
    with closing(sqlite3.connect(kept)) as conn:
        assert conn.execute("SELECT count(*) FROM meta").fetchone() == (1,)
