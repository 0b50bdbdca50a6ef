"""prsm replay, on ledgers of real runs of the scripted provider."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from prsm_core.config import ledger_path, resolve_paths
from prsm_core.store.migrations import load_migrations
from prsm_core.workspace.identity import repo_identity
from tests.cli.sessions_scene import play

AGAIN = {"lanes": {"rest": {"marker": "", "steps": [{"say": "once more"}]}}}
LEDGERS = Path(__file__).parents[1] / "store" / "ledgers"


def test_a_replay_tells_every_event_of_every_run_as_it_was(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    play(prsm_process, tmp_path, AGAIN, task="once more", session=session)
    before = prsm("events", session, "--json").out
    done = prsm("replay", session, "--ui", "json")
    assert (done.code, done.err) == (0, "")
    assert done.out == before
    assert prsm("events", session, "--json").out == before


def test_the_console_draws_a_replay_as_it_drew_the_run(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    done = prsm_process("replay", session)
    assert (done.code, done.out) == (0, "all is counted\n")
    assert "w1: I count." in done.err
    assert "w1 completed" in done.err
    ended = prsm("replay", session, "--to", "12")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.endswith("prsm: the replay was ended at event 12 of " + last(prsm) + "\n")


def last(prsm):
    return str(json.loads(prsm("sessions", "list", "--json").out)[0]["last_seq"])


def test_an_event_that_there_is_not_is_no_end(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    done = prsm("replay", session, "--to", "9999")
    assert (done.code, done.out) == (2, "")
    assert "has no event 9999\nhint: its last one is " in done.err


def test_the_person_leaves_a_replay_that_takes_its_time(prsm_process, start_prsm, prsm, tmp_path):
    play(prsm_process, tmp_path)
    process = start_prsm("replay", "--speed", "0.0001", "--ui", "json")
    first = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (first["seq"], process.returncode) == (1, 130)
    assert b"prsm: the replay was left at event " in err


def test_an_older_ledger_is_not_replayed_and_the_cure_is_told(prsm, workspace, monkeypatch):
    paths = resolve_paths(workspace, {"PRSM_HOME": str(workspace.parent / "home")})
    path = ledger_path(paths, repo_identity(workspace).key)
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript((LEDGERS / "version2.sql").read_text(encoding="utf-8"))
    done = prsm("replay")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"prsm: the ledger has version 2, reading needs version {len(load_migrations())}\n"
        "hint: open it once for writing (any run does); that upgrades it\n"
    )
